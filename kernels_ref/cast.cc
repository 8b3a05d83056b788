// Conversions between element types, text and packed types included.
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <string>

#include <locale.h>

#include "kernels_ref/arguments.h"
#include "kernels_ref/element.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/narrow.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {
namespace {

// As C writes numbers, whatever the locale of the process is.
double parse_number(const std::string& text) {
  static const ::locale_t kPlain = ::newlocale(LC_ALL_MASK, "C", nullptr);
  const char* begin = text.c_str();
  char* end = nullptr;
  const double value = ::strtod_l(begin, &end, kPlain);
  while (*end == ' ') ++end;
  if (end == begin || end != begin + text.size())
    throw_caller(ErrorCode::InvalidArgument, "'{}' is not a number", text);
  return value;
}

// Integers are read exactly where the text is one, else as a number.
template <typename To>
To parse(const std::string& text) {
  if constexpr (std::is_integral_v<To>) {
    const char* begin = text.c_str();
    char* end = nullptr;
    errno = 0;
    if constexpr (std::is_same_v<To, std::uint64_t>) {
      const unsigned long long value = std::strtoull(begin, &end, 10);
      if (end != begin && end == begin + text.size() && errno == 0 && text.find('-') == std::string::npos)
        return value;
    } else {
      const long long value = std::strtoll(begin, &end, 10);
      if (end != begin && end == begin + text.size() && errno == 0) return static_cast<To>(value);
    }
  }
  return convert<To>(parse_number(text));
}

template <typename From>
std::string print(From value) {
  if constexpr (std::is_same_v<From, Boolean>) {
    return value ? "1" : "0";
  } else if constexpr (kIsFloat<From>) {
    const auto number = static_cast<Compute<From>>(value);
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-INF" : "INF";
    return fmt::format("{}", number);
  } else {
    return fmt::format("{}", value);
  }
}

void cast_to(Call& call, DType dtype, const CastOptions& options) {
  const Tensor& x = call.input(0);
  const DType from = x.dtype();
  if (from == dtype) return call.output_view(0, x, x.extents());
  Tensor& y = call.output(0, dtype, x.extents());
  const std::int64_t count = x.elements();
  if (bits(dtype) < 8 && count > 0) y.mutable_data()[y.byte_size() - 1] = std::byte{0};  // bits past the end
  if (is_narrow(from)) {
    // Every value of a narrow type is exact in f64.
    if (is_narrow(dtype)) {
      for (std::int64_t i = 0; i < count; ++i) {
        const double value = load_narrow(x, i);
        store_narrow(y, i,
                     is_float(from) ? narrow_pattern(dtype, value, options)
                                    : narrow_pattern(dtype, static_cast<std::int64_t>(value), options));
      }
    } else if (dtype == DType::String) {
      for (std::int64_t i = 0; i < count; ++i) {
        y.as_mutable<std::string>()[static_cast<std::size_t>(i)] = print(load_narrow(x, i));
      }
    } else {
      dispatch(NumbersAndBooleans{}, dtype, [&]<typename To>() {
        To* to = y.as_mutable<To>().data();
        for (std::int64_t i = 0; i < count; ++i) {
          const double value = load_narrow(x, i);
          if constexpr (std::is_integral_v<To>) {
            to[i] = is_float(from) ? convert<To>(value) : convert<To>(static_cast<std::int64_t>(value));
          } else {
            to[i] = convert<To>(value);
          }
        }
      });
    }
  } else if (from == DType::String) {
    const std::string* texts = x.as<std::string>().data();
    if (is_narrow(dtype)) {
      for (std::int64_t i = 0; i < count; ++i)
        store_narrow(y, i, narrow_pattern(dtype, parse_number(texts[i]), options));
    } else {
      dispatch(NumbersAndBooleans{}, dtype, [&]<typename To>() {
        for (std::int64_t i = 0; i < count; ++i)
          y.as_mutable<To>()[static_cast<std::size_t>(i)] = parse<To>(texts[i]);
      });
    }
  } else {
    dispatch(NumbersAndBooleans{}, from, [&]<typename From>() {
      const From* values = x.as<From>().data();
      if (is_narrow(dtype)) {
        for (std::int64_t i = 0; i < count; ++i)
          store_narrow(y, i, narrow_pattern(dtype, values[i], options));
      } else if (dtype == DType::String) {
        std::string* texts = y.as_mutable<std::string>().data();
        for (std::int64_t i = 0; i < count; ++i) texts[i] = print(values[i]);
      } else {
        dispatch(NumbersAndBooleans{}, dtype, [&]<typename To>() {
          To* to = y.as_mutable<To>().data();
          for_range(call, count, 1, [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) to[i] = convert<To>(values[i]);
          });
        });
      }
    });
  }
}

CastOptions cast_options(const graph::Node& node) {
  const std::string& rounding = text(node, "round_mode");
  CastOptions options{.saturate = integer(node, "saturate") != 0};
  if (rounding == "up")
    options.rounding = ScaleRounding::Up;
  else if (rounding == "down")
    options.rounding = ScaleRounding::Down;
  else if (rounding == "nearest")
    options.rounding = ScaleRounding::Nearest;
  else
    throw_caller(ErrorCode::InvalidArgument, "round_mode must be up, down or nearest, got '{}'", rounding);
  return options;
}

}  // namespace

void cast(Call& call) {
  const DType to = static_cast<DType>(integer(call.node, "to"));
  cast_to(call, call.promoted(to), cast_options(call.node));
}
void cast_like(Call& call) { cast_to(call, call.promoted(call.input(1).dtype()), cast_options(call.node)); }

}  // namespace kiln::reference
