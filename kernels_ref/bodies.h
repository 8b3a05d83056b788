// Operators whose attributes hold Graphs: how their kernels run these.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "kernels_ref/reference.h"

namespace kiln::reference {

const graph::Graph& body_of(const Call& call, std::string_view attribute);

// Outputs of `body` for its own inputs and its captures. Throws Error (bug) if the call cannot run Graphs.
std::vector<Datum> run(const Call& call, const graph::Graph& body, std::vector<Datum> inputs);

// Appends the call's inputs [begin, end); nothing for one that is absent.
void append(std::vector<Datum>& data, const Call& call, std::size_t begin, std::size_t end);

}  // namespace kiln::reference
