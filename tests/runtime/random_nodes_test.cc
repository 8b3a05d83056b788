// Passes leave random nodes as they are, however equal or constant.
#include <gtest/gtest.h>

#include "ir/graph/graph.h"
#include "runtime/passes/passes.h"
#include "tests/ir/graph/graph_builder.h"

namespace kiln::runtime {
namespace {

using graph::Graph;
using graph::OpKind;
using graph::ValueId;

std::size_t count(const Graph& graph, OpKind op) {
  std::size_t found = 0;
  for (const graph::NodeId id : graph.topological_order()) found += graph.node(id).op == op ? 1 : 0;
  return found;
}

TEST(RandomNodes, AreNeitherFoldedNorMerged) {
  for (const bool seeded : {false, true}) {
    Graph graph;
    graph::Attributes attributes = {{"dtype", static_cast<std::int64_t>(DType::F32)}};
    if (seeded) attributes["seed"] = 1.0;
    const ValueId shape = graph::integers(graph, {2, 3});
    const ValueId a = graph.add(OpKind::RandomUniform, {shape}, attributes);
    const ValueId b = graph.add(OpKind::RandomUniform, {shape}, attributes);
    const ValueId logits = graph.add_constant(Tensor(DType::F32, {2, 3}));
    graph::Attributes drawn = {{"dtype", static_cast<std::int64_t>(DType::I32)}};
    const ValueId c = graph.add(OpKind::Multinomial, {logits}, drawn);
    const ValueId d = graph.add(OpKind::Multinomial, {logits}, drawn);
    graph.outputs = {graph.add(OpKind::Sub, {a, b}), graph.add(OpKind::Sub, {c, d})};
    // One that nothing reads is dropped.
    graph.add(OpKind::RandomNormal, {shape}, attributes);
    optimise(graph);
    EXPECT_EQ(count(graph, OpKind::RandomUniform), 2U);
    EXPECT_EQ(count(graph, OpKind::Multinomial), 2U);
    EXPECT_EQ(count(graph, OpKind::RandomNormal), 0U);
  }
}

}  // namespace
}  // namespace kiln::runtime
