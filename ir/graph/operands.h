// What operands tell of a node before anything runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph/graph.h"

namespace kiln::graph {

// True for an operand that says where or how many (axes, a shape, pads ...) rather than being read.
bool says_where(const Node& node, std::size_t operand);

// The elements of an operand that says *where* (a shape, axes, starts ...), if they are known; nothing
// otherwise.
std::optional<std::vector<Dim>> known_elements(const Graph& graph, const Node& node, std::size_t input);

// The constant elements of such an operand, if all are.
std::optional<std::vector<std::int64_t>> constant_elements(const Graph& graph, const Node& node,
                                                           std::size_t input);

// The axes that a FusionClass::Rows node works along, ascending and non-negative: those that a reduction
// drops, a softmax normalises, a norm averages over; empty if a reduction without axes says so. Nothing if
// the rank or the axes are not known, or the operator has no such axes.
std::optional<std::vector<std::int64_t>> row_axes(const Graph& graph, const Node& node);

}  // namespace kiln::graph
