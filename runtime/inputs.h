// What a run's inputs must be, and what they say of the Symbols.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <kiln/datum.h>

#include "ir/graph/graph.h"

namespace kiln::runtime {

// Throws Error (caller) that names the input, what was got and what is expected, unless there is a Datum for
// each input of the Graph, of its container and dtype, and all its tensors have their elements. Extents are
// left to bind_extents().
void check_inputs(const graph::Graph& graph, std::span<const Datum> inputs);

// Throws Error (caller) that names the output unless `given` is of this dtype and these extents.
void check_output(std::string_view output, const Tensor& given, DType dtype, const Extents& extents);

// False for a Tensor that was default-constructed or moved from.
bool has_elements(const Tensor& tensor);

// The extents of tensors; none for what is something else.
std::vector<Extents> extents_of(std::span<const Datum> inputs);

// The extents that the Graph declares. Throws Error (caller) that names inputs and Symbols if any is open.
std::vector<Extents> declared_extents(const graph::Graph& graph);

// Binds the Symbols that inputs of these extents tell. Throws Error (caller) if the extents contradict each
// other or the Graph.
void bind_extents(const graph::Graph& graph, std::span<const Extents> extents, graph::Bindings& bindings);

// Binds the Symbols that elements of inputs tell.
void bind_elements(const graph::Graph& graph, std::span<const Datum> inputs, graph::Bindings& bindings);

// Extents of each output for these Symbols; nothing where they do not tell.
std::vector<std::optional<Extents>> output_extents(const graph::Graph& graph,
                                                   std::span<const std::int64_t> bindings);

}  // namespace kiln::runtime
