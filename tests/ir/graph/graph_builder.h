// Short ways to make Graphs in tests.
#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <kiln/error.h>

#include "ir/graph/graph.h"

namespace kiln::graph {

inline Dim symbol(Graph& graph, std::string name) {
  return Dim::symbol(graph.add_symbol({std::move(name), {}}));
}

// A graph input. The first Value that has a Symbol as an extent is its source.
inline ValueId add_input(Graph& graph, DType dtype, std::optional<Shape> shape, std::string name = {}) {
  Value value;
  value.name = std::move(name);
  value.dtype = dtype;
  value.shape = std::move(shape);
  const ValueId id = graph.add_value(std::move(value));
  graph.inputs.push_back(id);
  const std::optional<Shape>& extents = graph.value(id).shape;
  for (std::size_t axis = 0; extents && axis < extents->size(); ++axis) {
    const std::optional<SymbolId> name_of = (*extents)[axis].as_symbol();
    if (!name_of || graph.symbols[name_of->index].source.value) continue;
    graph.symbols[name_of->index].source = {SymbolSource::Kind::InputDim, id,
                                            static_cast<std::int64_t>(axis)};
  }
  return id;
}

inline ValueId integers(Graph& graph, std::vector<std::int64_t> values) {
  return graph.add_constant(Tensor::from_integers(values));
}
inline ValueId scalar(Graph& graph, std::int64_t value) {
  return graph.add_constant(Tensor::from_integer(value));
}
inline ValueId floats(Graph& graph, std::vector<float> values) {
  return graph.add_constant(
      Tensor::from<float>(DType::F32, {static_cast<std::int64_t>(values.size())}, values));
}
inline ValueId weights(Graph& graph, Extents extents) {
  return graph.add_constant(Tensor(DType::F32, std::move(extents)));
}

inline Attribute list(std::vector<std::int64_t> values) { return values; }
inline Attribute number(std::int64_t value) { return value; }

// "[batch, 4]", "?" for an unknown rank.
inline std::string text_of(const Graph& graph, const std::vector<Dim>& dims) {
  std::string result = "[";
  for (const Dim& dim : dims) {
    if (result.size() > 1) result += ", ";
    result += dim.to_string([&](SymbolId id) { return graph.symbol_name(id); });
  }
  result += "]";
  return result;
}
inline std::string shape_text(const Graph& graph, ValueId id) {
  return graph.value(id).shape ? text_of(graph, *graph.value(id).shape) : "?";
}
inline std::string elements_text(const Graph& graph, ValueId id) {
  return graph.value(id).elements ? text_of(graph, *graph.value(id).elements) : "?";
}

// The message of the Error (of kind caller) that `action` throws.
inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.kind() == ErrorKind::Caller ? error.what()
                                             : std::string("not the caller's: ") + error.what();
  }
  return "no error";
}

}  // namespace kiln::graph
