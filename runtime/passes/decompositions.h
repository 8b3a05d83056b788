// Operators that are said with simpler ones. Each function adds nodes and gives the Value that stands for the
// node's first result, or nothing where the node stays as it is.
#pragma once

#include <optional>

#include "ir/graph/graph.h"

namespace kiln::runtime {

// Reshape, Transpose, Reshape.
std::optional<graph::ValueId> depth_to_space(graph::Graph& graph, const graph::Node& node);
std::optional<graph::ValueId> space_to_depth(graph::Graph& graph, const graph::Node& node);

// Each repeated axis becomes a pair of axes, of which Expand repeats the first.
std::optional<graph::ValueId> tile_as_expand(graph::Graph& graph, const graph::Node& node);

// Nearest and linear over constant extents, one axis after the other: a Gather of the nearest elements, or
// two of the neighbours and their weighted sum. Nearest by whole factors becomes the one form that a Template
// has.
std::optional<graph::ValueId> resize_as_gathers(graph::Graph& graph, const graph::Node& node);

}  // namespace kiln::runtime
