#include <numeric>
#include <utility>
#include <vector>

#include "runtime/operands.h"
#include "runtime/passes/decompositions.h"
#include "runtime/passes/passes.h"

namespace kiln::runtime {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::OpKind;
using graph::ValueId;

// Axes 2 .. rank-1 as a constant operand.
std::optional<ValueId> spatial_axes(Graph& graph, ValueId input) {
  const auto& shape = graph.value(input).shape;
  if (!shape || shape->size() < 3) return std::nullopt;
  std::vector<std::int64_t> axes(shape->size() - 2);
  std::iota(axes.begin(), axes.end(), 2);
  return graph.add_constant(Tensor::from_integers(axes));
}

// A reduction over all spatial axes is what the rows Template knows.
std::optional<ValueId> global_pool_as_reduction(Graph& graph, const Node& node) {
  if (node.op == OpKind::GlobalLpPool && integer(node, "p") > 2) return std::nullopt;
  const OpKind reduction = node.op == OpKind::GlobalAveragePool ? OpKind::ReduceMean
                           : node.op == OpKind::GlobalMaxPool   ? OpKind::ReduceMax
                           : integer(node, "p") == 1            ? OpKind::ReduceL1
                                                                : OpKind::ReduceL2;
  const ValueId input = node.inputs[0];
  const auto axes = spatial_axes(graph, input);
  if (!axes) return std::nullopt;
  return graph.add(reduction, {input, *axes}, {{"keepdims", std::int64_t{1}}});
}

// A variadic operator over one operand is that operand, over two a binary operator where one exists.
std::optional<ValueId> variadic_sum(Graph& graph, const Node& node) {
  if (node.inputs.size() == 1) return node.inputs[0];
  ValueId sum = node.inputs[0];
  const std::vector<ValueId> inputs = node.inputs;
  for (std::size_t i = 1; i < inputs.size(); ++i) sum = graph.add(OpKind::Add, {sum, inputs[i]});
  return sum;
}

// Only the type of the second operand matters: its extents, which may be larger, and its maker do not.
std::optional<ValueId> cast_like_as_cast(Graph& graph, const Node& node) {
  graph::Attributes attributes = node.attributes;
  attributes["to"] = static_cast<std::int64_t>(graph.value(node.inputs[1]).dtype);
  return graph.add(OpKind::Cast, {node.inputs[0]}, std::move(attributes));
}

std::optional<ValueId> canonical_form(Graph& graph, const Node& node) {
  switch (node.op) {
    case OpKind::GlobalAveragePool:
    case OpKind::GlobalMaxPool:
    case OpKind::GlobalLpPool:
      return global_pool_as_reduction(graph, node);
    case OpKind::LpNormalization:
      return lp_normalization_as_rows(graph, node);
    case OpKind::Sum:
      return variadic_sum(graph, node);
    case OpKind::CastLike:
      return cast_like_as_cast(graph, node);
    case OpKind::Dropout:
      return dropout_as_identity(graph, node);
    case OpKind::ArgMax:
    case OpKind::ArgMin:
      return arg_extreme_as_reductions(graph, node);
    case OpKind::Hardmax:
      return hardmax_as_reductions(graph, node);
    case OpKind::BatchNormalization:
      return batch_normalization_as_affine(graph, node);
    case OpKind::GroupNormalization:
      return group_normalization_as_rows(graph, node);
    case OpKind::LRN:
      return local_response_as_pool(graph, node);
    case OpKind::LpPool:
      return lp_pool_as_average(graph, node);
    case OpKind::OneHot:
      return one_hot_as_where(graph, node);
    case OpKind::Trilu:
      return trilu_as_where(graph, node);
    case OpKind::EyeLike:
      return eye_like_as_comparison(graph, node);
    case OpKind::ConstantOfShape:
      return constant_of_shape_as_expand(graph, node);
    case OpKind::CenterCropPad:
      return center_crop_pad_as_pad(graph, node);
    case OpKind::Einsum:
      return einsum_as_products(graph, node);
    case OpKind::MatMul:
      return vector_product_as_matrix_product(graph, node);
    case OpKind::MeanVarianceNormalization:
      return mean_variance_as_reductions(graph, node);
    case OpKind::ReduceSum:
    case OpKind::ReduceMean:
    case OpKind::ReduceProd:
    case OpKind::ReduceL1:
    case OpKind::ReduceL2:
    case OpKind::ReduceLogSum:
    case OpKind::ReduceLogSumExp:
    case OpKind::ReduceSumSquare:
      return reduction_of_single_elements(graph, node);
    case OpKind::ReduceMax:
    case OpKind::ReduceMin:
      if (const auto same = reduction_of_single_elements(graph, node)) return same;
      return boolean_extreme_as_reduction(graph, node);
    case OpKind::DepthToSpace:
      return depth_to_space(graph, node);
    case OpKind::SpaceToDepth:
      return space_to_depth(graph, node);
    case OpKind::Tile:
      return tile_as_expand(graph, node);
    case OpKind::Resize:
      return resize_as_gathers(graph, node);
    default:
      return std::nullopt;
  }
}

}  // namespace

void canonicalise(Graph& graph) {
  for (const NodeId id : graph.topological_order()) {
    const Node node = graph.node(id);
    const std::size_t first_new = graph.node_count();
    const auto replacement = canonical_form(graph, node);
    if (!replacement) continue;
    for (std::size_t i = first_new; i < graph.node_count(); ++i) {
      graph.node(NodeId{static_cast<std::uint32_t>(i)}).name = node.name;
    }
    graph.replace_uses(node.outputs[0], *replacement);
    graph.remove_node(id);
  }
}

}  // namespace kiln::runtime
