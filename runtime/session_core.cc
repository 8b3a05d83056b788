#include "runtime/session_core.h"

#include <utility>

#include <fmt/format.h>

#include "ir/base/errors.h"
#include "runtime/cpu_count.h"
#include "runtime/executor.h"
#include "runtime/operands.h"

namespace kiln::runtime {
namespace {

constexpr std::size_t kMaxPlans = 256;

using graph::Graph;
using graph::SymbolSource;

std::string expected_shape(const Graph& graph, const graph::Value& value) {
  if (!value.shape) return "any rank";
  if (value.shape->empty()) return "scalar";
  std::string text;
  for (const graph::Dim& dim : *value.shape) {
    if (!text.empty()) text += "x";
    text += dim.to_string([&](graph::SymbolId id) { return graph.symbol_name(id); });
  }
  return text;
}

// True if `datum` is what the graph says of `value`, extents aside.
bool is_a(const Datum& datum, const graph::Value& value) {
  switch (value.container) {
    case Container::Tensor:
      return datum.is_tensor() && datum.tensor().dtype() == value.dtype;
    case Container::Sequence:
      return datum.is_sequence() && datum.sequence().dtype == value.dtype;
    case Container::Optional:
      return !datum.has_value() || (datum.is_tensor() && datum.tensor().dtype() == value.dtype);
    case Container::OptionalSequence:
      return !datum.has_value() || (datum.is_sequence() && datum.sequence().dtype == value.dtype);
    case Container::Map:
      return datum.is_map() && datum.map().values.dtype() == value.dtype;
    case Container::MapSequence:
      return datum.is_sequence();
  }
  return false;
}

}  // namespace

SessionCore::SessionCore(Graph graph, ModelOptions options, const Parallelism& parallelism,
                         std::int64_t memory_limit)
    : model_(std::move(graph), std::move(options)),
      parallelism_(parallelism),
      arenas_(memory_limit),
      admission_(2 * usable_cpus()),
      plans_(kMaxPlans) {
  const Graph& loaded = model_.graph();
  for (const graph::Symbol& symbol : loaded.symbols) {
    constant_sizes_.push_back(graph::kUnbound);
    if (symbol.source.kind != SymbolSource::Kind::NodeResult) continue;
    const auto& constant = loaded.value(symbol.source.value).constant;
    if (constant)
      constant_sizes_.back() = constant->extents().at(static_cast<std::size_t>(symbol.source.index));
  }
  for (std::uint32_t i = 0; i < loaded.node_count(); ++i) {
    for (const auto& [name, attribute] : loaded.node({i}).attributes) {
      const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute);
      if (body == nullptr) continue;
      bodies_[body->get()] =
          std::make_unique<SessionCore>(**body, model_.options(), parallelism, memory_limit);
    }
  }
  run_body_ = [this](const Graph& body, const std::vector<Datum>& inputs) {
    return bodies_.at(&body)->run(inputs);
  };
}

void SessionCore::build() {
  model_.build();
  for (const auto& [graph, body] : bodies_) body->build();
}

void SessionCore::compile() {
  model_.compile(parallelism_);
  for (const auto& [graph, body] : bodies_) body->compile();
}

void SessionCore::check_inputs(std::span<const Datum> inputs) const {
  const Graph& graph = model_.graph();
  if (inputs.size() != graph.inputs.size()) {
    throw_caller(ErrorCode::InvalidArgument, "got {} inputs, expected {}", inputs.size(),
                 graph.inputs.size());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const graph::Value& value = graph.value(graph.inputs[i]);
    if (is_a(inputs[i], value)) continue;
    if (value.container == Container::Tensor && inputs[i].is_tensor()) {
      throw_caller(ErrorCode::TypeMismatch, "input {} has dtype {}, expected {}", value.name,
                   name(inputs[i].tensor().dtype()), name(value.dtype));
    } else {
      throw_caller(ErrorCode::TypeMismatch, "input {} is {}, expected a {} of {}", value.name,
                   to_string(inputs[i]), name(value.container), name(value.dtype));
    }
  }
}

std::vector<Extents> SessionCore::extents_of(std::span<const Datum> inputs) const {
  std::vector<Extents> extents;
  for (const Datum& input : inputs) {
    extents.push_back(input.is_tensor() ? input.tensor().extents() : Extents());
  }
  return extents;
}

graph::Bindings SessionCore::bind(std::span<const Extents> extents, std::span<const Datum> inputs) const {
  const Graph& graph = model_.graph();
  graph::Bindings bindings = constant_sizes_;
  std::vector<std::size_t> bound_by(graph.symbols.size());  // the input, for messages
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const graph::Value& value = graph.value(graph.inputs[i]);
    if (!value.shape) continue;
    if (value.shape->size() != extents[i].size()) {
      throw_caller(ErrorCode::ShapeMismatch, "input {} has shape {}, expected {}", value.name,
                   to_string(extents[i]), expected_shape(graph, value));
    }
    for (std::size_t axis = 0; axis < extents[i].size(); ++axis) {
      const graph::Dim& dim = (*value.shape)[axis];
      const std::int64_t extent = extents[i][axis];
      const auto symbol = dim.as_symbol();
      if (!symbol) {
        if (dim.is_constant() && dim.constant() != extent) {
          throw_caller(ErrorCode::ShapeMismatch, "input {} has shape {}, expected {}", value.name,
                       to_string(extents[i]), expected_shape(graph, value));
        }
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
  return bindings;
}

std::shared_ptr<const Plan> SessionCore::plan_for(graph::Bindings bindings) {
  if (auto plan = plans_.find(bindings)) return plan;
  compile();
  auto plan = std::make_shared<const Plan>(make_plan(model_, std::move(bindings)));
  ++plans_made_;
  plans_.insert(plan);
  return plan;
}

std::shared_ptr<const Plan> SessionCore::plan(std::span<const Extents> input_extents) {
  return plan_for(bind(input_extents, {}));
}

std::vector<std::optional<Extents>> SessionCore::output_extents(std::span<const Extents> inputs) {
  const graph::Bindings bindings = bind(inputs, {});
  std::vector<std::optional<Extents>> result;
  for (const graph::ValueId id : model_.graph().outputs) {
    result.push_back(try_extents(model_.graph().value(id), bindings));
  }
  return result;
}

void SessionCore::execute_plan(const Plan& plan, std::span<const Datum> inputs, std::span<Datum> outputs) {
  admission_.acquire();
  struct Release {
    std::counting_semaphore<>& admission;
    ~Release() { admission.release(); }
  } release{admission_};
  execute(model_, plan, parallelism_, arenas_, run_body_, inputs, outputs);
}

std::vector<Datum> SessionCore::run(std::span<const Datum> inputs) {
  const Graph& graph = model_.graph();
  check_inputs(inputs);
  const graph::Bindings bindings = bind(extents_of(inputs), inputs);
  const auto plan = plan_for(bindings);
  std::vector<Datum> outputs;
  for (const graph::ValueId id : graph.outputs) {
    const graph::Value& value = graph.value(id);
    Datum output;
    if (is_known(value)) {
      output = elements_tensor(value, bindings);
    } else if (value.dtype != DType::String && value.container == Container::Tensor) {
      if (auto sizes = try_extents(value, bindings)) output = Tensor(value.dtype, std::move(*sizes));
    }
    outputs.push_back(std::move(output));
  }
  execute_plan(*plan, inputs, outputs);
  return outputs;
}

void SessionCore::run(std::span<const Datum> inputs, std::span<Datum> outputs) {
  const Graph& graph = model_.graph();
  check_inputs(inputs);
  if (outputs.size() != graph.outputs.size()) {
    throw_caller(ErrorCode::InvalidArgument, "got {} outputs, expected {}", outputs.size(),
                 graph.outputs.size());
  }
  const graph::Bindings bindings = bind(extents_of(inputs), inputs);
  const auto plan = plan_for(bindings);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const graph::Value& value = graph.value(graph.outputs[i]);
    Extents expected;
    if (value.shape) {
      for (const graph::Dim& dim : *value.shape) expected.push_back(dim.try_evaluate(bindings).value_or(-1));
    }
    Tensor& output = outputs[i].tensor();
    if (!value.shape || output.dtype() != value.dtype || output.extents() != expected) {
      throw_caller(ErrorCode::ShapeMismatch, "output {} is given as {} {}, expected {} {}", value.name,
                   name(output.dtype()), to_string(output.extents()), name(value.dtype), to_string(expected));
    }
    if (is_known(value)) {
      const Tensor known = elements_tensor(value, bindings);
      std::copy_n(known.data(), known.byte_size(), output.mutable_data());
    }
  }
  execute_plan(*plan, inputs, outputs);
}

}  // namespace kiln::runtime
