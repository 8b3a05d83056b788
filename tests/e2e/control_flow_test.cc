// Models with graphs in nodes, sequences and optionals, through a Session on generated and on reference
// kernels, against plain loops.
#include <functional>
#include <numeric>

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
using frontend::testing::DimSpec;
using frontend::testing::graph_attribute;
using frontend::testing::ModelBuilder;
using frontend::testing::set;
using frontend::testing::set_integers;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr int kFloat = onnx::TensorProto::FLOAT, kInt64 = onnx::TensorProto::INT64,
              kBool = onnx::TensorProto::BOOL;

void add_input(onnx::GraphProto& graph, const std::string& name, int type, const std::vector<DimSpec>& dims) {
  ModelBuilder::set_type(*graph.add_input(), name, dims, type);
}

onnx::NodeProto& add_node(onnx::GraphProto& graph, const std::string& op,
                          const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  return ModelBuilder::add_node(*graph.mutable_node(), op, inputs, outputs);
}

void add_outputs(onnx::GraphProto& graph, const std::vector<std::string>& names) {
  for (const std::string& name : names) graph.add_output()->set_name(name);
}

// Calls check(session) for both kinds of kernels.
void with_sessions(const ModelBuilder& model, const std::function<void(const Session&)>& check) {
  for (const KernelChoice kernels : {KernelChoice::Generated, KernelChoice::Reference}) {
    SCOPED_TRACE(kernels == KernelChoice::Generated ? "generated" : "reference");
    check(load(model, {.kernels = kernels, .threads = 2}));
  }
}

// The same while dims are hidden, and while ranks are.
void with_hidden_shapes(const ModelBuilder& model, const std::function<void(const Session&)>& check) {
  with_sessions(model, check);
  for (const KernelChoice kernels : {KernelChoice::Generated, KernelChoice::Reference}) {
    for (const bool ranks : {false, true}) {
      SCOPED_TRACE(::testing::Message()
                   << "kernels " << static_cast<int>(kernels) << ", hidden " << (ranks ? "ranks" : "dims"));
      Options options;
      options.kernels = kernels;
      options.threads = 2;
      options.ignore_declared_dims = true;
      options.ignore_declared_ranks = ranks;
      check(load(model, options));
    }
  }
}

std::vector<float> ramp(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), -2.0F);
  return values;
}

Tensor condition(bool value) {
  Tensor tensor(DType::I1, {});
  tensor.as_mutable<std::uint8_t>()[0] = value ? 1 : 0;
  return tensor;
}

// s = s * w + x (w captured, x of the model), with every state as a scanned output; M decides.
ModelBuilder recurrence() {
  ModelBuilder model(17);
  model.input("m", {}, kInt64).input("s", {"n", 3}).input("x", {"n", 3});
  model.floats("w", {3}, {0.5F, 1, 2});
  auto& body = graph_attribute(model.node("Loop", {"m", "", "s"}, {"last", "all"}), "body");
  add_input(body, "i", kInt64, {});
  add_input(body, "go", kBool, {});
  add_input(body, "state", kFloat, {"n", 3});
  add_node(body, "Mul", {"state", "w"}, {"scaled"});
  add_node(body, "Add", {"scaled", "x"}, {"next"});
  add_node(body, "Identity", {"next"}, {"shown"});
  add_outputs(body, {"go", "next", "shown"});
  model.output("last").output("all");
  return model;
}

TEST(Loop, CarriesAndGathers) {
  with_sessions(recurrence(), [](const Session& session) {
    for (const std::int64_t times : {0, 1, 4}) {
      for (const std::int64_t n : {1, 5}) {
        const std::size_t count = static_cast<std::size_t>(3 * n);
        std::vector<float> state = ramp(count);
        const std::vector<float> x(count, 0.25F);
        const auto got = session.run(
            {{"m", Tensor::from_integer(times)}, {"s", floats({n, 3}, state)}, {"x", floats({n, 3}, x)}});
        std::vector<float> all;
        for (std::int64_t i = 0; i < times; ++i) {
          for (std::size_t k = 0; k < count; ++k)
            state[k] = state[k] * (k % 3 == 0 ? 0.5F : k % 3 == 1 ? 1 : 2) + x[k];
          all.insert(all.end(), state.begin(), state.end());
        }
        EXPECT_THAT(elements(got[0]), ElementsAreArray(state));
        EXPECT_THAT(elements(got[1]), ElementsAreArray(all));
        EXPECT_EQ(got[0].extents(), (Extents{n, 3}));
        EXPECT_EQ(got[1].extents(), (Extents{times, n, 3}));
      }
    }
  });
}

// What no iteration gives has the extents that one would have given, where these follow from what goes in.
TEST(Loop, NoIterationGivesTheExtentsOfOne) {
  ModelBuilder model(17);
  model.input("m", {}, kInt64).input("s", {"n", 3}).input("x", {2, 3}).integers("zero", {}, {0});
  model.integers("one", {}, {1});
  auto& node = model.node("Loop", {"m", "", "s"}, {"last", "states", "joined", "turned", "counted"});
  auto& body = graph_attribute(node, "body");
  add_input(body, "i", kInt64, {});
  add_input(body, "go", kBool, {});
  add_input(body, "state", kFloat, {});
  body.mutable_input(2)->mutable_type()->mutable_tensor_type()->clear_shape();
  add_node(body, "Neg", {"state"}, {"next"});
  set(add_node(body, "Concat", {"state", "x"}, {"both"}), "axis", std::int64_t{0});
  set_integers(add_node(body, "Transpose", {"both"}, {"turn"}), "perm", {1, 0});
  add_node(body, "Range", {"zero", "i", "one"}, {"count"});
  add_node(body, "Identity", {"next"}, {"shown"});
  add_outputs(body, {"go", "next", "shown", "both", "turn", "count"});
  for (const char* output : {"last", "states", "joined", "turned", "counted"}) model.output(output);
  with_hidden_shapes(model, [](const Session& session) {
    for (const std::int64_t n : {0, 1, 4}) {
      const auto got = session.run({{"m", Tensor::from_integer(0)},
                                    {"s", Tensor(DType::F32, {n, 3})},
                                    {"x", Tensor(DType::F32, {2, 3})}});
      EXPECT_EQ(got[0].extents(), (Extents{n, 3}));
      EXPECT_EQ(got[1].extents(), (Extents{0, n, 3}));
      EXPECT_EQ(got[2].extents(), (Extents{0, n + 2, 3}));
      EXPECT_EQ(got[3].extents(), (Extents{0, 3, n + 2}));
      EXPECT_EQ(got[4].extents(), (Extents{0, 0}));  // only running would tell
    }
  });
}

TEST(Loop, ControlIsNoFallbackAndItsBodyIsCompiled) {
  const Session session = load(recurrence(), {.threads = 2});
  session.run(
      {{"m", Tensor::from_integer(2)}, {"s", floats({1, 3}, {1, 2, 3})}, {"x", floats({1, 3}, {1, 2, 3})}});
  EXPECT_EQ(session.stats().fallback_nodes, 0);
  EXPECT_GT(session.stats().kernels_compiled, 0);
}

// The state grows by one element an iteration, until its sum is large.
TEST(Loop, StatesMayGrow) {
  ModelBuilder model(17);
  model.input("s", {1}).floats("one", {1}, {1}).floats("limit", {}, {10}).integers("axis", {1}, {0});
  auto& body = graph_attribute(model.node("Loop", {"", "", "s"}, {"grown"}), "body");
  add_input(body, "i", kInt64, {});
  add_input(body, "go", kBool, {});
  add_input(body, "state", kFloat, {});
  set(add_node(body, "Concat", {"state", "one"}, {"next"}), "axis", std::int64_t{0});
  set(add_node(body, "ReduceSum", {"next", "axis"}, {"sum"}), "keepdims", std::int64_t{0});
  add_node(body, "Less", {"sum", "limit"}, {"more"});
  add_outputs(body, {"more", "next"});
  model.output("grown");
  with_sessions(model, [](const Session& session) {
    EXPECT_THAT(elements(session.run({{"s", floats({1}, {5})}})[0]), ElementsAre(5, 1, 1, 1, 1, 1));
    EXPECT_THAT(elements(session.run({{"s", floats({1}, {50})}})[0]), ElementsAre(50, 1));
  });
}

// A branch inside a loop uses a value of the model, and a name of the loop's body hides one outside.
TEST(Loop, NestedGraphsSeeAllNamesAround) {
  ModelBuilder model(17);
  model.input("x", {"n"}).integers("three", {}, {3}).integers("two", {}, {2});
  // The node that captures "y" comes before the one that makes it.
  auto& body = graph_attribute(model.node("Loop", {"three", "", "x"}, {"z"}), "body");
  add_input(body, "i", kInt64, {});
  add_input(body, "go", kBool, {});
  add_input(body, "state", kFloat, {"n"});
  add_node(body, "Less", {"i", "two"}, {"early"});
  auto& branch = add_node(body, "If", {"early"}, {"next"});
  auto& then = graph_attribute(branch, "then_branch");
  add_node(then, "Add", {"state", "y"}, {"sum"});
  add_outputs(then, {"sum"});
  auto& otherwise = graph_attribute(branch, "else_branch");
  add_node(otherwise, "Neg", {"state"}, {"sum"});
  add_outputs(otherwise, {"sum"});
  add_outputs(body, {"go", "next"});
  model.node("Mul", {"x", "x"}, {"y"});
  model.output("z");
  with_sessions(model, [](const Session& session) {
    EXPECT_THAT(elements(session.run({{"x", floats({3}, {1, 2, -3})}})[0]), ElementsAre(-3, -10, -15));
    EXPECT_THAT(elements(session.run({{"x", floats({1}, {2})}})[0]), ElementsAre(-10));
  });
}

TEST(If, RunsTheBranchThatTheConditionTells) {
  ModelBuilder model(17);
  model.input("c", {}, kBool).input("x", {"n", 2});
  auto& node = model.node("If", {"c"}, {"y"});
  auto& then = graph_attribute(node, "then_branch");
  add_node(then, "Exp", {"x"}, {"e"});
  add_outputs(then, {"e"});
  auto& otherwise = graph_attribute(node, "else_branch");
  auto& value = *set(add_node(otherwise, "Constant", {}, {"k"}), "value").mutable_t();
  otherwise.mutable_node(0)->mutable_attribute(0)->set_type(onnx::AttributeProto::TENSOR);
  value.set_data_type(kFloat);
  value.add_dims(3);
  for (const float element : {1.0F, 2.0F, 3.0F}) value.add_float_data(element);
  add_outputs(otherwise, {"k"});
  model.output("y");
  with_sessions(model, [](const Session& session) {
    const Tensor x = floats({2, 2}, {0, 0, 0, 0});
    const auto yes = session.run({{"c", condition(true)}, {"x", x}});
    EXPECT_EQ(yes[0].extents(), (Extents{2, 2}));
    EXPECT_THAT(elements(yes[0]), ElementsAre(1, 1, 1, 1));
    const auto no = session.run({{"c", condition(false)}, {"x", x}});
    EXPECT_EQ(no[0].extents(), (Extents{3}));
    EXPECT_THAT(elements(no[0]), ElementsAre(1, 2, 3));
  });
}

// The rank that a branch gives is a size that shape arithmetic follows; its maker must stay.
TEST(If, RanksOfBranchesMayBeCompared) {
  ModelBuilder model(17);
  model.input("c", {}, kBool).input("x", {"n", 2}).integers("two", {}, {2});
  auto& node = model.node("If", {"c"}, {"y"});
  auto& then = graph_attribute(node, "then_branch");
  add_node(then, "Exp", {"x"}, {"e"});
  add_outputs(then, {"e"});
  auto& otherwise = graph_attribute(node, "else_branch");
  set(add_node(otherwise, "ReduceSum", {"x"}, {"s"}), "keepdims", std::int64_t{0});
  add_outputs(otherwise, {"s"});
  model.node("Shape", {"y"}, {"shape"});
  model.node("Size", {"shape"}, {"rank"});
  model.node("Equal", {"rank", "two"}, {"equal"});
  model.node("Not", {"equal"}, {"differs"});
  model.output("differs").output("y");
  with_sessions(model, [](const Session& session) {
    const Tensor x = floats({1, 2}, {0, 0});
    EXPECT_EQ(session.run({{"c", condition(true)}, {"x", x}})[0].as<std::uint8_t>()[0], 0);
    EXPECT_EQ(session.run({{"c", condition(false)}, {"x", x}})[0].as<std::uint8_t>()[0], 1);
  });
}

// Backwards over axis 1, with the outputs along axis 1 forwards: a suffix sum of each row.
TEST(Scan, WalksAnyAxisInAnyDirection) {
  ModelBuilder model(17);
  model.input("start", {"n"}).input("x", {"n", "t"});
  auto& node = model.node("Scan", {"start", "x"}, {"total", "sums"});
  set(node, "num_scan_inputs", std::int64_t{1});
  set_integers(node, "scan_input_axes", {-1});
  set_integers(node, "scan_input_directions", {1});
  set_integers(node, "scan_output_axes", {1});
  set_integers(node, "scan_output_directions", {1});
  auto& body = graph_attribute(node, "body");
  add_input(body, "sum", kFloat, {"n"});
  add_input(body, "column", kFloat, {"n"});
  add_node(body, "Add", {"sum", "column"}, {"next"});
  add_node(body, "Identity", {"next"}, {"shown"});
  add_outputs(body, {"next", "shown"});
  model.output("total").output("sums");
  with_sessions(model, [](const Session& session) {
    const auto got =
        session.run({{"start", floats({2}, {0, 100})}, {"x", floats({2, 3}, {1, 2, 3, 4, 5, 6})}});
    EXPECT_THAT(elements(got[0]), ElementsAre(6, 115));
    EXPECT_EQ(got[1].extents(), (Extents{2, 3}));
    EXPECT_THAT(elements(got[1]), ElementsAre(6, 5, 3, 115, 111, 106));
    const auto none = session.run({{"start", floats({1}, {7})}, {"x", Tensor(DType::F32, {1, 0})}});
    EXPECT_THAT(elements(none[0]), ElementsAre(7));
    EXPECT_EQ(none[1].extents(), (Extents{1, 0}));
  });
}

TEST(Scan, HadABatchAndLengthsInOpset8) {
  ModelBuilder model(8);
  model.input("lengths", {"b"}, kInt64).input("start", {"b", 1}).input("x", {"b", "t", 1});
  auto& node = model.node("Scan", {"lengths", "start", "x"}, {"total", "sums"});
  set(node, "num_scan_inputs", std::int64_t{1});
  auto& body = graph_attribute(node, "body");
  add_input(body, "sum", kFloat, {1});
  add_input(body, "item", kFloat, {1});
  add_node(body, "Add", {"sum", "item"}, {"next"});
  add_node(body, "Identity", {"next"}, {"shown"});
  add_outputs(body, {"next", "shown"});
  model.output("total").output("sums");
  with_sessions(model, [](const Session& session) {
    const std::int64_t lengths[] = {3, 1};
    const auto got = session.run({{"lengths", Tensor::from_integers(lengths)},
                                  {"start", floats({2, 1}, {0, 10})},
                                  {"x", floats({2, 3, 1}, {1, 2, 3, 4, 5, 6})}});
    EXPECT_THAT(elements(got[0]), ElementsAre(6, 14));
    EXPECT_EQ(got[1].extents(), (Extents{2, 3, 1}));
    EXPECT_THAT(elements(got[1]), ElementsAre(1, 3, 6, 14, 0, 0));
  });
}

TEST(Scan, NoIterationGivesTheExtentsOfOne) {
  ModelBuilder model(17);
  model.input("start", {"n"}).input("x", {"n", 2, "t"});
  auto& node = model.node("Scan", {"start", "x"}, {"last", "pairs", "states"});
  set(node, "num_scan_inputs", std::int64_t{1});
  set_integers(node, "scan_input_axes", {2});
  set_integers(node, "scan_output_axes", {1, 0});
  auto& body = graph_attribute(node, "body");
  add_input(body, "state", kFloat, {});
  add_input(body, "item", kFloat, {});
  for (int i = 0; i < 2; ++i) body.mutable_input(i)->mutable_type()->mutable_tensor_type()->clear_shape();
  add_node(body, "Neg", {"state"}, {"next"});
  set(add_node(body, "Concat", {"item", "item"}, {"pair"}), "axis", std::int64_t{0});
  add_node(body, "Identity", {"state"}, {"shown"});
  add_outputs(body, {"next", "pair", "shown"});
  for (const char* output : {"last", "pairs", "states"}) model.output(output);
  with_hidden_shapes(model, [](const Session& session) {
    for (const std::int64_t n : {0, 1, 4}) {
      for (const std::int64_t t : {0, 3}) {
        const auto got =
            session.run({{"start", Tensor(DType::F32, {n})}, {"x", Tensor(DType::F32, {n, 2, t})}});
        EXPECT_EQ(got[0].extents(), (Extents{n}));
        EXPECT_EQ(got[1].extents(), (Extents{2 * n, t, 2}));
        EXPECT_EQ(got[2].extents(), (Extents{t, n}));
      }
    }
  });
}

TEST(Scan, AnEmptyBatchHasTheExtentsOfOneSequence) {
  ModelBuilder model(8);
  model.input("start", {"b", 3}).input("x", {"b", "t", 3});
  auto& node = model.node("Scan", {"", "start", "x"}, {"total", "sums"});
  set(node, "num_scan_inputs", std::int64_t{1});
  auto& body = graph_attribute(node, "body");
  add_input(body, "sum", kFloat, {3});
  add_input(body, "item", kFloat, {3});
  add_node(body, "Add", {"sum", "item"}, {"next"});
  add_node(body, "Identity", {"next"}, {"shown"});
  add_outputs(body, {"next", "shown"});
  model.output("total").output("sums");
  with_hidden_shapes(model, [](const Session& session) {
    for (const auto& [batch, length] : {std::pair(0, 4), std::pair(2, 0), std::pair(0, 0), std::pair(2, 4)}) {
      const auto got = session.run(
          {{"start", Tensor(DType::F32, {batch, 3})}, {"x", Tensor(DType::F32, {batch, length, 3})}});
      EXPECT_EQ(got[0].extents(), (Extents{batch, 3}));
      EXPECT_EQ(got[1].extents(), (Extents{batch, length, 3}));
    }
  });
}

// A sequence built in a loop outlives the memory of the iterations.
TEST(Sequence, KeepsWhatALoopPutsIn) {
  ModelBuilder model(17);
  model.input("x", {"n"}).integers("times", {}, {4});
  model.node("SequenceEmpty", {}, {"empty"});
  auto& body = graph_attribute(model.node("Loop", {"times", "", "empty", "x"}, {"filled", "end"}), "body");
  add_input(body, "i", kInt64, {});
  add_input(body, "go", kBool, {});
  body.add_input()->set_name("items");
  add_input(body, "state", kFloat, {"n"});
  add_node(body, "Add", {"state", "state"}, {"next"});
  add_node(body, "SequenceInsert", {"items", "next"}, {"more"});
  add_outputs(body, {"go", "more", "next"});
  set(model.node("ConcatFromSequence", {"filled"}, {"y"}), "axis", std::int64_t{0});
  model.output("y").output("filled");
  with_sessions(model, [](const Session& session) {
    EXPECT_EQ(session.outputs()[1].container, Container::Sequence);
    const std::vector<NamedDatum> inputs = {{"x", floats({2}, {1, -1})}};
    const std::vector<Datum> got = session.run(std::span<const NamedDatum>(inputs));
    EXPECT_THAT(elements(got[0].tensor()), ElementsAre(2, -2, 4, -4, 8, -8, 16, -16));
    ASSERT_EQ(got[1].sequence().items.size(), 4U);
    EXPECT_THAT(elements(got[1].sequence().items[2].tensor()), ElementsAre(8, -8));
    // A caller that expects tensors is told.
    try {
      session.run({{"x", floats({1}, {1})}});
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::TypeMismatch);
    }
  });
}

TEST(Sequence, PositionsAreChecked) {
  ModelBuilder model(17);
  model.input("x", {2}).input("at", {}, kInt64);
  model.node("SequenceConstruct", {"x", "x", "x"}, {"s"});
  model.node("SequenceAt", {"s", "at"}, {"y"});
  model.output("y");
  with_sessions(model, [](const Session& session) {
    for (const std::int64_t good : {-3, 0, 2}) {
      EXPECT_THAT(elements(session.run({{"x", floats({2}, {1, 2})}, {"at", Tensor::from_integer(good)}})[0]),
                  ElementsAre(1, 2));
    }
    for (const std::int64_t bad : {-4, 3}) {
      try {
        session.run({{"x", floats({2}, {1, 2})}, {"at", Tensor::from_integer(bad)}});
        FAIL() << bad;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::IndexOutOfRange);
        EXPECT_THAT(error.what(), HasSubstr("sequence of 3"));
      }
    }
  });
}

}  // namespace
}  // namespace kiln
