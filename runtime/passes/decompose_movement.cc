#include <array>
#include <numeric>
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

// Types that generated code selects between.
bool is_selectable(DType dtype) {
  return dtype == DType::I1 || (bits(dtype) >= 8 && is_integer(dtype)) ||
         (bits(dtype) >= 16 && is_float(dtype));
}

// Blocks are split off or merged in by two reshapes round a transpose.
std::optional<ValueId> permuted(Graph& graph, const Node& node, const Shape& split,
                                std::vector<std::int64_t> permutation) {
  const auto& result = graph.value(node.outputs[0]).shape;
  if (!result) return std::nullopt;
  const Shape shape = *result;
  const ValueId blocks = reshape(graph, node.inputs[0], split);
  return reshape(graph, graph.add(OpKind::Transpose, {blocks}, {{"perm", std::move(permutation)}}), shape);
}

}  // namespace

ValueId shape_operand(Graph& graph, const Shape& shape) {
  std::vector<std::int64_t> extents;
  for (const Dim& dim : shape) {
    if (dim.is_constant()) extents.push_back(dim.constant());
  }
  if (extents.size() == shape.size()) return graph.add_constant(Tensor::from_integers(extents));
  graph::Value value;
  value.dtype = DType::I64;
  value.shape = Shape{static_cast<std::int64_t>(shape.size())};
  value.elements = shape;
  return graph.add_value(std::move(value));
}

ValueId reshape(Graph& graph, ValueId data, const Shape& shape) {
  return graph.add(OpKind::Reshape, {data, shape_operand(graph, shape)}, {{"allowzero", std::int64_t{1}}});
}

std::optional<ValueId> depth_to_space(Graph& graph, const Node& node) {
  const auto& input = graph.value(node.inputs[0]).shape;
  if (!input || input->size() != 4) return std::nullopt;
  const Shape x = *input;
  const Dim block = integer(node, "blocksize");
  const Dim depth = floordiv(x[1], block * block);
  if (text(node, "mode") == "DCR")
    return permuted(graph, node, {x[0], block, block, depth, x[2], x[3]}, {0, 3, 4, 1, 5, 2});
  return permuted(graph, node, {x[0], depth, block, block, x[2], x[3]}, {0, 1, 4, 2, 5, 3});
}

std::optional<ValueId> space_to_depth(Graph& graph, const Node& node) {
  const auto& input = graph.value(node.inputs[0]).shape;
  if (!input || input->size() != 4) return std::nullopt;
  const Shape x = *input;
  const Dim block = integer(node, "blocksize");
  return permuted(graph, node, {x[0], x[1], floordiv(x[2], block), block, floordiv(x[3], block), block},
                  {0, 3, 5, 1, 2, 4});
}

std::optional<ValueId> tile_as_expand(Graph& graph, const Node& node) {
  const auto& input = graph.value(node.inputs[0]).shape;
  const auto repeats = known_elements(graph, node, 1);
  if (!input || !repeats || repeats->size() != input->size()) return std::nullopt;
  const Shape x = *input;
  Shape split, expanded, result;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Dim& repeat = (*repeats)[i];
    if (repeat != Dim(1)) {
      split.emplace_back(1);
      expanded.push_back(repeat);
    }
    split.push_back(x[i]);
    expanded.push_back(x[i]);
    result.push_back(x[i] * repeat);
  }
  const ValueId repeated =
      graph.add(OpKind::Expand, {reshape(graph, node.inputs[0], split), shape_operand(graph, expanded)});
  return reshape(graph, repeated, result);
}

std::optional<ValueId> one_hot_as_where(Graph& graph, const Node& node) {
  constexpr std::int64_t kMaxDepth = 1 << 20;
  const auto& shape = graph.value(node.inputs[0]).shape;
  const auto depth = constant_elements(graph, node, 1);
  const graph::Value& values = graph.value(node.inputs[2]);
  if (!shape || !depth || depth->size() != 1 || (*depth)[0] < 0 || (*depth)[0] > kMaxDepth || !values.shape ||
      *values.shape != Shape{Dim(2)} || !is_selectable(values.dtype)) {
    return std::nullopt;
  }
  const std::int64_t extent = (*depth)[0], rank = static_cast<std::int64_t>(shape->size()) + 1;
  const std::int64_t axis = integer(node, "axis");
  const auto at = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  Shape unsqueezed = *shape;
  unsqueezed.insert(unsqueezed.begin() + static_cast<std::ptrdiff_t>(at), Dim(1));
  std::vector<std::int64_t> places(static_cast<std::size_t>(extent));
  std::iota(places.begin(), places.end(), 0);
  Extents extents(unsqueezed.size() - at, 1);
  extents[0] = extent;
  const ValueId place = graph.add_constant(Tensor::from_integers(places).reshaped(std::move(extents)));
  ValueId index = node.inputs[0];
  if (graph.value(index).dtype != DType::I64)
    index = graph.add(OpKind::Cast, {index}, {{"to", static_cast<std::int64_t>(DType::I64)}});
  // Indices from -depth on count from the back.
  const ValueId is_negative = graph.add(OpKind::Less, {index, graph.add_constant(Tensor::from_integer(0))});
  const ValueId wrapped = graph.add(OpKind::Add, {index, graph.add_constant(Tensor::from_integer(extent))});
  index = reshape(graph, graph.add(OpKind::Where, {is_negative, wrapped, index}), unsqueezed);
  const auto value_at = [&](std::int64_t i) {
    const auto one = [&](std::int64_t k) { return graph.add_constant(Tensor::from_integers(std::array{k})); };
    return graph.add(OpKind::Slice, {node.inputs[2], one(i), one(i + 1)});
  };
  const ValueId off = value_at(0), on = value_at(1);
  return graph.add(OpKind::Where, {graph.add(OpKind::Equal, {place, index}), on, off});
}

}  // namespace kiln::runtime
