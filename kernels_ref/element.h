// Element types in memory, and the choice of a template instance by a dtype at run time.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include <kiln/dtype.h>

#include "ir/base/errors.h"
#include "ir/base/float_types.h"

namespace kiln::reference {

// An i1: any byte but 0 is true, and true is written as 1.
struct Boolean {
  std::uint8_t byte = 0;
  Boolean() = default;
  Boolean(bool value) : byte(value ? 1 : 0) {}  // NOLINT(google-explicit-constructor)
  operator bool() const { return byte != 0; }   // NOLINT(google-explicit-constructor)
};

template <typename T>
inline constexpr DType kDType = DType::F32;
template <>
inline constexpr DType kDType<Boolean> = DType::I1;
template <>
inline constexpr DType kDType<std::int8_t> = DType::I8;
template <>
inline constexpr DType kDType<std::int16_t> = DType::I16;
template <>
inline constexpr DType kDType<std::int32_t> = DType::I32;
template <>
inline constexpr DType kDType<std::int64_t> = DType::I64;
template <>
inline constexpr DType kDType<std::uint8_t> = DType::U8;
template <>
inline constexpr DType kDType<std::uint16_t> = DType::U16;
template <>
inline constexpr DType kDType<std::uint32_t> = DType::U32;
template <>
inline constexpr DType kDType<std::uint64_t> = DType::U64;
template <>
inline constexpr DType kDType<Float16> = DType::F16;
template <>
inline constexpr DType kDType<BFloat16> = DType::BF16;
template <>
inline constexpr DType kDType<double> = DType::F64;
template <>
inline constexpr DType kDType<std::string> = DType::String;

// A list of element types.
template <typename... T>
struct Types {};

template <typename... A, typename... B>
Types<A..., B...> join(Types<A...>, Types<B...>);

using Signed = Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t>;
using Unsigned = Types<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
using Integers = decltype(join(Signed{}, Unsigned{}));
using WideFloats = Types<float, double>;
using Floats = Types<float, double, Float16, BFloat16>;
using Numbers = decltype(join(Floats{}, Integers{}));
using Booleans = Types<Boolean>;
using NumbersAndBooleans = decltype(join(Numbers{}, Booleans{}));

// Calls visitor.operator()<T>() with the T of the list whose dtype is `dtype`. Throws Error (caller,
// type_mismatch) if there is none.
template <typename... T, typename Visitor>
void dispatch(Types<T...>, DType dtype, Visitor&& visitor) {
  const bool found = ((dtype == kDType<T> && (visitor.template operator()<T>(), true)) || ...);
  if (!found) throw_caller(ErrorCode::TypeMismatch, "no reference kernel for elements of {}", name(dtype));
}

struct Bytes16 {
  std::uint64_t low, high;
};

// The same for kernels that only move elements: T is any type of the same size, or std::string. Throws
// Error (caller, type_mismatch) for types packed several to a byte.
template <typename Visitor>
void dispatch_storage(DType dtype, Visitor&& visitor) {
  if (dtype == DType::String) return visitor.template operator()<std::string>();
  switch (bits(dtype)) {
    case 8:
      return visitor.template operator()<std::uint8_t>();
    case 16:
      return visitor.template operator()<std::uint16_t>();
    case 32:
      return visitor.template operator()<std::uint32_t>();
    case 64:
      return visitor.template operator()<std::uint64_t>();
    case 128:
      return visitor.template operator()<Bytes16>();
    default:
      throw_caller(ErrorCode::TypeMismatch, "cannot move single elements of packed type {}", name(dtype));
  }
}

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;
template <typename T>
inline constexpr bool kIsFloat = std::is_floating_point_v<T> || kIsHalf<T>;

// The type that elements are computed in: f32 for f16 and bf16, else their own.
template <typename T>
struct ComputeOf {
  using Type = T;
};
template <>
struct ComputeOf<Float16> {
  using Type = float;
};
template <>
struct ComputeOf<BFloat16> {
  using Type = float;
};
template <>
struct ComputeOf<Boolean> {
  using Type = bool;
};
template <typename T>
using Compute = typename ComputeOf<T>::Type;

// False for every integer.
template <typename T>
bool is_nan_element(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(x);
  } else {
    return false;
  }
}

// Nearest value of To: floats round half to even, floats to integers truncate and saturate with NaN -> 0,
// integers wrap, and anything but 0 is true.
template <typename To, typename From>
To convert(From from) {
  if constexpr (std::is_same_v<To, From>) {
    return from;
  } else if constexpr (kIsHalf<From> || std::is_same_v<From, Boolean>) {
    return convert<To>(static_cast<Compute<From>>(from));
  } else if constexpr (std::is_same_v<To, Boolean> || std::is_same_v<To, bool>) {
    return To(from != From{0});
  } else if constexpr (kIsHalf<To>) {
    if constexpr (std::is_same_v<From, float>) {
      return To(from);
    } else {
      return To(static_cast<double>(from));
    }
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // 2^digits is the first value above the range, exact in any float type.
    const From above = static_cast<From>(std::uint64_t{1} << (std::numeric_limits<To>::digits - 1)) * 2;
    if (is_nan_element(from)) return To{0};
    if (from >= above) return std::numeric_limits<To>::max();
    if (from <= (std::is_signed_v<To> ? -above : From{-1})) return std::numeric_limits<To>::min();
    return static_cast<To>(from);
  } else {
    return static_cast<To>(from);
  }
}

}  // namespace kiln::reference
