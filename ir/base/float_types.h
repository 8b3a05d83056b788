// Storage formats of floats that C++20 lacks, and their conversions. Conversion to a narrower type rounds
// to nearest even; f16 and bf16 overflow to infinity.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace kiln {

struct Float16 {
  std::uint16_t bits = 0;
  Float16() = default;
  explicit Float16(float value);
  explicit Float16(double value);  // one rounding, not two
  explicit operator float() const;
  explicit operator double() const { return static_cast<double>(static_cast<float>(*this)); }
};

struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value);
  explicit BFloat16(double value);  // one rounding, not two
  explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
  explicit operator double() const { return static_cast<double>(static_cast<float>(*this)); }
};

}  // namespace kiln
