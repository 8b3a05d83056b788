#include "ir/base/narrow_types.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/base/errors.h"

namespace kiln {
namespace {

struct Format {
  int mantissa;  // stored bits
  int bias;
  unsigned sign;      // mask of the sign bit
  unsigned largest;   // pattern of the largest finite magnitude
  unsigned nan;       // a NaN pattern, 0 where there is none
  bool has_infinity;  // at largest + 1
  bool has_negative_zero;
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::F8E4M3FN:
      return {3, 7, 0x80, 0x7e, 0x7f, false, true};
    case DType::F8E4M3FNUZ:
      return {3, 8, 0x80, 0x7f, 0x80, false, false};
    case DType::F8E5M2:
      return {2, 15, 0x80, 0x7b, 0x7e, true, true};
    case DType::F8E5M2FNUZ:
      return {2, 16, 0x80, 0x7f, 0x80, false, false};
    case DType::F4E2M1:
      return {1, 1, 0x8, 0x7, 0, false, true};
    default:
      throw_bug("{} is not a narrow float", name(dtype));
  }
}

constexpr unsigned kScaleNan = 0xff;
constexpr int kScaleBias = 127;

std::uint8_t encode_scale(double value, bool saturate, ScaleRounding rounding) {
  if (std::isnan(value)) return kScaleNan;
  const double magnitude = std::abs(value);
  if (std::isinf(magnitude)) return saturate ? kScaleNan - 1 : kScaleNan;
  if (magnitude == 0) return 0;
  int exponent;
  const double fraction = std::frexp(magnitude, &exponent);  // in [0.5, 1)
  --exponent;
  const bool exact = fraction == 0.5;
  switch (rounding) {
    case ScaleRounding::Up:
      exponent += exact ? 0 : 1;
      break;
    case ScaleRounding::Down:
      break;
    case ScaleRounding::Nearest:
      exponent += fraction >= 0.75 ? 1 : 0;
      break;
  }
  if (exponent > kScaleBias) return saturate ? kScaleNan - 1 : kScaleNan;
  return static_cast<std::uint8_t>(std::max(exponent + kScaleBias, 0));
}

}  // namespace

bool is_narrow_float(DType dtype) { return is_float(dtype) && bits(dtype) <= 8; }

double decode_narrow_float(DType dtype, std::uint8_t pattern) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (dtype == DType::F8E8M0) return pattern == kScaleNan ? kNan : std::ldexp(1.0, pattern - kScaleBias);
  const Format format = format_of(dtype);
  const unsigned magnitude = pattern & (format.sign - 1);
  const bool negative = (pattern & format.sign) != 0;
  if (!format.has_negative_zero && negative && magnitude == 0) return kNan;
  if (magnitude > format.largest) {
    if (!format.has_infinity || magnitude > format.largest + 1) return kNan;
    return negative ? -HUGE_VAL : HUGE_VAL;
  }
  const int exponent = static_cast<int>(magnitude >> format.mantissa);
  const unsigned fraction = magnitude & ((1u << format.mantissa) - 1);
  const unsigned significand = exponent == 0 ? fraction : fraction | (1u << format.mantissa);
  const double value = std::ldexp(significand, std::max(exponent, 1) - format.bias - format.mantissa);
  return negative ? -value : value;
}

std::uint8_t encode_narrow_float(DType dtype, double value, bool saturate, ScaleRounding rounding) {
  if (dtype == DType::F8E8M0) return encode_scale(value, saturate, rounding);
  const Format format = format_of(dtype);
  const unsigned sign = std::signbit(value) ? format.sign : 0;
  if (std::isnan(value)) {
    if (format.nan == 0) return static_cast<std::uint8_t>(format.sign);
    return static_cast<std::uint8_t>(format.has_negative_zero ? format.nan | sign : format.nan);
  }
  const double magnitude = std::abs(value);
  unsigned pattern = format.largest + 1;
  if (std::isfinite(magnitude) && magnitude < 0x1p20) {
    const int exponent = magnitude == 0 ? 1 - format.bias : std::max(std::ilogb(magnitude), 1 - format.bias);
    const double steps = std::nearbyint(std::ldexp(magnitude, format.mantissa - exponent));
    // The implicit leading bit, and a carry from rounding, add one to the exponent field.
    pattern =
        (static_cast<unsigned>(exponent + format.bias - 1) << format.mantissa) + static_cast<unsigned>(steps);
  }
  if (pattern > format.largest) {
    if (saturate || format.nan == 0) {
      pattern = format.largest;
    } else if (format.has_infinity) {
      pattern = format.largest + 1;
    } else {
      return static_cast<std::uint8_t>(format.has_negative_zero ? format.nan | sign : format.nan);
    }
  }
  if (pattern == 0 && !format.has_negative_zero) return 0;
  return static_cast<std::uint8_t>(pattern | sign);
}

}  // namespace kiln
