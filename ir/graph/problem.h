// What a Template needs to know of a Region.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/base/id.h"
#include "ir/graph/graph.h"

namespace kiln::graph {

// Nodes of one Graph that are compiled together. `inputs` and `outputs` are the Values that cross the
// border as memory: weights are inputs, one-element constants and known elements need not be.
struct Region {
  std::vector<NodeId> nodes;  // topological order
  NodeId root;                // the node whose Template builds the Program
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
};

constexpr std::size_t kMaxRegionNodes = 64;
constexpr std::size_t kMaxRegionInputs = 8;

// A Region cut out as a Graph of its own, in canonical form: nodes and inputs in the Region's order, no
// names, Symbols renumbered by first appearance, so that equal Regions of one or of many models give equal
// text and share tuning records. A Symbol may stand for any Dim of the original Graph: what matters is which
// extents are the same and how the Region's own operators relate them. Each input and output Value has a
// Layout whose storage is itself. Constants: those the Template may compute with (shapes, axes, scalars) keep
// their tensor; weights are inputs flagged constant, whose content is not part of the Problem.
struct Problem {
  Graph graph;
  NodeId root;
  std::vector<bool> input_is_constant;  // per graph.inputs
  // Per Symbol of `graph`: the Dim of the original Graph that it stands for. Not part of the canonical form.
  std::vector<Dim> symbol_origin;

  // Canonical text: equal iff the Problems are the same to a Template.
  std::string canonical_text() const;
};

// Cuts `region` out of `graph`; a Value without a Layout counts as dense. graph.inputs and graph.outputs of
// the result are those of the Region, in its order.
Problem make_problem(const Graph& graph, const Region& region);

}  // namespace kiln::graph
