#include <algorithm>
#include <numeric>

#include "ir/graph/operands.h"
#include "runtime/passes/passes.h"

namespace kiln::runtime {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::OpKind;

bool same_shape(const Graph& graph, const Node& node) {
  const auto& from = graph.value(node.inputs[0]).shape;
  const auto& to = graph.value(node.outputs[0]).shape;
  return from && to && *from == *to;
}

bool permutation_is_identity(const Node& node) {
  const auto permutation = integers(node, "perm");
  return std::is_sorted(permutation.begin(), permutation.end());
}

bool all_zero(const std::optional<std::vector<std::int64_t>>& values) {
  return values && std::all_of(values->begin(), values->end(), [](std::int64_t v) { return v == 0; });
}

// True if the first output always equals the first input.
bool is_identity(const Graph& graph, const Node& node) {
  switch (node.op) {
    case OpKind::Identity:
      return true;
    case OpKind::Dropout:
      return (node.inputs.size() < 3 || !node.inputs[2]) && (node.outputs.size() < 2 || !node.outputs[1]);
    case OpKind::Cast:
    case OpKind::CastLike:
      return graph.value(node.inputs[0]).dtype == graph.value(node.outputs[0]).dtype;
    case OpKind::Reshape:
    case OpKind::Flatten:
    case OpKind::Squeeze:
    case OpKind::Unsqueeze:
    case OpKind::Expand:
    case OpKind::Tile:
      return same_shape(graph, node);
    case OpKind::Transpose:
      // Of an unknown rank it also checks the rank.
      return graph.value(node.inputs[0]).shape && has(node, "perm") && permutation_is_identity(node);
    case OpKind::Pad:
      return all_zero(constant_elements(graph, node, 1));
    case OpKind::Concat:
      return node.inputs.size() == 1;
    default:
      return false;
  }
}

}  // namespace

void remove_identities(Graph& graph) {
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    if (node.inputs.empty() || !node.inputs[0] || !is_identity(graph, node)) continue;
    // A graph output needs memory of its own, which an input or a constant cannot give.
    const graph::ValueId input = node.inputs[0];
    if (graph.is_output(node.outputs[0]) && (!graph.value(input).producer || graph.is_output(input)))
      continue;
    graph.replace_uses(node.outputs[0], input);
    graph.remove_node(id);
  }
}

}  // namespace kiln::runtime
