// What is known of Values before any kernel runs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "ir/graph/graph.h"

namespace kiln::runtime {

// True if the content follows from the model and the Symbols alone: constants and evaluated shape arithmetic.
// Such a Value is made by the Plan, not by a Step.
inline bool is_known(const graph::Value& value) {
  return value.constant.has_value() || (value.elements.has_value() && value.shape.has_value());
}

// True if only running the node tells the sizes of its results. Such a result is a dense tensor that the node
// makes, never a view.
bool makes_sizes(const graph::Graph& graph, const graph::Node& node);

// The content of a known Value for these Symbols; nothing while one that it needs is unbound.
std::optional<Tensor> try_elements_tensor(const graph::Value& value, std::span<const std::int64_t> bindings);
// The same where all are bound.
Tensor elements_tensor(const graph::Value& value, std::span<const std::int64_t> bindings);

// The extents of a Value for these Symbols; nothing if its rank is unknown or a Symbol unbound. Throws
// Error (caller, shape_mismatch) that names the node for impossible ones.
std::optional<Extents> try_extents(const graph::Graph& graph, graph::ValueId id,
                                   std::span<const std::int64_t> bindings);

}  // namespace kiln::runtime
