#include "frontend/onnx/node_order.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "frontend/onnx/opsets.h"
#include "ir/base/errors.h"

namespace kiln::frontend {
namespace {

[[noreturn]] void fail_at(const std::string& node, const onnx::NodeProto& proto, std::string message) {
  throw Error(ErrorKind::Caller, ErrorCode::InvalidModel, std::move(message),
              {{"node", node}, {"op", proto.op_type()}});
}

// Names that a node takes from the scope around it, those used in its Graphs included.
void add_names_read(const onnx::NodeProto& node, std::vector<std::string_view>& names) {
  names.insert(names.end(), node.input().begin(), node.input().end());
  for (const auto& attribute : node.attribute()) {
    if (!attribute.has_g()) continue;
    const onnx::GraphProto& body = attribute.g();
    std::unordered_set<std::string_view> own;
    for (const auto& input : body.input()) own.insert(input.name());
    for (const auto& initializer : body.initializer()) own.insert(initializer.name());
    for (const auto& initializer : body.sparse_initializer()) own.insert(initializer.values().name());
    std::vector<std::string_view> read;
    for (const auto& inner : body.node()) {
      own.insert(inner.output().begin(), inner.output().end());
      add_names_read(inner, read);
    }
    for (const auto& output : body.output()) read.push_back(output.name());
    for (const std::string_view name : read) {
      if (!own.contains(name)) names.push_back(name);
    }
  }
}

std::vector<std::string_view> names_read(const onnx::NodeProto& node) {
  std::vector<std::string_view> names;
  add_names_read(node, names);
  return names;
}

bool is_constant(const onnx::NodeProto& node) {
  return node.op_type() == "Constant" && domain_name(node.domain()) == "ai.onnx";
}

}  // namespace

std::string node_name(const Scope& scope, const onnx::NodeProto& node, int index) {
  return scope.prefix + (node.name().empty() ? fmt::format("{}_{}", node.op_type(), index) : node.name());
}

std::vector<int> producers_first(const Nodes& nodes, const Scope& scope) {
  std::unordered_map<std::string_view, int> producers;
  std::unordered_set<int> overridden;
  for (int i = 0; i < nodes.size(); ++i) {
    for (const std::string& output : nodes[i].output()) {
      if (output.empty()) continue;
      const auto [found, is_new] = producers.emplace(output, i);
      if (is_new && !scope.values.contains(output)) continue;
      if (is_new || !is_constant(nodes[i]) || !is_constant(nodes[found->second]) || found->second == i) {
        fail_at(node_name(scope, nodes[i], i), nodes[i], fmt::format("value '{}' is defined twice", output));
      }
      overridden.insert(std::exchange(found->second, i));
    }
  }
  std::vector<int> missing(static_cast<std::size_t>(nodes.size()));  // producers not yet placed, per node
  std::vector<std::vector<int>> readers(static_cast<std::size_t>(nodes.size()));
  for (int i = 0; i < nodes.size(); ++i) {
    for (const std::string_view input : names_read(nodes[i])) {
      const auto producer = producers.find(input);
      if (producer == producers.end()) continue;  // import_node() reports a name that nothing defines
      readers[static_cast<std::size_t>(producer->second)].push_back(i);
      ++missing[static_cast<std::size_t>(i)];
    }
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < nodes.size(); ++i) {
    if (missing[static_cast<std::size_t>(i)] == 0) ready.push(i);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int node = ready.top();
    ready.pop();
    order.push_back(node);
    for (const int reader : readers[static_cast<std::size_t>(node)]) {
      if (--missing[static_cast<std::size_t>(reader)] == 0) ready.push(reader);
    }
  }
  if (order.size() == missing.size()) {
    std::erase_if(order, [&](int node) { return overridden.contains(node); });
    return order;
  }
  // Walking back over producers that could not be placed must come to a node twice: that one is in a cycle.
  int node = static_cast<int>(std::find_if(missing.begin(), missing.end(), [](int n) { return n > 0; }) -
                              missing.begin());
  std::string_view through;
  for (std::set<int> seen; seen.insert(node).second;) {
    for (const std::string_view input : names_read(nodes[node])) {
      const auto producer = producers.find(input);
      if (producer == producers.end() || missing[static_cast<std::size_t>(producer->second)] == 0) continue;
      node = producer->second;
      through = input;
      break;
    }
  }
  fail_at(node_name(scope, nodes[node], node), nodes[node],
          fmt::format("it depends on its own output '{}': the graph has a cycle", through));
}

}  // namespace kiln::frontend
