// Regions stay bounded, whatever the graph.
#include "runtime/region_forming.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "runtime/passes/passes.h"
#include "tests/ir/graph/graph_builder.h"

namespace kiln::runtime {
namespace {

using graph::Graph;
using graph::OpKind;
using graph::Shape;
using graph::ValueId;

// Nodes of each Region of the optimised graph, which compute every node once.
std::vector<std::size_t> region_sizes(Graph graph) {
  optimise(graph);
  std::vector<std::size_t> sizes;
  std::size_t total = 0;
  for (const RegionDecision& decision : form_regions(graph)) {
    sizes.push_back(decision.region.nodes.size());
    total += sizes.back();
    EXPECT_LE(decision.region.inputs.size(), graph::kMaxRegionInputs);
  }
  EXPECT_EQ(total, graph.topological_order().size());
  return sizes;
}

TEST(RegionForming, ALongChainIsCut) {
  Graph graph;
  ValueId v = add_input(graph, DType::F32, Shape{symbol(graph, "n"), 16}, "x");
  for (int i = 0; i < 1000; ++i) v = graph.add(i % 2 == 0 ? OpKind::Sigmoid : OpKind::Neg, {v});
  graph.outputs = {v};
  const std::vector<std::size_t> sizes = region_sizes(std::move(graph));
  EXPECT_EQ(sizes.size(), (1000 + graph::kMaxRegionNodes - 1) / graph::kMaxRegionNodes);
  EXPECT_LE(*std::ranges::max_element(sizes), graph::kMaxRegionNodes);
}

// Each pass over a row computes again what earlier ones made of it: a chain of reductions is cut early.
TEST(RegionForming, AChainOfReductionsIsCut) {
  Graph graph;
  ValueId v = add_input(graph, DType::F32, Shape{symbol(graph, "n"), 16}, "x");
  for (int i = 0; i < 40; ++i) {
    v = graph.add(OpKind::Add, {v, graph.add(OpKind::Softmax, {v})});
  }
  graph.outputs = {v};
  const std::vector<std::size_t> sizes = region_sizes(std::move(graph));
  EXPECT_EQ(sizes.size(), 20U);  // two of two passes each
}

// Several numbers of one row need one pass.
TEST(RegionForming, ReductionsBesideEachOtherStayTogether) {
  Graph graph;
  const ValueId x = add_input(graph, DType::F32, Shape{symbol(graph, "n"), 16}, "x");
  const ValueId axes = graph::integers(graph, {1});
  const ValueId e = graph.add(OpKind::Exp, {x});
  for (const OpKind op : {OpKind::ReduceMax, OpKind::ReduceMin, OpKind::ReduceSum, OpKind::ReduceProd,
                          OpKind::ReduceL1, OpKind::ReduceSumSquare}) {
    graph.outputs.push_back(graph.add(op, {e, axes}));
  }
  EXPECT_EQ(region_sizes(std::move(graph)).size(), 1U);
}

}  // namespace
}  // namespace kiln::runtime
