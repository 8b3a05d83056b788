#include "ir/graph/specialise.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace kiln::graph {
namespace {

class Specialisation {
 public:
  explicit Specialisation(const Graph& graph)
      : graph_(graph), values_(graph.value_count()), symbols_(graph.symbols.size()) {
    result_.name = graph.name;
    result_.captures = graph.captures;
  }

  Graph run(const std::map<std::size_t, InputFacts>& facts) {
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
      const auto known = facts.find(i);
      add_input(graph_.inputs[i], known == facts.end() ? InputFacts() : known->second);
    }
    for (std::uint32_t i = 0; i < graph_.value_count(); ++i) {
      const Value& value = graph_.value({i});
      if (value.constant && !value.producer && !values_[i]) {
        values_[i] = result_.add_constant(*value.constant, value.name);
      }
    }
    for (const NodeId id : graph_.topological_order()) add_node(graph_.node(id));
    for (const ValueId id : graph_.outputs) result_.outputs.push_back(values_[id.index]);
    return std::move(result_);
  }

 private:
  void add_input(ValueId old, const InputFacts& facts) {
    const Value& declared = graph_.value(old);
    if (facts.value) {
      values_[old.index] = result_.add_constant(*facts.value, declared.name);
      result_.inputs.push_back(values_[old.index]);
      return;
    }
    Value value;
    value.name = declared.name;
    value.dtype = declared.dtype;
    value.container = declared.container;
    const ValueId id = result_.add_value(std::move(value));
    values_[old.index] = id;
    result_.inputs.push_back(id);
    if (!declared.shape && !facts.rank) return;
    Shape shape;
    for (std::size_t axis = 0; axis < (declared.shape ? declared.shape->size() : *facts.rank); ++axis) {
      const SymbolSource source{SymbolSource::Kind::InputDim, id, static_cast<std::int64_t>(axis)};
      if (!declared.shape) {
        shape.push_back(Dim::symbol(result_.add_symbol({fmt::format("{}.{}", declared.name, axis), source})));
        continue;
      }
      shape.push_back((*declared.shape)[axis].substitute([&](SymbolId symbol) {
        std::optional<Dim>& known = symbols_[symbol.index];
        if (!known) known = Dim::symbol(result_.add_symbol({graph_.symbol_name(symbol), source}));
        return *known;
      }));
    }
    result_.value(id).shape = std::move(shape);
  }

  void add_node(const Node& node) {
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(input ? values_[input.index] : input);
    std::vector<std::string> names;
    for (const ValueId output : node.outputs) {
      const std::string made_up = fmt::format("{}.{}", node.name, names.size());
      names.push_back(!output ? "" : graph_.value(output).name.empty() ? made_up : graph_.value(output).name);
    }
    const NodeId id = result_.add_node(node.op, std::move(inputs), node.attributes, node.name, names);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i]) values_[node.outputs[i].index] = result_.node(id).outputs[i];
    }
  }

  const Graph& graph_;
  Graph result_;
  std::vector<ValueId> values_;              // new by old
  std::vector<std::optional<Dim>> symbols_;  // new by old, those of inputs
};

}  // namespace

Graph specialise(const Graph& graph, const std::map<std::size_t, InputFacts>& facts) {
  return Specialisation(graph).run(facts);
}

}  // namespace kiln::graph
