// What is known of Values before any kernel runs.
#pragma once

#include <cstdint>
#include <span>

#include "ir/graph/graph.h"

namespace kiln::runtime {

// True if the content follows from the model and the Symbols alone: constants and evaluated shape arithmetic.
// Such a Value is made by the Plan, not by a Step.
inline bool is_known(const graph::Value& value) {
  return value.constant.has_value() || (value.elements.has_value() && value.shape.has_value());
}

// The content of a known integer Value for these Symbols.
Tensor elements_tensor(const graph::Value& value, std::span<const std::int64_t> bindings);

// The elements of an operand that says *where* (a shape, axes, starts ...), if they are known; nothing
// otherwise.
std::optional<std::vector<graph::Dim>> known_elements(const graph::Graph& graph, const graph::Node& node,
                                                      std::size_t input);

// The constant elements of such an operand, if all are.
std::optional<std::vector<std::int64_t>> constant_elements(const graph::Graph& graph, const graph::Node& node,
                                                           std::size_t input);

}  // namespace kiln::runtime
