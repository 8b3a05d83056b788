#include <cstdint>
#include <vector>

#include "ir/graph/operands.h"
#include "runtime/passes/decompositions.h"

namespace kiln::runtime {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::OpKind;
using graph::Shape;
using graph::ValueId;

constexpr std::int64_t kBeyond = INT64_MAX;  // no index
const graph::Attributes kKeep{{"keepdims", std::int64_t{1}}};

// The axis that the node works along.
struct Axis {
  std::size_t index = 0, rank = 0;
  Dim extent;
};
std::optional<Axis> known_axis(const Graph& graph, const Node& node) {
  const auto& shape = graph.value(node.inputs[0]).shape;
  if (!shape || shape->empty()) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(shape->size());
  const std::int64_t axis = integer(node, "axis");
  const auto index = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  return Axis{index, shape->size(), (*shape)[index]};
}

// 0, 1, ... along the axis.
ValueId indices_along(Graph& graph, const Axis& axis) {
  Shape shape(axis.rank, Dim(1));
  shape[axis.index] = axis.extent;
  const ValueId indices = positions(graph, axis.extent);
  const auto& constant = graph.value(indices).constant;
  if (!constant) return reshape(graph, indices, shape);
  Extents extents;
  for (const Dim& dim : shape) extents.push_back(dim.constant());
  return graph.add_constant(constant->reshaped(std::move(extents)));
}

// The operand that names the axis.
ValueId along(Graph& graph, const Axis& axis) {
  return graph.add_constant(Tensor::from_integers(std::vector{static_cast<std::int64_t>(axis.index)}));
}

// The least (or greatest) index where `hit` holds, else `otherwise`.
ValueId index_of(Graph& graph, OpKind reduction, ValueId hit, const Axis& axis, std::int64_t otherwise,
                 std::int64_t keepdims) {
  const ValueId index = graph.add(
      OpKind::Where, {hit, indices_along(graph, axis), graph.add_constant(Tensor::from_integer(otherwise))});
  return graph.add(reduction, {index, along(graph, axis)}, {{"keepdims", keepdims}});
}

// `extreme` is ReduceMax or ReduceMin, which give NaN if anything is: then nothing equals it, and the first
// NaN wins even where otherwise the last index does.
ValueId index_of_extreme(Graph& graph, OpKind extreme, ValueId x, const Axis& axis, bool last,
                         std::int64_t keepdims) {
  const bool may_be_nan = is_float(graph.value(x).dtype);
  const ValueId best = graph.add(extreme, {x, along(graph, axis)}, kKeep);
  ValueId hit = graph.add(OpKind::Equal, {x, best});
  if (!last) {
    if (may_be_nan) hit = graph.add(OpKind::Or, {hit, graph.add(OpKind::IsNaN, {x})});
    return index_of(graph, OpKind::ReduceMin, hit, axis, kBeyond, keepdims);
  }
  const ValueId index = index_of(graph, OpKind::ReduceMax, hit, axis, -1, keepdims);
  if (!may_be_nan) return index;
  const ValueId first_nan =
      index_of(graph, OpKind::ReduceMin, graph.add(OpKind::IsNaN, {x}), axis, kBeyond, keepdims);
  const ValueId none = graph.add(OpKind::Less, {index, graph.add_constant(Tensor::from_integer(0))});
  return graph.add(OpKind::Where, {none, first_nan, index});
}

bool has_row_extreme(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16 || dtype == DType::F32 || dtype == DType::F64 ||
         dtype == DType::I8 || dtype == DType::U8 || dtype == DType::I32 || dtype == DType::I64 ||
         dtype == DType::U32 || dtype == DType::U64;
}

}  // namespace

std::optional<ValueId> boolean_extreme_as_reduction(Graph& graph, const Node& node) {
  if (graph.value(node.inputs[0]).dtype != DType::I1) return std::nullopt;
  std::vector<ValueId> operands = node.inputs;
  operands[0] = cast(graph, operands[0], DType::U8);
  return cast(graph, graph.add(node.op, std::move(operands), node.attributes), DType::I1);
}

std::optional<ValueId> arg_extreme_as_reductions(Graph& graph, const Node& node) {
  if (!has_row_extreme(graph.value(node.inputs[0]).dtype)) return std::nullopt;
  const auto axis = known_axis(graph, node);
  // Without an element there is no extreme one, as the operator itself says.
  if (!axis || axis->extent == Dim(0)) return std::nullopt;
  const OpKind extreme = node.op == OpKind::ArgMax ? OpKind::ReduceMax : OpKind::ReduceMin;
  return index_of_extreme(graph, extreme, node.inputs[0], *axis, integer(node, "select_last_index") != 0,
                          integer(node, "keepdims"));
}

std::optional<ValueId> hardmax_as_reductions(Graph& graph, const Node& node) {
  const DType dtype = graph.value(node.inputs[0]).dtype;
  if (!has_row_extreme(dtype)) return std::nullopt;
  const auto axis = known_axis(graph, node);
  if (!axis) return std::nullopt;
  const ValueId best = index_of_extreme(graph, OpKind::ReduceMax, node.inputs[0], *axis, false, 1);
  const ValueId is_best = graph.add(OpKind::Equal, {indices_along(graph, *axis), best});
  return cast(graph, is_best, dtype);
}

std::optional<ValueId> reduction_of_single_elements(Graph& graph, const Node& node) {
  const auto axes = graph::row_axes(graph, node);
  if (!axes || !axes->empty()) return std::nullopt;
  const ValueId x = node.inputs[0];
  switch (node.op) {
    case OpKind::ReduceL1:
      return graph.add(OpKind::Abs, {x});
    case OpKind::ReduceSumSquare:
      return graph.add(OpKind::Mul, {x, x});
    default:
      break;
  }
  const bool exact = node.op == OpKind::ReduceSum || node.op == OpKind::ReduceMean ||
                     node.op == OpKind::ReduceMax || node.op == OpKind::ReduceMin ||
                     node.op == OpKind::ReduceProd;
  // Logarithms and roots of integers round to integers again.
  if (!exact && !is_float(graph.value(x).dtype)) return std::nullopt;
  if (node.op == OpKind::ReduceL2) return graph.add(OpKind::Abs, {x});
  return graph.add(node.op == OpKind::ReduceLogSum ? OpKind::Log : OpKind::Identity, {x});
}

}  // namespace kiln::runtime
