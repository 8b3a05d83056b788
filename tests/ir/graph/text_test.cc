#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/graph/problem.h"
#include "tests/ir/graph/graph_builder.h"
#include "tests/support/golden.h"

namespace kiln::graph {
namespace {

TEST(Text, PrintsEverything) {
  Graph graph;
  graph.name = "small \"net\"";
  const Dim batch = symbol(graph, "batch"), h = symbol(graph, "h");
  const ValueId x = add_input(graph, DType::F32, Shape{batch, 3, h, 8}, "x");
  const ValueId k = add_input(graph, DType::F32, Shape{h}, "has space");
  add_input(graph, DType::I64, std::nullopt, "ids");
  const ValueId w = graph.add_constant(Tensor(DType::F32, {4, 3, 3, 3}), "conv.weight");
  const ValueId b =
      graph.add_constant(Tensor::from<float>(DType::F32, {4}, std::vector<float>{0, 1, -2.5F, 1e30F}), "7");
  const std::vector<std::string> y = {"y"}, z = {"z"}, r = {"r"}, u = {"u"};
  graph.add_node(OpKind::Conv, {x, w, b}, {{"strides", list({2, 2})}, {"pads", list({1, 1, 1, 1})}}, "conv1",
                 y);
  const ValueId conv{5};
  const ValueId shape = graph.add(OpKind::Shape, {conv});
  const ValueId first = graph.add(OpKind::Slice, {shape, integers(graph, {0}), integers(graph, {1})});
  const ValueId wanted = graph.add(OpKind::Concat, {first, integers(graph, {-1})}, {{"axis", number(0)}});
  graph.add_node(OpKind::Reshape, {conv, wanted}, {}, "", z);
  graph.add_node(OpKind::Clip, {conv, ValueId::none(), graph.add_constant(Tensor(DType::F32, {}))}, {}, "",
                 r);
  graph.add_node(OpKind::MatMul, {k, weights(graph, {16, 2})}, {}, "last", u);
  graph.value(conv).layout =
      Layout{conv, 0, strides_in_order(*graph.value(conv).shape, {0, 2, 3, 1}), {0, 0, 1, 1}};
  graph.outputs = {conv, wanted};

  kiln::testing::expect_golden("graph/everything.txt", to_text(graph));
}

// What lies between the values `inputs` and the nodes up to the last.
Region region_of(const Graph& graph, NodeId first, NodeId last, NodeId root) {
  Region region;
  region.root = root;
  for (std::uint32_t i = first.index; i <= last.index; ++i) {
    region.nodes.push_back({i});
    for (const ValueId input : graph.node({i}).inputs) {
      if (!input) continue;
      const NodeId producer = graph.value(input).producer;
      const bool inside = producer && producer.index >= first.index && producer.index <= last.index;
      const bool seen = std::find(region.inputs.begin(), region.inputs.end(), input) != region.inputs.end();
      if (!inside && !seen) region.inputs.push_back(input);
    }
  }
  region.outputs = {graph.node(last).outputs[0]};
  return region;
}

// A strided convolution, bias and activation, added to a residual of the result's extents; `depth` strided
// convolutions come before it.
Problem residual_block(int depth) {
  Graph graph;
  graph.name = fmt::format("net {}", depth);
  const Dim n = symbol(graph, "n"), h = symbol(graph, "h");
  ValueId x = add_input(graph, DType::F32, Shape{n, 8, h, 64}, "x");
  const Attributes strided = {{"strides", list({2, 1})}, {"pads", list({1, 1, 1, 1})}};
  for (int i = 0; i < depth; ++i) x = graph.add(OpKind::Conv, {x, weights(graph, {8, 8, 3, 3})}, strided);
  const ValueId half = graph.add(OpKind::Conv, {x, weights(graph, {8, 8, 3, 3})}, strided);
  const ValueId conv = graph.add(OpKind::Conv, {x, weights(graph, {8, 8, 3, 3})}, strided);
  const ValueId sum = graph.add(OpKind::Add, {conv, half});
  const ValueId last =
      graph.add(OpKind::Clip, {sum, ValueId::none(), graph.add_constant(Tensor(DType::F32, {}))});
  const NodeId root = graph.value(conv).producer;
  graph.node(root).name = fmt::format("conv {}", depth);
  return make_problem(graph, region_of(graph, root, graph.value(last).producer, root));
}

TEST(Problem, IsCanonical) {
  const Problem problem = residual_block(0);
  kiln::testing::expect_golden("graph/residual_problem.txt", problem.canonical_text());
  EXPECT_EQ(residual_block(1).canonical_text(), problem.canonical_text());
  EXPECT_EQ(residual_block(3).canonical_text(), problem.canonical_text());
  EXPECT_EQ(problem.input_is_constant, (std::vector<bool>{false, true, false, true}));
  // The original extents of the Symbols.
  EXPECT_EQ(problem.symbol_origin, (std::vector<Dim>{Dim::symbol({0}), Dim::symbol({1})}));
  const Problem deep = residual_block(3);
  const Dim h = Dim::symbol({1});
  EXPECT_EQ(deep.symbol_origin, (std::vector<Dim>{Dim::symbol({0}), floordiv(h + 7, 8)}));
}

TEST(Problem, KeepsWhatATemplateComputesWith) {
  Graph graph;
  const Dim b = symbol(graph, "b"), s = symbol(graph, "s");
  const ValueId x = add_input(graph, DType::F32, Shape{b, s, 32}, "x");
  const ValueId shape = graph.add(OpKind::Shape, {x});
  const ValueId rows = graph.add(OpKind::Slice, {shape, integers(graph, {0}), integers(graph, {2})});
  const ValueId wanted = graph.add(OpKind::Concat, {rows, integers(graph, {4, 8})}, {{"axis", number(0)}});
  const ValueId heads = graph.add(OpKind::Reshape, {x, wanted});
  const ValueId y = graph.add(OpKind::Mul, {heads, floats(graph, {0.125F})});
  const NodeId first = graph.value(heads).producer, last = graph.value(y).producer;
  const Problem problem = make_problem(graph, region_of(graph, first, last, last));
  kiln::testing::expect_golden("graph/reshape_problem.txt", problem.canonical_text());
  ASSERT_EQ(problem.graph.inputs.size(), 3U);
  EXPECT_TRUE(problem.graph.value(problem.graph.inputs[2]).constant);
  // Another scalar is another Problem.
  Graph other = graph;
  other.value(other.node(last).inputs[1]).constant =
      Tensor::from<float>(DType::F32, {1}, std::vector<float>{0.25F});
  EXPECT_NE(make_problem(other, region_of(other, first, last, last)).canonical_text(),
            problem.canonical_text());
}

TEST(Problem, SeesLayouts) {
  Graph graph;
  const Dim n = symbol(graph, "n"), h = symbol(graph, "h");
  const ValueId x = add_input(graph, DType::F32, Shape{n, 3, h, 7}, "x");
  const ValueId y = graph.add(OpKind::Relu, {x});
  const NodeId node = graph.value(y).producer;
  const Region region = region_of(graph, node, node, node);
  const std::string dense = make_problem(graph, region).canonical_text();
  graph.value(x).layout = Layout{x, 0, dense_strides(*graph.value(x).shape), {}};
  EXPECT_EQ(make_problem(graph, region).canonical_text(), dense);
  graph.value(x).layout->strides = strides_in_order(*graph.value(x).shape, {0, 2, 3, 1});
  const Problem last = make_problem(graph, region);
  EXPECT_EQ(last.graph.value(last.graph.inputs[0]).layout->strides,
            strides_in_order(*last.graph.value(last.graph.inputs[0]).shape, {0, 2, 3, 1}));
  // Part of a larger buffer whose pitch is another extent.
  const Dim pitch = symbol(graph, "pitch");
  graph.value(x).layout = Layout{y, 5, {3 * h * pitch, h * pitch, pitch, 1}, {}};
  const Problem part = make_problem(graph, region);
  EXPECT_EQ(part.graph.value(part.graph.inputs[0]).layout->storage, part.graph.inputs[0]);
  EXPECT_EQ(part.graph.value(part.graph.inputs[0]).layout->offset, Dim(0));
  EXPECT_EQ(part.symbol_origin.size(), 5U);
}

TEST(Problem, RefusesWhatIsNotClosed) {
  Graph graph;
  const ValueId x = add_input(graph, DType::F32, Shape{4}, "x");
  const ValueId y = graph.add(OpKind::Relu, {x});
  Region region;
  region.nodes = {graph.value(y).producer};
  region.root = region.nodes[0];
  region.outputs = {y};
  EXPECT_THROW(make_problem(graph, region), Error);
}

}  // namespace
}  // namespace kiln::graph
