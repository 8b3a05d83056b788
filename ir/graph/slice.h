// How Slice clamps its bounds along one axis, whoever asks: for shapes, elements or layouts.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/graph/dim.h"

namespace kiln::graph {

// The first element: in [0, extent] forward, in [0, extent - 1] backward, where an empty axis gives -1.
// Nothing where it is not known which end `start` counts from.
std::optional<Dim> slice_first(const Dim& start, const Dim& extent, bool forward);

// From one element to the next; 1 or -1 times the extent where `step` is longer than that. Not for a step of
// 0.
Dim slice_step(std::int64_t step, const Dim& extent);

// How many elements there are; nothing where it is not known which end a bound counts from.
std::optional<Dim> slice_count(const Dim& start, const Dim& end, const Dim& extent, std::int64_t step);

}  // namespace kiln::graph
