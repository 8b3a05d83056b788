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

// An operand that says this shape: a constant, or known elements.
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
  // Every extent is given: 0 is an empty axis.
  return graph.add(OpKind::Reshape, {data, shape_operand(graph, shape)}, {{"allowzero", std::int64_t{1}}});
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

}  // namespace kiln::runtime
