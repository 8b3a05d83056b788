#include "ir/graph/operands.h"

#include <algorithm>

#include "ir/graph/contract.h"

namespace kiln::graph {

bool says_where(const Node& node, std::size_t operand) {
  switch (contract(node.op).fusion) {
    case FusionClass::Elementwise:
    case FusionClass::Dot:
    case FusionClass::Pool:
    case FusionClass::Control:
      return false;
    case FusionClass::Rows:
    case FusionClass::View:
    case FusionClass::Movement:
    case FusionClass::Shape:
    case FusionClass::Opaque:
    case FusionClass::Random:
      break;
  }
  switch (node.op) {
    case OpKind::Gather:
    case OpKind::GatherElements:
    case OpKind::GatherND:
    case OpKind::ScatterElements:
    case OpKind::ScatterND:
    case OpKind::Concat:
    case OpKind::ReverseSequence:
    case OpKind::Trilu:
    case OpKind::LayerNormalization:
    case OpKind::RMSNormalization:
    case OpKind::InstanceNormalization:
    case OpKind::GroupNormalization:
      return false;
    case OpKind::Pad:
      return operand == 1 || operand == 3;
    case OpKind::OneHot:
      return operand == 1;
    default:
      return operand > 0;
  }
}

std::optional<std::vector<Dim>> known_elements(const Graph& graph, const Node& node, std::size_t input) {
  if (input >= node.inputs.size() || !node.inputs[input]) return std::nullopt;
  const Value& value = graph.value(node.inputs[input]);
  if (value.constant && (is_integer(value.constant->dtype()) || value.constant->dtype() == DType::I1)) {
    const auto integers = value.constant->to_integers();
    return std::vector<Dim>(integers.begin(), integers.end());
  }
  return value.elements;
}

std::optional<std::vector<std::int64_t>> constant_elements(const Graph& graph, const Node& node,
                                                           std::size_t input) {
  const auto dims = known_elements(graph, node, input);
  if (!dims) return std::nullopt;
  std::vector<std::int64_t> integers;
  for (const Dim& dim : *dims) {
    if (!dim.is_constant()) return std::nullopt;
    integers.push_back(dim.constant());
  }
  return integers;
}

std::optional<std::vector<std::int64_t>> row_axes(const Graph& graph, const Node& node) {
  const auto& shape = graph.value(node.inputs[0]).shape;
  if (!shape) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(shape->size());
  std::vector<std::int64_t> axes;
  if (has(node, "keepdims")) {
    if (node.op == OpKind::ArgMax || node.op == OpKind::ArgMin) {
      axes = {integer(node, "axis")};
    } else if (node.inputs.size() > 1 && node.inputs[1]) {
      const auto given = constant_elements(graph, node, 1);
      if (!given) return std::nullopt;
      axes = *given;
    }
    const bool noop =
        axes.empty() && has(node, "noop_with_empty_axes") && integer(node, "noop_with_empty_axes") != 0;
    if (axes.empty() && !noop) {
      for (std::int64_t i = 0; i < rank; ++i) axes.push_back(i);
    }
  } else if (node.op == OpKind::LayerNormalization || node.op == OpKind::RMSNormalization) {
    std::int64_t axis = integer(node, "axis");
    for (axis = axis < 0 ? axis + rank : axis; axis < rank; ++axis) axes.push_back(axis);
  } else if (node.op == OpKind::InstanceNormalization) {
    for (std::int64_t i = 2; i < rank; ++i) axes.push_back(i);
  } else if (has(node, "axis")) {
    axes = {integer(node, "axis")};
  } else {
    return std::nullopt;
  }
  for (std::int64_t& axis : axes) axis = axis < 0 ? axis + rank : axis;
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return axes;
}

}  // namespace kiln::graph
