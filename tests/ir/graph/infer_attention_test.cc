#include <gtest/gtest.h>

#include "tests/ir/graph/graph_builder.h"

namespace kiln::graph {
namespace {

// The shapes of the first `count` outputs of a node, separated by spaces.
std::string shapes(Graph& graph, OpKind op, std::vector<ValueId> inputs, Attributes attributes,
                   std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back("y" + std::to_string(i));
  const NodeId node = graph.add_node(op, std::move(inputs), std::move(attributes), "node", names);
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) text += ' ';
    text += shape_text(graph, graph.node(node).outputs[i]);
  }
  return text;
}

class InferAttention : public ::testing::Test {
 protected:
  Graph graph;
  const Dim b = symbol(graph, "b"), s = symbol(graph, "s"), t = symbol(graph, "t"), p = symbol(graph, "p");
  ValueId input(std::optional<Shape> shape, DType dtype = DType::F32) {
    return add_input(graph, dtype, std::move(shape));
  }
};

TEST_F(InferAttention, HeadsApart) {
  const ValueId q = input(Shape{b, 4, s, 8}), k = input(Shape{b, 2, t, 8}), v = input(Shape{b, 2, t, 6});
  EXPECT_EQ(shapes(graph, OpKind::Attention, {q, k, v}, {}, 4),
            "[b, 4, s, 6] [b, 2, t, 8] [b, 2, t, 6] [b, 4, s, t]");
  EXPECT_EQ(shapes(graph, OpKind::Attention,
                   {q, k, v, {}, input(Shape{b, 2, p, 8}), input(Shape{b, 2, p, 6})}, {}, 4),
            "[b, 4, s, 6] [b, 2, t + p, 8] [b, 2, t + p, 6] [b, 4, s, t + p]");
  EXPECT_TRUE(graph.guards.empty());
  EXPECT_NE(
      error_of([&] { graph.add(OpKind::Attention, {input(Shape{b, 3, s, 8}), k, v}); }).find("do not divide"),
      std::string::npos);
  EXPECT_NE(error_of([&] { graph.add(OpKind::Attention, {q, v, v}); }).find("head sizes"), std::string::npos);
}

TEST_F(InferAttention, HeadsInTheLastAxis) {
  const ValueId q = input(Shape{b, s, 32}), k = input(Shape{b, t, 16}), v = input(Shape{b, t, 12});
  const Attributes heads = {{"q_num_heads", number(4)}, {"kv_num_heads", number(2)}};
  EXPECT_EQ(shapes(graph, OpKind::Attention, {q, k, v}, heads, 4),
            "[b, s, 24] [b, 2, t, 8] [b, 2, t, 6] [b, 4, s, t]");
  EXPECT_NE(error_of([&] { graph.add(OpKind::Attention, {q, k, v}); }).find("q_num_heads"),
            std::string::npos);
  // Of unknown shape: the output has the rank that the query turns out to have.
  EXPECT_EQ(shapes(graph, OpKind::Attention, {input({}), k, v}, heads, 1), "?");
  EXPECT_EQ(shapes(graph, OpKind::Attention, {q, k, input({})}, heads, 2).find("[b, s, "), 0U);
}

TEST_F(InferAttention, GroupQuery) {
  const ValueId lengths = input(Shape{b}, DType::I32);
  const ValueId longest =
      graph.add_constant(Tensor::from<std::int32_t>(DType::I32, {1}, std::vector<std::int32_t>{7}));
  const Attributes heads = {{"num_heads", number(4)}, {"kv_num_heads", number(2)}};
  EXPECT_EQ(shapes(graph, OpKind::GroupQueryAttention,
                   {input(Shape{b, s, 64}), {}, {}, {}, {}, lengths, longest}, heads, 3),
            "[b, s, 32] [b, 2, 7, 8] [b, 2, 7, 8]");
  const ValueId past = input(Shape{b, 2, p, 16});
  EXPECT_EQ(shapes(graph, OpKind::GroupQueryAttention,
                   {input(Shape{b, s, 64}), input(Shape{b, s, 32}), input(Shape{b, s, 32}), past, past,
                    lengths, longest},
                   heads, 3),
            "[b, s, 64] [b, 2, max(p, 7), 16] [b, 2, max(p, 7), 16]");
}

TEST_F(InferAttention, Linear) {
  const Attributes heads = {
      {"q_num_heads", number(4)}, {"kv_num_heads", number(2)}, {"update_rule", std::string("linear")}};
  EXPECT_EQ(shapes(graph, OpKind::LinearAttention,
                   {input(Shape{b, s, 32}), input(Shape{b, s, 16}), input(Shape{b, s, 10})}, heads, 2),
            "[b, s, 20] [b, 2, 8, 5]");
}

TEST_F(InferAttention, Recurrent) {
  const ValueId x = input(Shape{s, b, 5}), w = input(Shape{1, 12, 5}), r = input(Shape{1, 12, 3});
  EXPECT_EQ(shapes(graph, OpKind::LSTM, {x, w, r}, {}, 3), "[s, 1, b, 3] [1, b, 3] [1, b, 3]");
  EXPECT_EQ(shapes(graph, OpKind::LSTM, {x, w, r}, {{"layout", number(1)}}, 2), "[s, b, 1, 3] [s, 1, 3]");
  EXPECT_EQ(shapes(graph, OpKind::LSTM, {x, input(Shape{2, t, p}), input({})},
                   {{"direction", std::string("bidirectional")}}, 2),
            "[s, 2, b, floordiv(t, 4)] [2, b, floordiv(t, 4)]");
  // Only the weights' shapes, or a state's, need to tell the hidden size.
  const std::string unknown =
      shapes(graph, OpKind::GRU, {input({}), input({}), input({}), {}, {}, input(Shape{1, b, 7})}, {}, 2);
  EXPECT_NE(unknown.find("1, b, 7] [1, b, 7]"), std::string::npos) << unknown;
  const auto fails = [&](std::vector<ValueId> inputs, Attributes attributes, const std::string& text) {
    const std::string error =
        error_of([&] { shapes(graph, OpKind::LSTM, std::move(inputs), std::move(attributes), 1); });
    EXPECT_NE(error.find(text), std::string::npos) << error;
  };
  fails({x, w, r}, {{"direction", std::string("sideways")}}, "direction is");
  fails({x, w, r}, {{"hidden_size", number(4)}}, "hidden size");
  fails({x, w, r}, {{"layout", number(2)}}, "layout");
  fails({x, input(Shape{1, 11, 5}), r}, {}, "hidden size");
  fails({x, input(Shape{1, 12, 4}), r}, {}, "input size");
  fails({input(Shape{s, 5}), w, r}, {}, "rank 3");
}

}  // namespace
}  // namespace kiln::graph
