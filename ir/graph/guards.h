// What shape inference assumed, held against the sizes of a run.
#pragma once

#include <cstdint>
#include <span>

#include "ir/graph/graph.h"

namespace kiln::graph {

// Checks the Guards whose Symbols are bound; throws Error (caller, shape_mismatch).
void check_guards(const Graph& graph, std::span<const std::int64_t> bindings);

}  // namespace kiln::graph
