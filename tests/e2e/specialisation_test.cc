// Inputs that say where or how many, and inputs of open rank: they run on generated kernels once a run has
// shown what they are, and are right for every later value too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/kiln.h>

#include "tests/e2e/session_support.h"
#include "tests/frontend/model_builder.h"

namespace kiln {
namespace {

using e2e::elements;
using e2e::floats;
using e2e::load;
using frontend::testing::ModelBuilder;
using frontend::testing::set;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kInt64 = onnx::TensorProto::INT64;

Tensor integers(const std::vector<std::int64_t>& values) { return Tensor::from_integers(values); }

TEST(Specialisation, AxesMayComeWithTheRun) {
  ModelBuilder model(18);
  model.input("x", {"a", "b"}).input("axes", {"n"}, kInt64);
  set(model.node("ReduceSum", {"x", "axes"}, {"y"}), "keepdims", std::int64_t{0});
  model.output("y");
  const Session session = load(model);
  const Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(elements(session.run({{"x", x}, {"axes", integers({0})}})[0]), ElementsAre(5, 7, 9));
  EXPECT_EQ(session.stats().fallback_nodes, 0);
  EXPECT_THAT(elements(session.run({{"x", x}, {"axes", integers({-1})}})[0]), ElementsAre(6, 15));
  EXPECT_THAT(elements(session.run({{"x", x}, {"axes", integers({1, 0})}})[0]), ElementsAre(21));
  // Another batch with axes that were there before compiles nothing.
  const std::int64_t compiled = session.stats().kernels_compiled;
  EXPECT_THAT(elements(session.run({{"x", floats({1, 2}, {8, 9})}, {"axes", integers({0})}})[0]),
              ElementsAre(8, 9));
  EXPECT_EQ(session.stats().kernels_compiled, compiled);
  try {
    session.run({{"x", x}, {"axes", integers({2})}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Caller) << error.what();
  }
}

// More values than get kernels of their own.
TEST(Specialisation, EveryValueIsRight) {
  ModelBuilder model(18);
  model.input("x", {"n"}).input("start", {1}, kInt64).input("end", {1}, kInt64);
  model.node("Slice", {"x", "start", "end"}, {"part"});
  model.node("Neg", {"part"}, {"y"});
  model.output("y");
  const Session session = load(model);
  std::vector<float> values(40);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  std::int64_t compiled = 0;
  for (std::int64_t start = 0; start < 30; ++start) {
    const auto got = session.run(
        {{"x", floats({40}, values)}, {"start", integers({start})}, {"end", integers({start + 2})}});
    EXPECT_THAT(elements(got[0]), ElementsAre(static_cast<float>(-start), static_cast<float>(-start - 1)));
    if (start == 20) compiled = session.stats().kernels_compiled;
  }
  EXPECT_EQ(session.stats().kernels_compiled, compiled);
}

TEST(Specialisation, OpenRanksShowWithTheRun) {
  ModelBuilder model(18);
  model.input("x", {"a"}).input("w", {"b"});
  model.node("Mul", {"x", "w"}, {"product"});
  model.node("Softmax", {"product"}, {"y"});
  model.output("y");
  const Session session = load(model, {.ignore_declared_ranks = true});
  const auto vector = session.run({{"x", floats({2}, {1, 1})}, {"w", floats({}, {2})}});
  EXPECT_THAT(elements(vector[0]), ElementsAre(0.5F, 0.5F));
  EXPECT_EQ(session.stats().fallback_nodes, 0);
  const auto matrix = session.run({{"x", floats({2, 1}, {1, 7})}, {"w", floats({1}, {2})}});
  EXPECT_EQ(matrix[0].extents(), (Extents{2, 1}));
  EXPECT_THAT(elements(matrix[0]), ElementsAre(1, 1));
}

// Also in a run whose facts are known from an earlier one.
TEST(Specialisation, InputsMustAgreeOnSymbols) {
  ModelBuilder model(18);
  model.input("x", {"n", 2}).input("repeats", {"n"}, kInt64);
  model.node("Expand", {"x", "repeats"}, {"y"});
  model.output("y");
  const Session session = load(model);
  const Tensor shape = integers({2, 2});
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(session.run({{"x", floats({2, 2}, {1, 2, 3, 4})}, {"repeats", shape}})[0].extents(),
              (Extents{2, 2}));
    try {
      session.run({{"x", floats({1, 2}, {1, 2})}, {"repeats", shape}});
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("dimension n is 1 by input x and 2 by input repeats"));
    }
  }
}

}  // namespace
}  // namespace kiln
