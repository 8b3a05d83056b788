#include <algorithm>
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

bool is_selectable(DType dtype) {
  return dtype == DType::I1 || (bits(dtype) >= 8 && is_integer(dtype)) ||
         (bits(dtype) >= 16 && is_float(dtype));
}

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

ValueId cast(Graph& graph, ValueId value, DType dtype) {
  if (graph.value(value).dtype == dtype) return value;
  return graph.add(OpKind::Cast, {value}, {{"to", static_cast<std::int64_t>(dtype)}});
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
  // The copy runs over two axes for each repeated one and one for what lies before them, which is at most
  // six: of more repeated axes, the last are repeated first.
  ValueId result = node.inputs[0];
  Shape x = *input;
  std::size_t end = x.size();
  const bool first_is_repeated = !x.empty() && repeats->front() != Dim(1);
  const auto repeated = [&](std::size_t from) {
    return std::count_if(repeats->begin() + static_cast<std::ptrdiff_t>(from),
                         repeats->begin() + static_cast<std::ptrdiff_t>(end),
                         [](const Dim& repeat) { return repeat != Dim(1); });
  };
  do {
    std::size_t begin = 0;
    while (repeated(begin) > (begin == 0 && first_is_repeated ? 3 : 2)) ++begin;
    Shape split, expanded, tiled;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Dim repeat = i >= begin && i < end ? (*repeats)[i] : Dim(1);
      if (repeat != Dim(1)) {
        split.emplace_back(1);
        expanded.push_back(repeat);
      }
      split.push_back(x[i]);
      expanded.push_back(x[i]);
      tiled.push_back(x[i] * repeat);
    }
    const ValueId repeating =
        graph.add(OpKind::Expand, {reshape(graph, result, split), shape_operand(graph, expanded)});
    result = reshape(graph, repeating, tiled);
    x = std::move(tiled);
    end = begin;
  } while (end > 0);
  return result;
}

std::optional<ValueId> constant_of_shape_as_expand(Graph& graph, const Node& node) {
  const auto& result = graph.value(node.outputs[0]).shape;
  if (!result || !known_elements(graph, node, 0)) return std::nullopt;
  const Shape shape = *result;
  const Tensor value = has(node, "value") ? tensor(node, "value") : Tensor(DType::F32, {1});
  if (value.elements() != 1 || !is_selectable(value.dtype())) return std::nullopt;
  return graph.add(OpKind::Expand, {graph.add_constant(value.reshaped({})), shape_operand(graph, shape)});
}

std::optional<ValueId> center_crop_pad_as_pad(Graph& graph, const Node& node) {
  const auto &from = graph.value(node.inputs[0]).shape, &to = graph.value(node.outputs[0]).shape;
  if (!from || !to) return std::nullopt;
  std::vector<std::int64_t> low, high;
  for (std::size_t i = 0; i < from->size(); ++i) {
    const Dim more = (*to)[i] - (*from)[i];
    if (!more.is_constant()) return std::nullopt;
    low.push_back(more.constant() / 2);
    high.push_back(more.constant() - low.back());
  }
  low.insert(low.end(), high.begin(), high.end());
  return graph.add(OpKind::Pad, {node.inputs[0], graph.add_constant(Tensor::from_integers(low))});
}

}  // namespace kiln::runtime
