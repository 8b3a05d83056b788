#include "runtime/session_core.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ir/base/errors.h"
#include "runtime/cpu_count.h"
#include "runtime/executor.h"
#include "runtime/inputs.h"
#include "runtime/operands.h"

namespace kiln::runtime {
namespace {

constexpr std::size_t kMaxPlans = 256;

using graph::Graph;
using graph::SymbolSource;

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
      if (body == nullptr || core_of(**body) != nullptr) continue;
      bodies_.emplace_back(
          body->get(), std::make_unique<SessionCore>(**body, model_.options(), parallelism, memory_limit));
    }
  }
  run_body_ = [this](const Graph& body, const std::vector<Datum>& inputs) {
    SessionCore* core = core_of(body);
    require(core != nullptr, "graph {} is run that no node has", body.name);
    graph::Bindings bindings;
    const Contradictions contradictions = core->bind(inputs, bindings);
    if (!contradictions.empty()) {
      throw_caller(ErrorCode::ShapeMismatch, "in graph {}: {}", body.name,
                   describe(body, contradictions, extents_of(inputs)));
    }
    return core->run(inputs, bindings);
  };
}

SessionCore* SessionCore::core_of(const Graph& body) const {
  const auto found = std::ranges::find(bodies_, &body, [](const auto& entry) { return entry.first; });
  return found == bodies_.end() ? nullptr : found->second.get();
}

void SessionCore::build() {
  model_.build();
  for (const auto& [graph, body] : bodies_) body->build();
}

void SessionCore::compile() {
  model_.compile(parallelism_);
  for (const auto& [graph, body] : bodies_) body->compile();
}

Contradictions SessionCore::bind(std::span<const Datum> inputs, graph::Bindings& bindings) const {
  const Graph& graph = model_.graph();
  check_inputs(graph, inputs);
  bindings = constant_sizes_;
  bind_elements(graph, inputs, bindings);
  return bind_extents(graph, extents_of(inputs), bindings);
}

Contradictions SessionCore::bind(std::span<const Extents> extents, graph::Bindings& bindings) const {
  const Graph& graph = model_.graph();
  bindings = constant_sizes_;
  return bind_extents(graph, extents.empty() ? declared_extents(graph) : extents, bindings);
}

std::shared_ptr<const Plan> SessionCore::plan(graph::Bindings bindings) {
  if (auto plan = plans_.find(bindings)) return plan;
  compile();
  auto plan = std::make_shared<const Plan>(make_plan(model_, std::move(bindings)));
  ++plans_made_;
  plans_.insert(plan);
  return plan;
}

void SessionCore::execute_plan(const Plan& plan, std::span<const Datum> inputs, std::span<Datum> outputs) {
  admission_.acquire();
  struct Release {
    std::counting_semaphore<>& admission;
    ~Release() { admission.release(); }
  } release{admission_};
  execute(model_, plan, parallelism_, arenas_, run_body_, inputs, outputs);
}

std::vector<Datum> SessionCore::run(std::span<const Datum> inputs, const graph::Bindings& bindings) {
  const Graph& graph = model_.graph();
  const auto chosen = plan(bindings);
  std::vector<Datum> outputs;
  for (const graph::ValueId id : graph.outputs) {
    const graph::Value& value = graph.value(id);
    Datum output;
    if (is_known(value)) {
      if (auto elements = try_elements_tensor(value, bindings)) output = *std::move(elements);
    } else if (value.dtype != DType::String && value.container == Container::Tensor) {
      if (auto sizes = try_extents(graph, id, bindings)) output = Tensor(value.dtype, std::move(*sizes));
    }
    outputs.push_back(std::move(output));
  }
  execute_plan(*chosen, inputs, outputs);
  return outputs;
}

void SessionCore::run(std::span<const Datum> inputs, const graph::Bindings& bindings,
                      std::span<Datum> outputs) {
  const Graph& graph = model_.graph();
  if (outputs.size() != graph.outputs.size()) {
    throw_caller(ErrorCode::InvalidArgument, "got {} outputs, expected {}", outputs.size(),
                 graph.outputs.size());
  }
  const auto chosen = plan(bindings);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const graph::Value& value = graph.value(graph.outputs[i]);
    const std::optional<Extents> expected = try_extents(graph, graph.outputs[i], bindings);
    if (!expected) {
      throw_caller(ErrorCode::Unsupported,
                   "the size of output {} shows only while running: use the run() that gives new tensors",
                   value.name);
    }
    Tensor& output = outputs[i].tensor();
    check_output(value.name, output, value.dtype, *expected);
    if (is_known(value)) {
      if (const auto elements = try_elements_tensor(value, bindings)) output.copy_from(*elements);
    }
  }
  execute_plan(*chosen, inputs, outputs);
}

}  // namespace kiln::runtime
