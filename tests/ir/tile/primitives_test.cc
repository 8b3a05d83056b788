// The exact meaning of primitives and casts, against wide integers and exact rounding.
#include "ir/tile/primitives.h"

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "ir/tile/interpreter.h"
#include "ir/tile/tile_value.h"

namespace kiln::tile {
namespace {

// What fits any product of two 64-bit integers.
__extension__ using Int = __int128;

constexpr std::array kIntegers = {DType::I8, DType::I16, DType::I32, DType::I64,
                                  DType::U8, DType::U16, DType::U32, DType::U64};

struct IntegerType {
  explicit IntegerType(DType d) : dtype(d), width(bits(d)), is_signed(is_signed_integer(d)) {}
  DType dtype;
  int width;
  bool is_signed;

  Int wrap(Int value) const {
    const Int modulus = Int{1} << width;
    value = ((value % modulus) + modulus) % modulus;
    return is_signed && value >= modulus / 2 ? value - modulus : value;
  }
  Int least() const { return is_signed ? -(Int{1} << (width - 1)) : 0; }
  Int greatest() const { return is_signed ? (Int{1} << (width - 1)) - 1 : (Int{1} << width) - 1; }
  Literal literal(Int value) const { return Literal::integer(dtype, static_cast<std::int64_t>(value)); }
  Int value(Literal literal) const { return is_signed ? Int{literal.as_integer()} : Int{literal.bits}; }
  // All values of 8 bits; the ends and the middle of the others.
  std::vector<Int> samples() const {
    std::vector<Int> values;
    if (width == 8) {
      for (Int value = least(); value <= greatest(); ++value) values.push_back(value);
      return values;
    }
    for (Int near : {least(), Int{0}, greatest(), greatest() / 2, Int{1} << (width / 2)}) {
      for (Int i = -3; i <= 3; ++i) {
        if (near + i >= least() && near + i <= greatest()) values.push_back(near + i);
      }
    }
    for (Int value : {7, 13, 31, 32, 63, 64, 100}) values.push_back(value);
    return values;
  }
};

Int floor_quotient(Int a, Int b) {
  const Int quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

// The true value before it wraps; nothing for a division by zero.
std::optional<Int> integer_result(Function function, const IntegerType& type, Int a, Int b) {
  switch (function) {
    case Function::Add:
      return a + b;
    case Function::Sub:
      return a - b;
    case Function::Mul:  // 64-bit unsigned products exceed Int, their low bits do not
      return type.width < 64 ? a * b : Int(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    case Function::Div:
      return b == 0 ? std::nullopt : std::optional(a / b);
    case Function::Rem:
      return b == 0 ? std::nullopt : std::optional(a % b);
    case Function::FloorMod:
      return b == 0 ? std::nullopt : std::optional(a - floor_quotient(a, b) * b);
    case Function::Min:
    case Function::MinNum:
      return a < b ? a : b;
    case Function::Max:
    case Function::MaxNum:
      return a < b ? b : a;
    case Function::And:
      return a & b;
    case Function::Or:
      return a | b;
    case Function::Xor:
      return a ^ b;
    case Function::Shl: {
      if (b < 0 || b >= type.width) return 0;
      Int result = type.wrap(a);
      for (Int i = 0; i < b; ++i) result = type.wrap(result * 2);
      return result;
    }
    case Function::Shr: {
      if (b < 0 || b >= type.width) return a < 0 ? -1 : 0;
      return floor_quotient(a, Int{1} << static_cast<int>(b));
    }
    case Function::Eq:
      return a == b;
    case Function::Ne:
      return a != b;
    case Function::Lt:
      return a < b;
    case Function::Le:
      return a <= b;
    case Function::Gt:
      return a > b;
    case Function::Ge:
      return a >= b;
    default:
      return std::nullopt;
  }
}

TEST(Primitives, BinaryOnIntegers) {
  for (const DType dtype : kIntegers) {
    const IntegerType type(dtype);
    std::vector<Int> a, b;
    for (const Int x : type.samples()) {
      for (const Int y : type.samples()) {
        a.push_back(x);
        b.push_back(y);
      }
    }
    const Type tile = Type::tile(dtype, {std::ssize(a)});
    for (const Function function :
         {Function::Add, Function::Sub, Function::Mul,    Function::Div,    Function::Rem, Function::FloorMod,
          Function::Min, Function::Max, Function::MinNum, Function::MaxNum, Function::And, Function::Or,
          Function::Xor, Function::Shl, Function::Shr,    Function::Eq,     Function::Ne,  Function::Lt,
          Function::Le,  Function::Gt,  Function::Ge}) {
      const bool divides =
          function == Function::Div || function == Function::Rem || function == Function::FloorMod;
      TileValue x(tile), y(tile);
      with_element_type(dtype, [&]<typename T>() {
        if constexpr (kIsInteger<T>) {
          for (std::size_t i = 0; i < a.size(); ++i) {
            x.data<T>()[i] = static_cast<T>(a[i]);
            y.data<T>()[i] = static_cast<T>(divides && b[i] == 0 ? 1 : b[i]);
          }
        }
      });
      const bool compares = function >= Function::Eq && function <= Function::Ge;
      const Type result_type = compares ? Type::tile(DType::I1, tile.extents) : tile;
      const TileValue result = elementwise(function, std::array<const TileValue*, 2>{&x, &y}, result_type);
      for (std::size_t i = 0; i < a.size(); ++i) {
        const std::optional<Int> want = integer_result(function, type, a[i], b[i]);
        if (!want) continue;
        const Literal got = result.literal(static_cast<std::int64_t>(i));
        const Int value = compares ? Int{got.bits} : type.value(got);
        ASSERT_TRUE(value == (compares ? *want : type.wrap(*want)))
            << name(function) << " of " << kiln::name(dtype) << " " << static_cast<std::int64_t>(a[i]) << ", "
            << static_cast<std::int64_t>(b[i]);
      }
    }
  }
}

TEST(Primitives, UnaryOnIntegers) {
  for (const DType dtype : kIntegers) {
    const IntegerType type(dtype);
    for (const Int value : type.samples()) {
      const std::array operand = {type.literal(value)};
      EXPECT_TRUE(type.value(evaluate(Function::Neg, operand)) == type.wrap(-value));
      EXPECT_TRUE(type.value(evaluate(Function::Abs, operand)) == type.wrap(value < 0 ? -value : value));
      EXPECT_TRUE(type.value(evaluate(Function::Sign, operand)) == (value > 0) - (value < 0));
      EXPECT_TRUE(type.value(evaluate(Function::Not, operand)) == type.wrap(-1 - value));
    }
  }
}

TEST(Primitives, IntegerDivisionByZeroIsAnError) {
  for (const DType dtype : kIntegers) {
    for (const Function function : {Function::Div, Function::Rem, Function::FloorMod}) {
      try {
        evaluate(function, std::array{Literal::integer(dtype, 1), Literal::integer(dtype, 0)});
        ADD_FAILURE() << name(function) << " of " << kiln::name(dtype);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::DivisionByZero);
      }
    }
  }
}

TEST(Primitives, Booleans) {
  for (const bool a : {false, true}) {
    EXPECT_EQ(evaluate(Function::Not, std::array{Literal::integer(DType::I1, a)}).bits, a ? 0u : 1u);
    for (const bool b : {false, true}) {
      const std::array operands = {Literal::integer(DType::I1, a), Literal::integer(DType::I1, b)};
      EXPECT_EQ(evaluate(Function::And, operands).bits, a && b ? 1u : 0u);
      EXPECT_EQ(evaluate(Function::Or, operands).bits, a || b ? 1u : 0u);
      EXPECT_EQ(evaluate(Function::Xor, operands).bits, a != b ? 1u : 0u);
      EXPECT_EQ(evaluate(Function::Lt, operands).bits, a < b ? 1u : 0u);
    }
  }
}

// --- floats

Literal number(DType dtype, double value) { return Literal::number(dtype, value); }
double result(Function function, DType dtype, double a) {
  return evaluate(function, std::array{number(dtype, a)}).as_number();
}
double result(Function function, DType dtype, double a, double b) {
  return evaluate(function, std::array{number(dtype, a), number(dtype, b)}).as_number();
}

constexpr std::array kFloats = {DType::F16, DType::BF16, DType::F32, DType::F64};

TEST(Primitives, MinimumAndMaximumOrderZerosAndPropagateNan) {
  for (const DType dtype : kFloats) {
    EXPECT_TRUE(std::signbit(result(Function::Min, dtype, 0.0, -0.0)));
    EXPECT_TRUE(std::signbit(result(Function::Min, dtype, -0.0, 0.0)));
    EXPECT_FALSE(std::signbit(result(Function::Max, dtype, 0.0, -0.0)));
    EXPECT_FALSE(std::signbit(result(Function::Max, dtype, -0.0, 0.0)));
    for (const Function function : {Function::Min, Function::Max}) {
      EXPECT_TRUE(std::isnan(result(function, dtype, NAN, 1)));
      EXPECT_TRUE(std::isnan(result(function, dtype, -INFINITY, NAN)));
    }
    EXPECT_EQ(result(Function::MinNum, dtype, NAN, 1), 1);
    EXPECT_EQ(result(Function::MaxNum, dtype, -2, NAN), -2);
    EXPECT_TRUE(std::isnan(result(Function::MaxNum, dtype, NAN, NAN)));
    EXPECT_EQ(result(Function::Min, dtype, 3, -INFINITY), -INFINITY);
    EXPECT_EQ(result(Function::Max, dtype, 3, 2), 3);
  }
}

TEST(Primitives, UnaryOnFloats) {
  for (const DType dtype : kFloats) {
    EXPECT_EQ(result(Function::Round, dtype, 0.5), 0);
    EXPECT_EQ(result(Function::Round, dtype, 1.5), 2);
    EXPECT_EQ(result(Function::Round, dtype, -2.5), -2);
    EXPECT_TRUE(std::signbit(result(Function::Round, dtype, -0.25)));
    EXPECT_EQ(result(Function::Floor, dtype, -0.5), -1);
    EXPECT_TRUE(std::signbit(result(Function::Ceil, dtype, -0.5)));
    EXPECT_EQ(result(Function::Trunc, dtype, -1.75), -1);
    EXPECT_EQ(result(Function::Sign, dtype, -INFINITY), -1);
    EXPECT_FALSE(std::signbit(result(Function::Sign, dtype, -0.0)));
    EXPECT_TRUE(std::isnan(result(Function::Sign, dtype, NAN)));
    EXPECT_TRUE(std::signbit(result(Function::Neg, dtype, 0.0)));
    EXPECT_FALSE(std::signbit(result(Function::Abs, dtype, -0.0)));
    EXPECT_TRUE(std::isnan(result(Function::Sqrt, dtype, -1)));
    EXPECT_TRUE(std::signbit(result(Function::Sqrt, dtype, -0.0)));
    EXPECT_EQ(result(Function::Sqrt, dtype, 2), number(dtype, std::sqrt(2.0)).as_number());
    EXPECT_EQ(evaluate(Function::IsNan, std::array{number(dtype, NAN)}).bits, 1u);
    EXPECT_EQ(evaluate(Function::IsNan, std::array{number(dtype, INFINITY)}).bits, 0u);
  }
}

TEST(Primitives, RemaindersOfFloats) {
  for (const DType dtype : kFloats) {
    EXPECT_EQ(result(Function::Rem, dtype, 5.5, 2), 1.5);
    EXPECT_EQ(result(Function::Rem, dtype, -5.5, 2), -1.5);
    EXPECT_EQ(result(Function::FloorMod, dtype, -5.5, 2), 0.5);
    EXPECT_EQ(result(Function::FloorMod, dtype, 5.5, -2), -0.5);
    EXPECT_EQ(result(Function::FloorMod, dtype, -1, INFINITY), INFINITY);
    EXPECT_EQ(result(Function::FloorMod, dtype, 1, INFINITY), 1);
    EXPECT_TRUE(std::signbit(result(Function::FloorMod, dtype, 4, -2)));
    EXPECT_FALSE(std::signbit(result(Function::FloorMod, dtype, -4, 2)));
    EXPECT_TRUE(std::isnan(result(Function::Rem, dtype, 1, 0)));
    EXPECT_TRUE(std::isnan(result(Function::FloorMod, dtype, INFINITY, 2)));
  }
}

// The f16 next to an exact value count * 2^-48, ties to even, found by comparing distances.
std::uint16_t nearest_half(Int count) {
  const bool negative = count < 0;
  const Int magnitude = negative ? -count : count;
  const auto exact = [](std::uint32_t pattern) {  // an f16 is a multiple of 2^-24
    Float16 half;
    half.bits = static_cast<std::uint16_t>(pattern);
    return Int(static_cast<std::int64_t>(std::ldexp(static_cast<double>(half), 24))) << 24;
  };
  std::uint32_t low = 0, high = 0x7c00;  // infinity counts as 65536 here
  const auto position = [&](std::uint32_t pattern) {
    return pattern == 0x7c00 ? (Int{65536} << 48) : exact(pattern);
  };
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (position(middle) <= magnitude ? low : high) = middle;
  }
  const Int below = magnitude - position(low), above = position(high) - magnitude;
  const std::uint32_t chosen = below < above || (below == above && low % 2 == 0) ? low : high;
  return static_cast<std::uint16_t>(chosen | (negative ? 0x8000 : 0));
}

TEST(Primitives, F16ArithmeticRoundsOnce) {
  std::uint64_t state = 12345;
  const auto next = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    Float16 half;
    half.bits = static_cast<std::uint16_t>(state >> 40);
    if ((half.bits & 0x7c00) == 0x7c00) half.bits ^= 0x4000;
    return half;
  };
  const auto count = [](Float16 half) {
    return Int(static_cast<std::int64_t>(std::ldexp(static_cast<double>(half), 24)));
  };
  for (int i = 0; i < 300000; ++i) {
    Float16 a = next(), b = next(), c = next();
    if (i % 3 == 0) b.bits = static_cast<std::uint16_t>(0x3c00 | (b.bits & 0x83ff));  // near 1: more ties
    const Int sum = (count(a) + count(b)) << 24, product = count(a) * count(b);
    const Int fused = product + (count(c) << 24);
    if (sum != 0) {
      ASSERT_EQ(primitive::add(a, b).bits, nearest_half(sum));
    }
    if (product != 0) {
      ASSERT_EQ(primitive::mul(a, b).bits, nearest_half(product));
    }
    if (fused != 0) {
      ASSERT_EQ(primitive::fma(a, b, c).bits, nearest_half(fused))
          << static_cast<float>(a) << " " << static_cast<float>(b) << " " << static_cast<float>(c);
    }
  }
}

TEST(Primitives, FmaOfHalvesIsNotMisledByF64) {
  const auto fma_of = [](double a, double b, double c) {
    return evaluate(Function::Fma,
                    std::array{number(DType::BF16, a), number(DType::BF16, b), number(DType::BF16, c)})
        .as_number();
  };
  // bf16 has 258, 260 and 262 here. In f64 the sums are ties, and what f64 loses says which way to go.
  EXPECT_EQ(fma_of(7, 37, 0), 260);
  EXPECT_EQ(fma_of(7, 37, -0x1p-100), 258);
  EXPECT_EQ(fma_of(-7, 37, 0x1p-100), -258);
  EXPECT_EQ(fma_of(9, 29, 0), 260);
  EXPECT_EQ(fma_of(9, 29, 0x1p-100), 262);
  EXPECT_EQ(fma_of(0x1p-60, 0x1p-60, 260), 260);
  EXPECT_TRUE(std::isnan(fma_of(INFINITY, 0, 1)));
  EXPECT_EQ(fma_of(0x1p127, 0x1p127, -INFINITY), -INFINITY);
}

TEST(Primitives, LdexpRoundsOnce) {
  const auto scaled = [](DType dtype, double x, std::int64_t n) {
    const DType exponent = dtype == DType::F64 ? DType::I64 : DType::I32;
    return evaluate(Function::Ldexp, std::array{number(dtype, x), Literal::integer(exponent, n)}).as_number();
  };
  for (const DType dtype : kFloats) {
    EXPECT_EQ(scaled(dtype, 1.5, 3), 12);
    EXPECT_EQ(scaled(dtype, -1.5, INT32_MIN), 0);
    EXPECT_TRUE(std::signbit(scaled(dtype, -1.5, INT32_MIN)));
    EXPECT_EQ(scaled(dtype, 1, INT32_MAX), INFINITY);
    EXPECT_EQ(scaled(dtype, -INFINITY, -5000), -INFINITY);
    EXPECT_EQ(scaled(dtype, 0, INT32_MAX), 0);
    EXPECT_TRUE(std::isnan(scaled(dtype, NAN, 3)));
  }
  EXPECT_EQ(scaled(DType::F32, 1, -149), 0x1p-149);
  EXPECT_EQ(scaled(DType::F32, 1, -150), 0);  // a tie to even
  EXPECT_EQ(scaled(DType::F32, 1 + 0x1p-23, -150), 0x1p-149);
  EXPECT_EQ(scaled(DType::F32, 0x1p-149, 276), 0x1p127);
  EXPECT_EQ(scaled(DType::F64, 0x1p-1074, 2097), 0x1p1023);
  EXPECT_EQ(scaled(DType::F64, 1 + 0x1p-52, -1075), 0x1p-1074);
  EXPECT_EQ(scaled(DType::F64, 1, INT64_MAX), INFINITY);
  EXPECT_EQ(scaled(DType::F16, 1 + 0x1p-10, -25), 0x1p-24);
}

TEST(Primitives, ComparisonsWithNanAreFalseButForNe) {
  for (const DType dtype : kFloats) {
    for (const Function function :
         {Function::Eq, Function::Lt, Function::Le, Function::Gt, Function::Ge, Function::Ne}) {
      EXPECT_EQ(evaluate(function, std::array{number(dtype, NAN), number(dtype, NAN)}).bits,
                function == Function::Ne ? 1u : 0u);
    }
    EXPECT_EQ(evaluate(Function::Eq, std::array{number(dtype, 0.0), number(dtype, -0.0)}).bits, 1u);
  }
}

// --- casts

TEST(Casts, FloatToIntegerTruncatesSaturatesAndMakesNanZero) {
  for (const DType from : kFloats) {
    for (const DType to : kIntegers) {
      const IntegerType type(to);
      EXPECT_EQ(cast(number(from, NAN), to).bits, 0u);
      EXPECT_TRUE(type.value(cast(number(from, INFINITY), to)) == type.greatest());
      EXPECT_TRUE(type.value(cast(number(from, -INFINITY), to)) == type.least());
      EXPECT_TRUE(type.value(cast(number(from, 2.75), to)) == 2);
      EXPECT_TRUE(type.value(cast(number(from, -2.75), to)) == (type.is_signed ? -2 : 0));
    }
  }
  EXPECT_EQ(cast(number(DType::F32, 2147483648.0), DType::I32).as_integer(), INT32_MAX);
  EXPECT_EQ(cast(number(DType::F32, -2147483648.0), DType::I32).as_integer(), INT32_MIN);
  EXPECT_EQ(cast(number(DType::F64, 2147483647.5), DType::I32).as_integer(), INT32_MAX);
  EXPECT_EQ(cast(number(DType::F64, 0x1p63), DType::I64).as_integer(), INT64_MAX);
  EXPECT_EQ(cast(number(DType::F64, 0x1p63), DType::U64).bits, std::uint64_t{1} << 63);
  EXPECT_EQ(cast(number(DType::F64, 0x1p64), DType::U64).bits, UINT64_MAX);
  EXPECT_EQ(cast(number(DType::F32, 255.9), DType::U8).bits, 255u);
  EXPECT_EQ(cast(number(DType::F32, -0.9), DType::U8).bits, 0u);
}

TEST(Casts, IntegersWrap) {
  for (const DType from : kIntegers) {
    for (const DType to : kIntegers) {
      for (const Int value : IntegerType(from).samples()) {
        EXPECT_TRUE(IntegerType(to).value(cast(IntegerType(from).literal(value), to)) ==
                    IntegerType(to).wrap(value));
      }
    }
  }
}

TEST(Casts, IntegerToFloatRoundsOnce) {
  const auto to = [](DType from, std::uint64_t value, DType dtype) {
    return cast({from, value}, dtype).as_number();
  };
  EXPECT_EQ(to(DType::I64, (std::uint64_t{1} << 53) + 1, DType::F64), 0x1p53);
  EXPECT_EQ(to(DType::I32, 16777217, DType::F32), 16777216);
  // Just above a tie of bf16: f64 would see the tie.
  const std::uint64_t above_tie = (std::uint64_t{1} << 62) + (std::uint64_t{1} << 54) + 1;
  EXPECT_EQ(to(DType::I64, above_tie, DType::BF16), 0x1p62 + 0x1p55);
  EXPECT_EQ(to(DType::I64, above_tie - 1, DType::BF16), 0x1p62);
  EXPECT_EQ(to(DType::U64, UINT64_MAX, DType::F32), 0x1p64);
  EXPECT_EQ(to(DType::U64, UINT64_MAX, DType::F16), INFINITY);
  EXPECT_EQ(to(DType::I64, std::uint64_t{1} << 63, DType::BF16), -0x1p63);
  EXPECT_EQ(to(DType::I1, 1, DType::F16), 1);
}

TEST(Casts, FloatsRoundOnceAndBooleansAreNotZero) {
  EXPECT_EQ(cast(number(DType::F64, 1 + 0x1p-24), DType::F32).as_number(), 1);
  EXPECT_EQ(cast(number(DType::F64, 1 + 0x1p-11 + 0x1p-40), DType::F16).as_number(), 1 + 0x1p-10);
  EXPECT_EQ(cast(number(DType::F32, 65520), DType::F16).as_number(), INFINITY);
  EXPECT_TRUE(std::isnan(cast(number(DType::F64, NAN), DType::BF16).as_number()));
  for (const DType from : kFloats) {
    EXPECT_EQ(cast(number(from, NAN), DType::I1).bits, 1u);
    EXPECT_EQ(cast(number(from, -0.0), DType::I1).bits, 0u);
    EXPECT_EQ(cast(number(from, 0.5), DType::I1).bits, 1u);
  }
  EXPECT_EQ(cast(Literal::integer(DType::U8, 2), DType::I1).bits, 1u);
}

}  // namespace
}  // namespace kiln::tile
