#include "frontend/onnx/scope.h"

#include <utility>

#include "ir/base/errors.h"

namespace kiln::frontend {
namespace {

using graph::Dim;
using graph::Graph;
using graph::SymbolSource;
using graph::Value;

Dim input_symbol(Graph& graph, ValueId input, std::size_t axis) {
  const SymbolSource source{SymbolSource::Kind::InputDim, input, static_cast<std::int64_t>(axis)};
  return Dim::symbol(graph.add_symbol({{}, source}));
}

}  // namespace

// Equal extents outside are equal in here.
ValueId capture(GraphInProgress& target, const Graph& outside, ValueId id) {
  const auto known = target.captured.find(id);
  if (known != target.captured.end()) return known->second;
  const Value& original = outside.value(id);
  ValueId result;
  if (original.constant) {
    result = target.graph.add_constant(*original.constant, original.name);
  } else {
    Value value;
    value.name = original.name;
    value.dtype = original.dtype;
    value.container = original.container;
    result = target.graph.add_value(std::move(value));
    if (original.shape) {
      graph::Shape shape;
      for (std::size_t axis = 0; axis < original.shape->size(); ++axis) {
        const Dim& extent = (*original.shape)[axis];
        if (extent.is_constant()) {
          shape.push_back(extent);
          continue;
        }
        const auto [found, is_new] = target.captured_dims.try_emplace(extent);
        if (is_new) found->second = input_symbol(target.graph, result, axis);
        shape.push_back(found->second);
      }
      target.graph.value(result).shape = std::move(shape);
    }
    target.graph.inputs.push_back(result);
    ++target.graph.captures;
    target.captures.push_back(id);
  }
  target.captured.emplace(id, result);
  return result;
}

void Scope::define(const std::string& name, ValueId id) {
  if (!values.emplace(name, id).second) {
    throw_caller(ErrorCode::InvalidModel, "value '{}' is defined twice", name);
  }
}

std::optional<ValueId> Scope::find(const std::string& name) const {
  const auto found = values.find(name);
  if (found != values.end()) return found->second;
  if (outer == nullptr) return std::nullopt;
  const std::optional<ValueId> outside = outer->find(name);
  if (!outside || !*outside || outer->target == target) return outside;
  return capture(*target, outer->graph(), *outside);
}

ValueId add_formal(GraphInProgress& target, const Formal& formal, std::string name) {
  Value value;
  value.name = std::move(name);
  value.dtype = formal.dtype;
  value.container = formal.container;
  const ValueId id = target.graph.add_value(std::move(value));
  target.graph.inputs.push_back(id);
  if (formal.shape) {
    graph::Shape shape;
    for (const Dim& extent : *formal.shape) {
      shape.push_back(extent.is_constant() ? extent : input_symbol(target.graph, id, shape.size()));
    }
    target.graph.value(id).shape = std::move(shape);
  }
  return id;
}

void set_rank(Graph& graph, ValueId input, std::size_t rank) {
  graph::Shape shape;
  while (shape.size() < rank) shape.push_back(input_symbol(graph, input, shape.size()));
  graph.value(input).shape = std::move(shape);
}

}  // namespace kiln::frontend
