// Operators whose attributes hold Graphs: how their kernels run these.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels_ref/reference.h"

namespace kiln::reference {

const graph::Graph& body_of(const Call& call, std::string_view attribute);

// Outputs of `body` for its own inputs and its captures. Throws Error (bug) if the call cannot run Graphs.
std::vector<Datum> run(const Call& call, const graph::Graph& body, std::vector<Datum> inputs);

// The extents of each input of a body, where it is a tensor.
using InputExtents = std::vector<std::optional<Extents>>;

// The extents that output `output` of `body` would have after an execution for such inputs, as its inferred
// shape tells them: one that only running would tell is 0, and nothing but the rank 0 is left of a shape of
// which not even the rank is told.
Extents extents_without_running(const graph::Graph& body, std::size_t output, const InputExtents& inputs);

// Appends the call's inputs [begin, end); nothing for one that is absent.
void append(std::vector<Datum>& data, const Call& call, std::size_t begin, std::size_t end);

}  // namespace kiln::reference
