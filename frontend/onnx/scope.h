// What names mean while a model is imported, and how a Graph within a node sees Values around it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <onnx/onnx_pb.h>

#include "frontend/onnx/opsets.h"
#include "frontend/onnx/translation.h"
#include "ir/graph/graph.h"

namespace kiln::frontend {

using AttributeProtos = std::map<std::string, const onnx::AttributeProto*, std::less<>>;

// A Graph that is being made: the model's, or that of a node's attribute.
struct GraphInProgress {
  graph::Graph graph;
  std::vector<ValueId> captures;  // Values of the Graph around it, one for each of the last inputs
  std::unordered_map<ValueId, ValueId> captured;             // the same by Value, constants too
  std::unordered_map<graph::Dim, graph::Dim> captured_dims;  // extents around -> Symbols in here
};

// What names mean inside one graph or one expansion of a function.
struct Scope {
  GraphInProgress* target = nullptr;
  const Scope* outer = nullptr;  // whose names can be used in here; none for the model and for functions
  std::string prefix;            // before names of Values and nodes in here
  const Opsets* opsets = nullptr;
  std::unordered_map<std::string, ValueId> values;
  AttributeProtos attributes;  // of the expanded call; what ref_attr_name refers to
  std::unordered_map<std::string, std::string> output_names;  // a function's outputs: names of the caller
  int depth = 0;

  graph::Graph& graph() const { return target->graph; }
  std::string value_name(const std::string& name) const {
    const auto renamed = output_names.find(name);
    return renamed == output_names.end() ? prefix + name : renamed->second;
  }
  // Throws Error (caller, invalid_model) if `name` means something already.
  void define(const std::string& name, ValueId id);
  // The Value that `name` means here; one of the Graph around becomes a constant or an input (a capture) of
  // this one. Nothing if nobody defines it.
  std::optional<ValueId> find(const std::string& name) const;
};

// A Value of the Graph around `target` as one in there: a constant, or an input (a capture), the same for
// each call.
ValueId capture(GraphInProgress& target, const graph::Graph& outside, ValueId id);

// A new input of `target` like `formal`, whose extents are those of another Graph. Symbolic extents become
// Symbols of the input's own.
ValueId add_formal(GraphInProgress& target, const Formal& formal, std::string name);

// Gives an input of a Graph, whose rank was unknown, a Symbol of its own for each of `rank` extents.
void set_rank(graph::Graph& graph, ValueId input, std::size_t rank);

}  // namespace kiln::frontend
