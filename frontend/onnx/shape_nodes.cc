#include "frontend/onnx/shape_nodes.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace kiln::frontend {

ValueId extent(Translation& node, ValueId value, std::int64_t axis) {
  if (axis == -1) return node.add(OpKind::Shape, {value}, {{"start", axis}});
  return extents_between(node, value, axis, axis + 1);
}

ValueId extents_between(Translation& node, ValueId value, std::int64_t begin, std::int64_t end) {
  return node.add(OpKind::Shape, {value}, {{"start", begin}, {"end", end}});
}

ValueId with_groups_in_order(Translation& node, ValueId value, const std::array<ValueId, 3>& groups,
                             const std::array<std::int64_t, 3>& order) {
  std::vector<ValueId> merged, reordered;
  for (const ValueId group : groups)
    merged.push_back(node.add(OpKind::ReduceProd, {group, node.integers({0})}));
  for (const std::int64_t group : order) reordered.push_back(groups[static_cast<std::size_t>(group)]);
  const ValueId moved = transposed(node, reshaped(node, value, merged), {order.begin(), order.end()});
  return reshaped(node, moved, reordered);
}

TrailingAxes axes_from(const Translation& node, ValueId value, std::int64_t axis) {
  const auto& shape = node.graph.value(value).shape;
  if (!shape) return {axis, axis == -1};
  const auto rank = static_cast<std::int64_t>(shape->size());
  const std::int64_t first = axis < 0 ? axis + rank : axis;
  if (first < 0 || first > rank) node.invalid(fmt::format("axis {} is outside rank {}", axis, rank));
  return {first, first < rank && std::all_of(
                                     shape->begin() + first + 1, shape->end(),
                                     [](const graph::Dim& dim) { return dim == graph::Dim(1); })};
}

ValueId only_element(Translation& node, ValueId vector) {
  return node.add(OpKind::Squeeze, {vector, node.integers({0})});
}

ValueId quotient(Translation& node, ValueId a, std::int64_t divisor) {
  return node.add(OpKind::Div, {a, node.integers({divisor})});
}

ValueId joined(Translation& node, std::vector<ValueId> values, std::int64_t axis) {
  if (values.size() == 1) return values[0];
  return node.add(OpKind::Concat, std::move(values), {{"axis", axis}});
}

ValueId reshaped(Translation& node, ValueId value, std::vector<ValueId> parts) {
  return node.add(OpKind::Reshape, {value, joined(node, std::move(parts), 0)},
                  {{"allowzero", std::int64_t{1}}});
}

ValueId sliced(Translation& node, ValueId value, ValueId begin, ValueId end, std::int64_t axis) {
  if (!end) end = node.integers({std::numeric_limits<std::int64_t>::max()});
  return node.add(OpKind::Slice, {value, begin, end, node.integers({axis})});
}

ValueId unsqueezed(Translation& node, ValueId value, std::initializer_list<std::int64_t> axes) {
  return node.add(OpKind::Unsqueeze, {value, node.integers(axes)});
}

ValueId transposed(Translation& node, ValueId value, std::vector<std::int64_t> permutation) {
  return node.add(OpKind::Transpose, {value}, {{"perm", std::move(permutation)}});
}

ValueId sum(Translation& node, ValueId a, ValueId b) { return node.add(OpKind::Add, {a, b}); }

ValueId cast(Translation& node, ValueId value, DType dtype) {
  if (node.dtype(value) == dtype) return value;
  return node.add(OpKind::Cast, {value}, to(dtype));
}

ValueId positions(Translation& node, ValueId length) {
  return node.add(OpKind::Range, {node.integer(0), only_element(node, length), node.integer(1)});
}

ValueId with_rank(Translation& node, ValueId value, std::int64_t rank) {
  if (const auto known = node.rank(value)) {
    if (*known != rank) node.invalid(fmt::format("an input has rank {}, expected {}", *known, rank));
    return value;
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  return transposed(node, value, std::move(order));
}

DType wide_dtype(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16 ? DType::F32 : dtype; }

}  // namespace kiln::frontend
