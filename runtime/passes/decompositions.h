// Operators that are said with simpler ones. Each function adds nodes and gives the Value that stands for the
// node's first result, or nothing where the node stays as it is.
#pragma once

#include <optional>

#include "ir/graph/graph.h"

namespace kiln::runtime {

// Types that generated code selects between.
bool is_selectable(DType dtype);

// An operand that says this shape: a constant, or known elements.
graph::ValueId shape_operand(graph::Graph& graph, const graph::Shape& shape);

// Reshape to exactly this shape: an extent of 0 is an empty axis.
graph::ValueId reshape(graph::Graph& graph, graph::ValueId data, const graph::Shape& shape);

// The same numbers in a type; the Value itself if it has that.
graph::ValueId cast(graph::Graph& graph, graph::ValueId value, DType dtype);

// 0, 1, ... : a constant, or made while running if the extent shows only then.
graph::ValueId positions(graph::Graph& graph, const graph::Dim& extent);

// Reshape, Transpose, Reshape.
std::optional<graph::ValueId> depth_to_space(graph::Graph& graph, const graph::Node& node);
std::optional<graph::ValueId> space_to_depth(graph::Graph& graph, const graph::Node& node);

// Each repeated axis becomes a pair of axes, of which Expand repeats the first; several steps for many axes.
std::optional<graph::ValueId> tile_as_expand(graph::Graph& graph, const graph::Node& node);

// Over constant extents, one axis after the other: a Gather of the nearest elements, or the weighted sum of
// several. Nearest by whole factors becomes the one form that a Template has.
std::optional<graph::ValueId> resize_as_gathers(graph::Graph& graph, const graph::Node& node);

// Outside training. The mask, which is true throughout, is replaced, too.
std::optional<graph::ValueId> dropout_as_identity(graph::Graph& graph, const graph::Node& node);

// ArgMax, ArgMin and Hardmax: the least or greatest index where the element equals the extreme one.
std::optional<graph::ValueId> arg_extreme_as_reductions(graph::Graph& graph, const graph::Node& node);
std::optional<graph::ValueId> hardmax_as_reductions(graph::Graph& graph, const graph::Node& node);

// A reduction along no axis, which takes every element for itself.
std::optional<graph::ValueId> reduction_of_single_elements(graph::Graph& graph, const graph::Node& node);

// MeanVarianceNormalization: two means over the same axes.
std::optional<graph::ValueId> mean_variance_as_reductions(graph::Graph& graph, const graph::Node& node);

// BatchNormalization by parameters that are not all constant: elementwise. Constant ones are folded better by
// fold_batch_normalization().
std::optional<graph::ValueId> batch_normalization_as_affine(graph::Graph& graph, const graph::Node& node);

// GroupNormalization: InstanceNormalization of the groups, then scale and bias.
std::optional<graph::ValueId> group_normalization_as_rows(graph::Graph& graph, const graph::Node& node);

// LpNormalization: the quotient by a norm, where that is not 0.
std::optional<graph::ValueId> lp_normalization_as_rows(graph::Graph& graph, const graph::Node& node);

// LRN: the mean of the squares of neighbouring channels is an AveragePool.
std::optional<graph::ValueId> local_response_as_pool(graph::Graph& graph, const graph::Node& node);

// LpPool: an average of powers times the size of the window.
std::optional<graph::ValueId> lp_pool_as_average(graph::Graph& graph, const graph::Node& node);

// MatMul of a vector: the same of a matrix with one row or column.
std::optional<graph::ValueId> vector_product_as_matrix_product(graph::Graph& graph, const graph::Node& node);

// Einsum: transposes, sums over what one operand alone has, and matrix products of two operands at a time,
// from the first on.
std::optional<graph::ValueId> einsum_as_products(graph::Graph& graph, const graph::Node& node);

// Comparisons of positions 0, 1, ... : OneHot of a known depth, Trilu, EyeLike.
std::optional<graph::ValueId> one_hot_as_where(graph::Graph& graph, const graph::Node& node);
std::optional<graph::ValueId> trilu_as_where(graph::Graph& graph, const graph::Node& node);
std::optional<graph::ValueId> eye_like_as_comparison(graph::Graph& graph, const graph::Node& node);

// One element, repeated.
std::optional<graph::ValueId> constant_of_shape_as_expand(graph::Graph& graph, const graph::Node& node);

// Pads that are negative where it crops.
std::optional<graph::ValueId> center_crop_pad_as_pad(graph::Graph& graph, const graph::Node& node);

// ReduceMax and ReduceMin of booleans, as numbers.
std::optional<graph::ValueId> boolean_extreme_as_reduction(graph::Graph& graph, const graph::Node& node);

}  // namespace kiln::runtime
