// Overflow-checked size arithmetic: every extent or byte count that comes from outside goes through it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kiln {

inline std::optional<std::int64_t> checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t result;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

inline std::optional<std::int64_t> checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t result;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

// Product of non-negative extents (1 for none); throws Error (caller, limit_exceeded) on overflow or a
// negative extent.
std::int64_t element_count(std::span<const std::int64_t> extents);

// Row-major strides of a dense tensor, in elements.
std::vector<std::int64_t> dense_strides(std::span<const std::int64_t> extents);

// Floor division and the matching remainder (sign of the divisor). Undefined for b = 0.
constexpr std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? quotient - 1 : quotient;
}
constexpr std::int64_t floor_modulo(std::int64_t a, std::int64_t b) { return a - floor_divide(a, b) * b; }
constexpr std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return -floor_divide(-a, b); }

}  // namespace kiln
