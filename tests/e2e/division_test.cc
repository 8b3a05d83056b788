// Divisions of integers in generated code: zero is an error of the run, never a signal, and only where it is
// an element.
#include <climits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/kiln.h>

#include "tests/e2e/session_support.h"
#include "tests/frontend/model_builder.h"

namespace kiln {
namespace {

using e2e::load;
using frontend::testing::ModelBuilder;
using frontend::testing::set;

constexpr int kInt32 = onnx::TensorProto::INT32, kInt64 = onnx::TensorProto::INT64;

template <typename T>
Tensor tensor(DType dtype, const std::vector<T>& values) {
  return Tensor::from(dtype, {static_cast<std::int64_t>(values.size())}, std::span<const T>(values));
}

template <typename T>
void expect_division(DType dtype, int type) {
  constexpr T kLeast = std::numeric_limits<T>::min();
  ModelBuilder model(15);
  model.input("x", {"n"}, type).input("y", {"n"}, type);
  model.node("Div", {"x", "y"}, {"quotient"});
  model.node("Mod", {"x", "y"}, {"modulo"});
  set(model.node("Mod", {"x", "y"}, {"remainder"}), "fmod", std::int64_t{1});
  for (const char* output : {"quotient", "modulo", "remainder"}) model.output(output);
  const Session session = load(model, {.strict = true});
  // Sizes round those of registers: lanes beyond the end divide by nothing.
  for (std::size_t n = 0; n <= 70; ++n) {
    std::vector<T> x, y;
    for (std::size_t i = 0; i < n; ++i) {
      x.push_back(i % 5 == 0 ? kLeast : static_cast<T>(7 * i) - 100);
      y.push_back(i % 3 == 0 ? T{-1} : static_cast<T>(i % 11) - 5);
      if (y.back() == 0) y.back() = std::numeric_limits<T>::max();
    }
    const std::vector<Tensor> got = session.run({{"x", tensor(dtype, x)}, {"y", tensor(dtype, y)}});
    for (std::size_t i = 0; i < n; ++i) {
      const bool wraps = y[i] == -1;
      const T quotient = wraps ? static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x[i])) : x[i] / y[i];
      const T remainder = wraps ? T{0} : x[i] % y[i];
      const bool moves = remainder != 0 && (remainder < 0) != (y[i] < 0);
      EXPECT_EQ(got[0].as<T>()[i], quotient) << x[i] << " / " << y[i];
      EXPECT_EQ(got[1].as<T>()[i], moves ? remainder + y[i] : remainder) << x[i] << " mod " << y[i];
      EXPECT_EQ(got[2].as<T>()[i], remainder) << x[i] << " % " << y[i];
    }
    if (n == 0) continue;
    y[n / 2] = 0;
    try {
      session.run({{"x", tensor(dtype, x)}, {"y", tensor(dtype, y)}});
      ADD_FAILURE() << "a division by zero among " << n;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Caller);
      EXPECT_EQ(error.code(), ErrorCode::DivisionByZero) << error.what();
    }
  }
}

TEST(Division, OfIntegers) {
  expect_division<std::int32_t>(DType::I32, kInt32);
  expect_division<std::int64_t>(DType::I64, kInt64);
}

TEST(Division, ZeroToANegativePower) {
  ModelBuilder model(15);
  model.input("x", {"n"}, kInt64).input("y", {"n"}, kInt32);
  model.node("Pow", {"x", "y"}, {"power"});
  model.output("power");
  const Session session = load(model, {.strict = true});
  const auto run = [&](const std::vector<std::int64_t>& x, const std::vector<std::int32_t>& y) {
    const Tensor power = session.run({{"x", tensor(DType::I64, x)}, {"y", tensor(DType::I32, y)}})[0];
    return std::vector<std::int64_t>(power.as<std::int64_t>().begin(), power.as<std::int64_t>().end());
  };
  EXPECT_THAT(run({3, 0, -1, -1, 2, 1, 3, INT64_MIN}, {40, 0, -3, INT32_MIN, -1, -5, 41, 1}),
              testing::ElementsAre(static_cast<std::int64_t>(12157665459056928801U), 1, -1, 1, 0, 1,
                                   static_cast<std::int64_t>(12157665459056928801U * 3), INT64_MIN));
  EXPECT_THAT(run({0}, {5}), testing::ElementsAre(0));
  try {
    run({1, 0, 1}, {-1, -1, -1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::DivisionByZero) << error.what();
  }
}

}  // namespace
}  // namespace kiln
