// Every expansion against libm in a wider type: f32 at every 1009th bit pattern and at special values, within
// the budgets of elementwise.def; f64 at random and special values, within the budgets below.
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/base/float_types.h"
#include "ir/tile/builder.h"
#include "ir/tile/interpreter.h"

namespace kiln::tile {
namespace {

using Wide = long double;

// f(x) or f(x, y) over all elements, by the interpreter.
template <typename T>
std::vector<T> run(Function function, DType dtype, std::vector<T> x, std::vector<T> y = {}) {
  constexpr std::int64_t kTile = 4096;
  KernelBuilder k("map");
  const Type type = Type::view(dtype, {kDynamic});
  std::vector<View> inputs = {k.input("x", type)};
  if (!y.empty()) inputs.push_back(k.input("y", type));
  const View out = k.output("out", type);
  k.grid([&]() -> Indices { return {ceildiv(out.dim(0), kTile)}; });
  const Expr at = k.program_id(0) * kTile;
  std::vector<Operand> operands;
  for (const View& input : inputs) operands.push_back(input.load({at}, {kTile}));
  out.store({at}, k.call(function, operands));
  const Kernel kernel = k.finish();

  std::vector<T> result(x.size());
  const auto argument = [](std::vector<T>& values) {
    return ViewArgument{std::as_writable_bytes(std::span(values)), 0, {std::ssize(values)}, {1}};
  };
  std::vector<Argument> arguments = {argument(x)};
  if (!y.empty()) arguments.push_back(argument(y));
  arguments.push_back(argument(result));
  interpret(kernel, arguments);
  return result;
}

// The distance of neighbours of type T around `value`, that of denormals at least.
template <typename T>
Wide unit(Wide value) {
  const int exponent = value == 0 ? std::numeric_limits<T>::min_exponent : std::ilogb(value) + 1;
  return std::ldexp(
      Wide{1}, std::max(exponent, std::numeric_limits<T>::min_exponent) - std::numeric_limits<T>::digits);
}

// Error in units in the last place; infinite where the kinds differ.
template <typename T>
Wide error_in_units(T got, Wide want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) == std::isnan(got) ? 0 : HUGE_VALL;
  const Wide largest = std::numeric_limits<T>::max();
  if (std::isinf(got)) {
    // Overflow is right where the true value rounds to it, nearly.
    if (std::fabs(want) > largest && std::signbit(want) == std::signbit(got)) return 0;
    return std::fabs(want) > largest * (1 - std::numeric_limits<T>::epsilon()) ? 1 : HUGE_VALL;
  }
  if (std::fabs(want) > largest) want = std::copysign(largest, want);
  return std::fabs(got - want) / unit<T>(want);
}

Wide normal(Wide x) { return std::erfc(-x / std::sqrt(Wide{2})) / 2; }

// At -inf activations have their limit 0: the factor x is bounded where the other one is 0.
using Reference = std::function<Wide(Wide)>;
struct Case {
  Reference reference;
  double f64_budget;
};

Case unary_case(Function function) {
  using L = Wide;
  switch (function) {
#define KILN_PRIMITIVE(enumerator, name, arity) case Function::enumerator:
#include "ir/tile/elementwise.def"
    break;
    case Function::Exp:
      return {[](L x) { return std::exp(x); }, 1};
    case Function::Exp2:
      return {[](L x) { return std::exp2(x); }, 1};
    case Function::Expm1:
      return {[](L x) { return std::expm1(x); }, 2};
    case Function::Log:
      return {[](L x) { return std::log(x); }, 1};
    case Function::Log2:
      return {[](L x) { return std::log2(x); }, 1};
    case Function::Log1p:
      return {[](L x) { return std::log1p(x); }, 2};
    case Function::Sin:
      return {[](L x) { return std::sin(x); }, 1};
    case Function::Cos:
      return {[](L x) { return std::cos(x); }, 1};
    case Function::Tan:
      return {[](L x) { return std::tan(x); }, 3};
    case Function::Asin:
      return {[](L x) { return std::asin(x); }, 3};
    case Function::Acos:
      return {[](L x) { return std::acos(x); }, 2};
    case Function::Atan:
      return {[](L x) { return std::atan(x); }, 2};
    case Function::Sinh:
      return {[](L x) { return std::sinh(x); }, 4};
    case Function::Cosh:
      return {[](L x) { return std::cosh(x); }, 4};
    case Function::Tanh:
      return {[](L x) { return std::tanh(x); }, 3};
    case Function::Asinh:
      return {[](L x) { return std::asinh(x); }, 4};
    case Function::Acosh:
      return {[](L x) { return std::acosh(x); }, 4};
    case Function::Atanh:
      return {[](L x) { return std::atanh(x); }, 4};
    case Function::Erf:
      return {[](L x) { return std::erf(x); }, 2};
    case Function::Sigmoid:
      return {[](L x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }, 3};
    case Function::Rsqrt:
      return {[](L x) { return 1 / std::sqrt(x); }, 2};
    case Function::Pow:
      break;
    case Function::Gelu:
      return {[](L x) { return std::max(x, L{-1000}) * normal(x); }, 12};
    case Function::GeluTanh:
      return {[](L x) {
                const L u = 2 * std::sqrt(2 / std::acos(L{-1})) * (x + L{0.044715L} * x * x * x);
                return u < 0 ? std::max(x, L{-1000}) * std::exp(u) / (1 + std::exp(u))
                             : x / (1 + std::exp(-u));
              },
              8};
    case Function::Silu:
      return {[](L x) {
                return x < 0 ? std::max(x, L{-1000}) * std::exp(x) / (1 + std::exp(x))
                             : x / (1 + std::exp(-x));
              },
              4};
    case Function::Softplus:
      return {[](L x) { return std::max(x, L{0}) + std::log1p(std::exp(-std::fabs(x))); }, 4};
    case Function::HardSwish:
      return {[](L x) { return std::max(x, L{-3}) * std::min(std::max(x + 3, L{0}), L{6}) / 6; }, 2};
  }
  return {};
}

int f32_budget(Function function) {
  switch (function) {
#define KILN_PRIMITIVE(enumerator, name, arity) case Function::enumerator:
#define KILN_FUNCTION(enumerator, name, arity, ulp) \
  case Function::enumerator:                        \
    return ulp;
#include "ir/tile/elementwise.def"
  }
  return 0;
}

std::vector<Function> unary_functions() {
  std::vector<Function> functions;
#define KILN_FUNCTION(enumerator, name, arity, ulp) \
  if (arity == 1) functions.push_back(Function::enumerator);
#include "ir/tile/elementwise.def"
  return functions;
}

template <typename T>
std::vector<T> specials() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {0,
                           Limits::denorm_min(),
                           Limits::min(),
                           Limits::max(),
                           Limits::infinity(),
                           1,
                           2,
                           3,
                           0.5,
                           T(1) / 3,
                           T(M_PI),
                           T(M_PI_2),
                           T(M_PI_4),
                           T(M_LN2),
                           T(M_SQRT1_2),
                           10,
                           100,
                           1000};
  for (const T value : {T(1), T(2), T(0.5), T(88.72284), T(103.97208), T(709.782712893384),
                        T(745.1332191019411), T(3.925), T(9.01), T(M_PI), T(M_PI_2), Limits::min()}) {
    values.push_back(std::nextafter(value, T(0)));
    values.push_back(std::nextafter(value, Limits::infinity()));
  }
  for (int exponent = Limits::min_exponent - Limits::digits; exponent < Limits::max_exponent; ++exponent) {
    values.push_back(std::ldexp(T(1), exponent));
    values.push_back(std::ldexp(T(1.7320508), exponent));
  }
  const std::size_t count = values.size();
  for (std::size_t i = 0; i < count; ++i) values.push_back(-values[i]);
  values.push_back(Limits::quiet_NaN());
  return values;
}

template <typename T>
void check(Function function, const std::vector<T>& x, const std::vector<T>& got, const Reference& reference,
           double budget) {
  Wide worst = -1;
  T worst_x = 0, worst_got = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Wide error = error_in_units(got[i], reference(x[i]));
    if (error > worst) {
      worst = error;
      worst_x = x[i];
      worst_got = got[i];
    }
  }
  ::testing::Test::RecordProperty(fmt::format("{}_f{}_error", name(function), sizeof(T) * 8),
                                  fmt::format("{:.3f}", static_cast<double>(worst)));
  EXPECT_LE(worst, budget) << name(function) << "(" << fmt::format("{:a} = {}", worst_x, worst_x)
                           << ") gives " << worst_got << ", expected "
                           << static_cast<double>(reference(worst_x));
}

class Expansion : public testing::TestWithParam<Function> {};

TEST_P(Expansion, F32IsWithinItsBudget) {
  std::vector<float> x = specials<float>();
  for (std::uint64_t pattern = 0; pattern < (std::uint64_t{1} << 32); pattern += 1009) {
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(pattern)));
  }
  check(GetParam(), x, run(GetParam(), DType::F32, x), unary_case(GetParam()).reference,
        f32_budget(GetParam()));
}

TEST_P(Expansion, F64IsWithinItsBudget) {
  std::vector<double> x = specials<double>();
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(-40, 10), mantissa(1, 2), small(-40, 40), unit_range(-1, 1);
  for (int i = 0; i < 100000; ++i) {
    const double value = std::ldexp(mantissa(random), static_cast<int>(exponent(random)));
    x.push_back(i % 2 ? value : -value);
    x.push_back(small(random));
    x.push_back(unit_range(random));
    x.push_back(std::bit_cast<double>(random()));
  }
  const Case expected = unary_case(GetParam());
  check(GetParam(), x, run(GetParam(), DType::F64, x), expected.reference, expected.f64_budget);
}

// Zeros, signs and the halves.
TEST_P(Expansion, KeepsTheSignOfZeroLikeLibm) {
  const std::vector<float> x = {0.0f, -0.0f};
  const std::vector<float> got = run(GetParam(), DType::F32, x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Wide want = unary_case(GetParam()).reference(x[i]);
    if (std::isnan(want)) continue;
    EXPECT_EQ(std::signbit(got[i]), std::signbit(want)) << name(GetParam()) << "(" << x[i] << ")";
  }
}

TEST_P(Expansion, F16AndBf16RoundTheF32ResultOnce) {
  std::vector<Float16> half(0x10000);
  std::vector<float> wide(0x10000);
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    half[i].bits = static_cast<std::uint16_t>(i);
    wide[i] = static_cast<float>(half[i]);
  }
  const std::vector<Float16> got = run(GetParam(), DType::F16, half);
  const std::vector<float> want = run(GetParam(), DType::F32, wide);
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(static_cast<float>(got[i])));
    } else {
      ASSERT_EQ(got[i].bits, Float16(want[i]).bits) << name(GetParam()) << "(" << wide[i] << ")";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Expansion, testing::ValuesIn(unary_functions()),
                         [](const auto& test) { return std::string(name(test.param)); });

std::vector<double> power_operands() {
  return {0.0,        1.0,        0.5,        2.0,        3.0,      4.0, 1.5, 0.25,       1e-40,    1e30,
          16777215.0, 16777216.0, 16777217.0, 33554432.0, INFINITY, 0.1, 7.0, 0.99999994, 1.0000001};
}

template <typename T>
void check_power(double budget) {
  std::vector<T> x, y;
  std::vector<double> operands = power_operands();
  const std::size_t count = operands.size();
  for (std::size_t i = 0; i < count; ++i) operands.push_back(-operands[i]);
  operands.push_back(NAN);
  for (const double a : operands) {
    for (const double b : operands) {
      x.push_back(static_cast<T>(a));
      y.push_back(static_cast<T>(b));
    }
  }
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> exponent(-126, 127), mantissa(1, 2), power(-40, 40), near(0.9, 1.1);
  for (int i = 0; i < 100000; ++i) {
    x.push_back(static_cast<T>(std::ldexp(mantissa(random), static_cast<int>(exponent(random)))));
    y.push_back(static_cast<T>(power(random) / (i % 3 == 0 ? 20 : 1)));
    x.push_back(static_cast<T>(near(random)));
    y.push_back(static_cast<T>(power(random) * 20));
  }
  const std::vector<T> got = run(Function::Pow, sizeof(T) == 4 ? DType::F32 : DType::F64, x, y);
  Wide worst = -1;
  std::size_t at = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Wide want = std::pow(static_cast<Wide>(x[i]), static_cast<Wide>(y[i]));
    const Wide error = error_in_units(got[i], want);
    if (error > worst) {
      worst = error;
      at = i;
    }
    if (want == 0) {
      EXPECT_EQ(std::signbit(got[i]), std::signbit(want)) << "pow(" << x[i] << ", " << y[i] << ")";
    }
  }
  EXPECT_LE(worst, budget) << "pow(" << x[at] << ", " << y[at] << ") gives " << got[at];
}

TEST(Power, F32IsWithinItsBudget) { check_power<float>(f32_budget(Function::Pow)); }
TEST(Power, F64IsWithinItsBudget) { check_power<double>(4); }

}  // namespace
}  // namespace kiln::tile
