// Conversions of the element types of 8 bits and fewer that are not plain integers, and access to types
// packed several to a byte.
#pragma once

#include <cstddef>
#include <cstdint>

#include <kiln/dtype.h>

namespace kiln {

// True for f8*, f4e2m1.
bool is_narrow_float(DType dtype);

// The exact value of a pattern of a narrow float.
double decode_narrow_float(DType dtype, std::uint8_t pattern);

// How a value between two powers of two becomes an f8e8m0.
enum class ScaleRounding : std::uint8_t { Up, Down, Nearest };

// The nearest pattern, ties to even. Beyond the largest value: that value if `saturate`, else infinity, or
// NaN where the format has none. f4e2m1, which has neither, always saturates and makes NaN -0. f8e8m0 holds
// powers of two alone, rounds by `rounding` and drops the sign.
std::uint8_t encode_narrow_float(DType dtype, double value, bool saturate,
                                 ScaleRounding rounding = ScaleRounding::Up);

// Element `index` of packed memory (types under 8 bits, low bits first), as an unsigned pattern.
inline std::uint8_t load_packed(const std::byte* data, int bits, std::int64_t index) {
  const std::int64_t position = index * bits;
  return static_cast<std::uint8_t>((std::to_integer<unsigned>(data[position / 8]) >> (position % 8)) &
                                   ((1u << bits) - 1));
}
inline void store_packed(std::byte* data, int bits, std::int64_t index, std::uint8_t pattern) {
  const std::int64_t position = index * bits;
  const unsigned mask = ((1u << bits) - 1) << (position % 8);
  std::byte& byte = data[position / 8];
  byte = static_cast<std::byte>((std::to_integer<unsigned>(byte) & ~mask) |
                                ((unsigned{pattern} << (position % 8)) & mask));
}

}  // namespace kiln
