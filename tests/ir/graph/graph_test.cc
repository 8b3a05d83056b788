#include "ir/graph/graph.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "tests/ir/graph/graph_builder.h"

namespace kiln::graph {
namespace {

NodeId producer(const Graph& graph, ValueId id) { return graph.value(id).producer; }

TEST(Graph, OrdersProducersFirst) {
  Graph graph;
  const ValueId x = add_input(graph, DType::F32, Shape{4});
  const ValueId a = graph.add(OpKind::Relu, {x}), b = graph.add(OpKind::Neg, {a}),
                c = graph.add(OpKind::Add, {a, b});
  graph.outputs = {c};
  EXPECT_EQ(graph.topological_order(), (std::vector<NodeId>{{0}, {1}, {2}}));
  // A node put in front of others later: x -> Abs -> Relu.
  const ValueId front = graph.add(OpKind::Abs, {x});
  graph.set_input(producer(graph, a), 0, front);
  EXPECT_EQ(graph.topological_order(), (std::vector<NodeId>{{3}, {0}, {1}, {2}}));
  const std::vector<std::vector<NodeId>> consumers = graph.consumers();
  EXPECT_EQ(consumers[a.index], (std::vector<NodeId>{{1}, {2}}));
  EXPECT_EQ(consumers[x.index], (std::vector<NodeId>{{3}}));
  EXPECT_TRUE(graph.is_output(c));
  EXPECT_FALSE(graph.is_output(a));
  graph.set_input({3}, 0, c);
  EXPECT_THROW(graph.topological_order(), Error);
}

TEST(Graph, ReplacesEveryUse) {
  Graph graph;
  const ValueId x = add_input(graph, DType::F32, Shape{4});
  const ValueId a = graph.add(OpKind::Relu, {x}), b = graph.add(OpKind::Identity, {a});
  const ValueId c = graph.add(OpKind::Mul, {b, b}), d = graph.add(OpKind::Add, {b, c});
  graph.outputs = {d, b};
  graph.replace_uses(b, a);
  EXPECT_EQ(graph.node(producer(graph, c)).inputs, (std::vector<ValueId>{a, a}));
  EXPECT_EQ(graph.node(producer(graph, d)).inputs, (std::vector<ValueId>{a, c}));
  EXPECT_EQ(graph.outputs, (std::vector<ValueId>{d, a}));
  // Readers that came by set_input() and by an earlier replacement are found too.
  graph.set_input(producer(graph, b), 0, c);
  graph.replace_uses(a, x);
  graph.replace_uses(c, x);
  EXPECT_EQ(graph.node(producer(graph, d)).inputs, (std::vector<ValueId>{x, x}));
  EXPECT_EQ(graph.node(producer(graph, b)).inputs[0], x);
}

TEST(Graph, CompactsAndRenumbers) {
  Graph graph;
  const Dim s = symbol(graph, "s");
  const ValueId x = add_input(graph, DType::F32, Shape{s}, "x");
  graph.add_constant(Tensor::from_integer(1), "unused");
  const ValueId a = graph.add(OpKind::Identity, {x}), b = graph.add(OpKind::Relu, {a});
  graph.value(b).name = "y";
  graph.outputs = {b};
  graph.value(b).layout = Layout{b, 0, {1}, {}};
  graph.replace_uses(a, x);
  graph.remove_node(producer(graph, a));
  EXPECT_EQ(graph.topological_order().size(), 1U);
  graph.compact();
  EXPECT_EQ(graph.node_count(), 1U);
  EXPECT_EQ(graph.value_count(), 2U);
  const ValueId y = graph.outputs[0];
  EXPECT_EQ(graph.value(y).name, "y");
  EXPECT_EQ(graph.value(y).producer, NodeId{0});
  EXPECT_EQ(graph.value(y).layout->storage, y);
  EXPECT_EQ(graph.value(graph.node({0}).inputs[0]).name, "x");
  EXPECT_EQ(graph.symbols[0].source.value, graph.inputs[0]);
  // The index of readers is rebuilt as well.
  graph.replace_uses(graph.inputs[0], graph.add_constant(Tensor(DType::F32, {4}), "w"));
  EXPECT_EQ(graph.value(graph.node({0}).inputs[0]).name, "w");
}

TEST(Graph, HandlesManyNodes) {
  constexpr int kNodes = 50000;
  Graph graph;
  const Dim s = symbol(graph, "s");
  const ValueId x = add_input(graph, DType::F32, Shape{s, 64}, "x");
  ValueId last = x;
  std::vector<ValueId> chain;
  for (int i = 0; i < kNodes; ++i) {
    last = i % 2 == 0 ? graph.add(OpKind::Relu, {last}) : graph.add(OpKind::Add, {last, x});
    chain.push_back(last);
  }
  graph.outputs = {last};
  EXPECT_EQ(graph.topological_order().size(), static_cast<std::size_t>(kNodes));
  for (int i = 0; i < kNodes; i += 2) {
    const NodeId node = producer(graph, chain[static_cast<std::size_t>(i)]);
    graph.replace_uses(chain[static_cast<std::size_t>(i)], graph.node(node).inputs[0]);
    graph.remove_node(node);
  }
  graph.compact();
  EXPECT_EQ(graph.node_count(), static_cast<std::size_t>(kNodes / 2));
  const std::vector<NodeId> order = graph.topological_order();
  for (std::size_t i = 0; i < order.size(); ++i) ASSERT_EQ(order[i].index, i);
}

TEST(Graph, KeepsSmallWholeConstantsAsElements) {
  Graph graph;
  EXPECT_EQ(elements_text(graph, integers(graph, {3, -1})), "[3, -1]");
  EXPECT_EQ(elements_text(graph, floats(graph, {2, 0})), "[2, 0]");
  EXPECT_EQ(elements_text(graph, floats(graph, {0.5F})), "?");
  EXPECT_EQ(elements_text(graph, floats(graph, {std::numeric_limits<float>::quiet_NaN()})), "?");
  EXPECT_EQ(elements_text(graph, floats(graph, {std::numeric_limits<float>::infinity()})), "?");
  EXPECT_EQ(elements_text(graph, integers(graph, std::vector<std::int64_t>(65, 1))), "?");
  EXPECT_EQ(elements_text(graph, integers(graph, {})), "[]");
}

// Row-major position of an index under strides, for every index of a tensor in an order of axes.
TEST(Layout, StridesInOrder) {
  Graph graph;
  const Dim n = symbol(graph, "n");
  const Shape shape = {n, 3, 5, 7};
  EXPECT_EQ(text_of(graph, strides_in_order(shape, {0, 2, 3, 1})), "[105, 1, 21, 3]");
  EXPECT_EQ(strides_in_order(shape, {0, 1, 2, 3}), dense_strides(shape));
  EXPECT_TRUE(is_dense(shape, dense_strides(shape)));
  EXPECT_FALSE(is_dense(shape, strides_in_order(shape, {0, 2, 3, 1})));
  EXPECT_FALSE(is_dense(shape, {105, 35, 7}));
  EXPECT_TRUE(is_dense({n, 1, 4}, {4, 999, 1}));
  EXPECT_FALSE(is_dense({n, n}, {4, 1}));
}

TEST(Layout, FindsTheOrderOfStrides) {
  Graph graph;
  const Dim n = symbol(graph, "n"), h = symbol(graph, "h");
  AxisOrder order = {0, 1, 2, 3};
  const Shape shape = {n, 3, h, 7};
  do {
    EXPECT_EQ(order_of_strides(shape, strides_in_order(shape, order)), order);
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(order_of_strides({1, 3, h, 7}, {5, 1, 21, 3}), (AxisOrder{0, 2, 3, 1}));
  EXPECT_FALSE(order_of_strides(shape, {100, 1, 21, 3}));  // a padded pitch
  EXPECT_FALSE(order_of_strides(shape, {0, 1, 21, 3}));
}

}  // namespace
}  // namespace kiln::graph
