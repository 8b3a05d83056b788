#include <vector>

#include "ir/graph/operands.h"
#include "runtime/passes/decompositions.h"

namespace kiln::runtime {

using graph::Graph;
using graph::Node;
using graph::OpKind;
using graph::Shape;
using graph::ValueId;

std::optional<ValueId> dropout_as_identity(Graph& graph, const Node& node) {
  const ValueId x = node.inputs[0];
  if (node.inputs.size() > 2 && node.inputs[2]) {
    const auto& training = graph.value(node.inputs[2]).constant;
    if (!training || training->elements() != 1 || training->as<std::uint8_t>()[0] != 0) return std::nullopt;
  }
  if (node.outputs.size() > 1 && node.outputs[1]) {
    const auto& shape = graph.value(x).shape;
    if (!shape) return std::nullopt;
    Tensor kept(DType::I1, {});
    kept.as_mutable<std::uint8_t>()[0] = 1;
    const Shape extents = *shape;
    const ValueId mask =
        graph.add(OpKind::Expand, {graph.add_constant(std::move(kept)), shape_operand(graph, extents)});
    graph.replace_uses(node.outputs[1], mask);
  }
  return graph.add(OpKind::Identity, {x});
}

}  // namespace kiln::runtime
