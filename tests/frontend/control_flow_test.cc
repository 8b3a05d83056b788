// How graphs in nodes become Graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/frontend/model_builder.h"

namespace kiln::frontend {
namespace {

using graph::Graph;
using graph::OpKind;
using testing::first;
using testing::graph_attribute;
using ::testing::HasSubstr;
using testing::ModelBuilder;
using testing::operators_of;
using testing::set;
using testing::shape_of;

constexpr int kFloat = onnx::TensorProto::FLOAT, kInt64 = onnx::TensorProto::INT64,
              kBool = onnx::TensorProto::BOOL;

const Graph& body_of(const graph::Node& node, const char* name) {
  return *std::get<std::shared_ptr<Graph>>(node.attributes.find(name)->second);
}

// A Loop whose body gives `op`(state, other) as the next state; other is "w", a constant, or "x", an input.
ModelBuilder loop(const char* op, const char* other) {
  ModelBuilder model(17);
  model.input("m", {}, kInt64).input("s", {"n", 4}).input("x", {"n", 4}).floats("w", {4}, {1, 2, 3, 4});
  auto& body = graph_attribute(model.node("Loop", {"m", "", "s"}, {"y"}), "body");
  ModelBuilder::set_type(*body.add_input(), "i", {}, kInt64);
  ModelBuilder::set_type(*body.add_input(), "go", {}, kBool);
  ModelBuilder::set_type(*body.add_input(), "state", {}, kFloat);  // declared wrong: it has rank 2
  auto& node = ModelBuilder::add_node(*body.mutable_node(), op, {"state", other}, {"next"});
  if (std::string(op) == "Concat") set(node, "axis", std::int64_t{1});
  body.add_output()->set_name("go");
  body.add_output()->set_name("next");
  model.output("y");
  return model;
}

TEST(ControlFlow, ConstantsAroundAreConstantsWithin) {
  const Graph graph = loop("Add", "w").load();
  const graph::Node& node = first(graph, OpKind::Loop);
  EXPECT_EQ(node.inputs.size(), 3U);
  const Graph& body = body_of(node, "body");
  EXPECT_EQ(body.captures, 0U);
  EXPECT_TRUE(body.value(first(body, OpKind::Add).inputs[1]).constant.has_value());
}

TEST(ControlFlow, OtherValuesAroundBecomeInputs) {
  const Graph graph = loop("Add", "x").load();
  const graph::Node& node = first(graph, OpKind::Loop);
  ASSERT_EQ(node.inputs.size(), 4U);
  EXPECT_EQ(graph.value(node.inputs[3]).name, "x");
  const Graph& body = body_of(node, "body");
  EXPECT_EQ(body.captures, 1U);
  EXPECT_EQ(body.inputs.size(), 4U);
  EXPECT_EQ(graph.value(graph.outputs[0]).shape->at(1), graph::Dim(4));
}

TEST(ControlFlow, ExtentsThatStayAreKnownOutside) {
  EXPECT_EQ(shape_of(loop("Add", "w").load(), loop("Add", "w").load().outputs[0]), "n x 4");
}

TEST(ControlFlow, ExtentsThatChangeAreOpen) {
  const Graph graph = loop("Concat", "x").load();
  const auto& shape = graph.value(graph.outputs[0]).shape;
  ASSERT_TRUE(shape.has_value());
  ASSERT_EQ(shape->size(), 2U);
  EXPECT_FALSE((*shape)[1].is_constant());
}

TEST(ControlFlow, BranchesOfAKnownConditionAreInlined) {
  for (const bool value : {false, true}) {
    ModelBuilder model(17);
    model.input("x", {"n", 4});
    auto& shape = model.node("Shape", {"x"}, {"shape"});
    set(shape, "start", std::int64_t{1});
    model.integers("four", {1}, {value ? 4 : 5});
    model.node("Equal", {"shape", "four"}, {"is_four"});
    auto& node = model.node("If", {"is_four"}, {"y"});
    for (const auto& [name, op] : {std::pair("then_branch", "Exp"), std::pair("else_branch", "Log")}) {
      auto& branch = graph_attribute(node, name);
      ModelBuilder::add_node(*branch.mutable_node(), op, {"x"}, {"z"});
      branch.add_output()->set_name("z");
    }
    model.output("y");
    const Graph graph = model.load();
    EXPECT_THAT(operators_of(graph), HasSubstr(value ? "Exp" : "Log"));
    EXPECT_THAT(operators_of(graph), ::testing::Not(HasSubstr("If")));
    EXPECT_EQ(graph.value(graph.outputs[0]).name, "y");
  }
}

TEST(ControlFlow, WrongBodiesAreRefused) {
  const auto failure = [](const ModelBuilder& model) -> std::string {
    try {
      model.load();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Caller) << error.what();
      return error.what();
    }
    return "loaded";
  };
  ModelBuilder few = loop("Add", "w");
  few.model.mutable_graph()
      ->mutable_node(0)
      ->mutable_attribute(0)
      ->mutable_g()
      ->mutable_input()
      ->RemoveLast();
  EXPECT_THAT(failure(few), HasSubstr("2 inputs, the node gives it 3"));
  ModelBuilder none = loop("Add", "w");
  none.model.mutable_graph()->mutable_node(0)->clear_attribute();
  EXPECT_THAT(failure(none), HasSubstr("'body'"));
  ModelBuilder unknown = loop("Add", "nobody");
  EXPECT_THAT(failure(unknown), HasSubstr("'nobody'"));
  ModelBuilder type = loop("Equal", "w");
  EXPECT_THAT(failure(type), HasSubstr("carried"));
  // Graphs within graphs, deeper than any model.
  ModelBuilder deep(17);
  deep.input("c", {}, kBool).input("x", {2});
  auto* nodes = deep.model.mutable_graph()->mutable_node();
  for (int depth = 0; depth < 40; ++depth) {
    auto& node = ModelBuilder::add_node(*nodes, "If", {"c"}, {"y" + std::to_string(depth)});
    auto& otherwise = graph_attribute(node, "else_branch");
    otherwise.add_output()->set_name("x");
    auto& then = graph_attribute(node, "then_branch");
    then.add_output()->set_name(depth == 39 ? "x" : "y" + std::to_string(depth + 1));
    nodes = then.mutable_node();
  }
  deep.output("y0");
  EXPECT_EQ(failure(deep), "loaded");
  LoadOptions options;
  options.limits.nesting = 8;
  EXPECT_THROW(deep.load(options), Error);
}

}  // namespace
}  // namespace kiln::frontend
