// Elements of the narrow types: floats of 8 bits or fewer, and integers packed several to a byte.
#pragma once

#include <algorithm>
#include <cstdint>

#include <kiln/tensor.h>

#include "ir/base/narrow_types.h"
#include "kernels_ref/element.h"

namespace kiln::reference {

struct CastOptions {
  bool saturate = true;
  ScaleRounding rounding = ScaleRounding::Up;
};

// Types that need load_narrow() and store_narrow(): packed ones and floats of 8 bits or fewer.
inline bool is_narrow(DType dtype) { return bits(dtype) < 8 || is_narrow_float(dtype); }

// The exact value of one element.
inline double load_narrow(const Tensor& tensor, std::int64_t index) {
  const DType dtype = tensor.dtype();
  const int width = bits(dtype);
  const std::uint8_t pattern = width == 8 ? std::to_integer<std::uint8_t>(tensor.data()[index])
                                          : load_packed(tensor.data(), width, index);
  if (is_float(dtype)) return decode_narrow_float(dtype, pattern);
  const bool negative = is_signed_integer(dtype) && (pattern >> (width - 1)) != 0;
  return negative ? int{pattern} - (1 << width) : pattern;
}

inline void store_narrow(Tensor& tensor, std::int64_t index, std::uint8_t pattern) {
  const int width = bits(tensor.dtype());
  if (width == 8) {
    tensor.mutable_data()[index] = static_cast<std::byte>(pattern);
  } else {
    store_packed(tensor.mutable_data(), width, index, pattern);
  }
}

// The pattern of a value in a narrow type: floats round; a float to an integer truncates, and of any integer
// the low bits are kept.
template <typename From>
std::uint8_t narrow_pattern(DType dtype, From value, const CastOptions& options) {
  if (is_float(dtype)) {
    return encode_narrow_float(dtype, convert<double>(value), options.saturate, options.rounding);
  }
  return static_cast<std::uint8_t>(convert<std::int64_t>(value));
}

// The range of an integer dtype of at most 32 bits.
inline double lowest_integer(DType dtype) {
  return is_signed_integer(dtype) ? -static_cast<double>(std::int64_t{1} << (bits(dtype) - 1)) : 0;
}
inline double highest_integer(DType dtype) {
  return lowest_integer(dtype) + static_cast<double>((std::int64_t{1} << bits(dtype)) - 1);
}

}  // namespace kiln::reference
