// Inputs that say where or how many, and inputs of open rank: they run on generated kernels once a run has
// shown what they are, and are right for every later value too.
#include <cmath>
#include <functional>

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

Tensor ramp(Extents extents) {
  Tensor tensor(DType::F32, std::move(extents));
  float next = -1;
  for (float& x : tensor.as_mutable<float>()) x = std::sin(next++);
  return tensor;
}

// The same as where the shapes of these inputs are declared. One Session serves all of them.
void expect_as_declared(const Session& session, const std::function<ModelBuilder()>& build,
                        std::span<const NamedTensor> inputs) {
  ModelBuilder declared = build();
  for (const NamedTensor& input : inputs) {
    std::vector<frontend::testing::DimSpec> dims;
    for (const std::int64_t extent : input.tensor.extents()) dims.emplace_back(static_cast<int>(extent));
    declared.input(input.name, dims,
                   input.tensor.dtype() == DType::F32   ? onnx::TensorProto::FLOAT
                   : input.tensor.dtype() == DType::I32 ? onnx::TensorProto::INT32
                                                        : kInt64);
  }
  const Tensor want = load(declared).run(inputs)[0], got = session.run(inputs)[0];
  ASSERT_EQ(got.extents(), want.extents());
  for (std::size_t i = 0; i < want.as<float>().size(); ++i)
    EXPECT_NEAR(got.as<float>()[i], want.as<float>()[i], 1e-5) << i;
}

// Operators of com.microsoft whose nodes depend on the rank of an input.
TEST(Specialisation, RanksDecideWhatANodeBecomes) {
  const auto with_inputs = [](ModelBuilder model, std::initializer_list<std::pair<const char*, int>> inputs) {
    for (const auto& [name, type] : inputs) model.input(name, {1}, type);
    return load(model, {.ignore_declared_ranks = true});
  };
  constexpr int kFloat = onnx::TensorProto::FLOAT, kInt32 = onnx::TensorProto::INT32;
  const auto fused = [] {
    ModelBuilder model(17, "com.microsoft", 1);
    auto& node = model.node("FusedMatMul", {"a", "b"}, {"y"}, "com.microsoft");
    set(node, "transA", std::int64_t{1});
    set(node, "transB", std::int64_t{1});
    return model.output("y");
  };
  const Session products = with_inputs(fused(), {{"a", kFloat}, {"b", kFloat}});
  for (const auto& [a, b] : {std::pair<Extents, Extents>{{5, 2}, {3, 5}},
                             {{4, 5, 2}, {3, 5}},
                             {{5}, {3, 5}},
                             {{2, 4, 5, 2}, {4, 3, 5}}}) {
    const NamedTensor inputs[] = {{"a", ramp(a)}, {"b", ramp(b)}};
    expect_as_declared(products, fused, inputs);
  }
  const auto rotary = [] {
    ModelBuilder model(17, "com.microsoft", 1);
    auto& node = model.node("RotaryEmbedding", {"x", "at", "cosines", "sines"}, {"y"}, "com.microsoft");
    set(node, "num_heads", std::int64_t{3});
    return model.output("y");
  };
  const Session embeddings =
      with_inputs(rotary(), {{"x", kFloat}, {"at", kInt64}, {"cosines", kFloat}, {"sines", kFloat}});
  const std::int64_t ids[] = {0, 6, 2, 3, 3, 1};
  for (const bool apart : {false, true}) {
    for (const bool first_alone : {false, true}) {
      const Tensor at = first_alone ? integers({2}) : Tensor::from_integers(ids).reshaped({2, 3});
      const NamedTensor inputs[] = {{"x", ramp(apart ? Extents{2, 3, 3, 4} : Extents{2, 3, 12})},
                                    {"at", at},
                                    {"cosines", ramp({7, 2})},
                                    {"sines", ramp({7, 2})}};
      expect_as_declared(embeddings, rotary, inputs);
    }
  }
  const auto attention = [] {
    ModelBuilder model(17, "com.microsoft", 1);
    auto& node = model.node("MultiHeadAttention", {"q", "k", "v", "", "mask"}, {"y"}, "com.microsoft");
    set(node, "num_heads", std::int64_t{2});
    return model.output("y");
  };
  const Session attentions =
      with_inputs(attention(), {{"q", kFloat}, {"k", kFloat}, {"v", kFloat}, {"mask", kInt32}});
  for (const Extents& mask : {Extents{2}, {2, 3}, {2, 3, 3}, {2, 1, 3, 3}}) {
    Tensor taken(DType::I32, mask);
    for (std::size_t i = 0; i < taken.as<std::int32_t>().size(); ++i)
      taken.as_mutable<std::int32_t>()[i] = i % 3 == 1 ? 2 : 1 - static_cast<std::int32_t>(i % 2);
    const NamedTensor inputs[] = {
        {"q", ramp({2, 3, 4})}, {"k", ramp({2, 3, 4})}, {"v", ramp({2, 3, 4})}, {"mask", taken}};
    expect_as_declared(attentions, attention, inputs);
  }
}

}  // namespace
}  // namespace kiln
