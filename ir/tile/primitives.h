// The exact meaning of every elementwise primitive and cast, as C++ on one element: shared by the interpreter
// and by constant folding, and the oracle of each target's table.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "ir/base/errors.h"
#include "ir/base/float_types.h"
#include "ir/tile/kernel.h"

namespace kiln::tile {

// Calls visit.operator()<T>() with the C++ type of an element of `dtype`: bool, the integers, Float16,
// BFloat16, float, double. Throws Error (caller, unsupported) for dtypes that are storage only.
template <typename Visit>
decltype(auto) with_element_type(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::I1:
      return visit.template operator()<bool>();
    case DType::I8:
      return visit.template operator()<std::int8_t>();
    case DType::I16:
      return visit.template operator()<std::int16_t>();
    case DType::I32:
      return visit.template operator()<std::int32_t>();
    case DType::I64:
      return visit.template operator()<std::int64_t>();
    case DType::U8:
      return visit.template operator()<std::uint8_t>();
    case DType::U16:
      return visit.template operator()<std::uint16_t>();
    case DType::U32:
      return visit.template operator()<std::uint32_t>();
    case DType::U64:
      return visit.template operator()<std::uint64_t>();
    case DType::F16:
      return visit.template operator()<Float16>();
    case DType::BF16:
      return visit.template operator()<BFloat16>();
    case DType::F32:
      return visit.template operator()<float>();
    case DType::F64:
      return visit.template operator()<double>();
    default:
      break;  // storage only
  }
  throw_caller(ErrorCode::Unsupported, "{} is a storage type that does not compute; cast it on load",
               name(dtype));
}

template <typename T>
constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;
template <typename T>
constexpr bool kIsFloat = std::is_floating_point_v<T> || kIsHalf<T>;
template <typename T>
constexpr bool kIsInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;

// The type in which one operation on T is computed before it is rounded to T. For the halves + - * / and sqrt
// in f32 round twice without harm, as 24 >= 2 * 11 + 2 bits.
template <typename T>
using Wide = std::conditional_t<kIsHalf<T>, float, T>;

namespace primitive {

// Integers wrap: the arithmetic is done on unsigned values at least as wide as int.
template <typename T>
auto unsigned_of(T a) {
  return static_cast<std::conditional_t<(sizeof(T) < 4), std::uint32_t, std::make_unsigned_t<T>>>(a);
}

template <typename T>
bool is_nan(T a) {
  return std::isnan(static_cast<Wide<T>>(a));
}

template <typename T>
T neg(T a) {
  if constexpr (kIsHalf<T>) {
    a.bits ^= 0x8000;
    return a;
  } else if constexpr (kIsFloat<T>) {
    return -a;
  } else {
    return static_cast<T>(0 - unsigned_of(a));
  }
}

template <typename T>
T abs(T a) {
  if constexpr (kIsHalf<T>) {
    a.bits &= 0x7fff;
    return a;
  } else if constexpr (kIsFloat<T>) {
    return std::fabs(a);
  } else {
    return a < T{0} ? neg(a) : a;
  }
}

// +0 for either zero.
template <typename T>
T sign(T a) {
  using W = Wide<T>;
  const W x = static_cast<W>(a);
  if constexpr (kIsFloat<T>) {
    if (std::isnan(x)) return a;
  }
  return static_cast<T>(static_cast<W>((x > W{0}) - (x < W{0})));
}

template <typename T>
T add(T a, T b) {
  if constexpr (kIsInteger<T>)
    return static_cast<T>(unsigned_of(a) + unsigned_of(b));
  else
    return static_cast<T>(static_cast<Wide<T>>(a) + static_cast<Wide<T>>(b));
}
template <typename T>
T sub(T a, T b) {
  if constexpr (kIsInteger<T>)
    return static_cast<T>(unsigned_of(a) - unsigned_of(b));
  else
    return static_cast<T>(static_cast<Wide<T>>(a) - static_cast<Wide<T>>(b));
}
template <typename T>
T mul(T a, T b) {
  if constexpr (kIsInteger<T>)
    return static_cast<T>(unsigned_of(a) * unsigned_of(b));
  else
    return static_cast<T>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
}

[[noreturn]] inline void throw_division_by_zero() {
  throw_caller(ErrorCode::DivisionByZero, "integer division by zero");
}

template <typename T>
T div(T a, T b) {
  if constexpr (kIsInteger<T>) {
    if (b == 0) throw_division_by_zero();
    if constexpr (std::is_signed_v<T>) {
      if (b == T{-1}) return neg(a);  // the minimum wraps
    }
    return static_cast<T>(a / b);
  } else {
    return static_cast<T>(static_cast<Wide<T>>(a) / static_cast<Wide<T>>(b));
  }
}

template <typename T>
T rem(T a, T b) {
  if constexpr (kIsInteger<T>) {
    if (b == 0) throw_division_by_zero();
    if constexpr (std::is_signed_v<T>) {
      if (b == T{-1}) return T{0};
    }
    return static_cast<T>(a % b);
  } else {
    return static_cast<T>(std::fmod(static_cast<Wide<T>>(a), static_cast<Wide<T>>(b)));
  }
}

// A zero has the sign of the divisor.
template <typename T>
T floormod(T a, T b) {
  const T r = rem(a, b);
  if constexpr (kIsInteger<T>) {
    return r != 0 && (r < 0) != (b < 0) ? add(r, b) : r;
  } else {
    const Wide<T> x = static_cast<Wide<T>>(r);
    const Wide<T> y = static_cast<Wide<T>>(b);
    if (x == 0) return static_cast<T>(std::copysign(x, y));
    return (x < 0) != (y < 0) && !std::isnan(x) ? add(r, b) : r;
  }
}

// minimum and maximum of IEEE 754-2019: NaN propagates, -0 < +0, so that any order gives the same bits.
template <typename T>
T min(T a, T b) {
  if constexpr (kIsFloat<T>) {
    if (is_nan(a)) return a;
    if (is_nan(b)) return b;
    const Wide<T> x = static_cast<Wide<T>>(a), y = static_cast<Wide<T>>(b);
    return x < y || (x == y && std::signbit(x)) ? a : b;
  } else {
    return a < b ? a : b;
  }
}
template <typename T>
T max(T a, T b) {
  if constexpr (kIsFloat<T>) {
    if (is_nan(a)) return a;
    if (is_nan(b)) return b;
    const Wide<T> x = static_cast<Wide<T>>(a), y = static_cast<Wide<T>>(b);
    return x > y || (x == y && !std::signbit(x)) ? a : b;
  } else {
    return a > b ? a : b;
  }
}
template <typename T>
T minnum(T a, T b) {
  if constexpr (kIsFloat<T>) {
    if (is_nan(a)) return b;
    if (is_nan(b)) return a;
  }
  return min(a, b);
}
template <typename T>
T maxnum(T a, T b) {
  if constexpr (kIsFloat<T>) {
    if (is_nan(a)) return b;
    if (is_nan(b)) return a;
  }
  return max(a, b);
}

// The exponent is i32, or i64 for f64. In f64 the narrower types scale exactly, so that only the last
// conversion rounds.
inline double ldexp(double a, std::int64_t n) {
  return std::ldexp(a, static_cast<int>(std::clamp<std::int64_t>(n, -5000, 5000)));
}
template <typename T>
T ldexp(T a, std::int32_t n) {
  return static_cast<T>(std::ldexp(static_cast<double>(a), std::clamp(n, -600, 600)));
}

template <typename T>
T shl(T a, T count) {
  constexpr T kWidth = sizeof(T) * 8;
  return count < T{0} || count >= kWidth ? T{0} : static_cast<T>(unsigned_of(a) << unsigned_of(count));
}
template <typename T>
T shr(T a, T count) {
  constexpr T kWidth = sizeof(T) * 8;
  if (count < T{0} || count >= kWidth) return a < T{0} ? static_cast<T>(-1) : T{0};
  return static_cast<T>(a >> count);
}

template <typename T>
T fma(T a, T b, T c) {
  if constexpr (kIsHalf<T>) {
    // The product is exact in f64. Rounding the sum to odd keeps what the last rounding must know.
    const double product = static_cast<double>(a) * static_cast<double>(b), addend = static_cast<double>(c);
    const double sum = product + addend;
    if (!std::isfinite(sum)) return static_cast<T>(sum);
    const double from_addend = sum - product;
    const double error = (product - (sum - from_addend)) + (addend - from_addend);
    std::uint64_t bits = std::bit_cast<std::uint64_t>(sum);
    if (error != 0 && (bits & 1) == 0) bits += (error > 0) == (sum > 0) ? 1 : std::uint64_t(-1);
    return static_cast<T>(std::bit_cast<double>(bits));
  } else {
    return std::fma(a, b, c);
  }
}

}  // namespace primitive

// Calls visit(op) with the meaning of a primitive of one operand (two operands of one type) on elements of
// type T; op gives a T, or a bool for comparisons. The verifier admits no other combinations.
template <typename T, typename Visit>
void with_unary(Function function, Visit&& visit) {
  using W = Wide<T>;
  if constexpr (!std::is_same_v<T, bool>) {
    switch (function) {
      case Function::Neg:
        return visit([](T a) { return primitive::neg(a); });
      case Function::Abs:
        return visit([](T a) { return primitive::abs(a); });
      case Function::Sign:
        return visit([](T a) { return primitive::sign(a); });
      default:
        break;
    }
  }
  if constexpr (kIsFloat<T>) {
    switch (function) {
      case Function::Floor:
        return visit([](T a) { return static_cast<T>(std::floor(static_cast<W>(a))); });
      case Function::Ceil:
        return visit([](T a) { return static_cast<T>(std::ceil(static_cast<W>(a))); });
      case Function::Round:
        return visit([](T a) { return static_cast<T>(std::nearbyint(static_cast<W>(a))); });
      case Function::Trunc:
        return visit([](T a) { return static_cast<T>(std::trunc(static_cast<W>(a))); });
      case Function::Sqrt:
        return visit([](T a) { return static_cast<T>(std::sqrt(static_cast<W>(a))); });
      case Function::IsNan:
        return visit([](T a) { return primitive::is_nan(a); });
      default:
        break;
    }
  } else if (function == Function::Not) {
    if constexpr (std::is_same_v<T, bool>)
      return visit([](T a) { return !a; });
    else
      return visit([](T a) { return static_cast<T>(~a); });
  }
  throw_bug("{} has no meaning on this dtype", name(function));
}

template <typename T, typename Visit>
void with_binary(Function function, Visit&& visit) {
  using W = Wide<T>;
  switch (function) {
    case Function::Eq:
      return visit([](T a, T b) { return static_cast<W>(a) == static_cast<W>(b); });
    case Function::Ne:
      return visit([](T a, T b) { return static_cast<W>(a) != static_cast<W>(b); });
    case Function::Lt:
      return visit([](T a, T b) { return static_cast<W>(a) < static_cast<W>(b); });
    case Function::Le:
      return visit([](T a, T b) { return static_cast<W>(a) <= static_cast<W>(b); });
    case Function::Gt:
      return visit([](T a, T b) { return static_cast<W>(a) > static_cast<W>(b); });
    case Function::Ge:
      return visit([](T a, T b) { return static_cast<W>(a) >= static_cast<W>(b); });
    default:
      break;
  }
  if constexpr (!std::is_same_v<T, bool>) {
    switch (function) {
      case Function::Add:
        return visit([](T a, T b) { return primitive::add(a, b); });
      case Function::Sub:
        return visit([](T a, T b) { return primitive::sub(a, b); });
      case Function::Mul:
        return visit([](T a, T b) { return primitive::mul(a, b); });
      case Function::Div:
        return visit([](T a, T b) { return primitive::div(a, b); });
      case Function::Rem:
        return visit([](T a, T b) { return primitive::rem(a, b); });
      case Function::FloorMod:
        return visit([](T a, T b) { return primitive::floormod(a, b); });
      case Function::Min:
        return visit([](T a, T b) { return primitive::min(a, b); });
      case Function::Max:
        return visit([](T a, T b) { return primitive::max(a, b); });
      case Function::MinNum:
        return visit([](T a, T b) { return primitive::minnum(a, b); });
      case Function::MaxNum:
        return visit([](T a, T b) { return primitive::maxnum(a, b); });
      default:
        break;
    }
  }
  if constexpr (!kIsFloat<T>) {
    switch (function) {
      case Function::And:
        return visit([](T a, T b) { return static_cast<T>(a & b); });
      case Function::Or:
        return visit([](T a, T b) { return static_cast<T>(a | b); });
      case Function::Xor:
        return visit([](T a, T b) { return static_cast<T>(a ^ b); });
      default:
        break;
    }
  }
  if constexpr (kIsInteger<T>) {
    switch (function) {
      case Function::Shl:
        return visit([](T a, T b) { return primitive::shl(a, b); });
      case Function::Shr:
        return visit([](T a, T b) { return primitive::shr(a, b); });
      default:
        break;
    }
  }
  throw_bug("{} has no meaning on this dtype", name(function));
}

// Casts: float to integer truncates and saturates and NaN gives 0; integer to integer wraps; to a float
// rounds to nearest even, once; to i1 is "not zero".
template <typename To, typename From>
To cast_element(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<To, bool>) {
    return static_cast<Wide<From>>(value) != Wide<From>{0};
  } else if constexpr (std::is_same_v<From, bool>) {
    return static_cast<To>(static_cast<Wide<To>>(value ? 1 : 0));
  } else if constexpr (kIsInteger<To> && kIsFloat<From>) {
    const double x = static_cast<double>(value);
    if (std::isnan(x)) return To{0};
    // 2^digits is a double even where the maximum is not.
    const double limit = std::ldexp(1.0, std::numeric_limits<To>::digits);
    if (x >= limit) return std::numeric_limits<To>::max();
    if (x <= static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    return static_cast<To>(x);
  } else if constexpr (kIsHalf<To> && kIsInteger<From>) {
    // Bits that f64 would drop go on as a sticky bit, so that the second rounding is the only one that
    // counts.
    constexpr std::uint64_t kDropped = (1 << 11) - 1;
    const bool negative = value < From{0};
    auto magnitude = static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
    if (negative) magnitude = 0 - magnitude;
    if (magnitude >> 53 && (magnitude & kDropped)) magnitude = (magnitude & ~kDropped) | (kDropped + 1);
    const double x = static_cast<double>(magnitude);
    return To(negative ? -x : x);
  } else if constexpr (kIsHalf<From>) {
    return static_cast<To>(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

// The bits of an element as a Literal holds them, and back.
template <typename T>
std::uint64_t bits_of(T value) {
  if constexpr (kIsHalf<T>) {
    return value.bits;
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? 1 : 0;
  } else if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<std::uint32_t>(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<std::uint64_t>(value);
  } else {
    return static_cast<std::uint64_t>(static_cast<std::make_unsigned_t<T>>(value));
  }
}

template <typename T>
T from_bits(std::uint64_t bits) {
  if constexpr (kIsHalf<T>) {
    T value;
    value.bits = static_cast<std::uint16_t>(bits);
    return value;
  } else if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(bits);
  } else {
    return static_cast<T>(bits);
  }
}

}  // namespace kiln::tile
