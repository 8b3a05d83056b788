#include "ir/graph/problem.h"

#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "ir/base/errors.h"

namespace kiln::graph {
namespace {

// Whether a Template may compute with the content of a constant.
bool keeps_content(const Tensor& constant) {
  const bool whole = is_integer(constant.dtype()) || constant.dtype() == DType::I1;
  return constant.elements() == 1 ||
         (whole && constant.elements() <= static_cast<std::int64_t>(kMaxKnownElements));
}

// Content that is known and small enough to be part of a Problem.
bool is_small(const Value& value) {
  return value.elements ||
         (value.constant && value.constant->elements() <= static_cast<std::int64_t>(kMaxKnownElements));
}

class Cutter {
 public:
  Cutter(const Graph& graph, const Region& region) : graph_(graph), region_(region) {}

  Problem cut() {
    for (const ValueId id : region_.inputs) {
      values_[id] = to_.add_value({});
      to_.inputs.push_back(values_[id]);
      problem_.input_is_constant.push_back(graph_.value(id).constant.has_value());
    }
    // Extents that are a Symbol by themselves first, so that others can be expressed by them.
    for (const NodeId id : region_.nodes) {
      for (const ValueId input : graph_.node(id).inputs) {
        if (!input || !values_.contains(input)) continue;
        const std::optional<Shape>& shape = graph_.value(input).shape;
        for (std::size_t axis = 0; shape && axis < shape->size(); ++axis) {
          if ((*shape)[axis].as_symbol()) map((*shape)[axis], values_[input], axis);
        }
      }
    }
    for (const NodeId id : region_.nodes) {
      for (const ValueId input : graph_.node(id).inputs) {
        if (input) fill_input(input);
      }
      copy_node(id);
    }
    for (const ValueId id : region_.outputs) {
      to_.outputs.push_back(mapped(id));
      set_layout(id);
    }
    to_.guards.clear();  // they hold in the original
    problem_.graph = std::move(to_);
    return std::move(problem_);
  }

 private:
  ValueId mapped(ValueId id) const {
    const auto found = values_.find(id);
    require(found != values_.end(),
            "a region reads or returns \"{}\", which is neither its input nor made by its nodes",
            graph_.value(id).name);
    return found->second;
  }

  // The Dim in the Problem for one of the original; a new Symbol, with axis `index` of `value` for its
  // source, unless it is known already or is made of what is known.
  Dim map(const Dim& dim, ValueId value, std::size_t index) {
    if (dim.is_constant()) return dim;
    if (const auto found = dims_.find(dim); found != dims_.end()) return found->second;
    bool expressible = true;
    for (const SymbolId symbol : dim.symbols())
      expressible = expressible && dims_.contains(Dim::symbol(symbol));
    if (expressible) return dim.substitute([this](SymbolId symbol) { return dims_.at(Dim::symbol(symbol)); });
    const SymbolSource source{SymbolSource::Kind::InputDim, value, static_cast<std::int64_t>(index)};
    const SymbolId symbol = to_.add_symbol({fmt::format("s{}", to_.symbols.size()), source});
    problem_.symbol_origin.push_back(dim);
    return dims_.emplace(dim, Dim::symbol(symbol)).first->second;
  }

  std::vector<Dim> map_all(const std::vector<Dim>& dims, ValueId value) {
    std::vector<Dim> result;
    for (std::size_t i = 0; i < dims.size(); ++i) result.push_back(map(dims[i], value, i));
    return result;
  }

  // What follows from the model and the Symbols needs no input: it comes with the nodes that read it.
  void fill_input(ValueId id) {
    const Value& from = graph_.value(id);
    const bool embedded = !values_.contains(id) && is_small(from);
    if (embedded) values_[id] = to_.add_value({});
    const ValueId to = mapped(id);
    if (to_.value(to).producer || to_.value(to).shape) return;
    Value filled;
    filled.dtype = from.dtype;
    require(from.shape.has_value(), "a region reads \"{}\", whose rank is unknown", from.name);
    filled.shape = map_all(*from.shape, to);
    if (from.constant && (embedded || keeps_content(*from.constant))) filled.constant = from.constant;
    if (from.elements) filled.elements = map_all(*from.elements, to);
    to_.value(to) = std::move(filled);
    set_layout(id);
  }

  // Layouts that follow from the shape are made from the Problem's own shape; only what is left needs
  // Dims of the original.
  void set_layout(ValueId id) {
    const ValueId to = mapped(id);
    const Value& from = graph_.value(id);
    const Shape shape = *to_.value(to).shape;
    Layout layout{to, 0, dense_strides(shape), {}};
    if (from.layout) {
      const std::vector<Dim>& strides = from.layout->strides;
      if (!is_dense(*from.shape, strides)) {
        const std::optional<AxisOrder> order = order_of_strides(*from.shape, strides);
        layout.strides = order ? strides_in_order(shape, *order) : map_all(strides, to);
      }
      layout.halo = from.layout->halo;
    }
    to_.value(to).layout = std::move(layout);
  }

  void copy_node(NodeId id) {
    const Node& from = graph_.node(id);
    std::vector<ValueId> inputs;
    for (const ValueId input : from.inputs) inputs.push_back(input ? mapped(input) : ValueId::none());
    // A name asks for an optional output.
    std::vector<std::string> wanted;
    for (const ValueId output : from.outputs) wanted.emplace_back(output ? "wanted" : "");
    const std::size_t symbols_before = to_.symbols.size();
    const NodeId copy = to_.add_node(from.op, std::move(inputs), from.attributes, {}, wanted);
    if (id == region_.root) problem_.root = copy;
    to_.symbols.resize(symbols_before);

    for (std::size_t i = 0; i < from.outputs.size(); ++i) {
      if (!from.outputs[i]) continue;
      const Value& original = graph_.value(from.outputs[i]);
      const ValueId to = to_.node(copy).outputs[i];
      values_[from.outputs[i]] = to;
      require(original.shape.has_value(), "a region makes \"{}\", whose rank is unknown", original.name);
      learn(original, to_.value(to), symbols_before);
      to_.value(to).name.clear();
      to_.value(to).shape = map_all(*original.shape, to);
      if (original.elements) to_.value(to).elements = map_all(*original.elements, to);
    }
  }

  // What the node makes of the Problem's own extents stands for the original's extent from here on: so a
  // residual input that has the extent of a convolution's result is known to have it.
  void learn(const Value& original, const Value& copy, std::size_t symbols_known) {
    if (!copy.shape || copy.shape->size() != original.shape->size()) return;
    for (std::size_t axis = 0; axis < copy.shape->size(); ++axis) {
      const std::vector<SymbolId> symbols = (*copy.shape)[axis].symbols();
      if (!symbols.empty() && symbols.back().index >= symbols_known) continue;
      if (!(*original.shape)[axis].is_constant()) dims_.emplace((*original.shape)[axis], (*copy.shape)[axis]);
    }
  }

  const Graph& graph_;
  const Region& region_;
  Problem problem_;
  Graph to_;
  std::unordered_map<ValueId, ValueId> values_;
  std::unordered_map<Dim, Dim> dims_;
};

}  // namespace

Problem make_problem(const Graph& graph, const Region& region) { return Cutter(graph, region).cut(); }

std::string Problem::canonical_text() const {
  std::string text = to_text(graph);
  for (std::size_t i = 0; i < input_is_constant.size(); ++i) {
    if (input_is_constant[i]) text += fmt::format("weight %{}\n", graph.inputs[i].index);
  }
  return text + fmt::format("root {}\n", root.index);
}

}  // namespace kiln::graph
