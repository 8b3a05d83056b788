// Where the result of an index-map operator lies inside its input: Transpose, Reshape, Slice, Split, Expand,
// a Gather of one element ... cost nothing at run time when strides can express them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/graph/graph.h"

namespace kiln::runtime {

// True for operators whose first output may be a view of their first input.
bool is_view_operator(graph::OpKind op);

// The Layout of output `output` of a view operator, given the Layout of its first input; nothing if strides
// cannot express it (or cannot be proved to).
std::optional<graph::Layout> view_layout(const graph::Graph& graph, const graph::Node& node,
                                         std::size_t output, const graph::Layout& input);

// Strides that read memory of `shape` and `strides` as `reshaped` in row-major order; nothing if they do not
// exist. Axes are matched in groups of equal product; within a group the source must be contiguous.
std::optional<std::vector<graph::Dim>> reshape_strides(const graph::Shape& shape,
                                                       std::span<const graph::Dim> strides,
                                                       const graph::Shape& reshaped);

}  // namespace kiln::runtime
