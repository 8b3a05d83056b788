#include "ir/graph/contract.h"

#include <algorithm>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <kiln/error.h>

#include "tests/ir/graph/graph_builder.h"

namespace kiln::graph {
namespace {

TEST(Contract, RowsAreConsistent) {
  std::set<std::string_view> names;
  for (const OpContract& op : contracts()) {
    EXPECT_EQ(&contract(op.kind), &op);
    EXPECT_TRUE(names.insert(op.name).second) << op.name;
    EXPECT_EQ(op_from_name(op.name), op.kind);
    EXPECT_EQ(op.domain, "ai.onnx");
    EXPECT_FALSE(op.outputs.empty()) << op.name;
    for (const auto& operands : {op.inputs, op.outputs}) {
      for (std::size_t i = 0; i < operands.size(); ++i) {
        EXPECT_FALSE(operands[i].name.empty()) << op.name;
        const bool typed = std::any_of(op.types.begin(), op.types.end(), [&](const TypeConstraint& type) {
          return type.letter == operands[i].types;
        });
        EXPECT_TRUE(typed) << op.name << " " << operands[i].name;
        EXPECT_TRUE(!operands[i].variadic || i + 1 == operands.size()) << op.name;
      }
    }
    for (const auto& [input, output] : op.in_place) {
      EXPECT_LT(static_cast<std::size_t>(input), op.inputs.size()) << op.name;
      EXPECT_LT(static_cast<std::size_t>(output), op.outputs.size()) << op.name;
    }
  }
}

TEST(Contract, ReadsTheSignature) {
  const OpContract& clip = contract(OpKind::Clip);
  ASSERT_EQ(clip.inputs.size(), 3U);
  EXPECT_EQ(clip.inputs[0].name, "X");
  EXPECT_FALSE(clip.inputs[0].optional);
  EXPECT_TRUE(clip.inputs[2].optional);
  EXPECT_EQ(clip.types[0].allowed.size(), 12U);

  const OpContract& concat = contract(OpKind::Concat);
  EXPECT_TRUE(concat.inputs[0].variadic);
  EXPECT_TRUE(concat.attributes[0].required);

  const OpContract& scatter = contract(OpKind::ScatterND);
  ASSERT_EQ(scatter.in_place.size(), 1U);
  EXPECT_EQ(scatter.in_place[0], std::pair(0, 0));
  EXPECT_TRUE(contract(OpKind::Transpose).in_place.empty());
  EXPECT_EQ(contract(OpKind::Add).in_place.size(), 2U);
}

TEST(AddNode, FillsInDefaults) {
  Graph graph;
  const ValueId x = add_input(graph, DType::F32, Shape{2, 3});
  const ValueId y = graph.add(OpKind::LeakyRelu, {x});
  const Node& node = graph.node(graph.value(y).producer);
  EXPECT_EQ(number(node, "alpha"), static_cast<double>(0.01F));
  const ValueId softmax = graph.add(OpKind::Softmax, {y});
  EXPECT_EQ(integer(graph.node(graph.value(softmax).producer), "axis"), 1);
  const ValueId norm = graph.add(OpKind::MeanVarianceNormalization, {x});
  const std::span<const std::int64_t> axes = integers(graph.node(graph.value(norm).producer), "axes");
  EXPECT_EQ(std::vector<std::int64_t>(axes.begin(), axes.end()), (std::vector<std::int64_t>{0, 2, 3}));
}

TEST(AddNode, ListsEveryOperand) {
  Graph graph;
  const ValueId x = add_input(graph, DType::F32, Shape{2, 3});
  const Node& clip = graph.node(graph.value(graph.add(OpKind::Clip, {x})).producer);
  ASSERT_EQ(clip.inputs.size(), 3U);
  EXPECT_FALSE(clip.inputs[2]);
  const std::vector<std::string> wanted = {"y", "", "deviation"};
  const ValueId scale = add_input(graph, DType::F32, Shape{3});
  const Node& norm = graph.node(graph.add_node(OpKind::LayerNormalization, {x, scale}, {}, "norm", wanted));
  ASSERT_EQ(norm.outputs.size(), 3U);
  EXPECT_FALSE(norm.outputs[1]);
  EXPECT_EQ(graph.value(norm.outputs[2]).name, "deviation");
  EXPECT_EQ(*graph.value(norm.outputs[2]).shape, (Shape{2, 1}));
}

TEST(AddNode, RefusesWhatTheContractForbids) {
  Graph graph;
  const ValueId x = add_input(graph, DType::F32, Shape{2, 3}), i = add_input(graph, DType::I64, Shape{2, 3});
  const std::vector<std::string> one = {"y"}, two = {"y", "z"};
  const auto expect = [&](const std::function<void()>& action, std::string_view part) {
    const std::size_t values = graph.value_count(), nodes = graph.node_count();
    const std::string message = error_of(action);
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(graph.value_count(), values);
    EXPECT_EQ(graph.node_count(), nodes);
  };
  expect([&] { graph.add_node(OpKind::Relu, {x}, {{"alpha", 1.0}}, "n1", one); },
         "unknown attribute \"alpha\"");
  expect([&] { graph.add_node(OpKind::Relu, {x}, {{"alpha", 1.0}}, "n1", one); }, "[node=n1, op=Relu]");
  expect([&] { graph.add_node(OpKind::LeakyRelu, {x}, {{"alpha", std::int64_t{1}}}, "n", one); },
         "attribute \"alpha\" is an integer, expected a float");
  expect([&] { graph.add_node(OpKind::Concat, {x}, {}, "n", one); }, "attribute \"axis\" is missing");
  expect([&] { graph.add_node(OpKind::Relu, {x, x}, {}, "n", one); }, "got 2 inputs, expected at most 1");
  expect([&] { graph.add_node(OpKind::Relu, {}, {}, "n", one); }, "input 0 (\"X\") is missing");
  expect([&] { graph.add_node(OpKind::Relu, {x}, {}, "n", two); }, "got 2 outputs, expected at most 1");
  expect([&] { graph.add_node(OpKind::Sqrt, {i}, {}, "n", one); },
         "has type i64, expected one of f16, bf16, f32, f64");
  expect([&] { graph.add_node(OpKind::Add, {x, i}, {}, "n", one); }, "has type i64, expected f32");
  expect([&] { graph.add_node(OpKind::Softmax, {x}, {{"axis", std::int64_t{2}}}, "n", one); },
         "axis is 2, expected a number from -2 to 1");
  expect([&] { graph.add_node(OpKind::Cast, {x}, {{"to", std::int64_t{99}}}, "n", one); },
         "not the number of a type");
}

}  // namespace
}  // namespace kiln::graph
