// Groups the nodes of a Graph into Regions: what is compiled together.
//
// One greedy sweep in topological order. A node joins the Region of one of its inputs where that keeps the
// Regions free of cycles and within their bounds, else it starts a Region of its own. Elementwise nodes join
// anything whose results have their shape; a reduction takes over the elementwise Region that feeds it; more
// reductions over the same rows join that.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/problem.h"

namespace kiln::runtime {

struct RegionDecision {
  graph::Region region;
  std::vector<std::string> notes;  // why nodes joined or did not, for `kiln explain --stage regions`
};

// Regions in an order in which producers come first. Nodes that do no work (views, placed Concats, evaluated
// shape arithmetic) are in none. The Graph has Layouts.
std::vector<RegionDecision> form_regions(const graph::Graph& graph);

// Cuts a Region down to single nodes: what remains when no Template builds the whole.
std::vector<graph::Region> split_region(const graph::Graph& graph, const graph::Region& region);

// True for a node that needs no Step: its outputs are views of its inputs, or known from Symbols.
bool is_free(const graph::Graph& graph, const graph::Node& node);

}  // namespace kiln::runtime
