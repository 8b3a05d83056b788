#include <algorithm>
#include <vector>

#include "runtime/operands.h"
#include "runtime/passes/passes.h"

namespace kiln::runtime {
namespace {

using graph::Graph;
using graph::ValueId;

// Marks the results whose sizes stand as Symbols in what is known of `id`: only running their nodes tells
// them.
void need_sources(const Graph& graph, ValueId id, std::vector<bool>& needed) {
  const auto need = [&](const graph::Dim& dim) {
    for (const graph::SymbolId symbol : dim.symbols()) {
      const graph::SymbolSource& source = graph.symbols[symbol.index].source;
      if (source.kind == graph::SymbolSource::Kind::NodeResult) needed[source.value.index] = true;
    }
  };
  const graph::Value& value = graph.value(id);
  if (value.shape) std::ranges::for_each(*value.shape, need);
  if (value.elements) std::ranges::for_each(*value.elements, need);
}

}  // namespace

void remove_dead_nodes(Graph& graph) {
  std::vector<bool> needed(graph.value_count(), false);
  for (const ValueId output : graph.outputs) {
    needed[output.index] = true;
    need_sources(graph, output, needed);
  }
  const auto order = graph.topological_order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const graph::Node& node = graph.node(*it);
    bool alive = false;
    for (const ValueId output : node.outputs) {
      // A Value that is known from Symbols alone needs no node to make it.
      if (output && needed[output.index] && !is_known(graph.value(output))) alive = true;
    }
    if (!alive) {
      graph.remove_node(*it);
      for (const ValueId output : node.outputs) {
        if (output) graph.value(output).producer = graph::NodeId::none();
      }
      continue;
    }
    for (const ValueId input : node.inputs) {
      if (!input) continue;
      needed[input.index] = true;
      need_sources(graph, input, needed);
    }
  }
}

}  // namespace kiln::runtime
