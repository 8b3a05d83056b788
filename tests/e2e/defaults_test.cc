// Initializers that are inputs too: constants, but in runs that give another value.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/kiln.h>

#include "tests/e2e/session_support.h"
#include "tests/frontend/model_builder.h"

namespace kiln {
namespace {

using e2e::elements;
using e2e::floats;
using frontend::testing::graph_attribute;
using frontend::testing::ModelBuilder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kInt64 = onnx::TensorProto::INT64;

Tensor integers(const std::vector<std::int64_t>& values) { return Tensor::from_integers(values); }

// y = x w + b, each a default value but x.
ModelBuilder dense() {
  ModelBuilder model(18);
  model.input("w", {3, "k"}).input("x", {"n", 3}).input("b", {"k"});
  model.floats("w", {3, 2}, {1, 2, 3, 4, 5, 6}).floats("b", {2}, {10, 20});
  model.node("MatMul", {"x", "w"}, {"xw"});
  model.node("Add", {"xw", "b"}, {"y"});
  return model.output("y");
}

std::vector<float> dense_by_loops(const std::vector<float>& x, const std::vector<float>& w,
                                  const std::vector<float>& b) {
  std::vector<float> y;
  for (std::size_t n = 0; n < x.size() / 3; ++n) {
    for (std::size_t k = 0; k < b.size(); ++k) {
      float sum = b[k];
      for (std::size_t i = 0; i < 3; ++i) sum += x[3 * n + i] * w[i * b.size() + k];
      y.push_back(sum);
    }
  }
  return y;
}

std::string error_of(const Session& session, const std::vector<NamedTensor>& inputs) {
  try {
    (void)session.run(std::span<const NamedTensor>(inputs));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Caller);
    return error.what();
  }
  return "no error";
}

class Defaults : public ::testing::TestWithParam<KernelChoice> {
 protected:
  Session load(const ModelBuilder& model, Options options = {}) {
    options.kernels = GetParam();
    options.warn = [this](std::string_view line) { warnings_.emplace_back(line); };
    return e2e::load(model, std::move(options));
  }

  std::vector<std::string> warnings_;
};

TEST_P(Defaults, AreListedBesideTheInputs) {
  const Session session = load(dense());
  ASSERT_THAT(session.inputs(), SizeIs(1));
  EXPECT_EQ(session.inputs()[0].name, "x");
  ASSERT_THAT(session.defaults(), SizeIs(2));
  const ValueInfo& w = session.defaults()[0];
  EXPECT_EQ(w.name, "w");
  EXPECT_EQ(w.dtype, DType::F32);
  EXPECT_EQ(w.container, Container::Tensor);
  ASSERT_TRUE(w.shape && w.shape->size() == 2);
  EXPECT_EQ((*w.shape)[0].extent, 3);
  EXPECT_EQ((*w.shape)[1].extent, -1);
  EXPECT_EQ((*w.shape)[1].symbol, "k");
  EXPECT_EQ(session.defaults()[1].name, "b");
}

TEST_P(Defaults, AreReplacedByTheRunThatNamesThem) {
  const Session session = load(dense());
  const std::vector<float> x = {1, -1, 2, 0.5F, 3, -2}, w = {1, 2, 3, 4, 5, 6}, b = {10, 20};
  const std::vector<float> other_w = {7, 0, -1, 2, 3, 9}, other_b = {-5, 0.25F};
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(elements(session.run({{"x", floats({2, 3}, x)}})[0]),
                ElementsAreArray(dense_by_loops(x, w, b)));
    EXPECT_THAT(elements(session.run({{"w", floats({3, 2}, other_w)}, {"x", floats({2, 3}, x)}})[0]),
                ElementsAreArray(dense_by_loops(x, other_w, b)));
    EXPECT_THAT(elements(session.run({{"x", floats({2, 3}, x)}, {"b", floats({2}, other_b)}})[0]),
                ElementsAreArray(dense_by_loops(x, w, other_b)));
    EXPECT_THAT(elements(session.run({{"b", floats({2}, other_b)},
                                      {"x", floats({1, 3}, {x[0], x[1], x[2]})},
                                      {"w", floats({3, 2}, other_w)}})[0]),
                ElementsAreArray(dense_by_loops({x[0], x[1], x[2]}, other_w, other_b)));
    EXPECT_EQ(session.stats().fallback_nodes, 0);
  }
  // By position there are only the others.
  std::vector<Tensor> outputs = {Tensor(DType::F32, {2, 2})};
  session.run(std::vector<Tensor>{floats({2, 3}, x)}, outputs);
  EXPECT_THAT(elements(outputs[0]), ElementsAreArray(dense_by_loops(x, w, b)));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_P(Defaults, MayBeReplacedInOtherExtents) {
  const Session session = load(dense());
  const std::vector<float> x = {1, -1, 2}, w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, b = {1, 2, 3, 4};
  const auto given = session.run({{"x", floats({1, 3}, x)}, {"w", floats({3, 4}, w)}, {"b", floats({4}, b)}});
  EXPECT_EQ(given[0].extents(), (Extents{1, 4}));
  EXPECT_THAT(elements(given[0]), ElementsAreArray(dense_by_loops(x, w, b)));
  EXPECT_THAT(
      error_of(session, {{"x", floats({1, 3}, x)}, {"w", floats({3, 4}, w)}, {"b", floats({2}, {0, 0})}}),
      HasSubstr("dimension k is 4 by input w and 2 by input b"));
  EXPECT_THAT(warnings_, IsEmpty());
  // Against what is declared too: that counts as little as for any input.
  const auto stretched = session.run({{"x", floats({1, 3}, x)}, {"b", floats({2, 1}, {100, 200})}});
  EXPECT_EQ(stretched[0].extents(), (Extents{2, 2}));
  EXPECT_THAT(elements(stretched[0]), ElementsAre(108, 110, 208, 210));
  ASSERT_THAT(warnings_, SizeIs(1));
  EXPECT_THAT(warnings_[0], HasSubstr("input b is 2x1, the model declares [k]"));
}

// What a default decides while loading is decided anew: the rank and extents of a Reshape.
TEST_P(Defaults, OfShapesAreReplaced) {
  ModelBuilder model(18);
  model.input("x", {"n", 4}).input("shape", {"rank"}, kInt64);
  model.integers("shape", {2}, {2, -1}).integers("two", {1}, {2});
  model.node("Reshape", {"x", "shape"}, {"r"});
  model.node("Neg", {"r"}, {"y"});
  model.node("Mul", {"shape", "two"}, {"twice"});
  model.output("y").output("twice");
  const Session session = load(model);
  const Tensor x = floats({1, 4}, {1, 2, 3, 4});
  const auto expect = [&](const std::vector<std::int64_t>& shape, const Extents& extents) {
    const auto got = session.run({{"x", x}, {"shape", integers(shape)}});
    EXPECT_EQ(got[0].extents(), extents);
    EXPECT_THAT(elements(got[0]), ElementsAre(-1, -2, -3, -4));
    std::vector<std::int64_t> twice;
    for (const std::int64_t extent : shape) twice.push_back(2 * extent);
    EXPECT_THAT(got[1].to_integers(), ElementsAreArray(twice));
  };
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(session.run({{"x", x}})[0].extents(), (Extents{2, 2}));
    expect({4, 1}, {4, 1});
    expect({-1}, {4});
    expect({1, 2, 1, 2}, {1, 2, 1, 2});
    expect({2, -1}, {2, 2});
  }
  EXPECT_THAT(error_of(session, {{"x", x}, {"shape", integers({3})}}), HasSubstr("Reshape"));
}

TEST_P(Defaults, ReachIntoBodiesAndOutputs) {
  ModelBuilder model(18);
  model.input("c", {}, onnx::TensorProto::BOOL).input("w", {"k"}).floats("w", {2}, {3, 5});
  auto& branch = model.node("If", {"c"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    auto& body = graph_attribute(branch, name);
    ModelBuilder::add_node(*body.mutable_node(), name[0] == 't' ? "Neg" : "Exp", {"w"}, {"out"});
    body.add_output()->set_name("out");
  }
  model.output("y").output("w");
  const Session session = load(model);
  Tensor yes(DType::I1, {});
  yes.as_mutable<std::uint8_t>()[0] = 1;
  for (int round = 0; round < 2; ++round) {
    const auto standard = session.run({{"c", yes}});
    EXPECT_THAT(elements(standard[0]), ElementsAre(-3, -5));
    EXPECT_THAT(elements(standard[1]), ElementsAre(3, 5));
    const auto other = session.run({{"c", yes}, {"w", floats({3}, {1, 2, 4})}});
    EXPECT_THAT(elements(other[0]), ElementsAre(-1, -2, -4));
    EXPECT_THAT(elements(other[1]), ElementsAre(1, 2, 4));
  }
}

// A Session holds few sets of replaced defaults at once, and every one is right.
TEST_P(Defaults, EverySetIsRight) {
  constexpr int kCount = 20;
  ModelBuilder model(18);
  std::vector<std::string> names;
  for (int i = 0; i < kCount; ++i) {
    names.push_back("d" + std::to_string(i));
    model.input(names.back(), {1}).floats(names.back(), {1}, {static_cast<float>(i)});
  }
  model.node("Concat", names, {"y"}).add_attribute()->set_name("axis");
  model.model.mutable_graph()->mutable_node(0)->mutable_attribute(0)->set_type(onnx::AttributeProto::INT);
  model.output("y");
  const Session session = load(model);
  EXPECT_THAT(session.inputs(), IsEmpty());
  for (int i = 0; i < 2 * kCount; ++i) {
    std::vector<float> want;
    std::vector<NamedTensor> given;
    for (int k = 0; k < kCount; ++k) {
      const bool replaced = i % kCount == k || (i % 3 == 0 && k == 7);
      want.push_back(replaced ? 100.0F + static_cast<float>(i) : static_cast<float>(k));
      if (replaced) given.push_back({names[static_cast<std::size_t>(k)], floats({1}, {want.back()})});
    }
    EXPECT_THAT(elements(session.run(std::span<const NamedTensor>(given))[0]), ElementsAreArray(want));
  }
}

TEST_P(Defaults, WrongValuesAreRefused) {
  const Session session = load(dense());
  const Tensor x = floats({1, 3}, {1, 2, 3});
  EXPECT_THAT(error_of(session, {{"x", x}, {"v", x}}),
              AllOf(HasSubstr("no input v"), HasSubstr("inputs are: x"), HasSubstr("default value: w, b")));
  EXPECT_THAT(error_of(session, {{"b", floats({2}, {0, 0})}}), HasSubstr("input x is not given"));
  EXPECT_THAT(error_of(session, {{"x", x}, {"b", floats({2}, {0, 0})}, {"b", floats({2}, {0, 0})}}),
              HasSubstr("input b is given twice"));
  EXPECT_THAT(error_of(session, {{"x", x}, {"b", integers({0, 0})}}),
              AllOf(HasSubstr("input b"), HasSubstr("i64"), HasSubstr("expected f32")));
  EXPECT_THAT(error_of(session, {{"x", x}, {"b", Tensor()}}), HasSubstr("input b has no elements"));
  EXPECT_THAT(error_of(session, {{"x", x}, {"w", floats({4, 2}, std::vector<float>(8))}}),
              HasSubstr("input w is 4x2, the model declares [3, k]"));
  EXPECT_THAT(elements(session.run({{"x", x}})[0]), ElementsAre(32, 48));
}

TEST_P(Defaults, AreConstantsOnceAConstantIsGiven) {
  Options options;
  options.constant_inputs = {{"b", floats({2}, {1, 2})}};
  const Session session = load(dense(), std::move(options));
  ASSERT_THAT(session.defaults(), SizeIs(1));
  EXPECT_EQ(session.defaults()[0].name, "w");
  const Tensor x = floats({1, 3}, {1, 0, 0});
  EXPECT_THAT(elements(session.run({{"x", x}})[0]), ElementsAre(2, 4));
  EXPECT_THAT(elements(session.run({{"x", x}, {"w", floats({3, 2}, {5, 6, 0, 0, 0, 0})}})[0]),
              ElementsAre(6, 8));
  EXPECT_THAT(error_of(session, {{"x", x}, {"b", floats({2}, {0, 0})}}), HasSubstr("no input b"));
}

TEST_P(Defaults, RunsWithAndWithoutThemAtOnce) {
  const Session session = load(dense());
  const std::vector<float> w = {1, 2, 3, 4, 5, 6}, b = {10, 20};
  std::atomic<int> wrong = 0;
  const auto work = [&](int thread) {
    for (int i = 0; i < 40; ++i) {
      const auto rows = static_cast<std::int64_t>(1 + (thread + i) % 5);
      const auto first = static_cast<float>(thread - i);
      const std::vector<float> x(static_cast<std::size_t>(3 * rows), first);
      std::vector<float> used_w = w, used_b = b;
      std::vector<NamedTensor> given = {{"x", floats({rows, 3}, x)}};
      if ((thread + i) % 2 == 0) {
        used_w[1] = first;
        given.push_back({"w", floats({3, 2}, used_w)});
      }
      if (i % 3 == 0) {
        used_b[0] = first;
        given.push_back({"b", floats({2}, used_b)});
      }
      if (elements(session.run(std::span<const NamedTensor>(given))[0]) != dense_by_loops(x, used_w, used_b))
        ++wrong;
    }
  };
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 12; ++thread) threads.emplace_back(work, thread);
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Defaults,
                         ::testing::Values(KernelChoice::Generated, KernelChoice::Reference),
                         [](const auto& kernels) {
                           return kernels.param == KernelChoice::Generated ? "generated" : "reference";
                         });

// Models of before version 4 of the format list every weight as an input: the same kernels run, prepared
// weights included, as if none was listed.
TEST(OldFormat, ListedWeightsChangeNoPlan) {
  const auto model = [](bool listed) {
    ModelBuilder builder(8);
    builder.model.set_ir_version(3);
    builder.input("x", {"n", 3, 8, 8});
    builder.floats("k", {4, 3, 3, 3}, std::vector<float>(108, 0.25F)).floats("kb", {4}, {1, 2, 3, 4});
    builder.floats("w", {144, 5}, std::vector<float>(720, 0.125F)).integers("flat", {2}, {-1, 144});
    if (listed)
      builder.input("k", {4, 3, 3, 3}).input("kb", {4}).input("w", {144, 5}).input("flat", {2}, kInt64);
    builder.node("Conv", {"x", "k", "kb"}, {"c"});
    builder.node("Relu", {"c"}, {"r"});
    builder.node("Reshape", {"r", "flat"}, {"f"});
    builder.node("MatMul", {"f", "w"}, {"y"});
    builder.output("y");
    return builder;
  };
  const Session listed = e2e::load(model(true)), plain = e2e::load(model(false));
  const Tensor x = floats({2, 3, 8, 8}, std::vector<float>(384, 0.5F));
  const std::vector<std::vector<std::int64_t>> extents = {{2, 3, 8, 8}};
  EXPECT_EQ(listed.run({{"x", x}})[0], plain.run({{"x", x}})[0]);
  EXPECT_EQ(listed.stats().fallback_nodes, 0);
  EXPECT_EQ(listed.stats().planned_bytes, plain.stats().planned_bytes);
  EXPECT_EQ(listed.explain("plan", "", extents), plain.explain("plan", "", extents));
}

}  // namespace
}  // namespace kiln
