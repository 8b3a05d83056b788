#include <algorithm>
#include <vector>

#include "ir/base/errors.h"
#include "kernels_ref/reference.h"
#include "runtime/operands.h"
#include "runtime/passes/passes.h"

namespace kiln::runtime {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

constexpr std::int64_t kAlwaysFoldedBytes = 1 << 20;

// Bytes of the node's results, or nothing while a size is unknown.
std::optional<std::int64_t> result_bytes(const Graph& graph, const Node& node) {
  std::int64_t total = 0;
  for (const ValueId output : node.outputs) {
    if (!output) continue;
    const graph::Value& value = graph.value(output);
    if (!value.shape || value.dtype == DType::String) return std::nullopt;
    const graph::Dim elements = graph::element_count(*value.shape);
    if (!elements.is_constant()) return std::nullopt;
    total += byte_size(value.dtype, elements.constant());
  }
  return total;
}

bool foldable(const Graph& graph, const Node& node) {
  if (node.inputs.empty() || reference::find(node.op) == nullptr) return false;
  std::int64_t input_bytes = 0;
  for (const ValueId input : node.inputs) {
    if (!input) continue;
    const auto& constant = graph.value(input).constant;
    if (!constant || constant->dtype() == DType::String) return false;
    input_bytes += constant->byte_size();
  }
  const auto bytes = result_bytes(graph, node);
  return bytes && *bytes <= std::max(kAlwaysFoldedBytes, 2 * input_bytes);
}

void make_constant(Graph& graph, ValueId id, Tensor tensor) {
  graph::Value& value = graph.value(id);
  value.dtype = tensor.dtype();
  value.shape = graph::Shape(tensor.extents().begin(), tensor.extents().end());
  value.constant = std::move(tensor);
  value.producer = NodeId::none();
}

void fold(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  std::vector<const Tensor*> inputs;
  for (const ValueId input : node.inputs) inputs.push_back(input ? &*graph.value(input).constant : nullptr);
  reference::Call call{.node = node, .inputs = inputs, .outputs = std::vector<Tensor>(node.outputs.size())};
  try {
    reference::find(node.op)(call);
  } catch (const Error& error) {
    // A run reports the failure with its place, and a model may never reach this node.
    if (error.kind() == ErrorKind::Bug) throw;
    return;
  }
  const std::vector<ValueId> outputs = node.outputs;
  graph.remove_node(id);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i]) make_constant(graph, outputs[i], std::move(call.outputs[i]));
  }
}

}  // namespace

void fold_constants(Graph& graph) {
  for (const NodeId id : graph.topological_order()) {
    if (foldable(graph, graph.node(id))) fold(graph, id);
  }
}

void fold_known_elements(Graph& graph) {
  for (const NodeId id : graph.topological_order()) {
    for (const ValueId output : graph.node(id).outputs) {
      if (!output) continue;
      graph::Value& value = graph.value(output);
      if (value.constant || !value.elements || !value.shape || !is_integer(value.dtype)) continue;
      if (!std::all_of(value.elements->begin(), value.elements->end(),
                       [](const graph::Dim& dim) { return dim.is_constant(); })) {
        continue;
      }
      value.constant = elements_tensor(value, {});
    }
  }
}

}  // namespace kiln::runtime
