#include <vector>

#include "runtime/operands.h"
#include "runtime/passes/passes.h"

namespace kiln::runtime {

void remove_dead_nodes(graph::Graph& graph) {
  std::vector<bool> needed(graph.value_count(), false);
  for (const graph::ValueId output : graph.outputs) needed[output.index] = true;
  const auto order = graph.topological_order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const graph::Node& node = graph.node(*it);
    bool alive = false;
    for (const graph::ValueId output : node.outputs) {
      // A Value that is known from Symbols alone needs no node to make it.
      if (output && needed[output.index] && !is_known(graph.value(output))) alive = true;
    }
    if (!alive) {
      graph.remove_node(*it);
      for (const graph::ValueId output : node.outputs) {
        if (output) graph.value(output).producer = graph::NodeId::none();
      }
      continue;
    }
    for (const graph::ValueId input : node.inputs) {
      if (input) needed[input.index] = true;
    }
  }
}

}  // namespace kiln::runtime
