#include "runtime/passes/passes.h"

#include <array>

namespace kiln::runtime {
namespace {

constexpr std::array kPasses = {
    Pass{"widen_softmax_arguments", widen_softmax_arguments},
    Pass{"scale_after_sums", scale_after_sums},
    Pass{"fold_known_elements", fold_known_elements},
    Pass{"fold_constants", fold_constants},
    Pass{"canonicalise", canonicalise},
    Pass{"remove_identities", remove_identities},
    Pass{"fold_batch_normalization", fold_batch_normalization},
    Pass{"merge_common_nodes", merge_common_nodes},
    Pass{"remove_dead_nodes", remove_dead_nodes},
};

}  // namespace

std::span<const Pass> graph_passes() { return kPasses; }

void apply_numeric_law(graph::Graph& graph) {
  widen_softmax_arguments(graph);
  scale_after_sums(graph);
  for (std::uint32_t i = 0; i < graph.node_count(); ++i) {
    for (auto& [name, attribute] : graph.node({i}).attributes) {
      if (auto* body = std::get_if<std::shared_ptr<graph::Graph>>(&attribute)) apply_numeric_law(**body);
    }
  }
}

void optimise(graph::Graph& graph) {
  for (const Pass& pass : kPasses) pass.run(graph);
  graph.compact();
  assign_layouts(graph);
}

}  // namespace kiln::runtime
