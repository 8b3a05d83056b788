#include "ir/base/float_types.h"

namespace kiln {
namespace {

// Rounds a finite double's magnitude to a float format of `mantissa` stored bits and exponent range
// [min_exponent, max_exponent], half to even, and encodes it. Works from the f64 bits, so each conversion
// rounds once. Callers have taken care of NaN.
std::uint16_t encode(double value, int mantissa, int min_exponent, int max_exponent) {
  const int exponent_bits = 15 - mantissa;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 63) << 15);
  const auto infinity = static_cast<std::uint16_t>(((1u << exponent_bits) - 1) << mantissa);
  const int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1023;
  if (exponent > max_exponent) return sign | infinity;  // also infinities
  if (exponent < min_exponent - mantissa - 1) return sign;
  const std::uint64_t significand = (bits & ((std::uint64_t{1} << 52) - 1)) | (std::uint64_t{1} << 52);
  // Subnormal results keep fewer bits of the significand.
  const int dropped = 52 - mantissa + (exponent < min_exponent ? min_exponent - exponent : 0);
  std::uint64_t kept = significand >> dropped;
  const std::uint64_t rest = significand & ((std::uint64_t{1} << dropped) - 1);
  const std::uint64_t half = std::uint64_t{1} << (dropped - 1);
  if (rest > half || (rest == half && (kept & 1))) ++kept;
  // A normal significand carries its implicit bit into the exponent field, as does a carry from rounding.
  const int biased = exponent < min_exponent ? 0 : exponent - min_exponent;
  return sign | static_cast<std::uint16_t>((static_cast<std::uint64_t>(biased) << mantissa) + kept);
}

}  // namespace

Float16::Float16(double value)
    : bits(std::isnan(value) ? static_cast<std::uint16_t>((std::signbit(value) ? 0x8000 : 0) | 0x7e00)
                             : encode(value, 10, -14, 15)) {}
Float16::Float16(float value) : Float16(static_cast<double>(value)) {}

Float16::operator float() const {
  const std::uint32_t sign = std::uint32_t{bits} >> 15 << 31;
  const std::uint32_t exponent = (bits >> 10) & 0x1f;
  const std::uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 0x1f ? 0xff : exponent + 112;
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

BFloat16::BFloat16(double value)
    : bits(std::isnan(value) ? static_cast<std::uint16_t>((std::signbit(value) ? 0x8000 : 0) | 0x7fc0)
                             : encode(value, 7, -126, 127)) {}
BFloat16::BFloat16(float value) : BFloat16(static_cast<double>(value)) {}

}  // namespace kiln
