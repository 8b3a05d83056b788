// The same program for inputs of which more is known.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "ir/graph/graph.h"

namespace kiln::graph {

// What is known of one input.
struct InputFacts {
  std::optional<std::size_t> rank;  // for an input of unknown rank
  std::optional<Tensor> value;
};

// `graph` with every shape inferred anew. An input with a value stays an input and is a constant as well.
// `facts` by position in graph.inputs. Throws Error (caller) where the facts make a node impossible.
Graph specialise(const Graph& graph, const std::map<std::size_t, InputFacts>& facts);

}  // namespace kiln::graph
