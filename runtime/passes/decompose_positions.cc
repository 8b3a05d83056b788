// Operators that put one thing where positions meet a condition, and another elsewhere.
#include <array>
#include <numeric>
#include <vector>

#include "runtime/passes/decompositions.h"

namespace kiln::runtime {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::OpKind;
using graph::Shape;
using graph::ValueId;

ValueId number(Graph& graph, std::int64_t value) { return graph.add_constant(Tensor::from_integer(value)); }

}  // namespace

ValueId positions(Graph& graph, const Dim& extent) {
  constexpr std::int64_t kMostConstant = 1 << 20;
  if (extent.is_constant() && extent.constant() <= kMostConstant) {
    std::vector<std::int64_t> places(static_cast<std::size_t>(extent.constant()));
    std::iota(places.begin(), places.end(), 0);
    return graph.add_constant(Tensor::from_integers(places));
  }
  const ValueId result =
      graph.add(OpKind::Range, {number(graph, 0), shape_operand(graph, {extent}), number(graph, 1)});
  graph.value(result).shape = Shape{extent};
  return result;
}

namespace {

// Column less row, for each element of a matrix.
ValueId diagonals(Graph& graph, const Dim& rows, const Dim& columns) {
  return graph.add(OpKind::Sub,
                   {positions(graph, columns), reshape(graph, positions(graph, rows), Shape{rows, Dim(1)})});
}

}  // namespace

std::optional<ValueId> one_hot_as_where(Graph& graph, const Node& node) {
  const auto &shape = graph.value(node.inputs[0]).shape, &result = graph.value(node.outputs[0]).shape;
  const graph::Value& values = graph.value(node.inputs[2]);
  if (!shape || !result || !graph.value(node.inputs[1]).elements || !values.shape ||
      values.shape->size() != 1 || !is_selectable(values.dtype) ||
      !is_selectable(graph.value(node.inputs[0]).dtype)) {
    return std::nullopt;
  }
  const std::int64_t rank = static_cast<std::int64_t>(result->size()), axis = integer(node, "axis");
  const auto at = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  const Dim depth = (*result)[at];
  Shape indices = *shape, along(result->size() - at, Dim(1));
  indices.insert(indices.begin() + static_cast<std::ptrdiff_t>(at), Dim(1));
  along[0] = depth;
  const ValueId place = reshape(graph, positions(graph, depth), along);
  // Indices from -depth on count from the back.
  const ValueId index = reshape(graph, cast(graph, node.inputs[0], DType::I64), indices);
  const ValueId wrapped = graph.add(OpKind::Add, {index, shape_operand(graph, {depth})});
  const ValueId is_negative = graph.add(OpKind::Less, {index, number(graph, 0)});
  const ValueId chosen = graph.add(OpKind::Where, {is_negative, wrapped, index});
  const auto value_at = [&](std::int64_t i) {
    const auto one = [&](std::int64_t k) { return graph.add_constant(Tensor::from_integers(std::array{k})); };
    const ValueId value = graph.add(OpKind::Slice, {node.inputs[2], one(i), one(i + 1)});
    graph.value(value).shape = Shape{Dim(1)};  // there are two, whatever is known of them
    return value;
  };
  const ValueId off = value_at(0), on = value_at(1);
  return graph.add(OpKind::Where, {graph.add(OpKind::Equal, {place, chosen}), on, off});
}

std::optional<ValueId> trilu_as_where(Graph& graph, const Node& node) {
  const graph::Value& value = graph.value(node.inputs[0]);
  const DType dtype = value.dtype;
  if (!value.shape || value.shape->size() < 2 || !is_selectable(dtype)) return std::nullopt;
  const Dim rows = (*value.shape)[value.shape->size() - 2], columns = value.shape->back();
  const bool has_k = node.inputs.size() > 1 && node.inputs[1];
  if (has_k && (!graph.value(node.inputs[1]).shape || graph.value(node.inputs[1]).shape->size() > 1))
    return std::nullopt;
  const ValueId k = has_k ? node.inputs[1] : number(graph, 0);
  const OpKind keeps = integer(node, "upper") != 0 ? OpKind::GreaterOrEqual : OpKind::LessOrEqual;
  const ValueId kept = graph.add(keeps, {diagonals(graph, rows, columns), k});
  return graph.add(OpKind::Where, {kept, node.inputs[0], graph.add_constant(Tensor(dtype, {}))});
}

std::optional<ValueId> eye_like_as_comparison(Graph& graph, const Node& node) {
  const auto& shape = graph.value(node.outputs[0]).shape;
  const DType dtype = graph.value(node.outputs[0]).dtype;
  if (!shape || shape->size() != 2 || !is_selectable(dtype)) return std::nullopt;
  const Dim rows = (*shape)[0], columns = (*shape)[1];
  const ValueId on =
      graph.add(OpKind::Equal, {diagonals(graph, rows, columns), number(graph, integer(node, "k"))});
  return cast(graph, on, dtype);
}

}  // namespace kiln::runtime
