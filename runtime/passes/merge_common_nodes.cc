#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/graph/contract.h"
#include "runtime/passes/passes.h"

namespace kiln::runtime {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

constexpr std::int64_t kComparedBytes = 1024;

// Small constants of equal dtype, extents and bytes become the first of them.
void merge_small_constants(Graph& graph) {
  std::map<std::string, ValueId> known;
  for (std::uint32_t i = 0; i < graph.value_count(); ++i) {
    const ValueId id{i};
    const auto& constant = graph.value(id).constant;
    if (!constant || constant->dtype() == DType::String || constant->byte_size() > kComparedBytes) continue;
    std::string key = std::string(name(constant->dtype())) + to_string(constant->extents()) + ":";
    key.append(reinterpret_cast<const char*>(constant->data()),
               static_cast<std::size_t>(constant->byte_size()));
    const auto [it, inserted] = known.emplace(std::move(key), id);
    if (!inserted && !graph.is_output(id)) graph.replace_uses(id, it->second);
  }
}

// Nodes of equal key are equal if their attributes are.
using Key = std::tuple<graph::OpKind, std::vector<ValueId>, std::vector<bool>>;

Key key_of(const Node& node) {
  std::vector<bool> wanted;
  for (const ValueId output : node.outputs) wanted.push_back(static_cast<bool>(output));
  return {node.op, node.inputs, std::move(wanted)};
}

bool makes_graph_output(const Graph& graph, const Node& node) {
  return std::any_of(node.outputs.begin(), node.outputs.end(),
                     [&](ValueId output) { return output && graph.is_output(output); });
}

}  // namespace

void merge_common_nodes(Graph& graph) {
  merge_small_constants(graph);
  std::map<Key, std::vector<NodeId>> known;
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    if (contract(node.op).fusion == graph::FusionClass::Random) continue;
    std::vector<NodeId>& candidates = known[key_of(node)];
    const auto equal = std::find_if(candidates.begin(), candidates.end(), [&](NodeId candidate) {
      return graph.node(candidate).attributes == node.attributes;
    });
    if (equal == candidates.end()) {
      candidates.push_back(id);
      continue;
    }
    if (makes_graph_output(graph, node)) continue;
    const Node& first = graph.node(*equal);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i]) graph.replace_uses(node.outputs[i], first.outputs[i]);
    }
    graph.remove_node(id);
  }
}

}  // namespace kiln::runtime
