// What a run's inputs must be, and what they say of the Symbols.
#pragma once

#include <compare>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
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

// Where an input is not what the Graph declares: in its rank, which is given, or in the extent of one axis.
struct Contradiction {
  std::size_t input = 0;  // by position
  bool in_rank = false;
  std::size_t rank_or_axis = 0;
  auto operator<=>(const Contradiction&) const = default;
};
using Contradictions = std::vector<Contradiction>;

// Binds the Symbols that inputs of these extents tell, and gives what contradicts the Graph: then nothing may
// run on it. Throws Error (caller) if the extents contradict each other or can be those of no tensor.
[[nodiscard]] Contradictions bind_extents(const graph::Graph& graph, std::span<const Extents> extents,
                                          graph::Bindings& bindings);

// "input x is 4x3, the model declares [batch, 2]", one for each input.
std::string describe(const graph::Graph& graph, const Contradictions& contradictions,
                     std::span<const Extents> extents);

// Binds the Symbols that elements of inputs tell.
void bind_elements(const graph::Graph& graph, std::span<const Datum> inputs, graph::Bindings& bindings);

// Extents of each output for these Symbols; nothing where they do not tell. Throws Error (caller) where the
// model cannot take them.
std::vector<std::optional<Extents>> output_extents(const graph::Graph& graph,
                                                   std::span<const std::int64_t> bindings);

}  // namespace kiln::runtime
