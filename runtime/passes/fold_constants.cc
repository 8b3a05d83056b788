#include <algorithm>
#include <cstdint>
#include <new>
#include <optional>
#include <vector>

#include "ir/base/checked_math.h"
#include "ir/base/errors.h"
#include "ir/graph/contract.h"
#include "kernels_ref/reference.h"
#include "runtime/operands.h"
#include "runtime/passes/passes.h"

namespace kiln::runtime {
namespace {

using graph::FusionClass;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::OpKind;
using graph::ValueId;

constexpr std::int64_t kAlwaysFoldedBytes = 1 << 20;

// What folding may use up in one Graph, so that no model grows without bound or loads for minutes: bytes of
// results and elements read (a second or two), both beside so many times those of the model's own constants.
constexpr std::int64_t kFoldedBytes = 64 << 20;
constexpr std::int64_t kFoldedReads = std::int64_t{1} << 30;
constexpr std::int64_t kFoldedPerConstant = 8;

struct Cost {
  std::int64_t bytes = 0, reads = 0;
};

// The node's results, each element made from one read; nothing while a size is unknown.
std::optional<Cost> cost_of_results(const Graph& graph, const Node& node) {
  Cost total;
  for (const ValueId output : node.outputs) {
    if (!output) continue;
    const graph::Value& value = graph.value(output);
    if (!value.shape || value.dtype == DType::String) return std::nullopt;
    const graph::Dim elements = graph::element_count(*value.shape);
    if (!elements.is_constant()) return std::nullopt;
    total.bytes += byte_size(value.dtype, elements.constant());
    total.reads += elements.constant();
  }
  return total;
}

// A bound on the elements that one element of a result is made from.
std::int64_t reads_per_element(const Graph& graph, const Node& node) {
  if (has(node, "kernel_shape") && contract(node.op).fusion == FusionClass::Pool) {
    std::int64_t taps = 1;
    for (const std::int64_t extent : integers(node, "kernel_shape")) {
      taps = checked_multiply(taps, extent).value_or(INT64_MAX);
    }
    return taps;
  }
  switch (contract(node.op).fusion) {
    case FusionClass::Dot:
    case FusionClass::Opaque:
    case FusionClass::Pool:
    case FusionClass::Random:
    case FusionClass::Control:
      break;
    case FusionClass::Elementwise:
    case FusionClass::Rows:
    case FusionClass::View:
    case FusionClass::Movement:
    case FusionClass::Shape:
      return 1;
  }
  if (node.op == OpKind::MatMul || node.op == OpKind::Gemm) {
    const Tensor& first = *graph.value(node.inputs[0]).constant;
    return first.rank() > 0 ? *std::ranges::max_element(first.extents()) : 1;
  }
  if (node.op == OpKind::Conv) {
    const Tensor& weights = *graph.value(node.inputs[1]).constant;
    return weights.elements() / std::max<std::int64_t>(weights.extents()[0], 1);
  }
  std::int64_t product = 1;
  for (const ValueId input : node.inputs) {
    if (!input) continue;
    const std::int64_t elements = std::max<std::int64_t>(graph.value(input).constant->elements(), 1);
    product = checked_multiply(product, elements).value_or(INT64_MAX);
  }
  return product;
}

// What folding the node takes; nothing if it cannot be folded, or only to something out of proportion.
std::optional<Cost> folding_cost(const Graph& graph, const Node& node) {
  if (node.inputs.empty() || reference::find(node.op) == nullptr) return std::nullopt;
  const FusionClass fusion = contract(node.op).fusion;
  if (fusion == FusionClass::Random || fusion == FusionClass::Control) return std::nullopt;
  std::int64_t input_bytes = 0, input_elements = 0;
  for (const ValueId input : node.inputs) {
    if (!input) continue;
    const auto& constant = graph.value(input).constant;
    if (!constant || constant->dtype() == DType::String) return std::nullopt;
    input_bytes += constant->byte_size();
    input_elements += constant->elements();
  }
  auto cost = cost_of_results(graph, node);
  if (!cost || cost->bytes > std::max(kAlwaysFoldedBytes, 2 * input_bytes)) return std::nullopt;
  const auto reads = checked_multiply(cost->reads, reads_per_element(graph, node));
  if (!reads || *reads > kFoldedReads) return std::nullopt;
  cost->reads = *reads + input_elements;
  return cost;
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
  std::vector<Datum> constants;
  for (const ValueId input : node.inputs)
    constants.push_back(input ? Datum(*graph.value(input).constant) : Datum());
  std::vector<const Datum*> inputs;
  for (const Datum& constant : constants) inputs.push_back(constant.has_value() ? &constant : nullptr);
  reference::Call call{.node = node, .inputs = inputs, .outputs = std::vector<Datum>(node.outputs.size())};
  try {
    reference::find(node.op)(call);
  } catch (const Error& error) {
    // A run reports the failure with its place, and a model may never reach this node.
    if (error.kind() == ErrorKind::Bug) throw;
    return;
  } catch (const std::bad_alloc&) {
    return;
  }
  const std::vector<ValueId> outputs = node.outputs;
  graph.remove_node(id);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i]) make_constant(graph, outputs[i], std::move(call.outputs[i].tensor()));
  }
}

}  // namespace

void fold_constants(Graph& graph) {
  Cost left{.bytes = kFoldedBytes, .reads = kFoldedReads};
  for (std::uint32_t i = 0; i < graph.value_count(); ++i) {
    const auto& constant = graph.value(ValueId{i}).constant;
    if (!constant) continue;
    left.bytes += kFoldedPerConstant * constant->byte_size();
    left.reads += kFoldedPerConstant * constant->elements();
  }
  for (const NodeId id : graph.topological_order()) {
    const auto cost = folding_cost(graph, graph.node(id));
    if (!cost || cost->bytes > left.bytes || cost->reads > left.reads) continue;
    left.bytes -= cost->bytes;
    left.reads -= cost->reads;
    fold(graph, id);
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
