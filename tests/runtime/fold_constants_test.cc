// Folding constants stays bounded in memory and time, whatever the graph.
#include <gtest/gtest.h>

#include "runtime/passes/passes.h"
#include "tests/ir/graph/graph_builder.h"

namespace kiln::runtime {
namespace {

using graph::Graph;
using graph::OpKind;
using graph::ValueId;

std::int64_t constant_bytes(const Graph& graph) {
  std::int64_t total = 0;
  for (std::uint32_t i = 0; i < graph.value_count(); ++i) {
    const auto& constant = graph.value(ValueId{i}).constant;
    if (constant) total += constant->byte_size();
  }
  return total;
}

bool folds(Graph& graph, ValueId result) {
  fold_constants(graph);
  return graph.value(result).constant.has_value();
}

TEST(FoldConstants, FoldsWhatIsSmallOrNoLargerThanItsInputs) {
  Graph graph;
  const ValueId a = graph::weights(graph, {64, 64});
  const ValueId product = graph.add(OpKind::MatMul, {a, a});
  EXPECT_TRUE(folds(graph, product));
  const ValueId w = graph::weights(graph, {1024, 1024});
  const ValueId wide = graph.add(OpKind::Cast, {w}, {{"to", graph::number(11)}});
  EXPECT_TRUE(folds(graph, graph.add(OpKind::Transpose, {wide})));
}

TEST(FoldConstants, DoublingsEnd) {
  Graph graph;
  ValueId v = graph::weights(graph, {4});
  for (int i = 0; i < 50; ++i) v = graph.add(OpKind::Concat, {v, v}, {{"axis", graph::number(0)}});
  EXPECT_FALSE(folds(graph, v));
  EXPECT_LE(constant_bytes(graph), 128 << 20);
}

TEST(FoldConstants, ManyResultsEnd) {
  Graph graph;
  const ValueId one = graph::weights(graph, {1});
  ValueId last;
  for (int i = 0; i < 1000; ++i) last = graph.add(OpKind::Expand, {one, graph::integers(graph, {1 << 18})});
  EXPECT_FALSE(folds(graph, last));
  EXPECT_LE(constant_bytes(graph), 128 << 20);
}

// Each of these would take minutes or centuries.
TEST(FoldConstants, LongComputationsAreLeftToTheRun) {
  Graph graph;
  const ValueId image = graph::weights(graph, {1, 1, 500, 500});
  const ValueId convolved =
      graph.add(OpKind::Conv, {image, image}, {{"pads", graph::list({300, 300, 300, 300})}});
  EXPECT_FALSE(folds(graph, convolved));
  const std::int64_t side = std::int64_t{1} << 30;
  const ValueId pooled = graph.add(OpKind::MaxPool, {image},
                                   {{"kernel_shape", graph::list({side, side})},
                                    {"pads", graph::list({side / 2, side / 2, side / 2, side / 2})}});
  EXPECT_FALSE(folds(graph, pooled));
  const ValueId a = graph::weights(graph, {1 << 10, 1 << 10});
  ValueId product = a;
  for (int i = 0; i < 8; ++i) product = graph.add(OpKind::MatMul, {product, a});
  EXPECT_FALSE(folds(graph, product));
}

}  // namespace
}  // namespace kiln::runtime
