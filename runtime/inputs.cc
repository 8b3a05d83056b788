#include "runtime/inputs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/base/checked_math.h"
#include "ir/base/errors.h"
#include "ir/graph/guards.h"
#include "runtime/operands.h"

namespace kiln::runtime {
namespace {

using graph::Graph;
using graph::SymbolSource;

// As to_string() has it, "2x3"; "[batch, 3]" where Symbols are in it.
std::string declared_shape(const Graph& graph, const graph::Value& value) {
  if (!value.shape) return "any rank";
  if (value.shape->empty()) return "scalar";
  std::vector<std::string> extents;
  bool numbers = true;
  for (const graph::Dim& dim : *value.shape) {
    extents.push_back(dim.to_string([&](graph::SymbolId id) { return graph.symbol_name(id); }));
    numbers = numbers && dim.is_constant();
  }
  return numbers ? fmt::format("{}", fmt::join(extents, "x")) : fmt::format("[{}]", fmt::join(extents, ", "));
}

// One input, or an item of it, as messages call it.
struct Place {
  const graph::Value& input;
  std::optional<std::size_t> item;

  std::string text() const {
    return item ? fmt::format("item {} of input {}", *item, input.name) : "input " + input.name;
  }
  [[noreturn]] void is_wrong(const Datum& got) const {
    throw_caller(ErrorCode::TypeMismatch, "{} is {}, expected a {} of {}", text(), to_string(got),
                 item ? "tensor" : name(input.container), name(input.dtype));
  }
};

void check_elements(const Place& place, const Tensor& tensor) {
  if (!has_elements(tensor)) {
    throw_caller(ErrorCode::InvalidArgument,
                 "{} has no elements: the Tensor was default-constructed or moved from", place.text());
  }
}

void check_tensor(const Place& place, const Datum& datum) {
  if (!datum.is_tensor()) place.is_wrong(datum);
  if (datum.tensor().dtype() != place.input.dtype) {
    throw_caller(ErrorCode::TypeMismatch, "{} has dtype {}, expected {}", place.text(),
                 name(datum.tensor().dtype()), name(place.input.dtype));
  }
  check_elements(place, datum.tensor());
}

template <typename T>
bool ascends(std::span<const T> keys) {
  for (std::size_t i = 1; i < keys.size(); ++i) {
    if (!(keys[i - 1] < keys[i])) return false;
  }
  return true;
}

void check_map(const Place& place, const Datum& datum) {
  if (!datum.is_map() || datum.map().values.dtype() != place.input.dtype) place.is_wrong(datum);
  const auto& [keys, values] = datum.map();
  check_elements(place, keys);
  check_elements(place, values);
  const bool texts = keys.dtype() == DType::String;
  if (keys.rank() != 1 || values.extents() != keys.extents() || (!texts && keys.dtype() != DType::I64)) {
    throw_caller(
        ErrorCode::ShapeMismatch,
        "{} is a map from {} {} to {} {}, expected keys of i64 or string and as many values, of rank 1",
        place.text(), name(keys.dtype()), to_string(keys.extents()), name(values.dtype()),
        to_string(values.extents()));
  }
  if (!(texts ? ascends(keys.as<std::string>()) : ascends(keys.as<std::int64_t>()))) {
    throw_caller(ErrorCode::InvalidArgument, "{} is a map whose keys do not ascend", place.text());
  }
}

void check_sequence(const Place& place, const Datum& datum, void (*check_item)(const Place&, const Datum&)) {
  if (!datum.is_sequence() || datum.sequence().dtype != place.input.dtype) place.is_wrong(datum);
  const std::vector<Datum>& items = datum.sequence().items;
  for (std::size_t i = 0; i < items.size(); ++i) check_item({place.input, i}, items[i]);
}

void check_datum(const Place& place, const Datum& datum) {
  switch (place.input.container) {
    case Container::Tensor:
      return check_tensor(place, datum);
    case Container::Sequence:
      return check_sequence(place, datum, check_tensor);
    case Container::Optional:
      if (datum.has_value()) check_tensor(place, datum);
      return;
    case Container::OptionalSequence:
      if (datum.has_value()) check_sequence(place, datum, check_tensor);
      return;
    case Container::Map:
      return check_map(place, datum);
    case Container::MapSequence:
      return check_sequence(place, datum, check_map);
  }
}

}  // namespace

bool has_elements(const Tensor& tensor) { return tensor.elements() == element_count(tensor.extents()); }

void check_inputs(const Graph& graph, std::span<const Datum> inputs) {
  if (inputs.size() != graph.inputs.size()) {
    throw_caller(ErrorCode::InvalidArgument, "got {} inputs, expected {}", inputs.size(),
                 graph.inputs.size());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i)
    check_datum({graph.value(graph.inputs[i]), std::nullopt}, inputs[i]);
}

void check_output(std::string_view output, const Tensor& given, DType dtype, const Extents& extents) {
  if (given.dtype() == dtype && given.extents() == extents && has_elements(given)) return;
  throw_caller(ErrorCode::ShapeMismatch, "output {} is given as {} {}{}, expected {} {}", output,
               name(given.dtype()), to_string(given.extents()),
               has_elements(given) ? "" : " without elements", name(dtype), to_string(extents));
}

std::vector<Extents> extents_of(std::span<const Datum> inputs) {
  std::vector<Extents> extents;
  for (const Datum& input : inputs) {
    extents.push_back(input.is_tensor() ? input.tensor().extents() : Extents());
  }
  return extents;
}

std::vector<Extents> declared_extents(const Graph& graph) {
  std::vector<Extents> extents;
  std::string open;
  for (const graph::ValueId id : graph.inputs) {
    const graph::Value& value = graph.value(id);
    Extents& declared = extents.emplace_back();
    if (value.container != Container::Tensor) continue;
    bool is_open = !value.shape;
    for (const graph::Dim& dim : value.shape.value_or(graph::Shape())) {
      is_open = is_open || !dim.is_constant();
      if (!is_open) declared.push_back(dim.constant());
    }
    if (is_open) {
      open += fmt::format("{}{} ({})", open.empty() ? "" : ", ", value.name, declared_shape(graph, value));
    }
  }
  if (!open.empty()) {
    throw_caller(
        ErrorCode::InvalidArgument,
        "no extents of inputs are given, and these have open ones: {}; give the extents of every input",
        open);
  }
  return extents;
}

Contradictions bind_extents(const Graph& graph, std::span<const Extents> extents, graph::Bindings& bindings) {
  if (extents.size() != graph.inputs.size()) {
    throw_caller(ErrorCode::InvalidArgument, "got the extents of {} inputs, expected those of {}",
                 extents.size(), graph.inputs.size());
  }
  Contradictions contradictions;
  std::vector<std::size_t> bound_by(graph.symbols.size());  // the input, for messages
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const graph::Value& value = graph.value(graph.inputs[i]);
    if (std::ranges::any_of(extents[i], [](std::int64_t extent) { return extent < 0; })) {
      throw_caller(ErrorCode::ShapeMismatch, "input {} has shape {}, expected {}", value.name,
                   to_string(extents[i]), declared_shape(graph, value));
    }
    if (!value.shape) continue;
    if (value.shape->size() != extents[i].size()) {
      contradictions.push_back({.input = i, .in_rank = true, .rank_or_axis = extents[i].size()});
      continue;
    }
    for (std::size_t axis = 0; axis < extents[i].size(); ++axis) {
      const graph::Dim& dim = (*value.shape)[axis];
      const std::int64_t extent = extents[i][axis];
      const auto symbol = dim.as_symbol();
      if (!symbol) {
        if (dim.is_constant() && dim.constant() != extent)
          contradictions.push_back({.input = i, .in_rank = false, .rank_or_axis = axis});
        continue;
      }
      std::int64_t& bound = bindings[symbol->index];
      if (bound != graph::kUnbound && bound != extent) {
        throw_caller(ErrorCode::ShapeMismatch, "dimension {} is {} by input {} and {} by input {}",
                     graph.symbol_name(*symbol), bound,
                     graph.value(graph.inputs[bound_by[symbol->index]]).name, extent, value.name);
      }
      bound = extent;
      bound_by[symbol->index] = i;
    }
  }
  return contradictions;
}

std::string describe(const Graph& graph, const Contradictions& contradictions,
                     std::span<const Extents> extents) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (std::ranges::find(contradictions, i, &Contradiction::input) == contradictions.end()) continue;
    const graph::Value& value = graph.value(graph.inputs[i]);
    texts.push_back(fmt::format("input {} is {}, the model declares {}", value.name, to_string(extents[i]),
                                declared_shape(graph, value)));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

void bind_elements(const Graph& graph, std::span<const Datum> inputs, graph::Bindings& bindings) {
  for (std::size_t s = 0; s < graph.symbols.size(); ++s) {
    const SymbolSource& source = graph.symbols[s].source;
    if (source.kind != SymbolSource::Kind::InputElement) continue;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (graph.inputs[i] != source.value) continue;
      const std::vector<std::int64_t> elements = inputs[i].tensor().to_integers();
      if (source.index < static_cast<std::int64_t>(elements.size())) {
        bindings[s] = elements[static_cast<std::size_t>(source.index)];
      }
    }
  }
}

std::vector<std::optional<Extents>> output_extents(const Graph& graph,
                                                   std::span<const std::int64_t> bindings) {
  graph::check_guards(graph, bindings);
  std::vector<std::optional<Extents>> result;
  for (const graph::ValueId id : graph.outputs) result.push_back(try_extents(graph, id, bindings));
  return result;
}

}  // namespace kiln::runtime
