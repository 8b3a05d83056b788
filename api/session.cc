#include <algorithm>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <kiln/kiln.h>

#include "api/declared_extents.h"
#include "api/explain.h"
#include "api/options.h"
#include "api/session_implementation.h"
#include "frontend/onnx/loader.h"
#include "ir/base/errors.h"
#include "ir/graph/contract.h"
#include "jit/cache/store.h"
#include "kernels_ref/reference.h"
#include "runtime/inputs.h"
#include "runtime/passes/passes.h"
#include "runtime/thread_pool.h"

namespace kiln {
namespace {

frontend::LoadOptions load_options(const Options& options) {
  frontend::LoadOptions load;
  load.hide_dims = options.ignore_declared_dims;
  load.hide_rank = options.ignore_declared_ranks;
  for (const auto& [name, tensor] : options.constant_inputs) {
    if (!runtime::has_elements(tensor)) {
      throw_caller(ErrorCode::InvalidArgument,
                   "constant input {} has no elements: the Tensor was default-constructed or moved from",
                   name);
    }
    if (!load.constant_inputs.emplace(name, tensor).second)
      throw_caller(ErrorCode::InvalidArgument, "constant input {} is given twice", name);
  }
  return load;
}

ValueInfo describe(const graph::Graph& graph, graph::ValueId id) {
  const graph::Value& value = graph.value(id);
  ValueInfo info{
      .name = value.name, .dtype = value.dtype, .shape = std::nullopt, .container = value.container};
  if (!value.shape) return info;
  info.shape.emplace();
  for (const graph::Dim& dim : *value.shape) {
    if (dim.is_constant()) {
      info.shape->push_back({.extent = dim.constant(), .symbol = {}});
    } else {
      info.shape->push_back(
          {.extent = -1, .symbol = dim.to_string([&](graph::SymbolId s) { return graph.symbol_name(s); })});
    }
  }
  return info;
}

// Null without a cache.
std::shared_ptr<jit::Store> open_store(const Options& options) {
  if (options.cache == "off") return nullptr;
  jit::StoreOptions store;
  store.path = api::cache_path(options.cache);
  store.warn = options.warn;
  if (!store.path.empty()) return std::make_shared<jit::Store>(std::move(store));
  if (options.warn) {
    options.warn(fmt::format("kernel cache: none is used: {}, or \"off\"", api::kNoCachePath));
  }
  return nullptr;
}

const Tensor& content(const NamedTensor& named) { return named.tensor; }
const Datum& content(const NamedDatum& named) { return named.datum; }

template <typename Named>
std::vector<Datum> in_model_order(const std::vector<ValueInfo>& inputs, std::span<const Named> given) {
  std::vector<Datum> ordered(inputs.size());
  std::vector<bool> seen(inputs.size(), false);
  const auto find = [&](std::size_t from, const std::string& name) {
    return std::find_if(inputs.begin() + static_cast<std::ptrdiff_t>(from), inputs.end(),
                        [&](const ValueInfo& info) { return info.name == name; });
  };
  std::size_t next = 0;  // most callers keep the order
  for (const Named& named : given) {
    auto found = find(next, named.name);
    if (found == inputs.end()) found = find(0, named.name);
    if (found == inputs.end()) {
      std::string known;
      for (const ValueInfo& info : inputs) known += (known.empty() ? "" : ", ") + info.name;
      throw_caller(ErrorCode::InvalidArgument, "the model has no input {}; its inputs are: {}", named.name,
                   known);
    }
    const auto i = static_cast<std::size_t>(found - inputs.begin());
    if (seen[i]) throw_caller(ErrorCode::InvalidArgument, "input {} is given twice", named.name);
    seen[i] = true;
    ordered[i] = content(named);
    next = i + 1;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!seen[i]) throw_caller(ErrorCode::InvalidArgument, "input {} is not given", inputs[i].name);
  }
  return ordered;
}

// Callers see one type of error, also where a container of our own finds no memory.
template <typename Body>
auto within_memory(const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    throw_environment(ErrorCode::OutOfMemory, "there is not enough memory for what the model needs");
  } catch (const std::length_error&) {
    throw_environment(ErrorCode::OutOfMemory, "the model needs more memory than can be addressed");
  }
}

}  // namespace

Session::Implementation::Implementation(frontend::ModelSource source, const Options& given)
    : options(api::checked(given)),
      parallelism{.pool = &runtime::ThreadPool::process(), .threads = api::thread_count(options.threads)},
      source_(std::move(source)) {
  if (options.kernels == KernelChoice::Generated)
    kernels = std::make_shared<jit::KernelService>(open_store(options));
  frontend::LoadOptions load = load_options(options);
  load.warn = options.warn;
  graph::Graph graph = source_.graph(load);
  for (const graph::ValueId id : graph.inputs) inputs.push_back(describe(graph, id));
  for (const graph::ValueId id : graph.outputs) outputs.push_back(describe(graph, id));
  for (const graph::NodeId id : graph.topological_order()) {
    const graph::Node& node = graph.node(id);
    nodes.push_back({.name = node.name,
                     .op = std::string(name(node.op)),
                     .operator_class = std::string(contract(node.op).operator_class)});
  }
  make_execution(std::move(graph), declared_);
}

void Session::Implementation::make_execution(graph::Graph graph, Execution& execution) const {
  if (options.kernels != KernelChoice::Generated) {
    if (options.kernels == KernelChoice::Reference) runtime::apply_numeric_law(graph);
    execution.reference_graph = std::move(graph);
    return;
  }
  execution.model.emplace(std::move(graph),
                          runtime::ModelOptions{.target = api::parse_target(options.target),
                                                .kernels = kernels,
                                                .strict = options.strict,
                                                .log = options.log},
                          parallelism, options.memory_limit);
}

Session::Implementation::Execution& Session::Implementation::execution_for(std::span<const Extents> extents) {
  const frontend::OpenedInputs wrong = api::wrong_inputs(inputs, extents);
  return wrong.empty() ? declared_ : opened_execution(wrong, extents);
}

Session::Implementation::Execution& Session::Implementation::opened_execution(
    const frontend::OpenedInputs& wrong, std::span<const Extents> extents) {
  const std::scoped_lock lock(mutex_);
  if (const auto known = opened_.find(wrong); known != opened_.end()) return *known->second;
  // Callers choose the shapes, so that there must be an end to what they can make a Session hold.
  constexpr std::size_t kMostPrecise = 8, kMost = 16;
  const frontend::OpenedInputs opened =
      opened_.size() < kMostPrecise ? wrong : api::all_opened(inputs, wrong);
  if (const auto known = opened_.find(opened); known != opened_.end()) return *known->second;
  if (opened_.size() == kMost) {
    throw_caller(ErrorCode::ShapeMismatch,
                 "inputs contradict what the model declares, as earlier ones have in {} other ways", kMost);
  }
  frontend::LoadOptions load = load_options(options);
  load.opened_inputs = opened;
  auto execution = std::make_unique<Execution>();
  make_execution(source_.graph(load), *execution);
  if (options.warn)
    options.warn(fmt::format("{}: what is given counts", api::describe(wrong, inputs, extents)));
  return *(opened_[opened] = std::move(execution));
}

template <typename Body>
auto Session::Implementation::with_execution(std::span<const Datum> data, const Body& body) {
  const frontend::OpenedInputs wrong = api::wrong_inputs(inputs, data);
  if (wrong.empty()) return body(*(newest_ = &declared_));
  const std::vector<Extents> extents = runtime::extents_of(data);
  try {
    return body(*(newest_ = &opened_execution(wrong, extents)));
  } catch (Error& error) {
    throw error.with("inputs", api::describe(wrong, inputs, extents));
  }
}

std::vector<Datum> Session::Implementation::run_into(std::span<const Datum> data,
                                                     std::span<const Tensor> given) {
  if (!kernels) {
    std::vector<Datum> results = run(data);
    if (given.size() != results.size()) {
      throw_caller(ErrorCode::InvalidArgument, "got {} outputs, expected {}", given.size(), results.size());
    }
    return results;
  }
  std::vector<Datum> filled(given.begin(), given.end());
  with_execution(data, [&](Execution& execution) { execution.model->for_inputs(data).run(data, filled); });
  return filled;
}

std::vector<Datum> Session::Implementation::run(std::span<const Datum> data) {
  return with_execution(data, [&](Execution& execution) {
    return execution.model ? execution.model->for_inputs(data).run(data)
                           : evaluate(*execution.reference_graph, data);
  });
}

std::vector<Datum> Session::Implementation::evaluate(const graph::Graph& graph,
                                                     std::span<const Datum> data) const {
  runtime::check_inputs(graph, data);
  graph::Bindings bindings(graph.symbols.size(), graph::kUnbound);
  runtime::bind_extents(graph, runtime::extents_of(data), bindings);
  const reference::ParallelFor parallel = [this](std::int64_t count, std::int64_t grain,
                                                 const reference::RangeBody& body) {
    parallelism.pool->parallel_for(
        count, {.grain = grain, .chunking = runtime::Chunking::Dynamic, .max_threads = parallelism.threads},
        body);
  };
  const bool f64 = options.kernels == KernelChoice::Reference64;
  return reference::evaluate(graph, data, {.f64 = f64, .parallel = &parallel});
}

Session Session::load(const std::string& path, const Options& options) {
  return within_memory(
      [&] { return Session(std::make_unique<Implementation>(frontend::ModelSource::open(path), options)); });
}

Session Session::load_bytes(std::span<const std::byte> bytes, const std::string& folder,
                            const Options& options) {
  return within_memory([&] {
    return Session(
        std::make_unique<Implementation>(frontend::ModelSource::from_bytes(bytes, folder), options));
  });
}

Session::Session(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Session::Implementation& Session::implementation() const {
  if (!implementation_)
    throw_caller(ErrorCode::InvalidArgument, "the Session was moved from; use the one that it was moved to");
  return *implementation_;
}

const std::vector<ValueInfo>& Session::inputs() const { return implementation().inputs; }
const std::vector<ValueInfo>& Session::outputs() const { return implementation().outputs; }
const std::vector<NodeInfo>& Session::nodes() const { return implementation().nodes; }

std::vector<Datum> Session::run(std::span<const NamedDatum> inputs) const {
  Implementation& model = implementation();
  return within_memory([&] { return model.run(in_model_order(model.inputs, inputs)); });
}

std::vector<Tensor> Session::run(std::span<const NamedTensor> inputs) const {
  Implementation& model = implementation();
  std::vector<Datum> data = within_memory([&] { return model.run(in_model_order(model.inputs, inputs)); });
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (!data[i].is_tensor()) {
      throw_caller(ErrorCode::TypeMismatch, "output {} is {}, no tensor: run with kiln::NamedDatum",
                   model.outputs[i].name, to_string(data[i]));
    }
    outputs.push_back(std::move(data[i].tensor()));
  }
  return outputs;
}

std::vector<Tensor> Session::run(std::initializer_list<NamedTensor> inputs) const {
  return run(std::span<const NamedTensor>(inputs.begin(), inputs.size()));
}

void Session::run(std::span<const Tensor> inputs, std::span<Tensor> outputs) const {
  Implementation& model = implementation();
  within_memory([&] {
    const std::vector<Datum> data(inputs.begin(), inputs.end());
    const std::vector<Datum> results = model.run_into(data, outputs);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Tensor& result = results[i].tensor();
      if (result.data() == outputs[i].data()) continue;  // made in place
      runtime::check_output(model.outputs[i].name, outputs[i], result.dtype(), result.extents());
      outputs[i].copy_from(result);
    }
  });
}

std::vector<std::optional<std::vector<std::int64_t>>> Session::output_extents(
    std::span<const std::vector<std::int64_t>> input_extents) const {
  Implementation::Execution& execution = implementation().execution_for(input_extents);
  return within_memory([&] {
    if (execution.model) return execution.model->general().output_extents(input_extents);
    const graph::Graph& graph = *execution.reference_graph;
    graph::Bindings bindings(graph.symbols.size(), graph::kUnbound);
    runtime::bind_extents(graph, input_extents.empty() ? runtime::declared_extents(graph) : input_extents,
                          bindings);
    return runtime::output_extents(graph, bindings);
  });
}

void Session::Implementation::add_stats(const runtime::SessionCore& part, SessionStats& stats,
                                        std::vector<double>& milliseconds) const {
  const runtime::Model& model = part.model();
  const std::vector<double> compiled = model.compile_milliseconds();
  milliseconds.insert(milliseconds.end(), compiled.begin(), compiled.end());
  stats.plans_made += part.plans_made();
  stats.planned_bytes += model.prepared_bytes();
  if (const auto plan = part.newest_plan()) {
    stats.fallback_nodes += plan->fallback_nodes;
    stats.planned_bytes += plan->first.arena_bytes + parallelism.threads * plan->first.scratch_bytes;
  }
  for (const runtime::CompiledRegion& region : model.regions()) {
    if (!region.falls_back()) continue;
    const graph::Node& root = model.graph().node(region.region.root);
    stats.fallbacks.emplace_back(fmt::format("{} {}", name(root.op), root.name), region.fallback_reason);
  }
}

SessionStats Session::stats() const {
  Implementation& loaded = implementation();
  SessionStats stats;
  if (!loaded.kernels) return stats;
  const jit::KernelServiceStats kernels = loaded.kernels->stats();
  stats.kernels_compiled = kernels.compiled;
  stats.kernels_from_cache = kernels.from_cache;
  stats.compile_ms_total = kernels.compile_ms_total;
  std::vector<double> milliseconds;
  loaded.newest().model->newest().visit(
      [&](const runtime::SessionCore& core) { loaded.add_stats(core, stats, milliseconds); });
  if (!milliseconds.empty()) {
    const auto middle = milliseconds.begin() + static_cast<std::ptrdiff_t>(milliseconds.size() / 2);
    std::nth_element(milliseconds.begin(), middle, milliseconds.end());
    stats.compile_ms_median = *middle;
  }
  return stats;
}

int Session::threads() const { return implementation().parallelism.threads; }

std::string Session::explain(std::string_view stage, std::string_view filter,
                             std::span<const std::vector<std::int64_t>> input_extents) const {
  Implementation& loaded = implementation();
  return within_memory([&] {
    Implementation::Execution& execution =
        input_extents.empty() ? loaded.newest() : loaded.execution_for(input_extents);
    if (execution.model) return api::explain(execution.model->newest(), stage, filter, input_extents);
    if (stage == "graph") return to_text(*execution.reference_graph);
    throw_caller(ErrorCode::InvalidArgument, "reference kernels have no stage {}, only graph", stage);
  });
}

std::string_view version() { return KILN_VERSION; }

}  // namespace kiln
