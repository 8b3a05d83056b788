#include "ir/graph/graph.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "ir/base/errors.h"
#include "ir/graph/contract.h"

namespace kiln::graph {
namespace {

// Whole numbers that a small constant holds, as a Value's elements.
std::optional<std::vector<Dim>> known_elements(const Tensor& tensor) {
  if (tensor.elements() > static_cast<std::int64_t>(kMaxKnownElements)) return std::nullopt;
  std::vector<Dim> result;
  if (is_integer(tensor.dtype()) && bits(tensor.dtype()) >= 8) {
    for (const std::int64_t value : tensor.to_integers()) result.push_back(value);
    return result;
  }
  if (tensor.dtype() == DType::I1) {
    for (const std::uint8_t value : tensor.as<std::uint8_t>()) result.push_back(value != 0);
    return result;
  }
  if (tensor.dtype() == DType::F32) {
    for (const float value : tensor.as<float>()) {
      constexpr float kExact = 16777216;  // whole numbers up to here are exact
      if (!(value >= -kExact && value <= kExact)) return std::nullopt;
      const auto whole = static_cast<std::int64_t>(value);
      if (static_cast<float>(whole) != value) return std::nullopt;
      result.push_back(whole);
    }
    return result;
  }
  return std::nullopt;
}

template <typename T>
const T& attribute_as(const Node& node, std::string_view attribute) {
  const auto found = node.attributes.find(attribute);
  require(found != node.attributes.end(), "node \"{}\" ({}) has no attribute \"{}\"", node.name,
          name(node.op), attribute);
  const T* value = std::get_if<T>(&found->second);
  require(value != nullptr, "attribute \"{}\" of node \"{}\" ({}) has another type", attribute, node.name,
          name(node.op));
  return *value;
}

}  // namespace

std::string_view name(OpKind kind) { return contract(kind).name; }

std::optional<OpKind> op_from_name(std::string_view name) {
  static const std::unordered_map<std::string_view, OpKind> by_name = [] {
    std::unordered_map<std::string_view, OpKind> result;
    for (const OpContract& row : contracts()) result.emplace(row.name, row.kind);
    return result;
  }();
  const auto found = by_name.find(name);
  if (found == by_name.end()) return std::nullopt;
  return found->second;
}

ValueId Graph::add_value(Value value) {
  values_.push_back(std::move(value));
  readers_.emplace_back();
  return {static_cast<std::uint32_t>(values_.size() - 1)};
}

ValueId Graph::add_constant(Tensor tensor, std::string name) {
  Value value;
  value.name = std::move(name);
  value.dtype = tensor.dtype();
  value.shape = Shape(tensor.extents().begin(), tensor.extents().end());
  value.elements = known_elements(tensor);
  value.constant = std::move(tensor);
  return add_value(std::move(value));
}

SymbolId Graph::add_symbol(Symbol symbol) {
  if (symbol.name.empty()) symbol.name = fmt::format("?{}", symbols.size());
  symbols.push_back(std::move(symbol));
  return {static_cast<std::uint32_t>(symbols.size() - 1)};
}

std::vector<NodeId> Graph::topological_order() const {
  enum class State : std::uint8_t { New, Open, Done };
  std::vector<State> states(nodes_.size(), State::New);
  std::vector<NodeId> order;
  order.reserve(nodes_.size());
  struct Visit {
    NodeId node;
    std::size_t operand;
  };
  // Depth first without recursion; in id order, so that a graph built in order stays as it is.
  std::vector<Visit> stack;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].removed || states[i] != State::New) continue;
    stack.push_back({{i}, 0});
    states[i] = State::Open;
    while (!stack.empty()) {
      Visit& top = stack.back();
      const Node& current = nodes_[top.node.index];
      if (top.operand == current.inputs.size()) {
        states[top.node.index] = State::Done;
        order.push_back(top.node);
        stack.pop_back();
        continue;
      }
      const ValueId input = current.inputs[top.operand++];
      const NodeId producer = input ? values_[input.index].producer : NodeId::none();
      if (!producer || nodes_[producer.index].removed) continue;
      State& state = states[producer.index];
      require(state != State::Open, "the graph has a cycle through node \"{}\"", nodes_[producer.index].name);
      if (state == State::Done) continue;
      state = State::Open;
      stack.push_back({producer, 0});
    }
  }
  return order;
}

std::vector<std::vector<NodeId>> Graph::consumers() const {
  std::vector<std::vector<NodeId>> result(values_.size());
  for (const NodeId id : topological_order()) {
    for (const ValueId input : node(id).inputs) {
      if (input) result[input.index].push_back(id);
    }
  }
  return result;
}

bool Graph::is_output(ValueId id) const {
  return std::find(outputs.begin(), outputs.end(), id) != outputs.end();
}

void Graph::set_input(NodeId node_id, std::size_t operand, ValueId value_id) {
  node(node_id).inputs.at(operand) = value_id;
  if (value_id) readers_[value_id.index].push_back(node_id);
}

void Graph::replace_uses(ValueId from, ValueId to) {
  if (from == to) return;
  std::vector<NodeId> readers = std::exchange(readers_[from.index], {});
  for (const NodeId reader : readers) {
    std::vector<ValueId>& operands = node(reader).inputs;
    std::replace(operands.begin(), operands.end(), from, to);
  }
  std::vector<NodeId>& target = readers_[to.index];
  target.insert(target.end(), readers.begin(), readers.end());
  std::replace(outputs.begin(), outputs.end(), from, to);
}

void Graph::remove_node(NodeId id) { node(id).removed = true; }

void Graph::compact() {
  std::vector<bool> keep_value(values_.size(), false);
  const auto keep = [&](ValueId id) {
    if (id) keep_value[id.index] = true;
  };
  std::for_each(inputs.begin(), inputs.end(), keep);
  std::for_each(outputs.begin(), outputs.end(), keep);
  for (const Symbol& symbol : symbols) keep(symbol.source.value);
  for (const Node& current : nodes_) {
    if (current.removed) continue;
    std::for_each(current.inputs.begin(), current.inputs.end(), keep);
    std::for_each(current.outputs.begin(), current.outputs.end(), keep);
  }
  // The storage of a Layout may itself be a view's owner that nothing else names.
  for (std::size_t i = values_.size(); i-- > 0;) {
    for (ValueId id{static_cast<std::uint32_t>(i)}; keep_value[id.index] && values_[id.index].layout;) {
      const ValueId storage = values_[id.index].layout->storage;
      if (!storage || keep_value[storage.index]) break;
      keep(storage);
      id = storage;
    }
  }

  std::vector<ValueId> new_value(values_.size());
  std::vector<NodeId> new_node(nodes_.size());
  std::vector<Value> values;
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (!keep_value[i]) continue;
    new_value[i] = {static_cast<std::uint32_t>(values.size())};
    values.push_back(std::move(values_[i]));
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].removed) continue;
    new_node[i] = {static_cast<std::uint32_t>(nodes.size())};
    nodes.push_back(std::move(nodes_[i]));
  }
  const auto renumber = [&](ValueId& id) {
    if (id) id = new_value[id.index];
  };
  for (Value& value : values) {
    if (value.producer) value.producer = new_node[value.producer.index];
    if (value.layout) renumber(value.layout->storage);
  }
  readers_.assign(values.size(), {});
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::for_each(nodes[i].inputs.begin(), nodes[i].inputs.end(), renumber);
    std::for_each(nodes[i].outputs.begin(), nodes[i].outputs.end(), renumber);
    for (const ValueId input : nodes[i].inputs) {
      if (input) readers_[input.index].push_back({static_cast<std::uint32_t>(i)});
    }
  }
  std::for_each(inputs.begin(), inputs.end(), renumber);
  std::for_each(outputs.begin(), outputs.end(), renumber);
  for (Symbol& symbol : symbols) renumber(symbol.source.value);
  values_ = std::move(values);
  nodes_ = std::move(nodes);
}

std::int64_t integer(const Node& node, std::string_view attribute) {
  return attribute_as<std::int64_t>(node, attribute);
}

double number(const Node& node, std::string_view attribute) { return attribute_as<double>(node, attribute); }

const std::string& text(const Node& node, std::string_view attribute) {
  return attribute_as<std::string>(node, attribute);
}

std::span<const std::int64_t> integers(const Node& node, std::string_view attribute) {
  return attribute_as<std::vector<std::int64_t>>(node, attribute);
}

std::span<const double> numbers(const Node& node, std::string_view attribute) {
  return attribute_as<std::vector<double>>(node, attribute);
}

std::span<const std::string> texts(const Node& node, std::string_view attribute) {
  return attribute_as<std::vector<std::string>>(node, attribute);
}

const Tensor& tensor(const Node& node, std::string_view attribute) {
  return attribute_as<Tensor>(node, attribute);
}

bool has(const Node& node, std::string_view attribute) { return node.attributes.contains(attribute); }

}  // namespace kiln::graph
