#include <algorithm>
#include <map>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

#include <fmt/ranges.h>
#include <kiln/kiln.h>

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

// The names of inputs, of which there may be thousands.
std::string list(const std::vector<ValueInfo>& inputs) {
  constexpr std::size_t kMost = 8;
  std::string names;
  for (std::size_t i = 0; i < std::min(inputs.size(), kMost); ++i)
    names += (names.empty() ? "" : ", ") + inputs[i].name;
  if (inputs.size() > kMost) names += fmt::format(" and {} more", inputs.size() - kMost);
  return names;
}

[[noreturn]] void refuse_name(const std::string& name, const std::vector<ValueInfo>& inputs,
                              const std::vector<ValueInfo>& defaults) {
  throw_caller(ErrorCode::InvalidArgument, "the model has no input {}; its inputs are: {}{}", name,
               list(inputs), defaults.empty() ? "" : "; with a default value: " + list(defaults));
}

// Positions by name; most callers keep the order.
class Positions {
 public:
  explicit Positions(const std::vector<ValueInfo>& infos) : infos_(infos) {}

  std::optional<std::size_t> find(const std::string& name) {
    const auto middle = infos_.begin() + static_cast<std::ptrdiff_t>(next_);
    auto found = std::ranges::find(middle, infos_.end(), name, &ValueInfo::name);
    if (found == infos_.end()) {
      found = std::ranges::find(infos_.begin(), middle, name, &ValueInfo::name);
      if (found == middle) return std::nullopt;
    }
    const auto position = static_cast<std::size_t>(found - infos_.begin());
    next_ = position + 1;
    return position;
  }

 private:
  const std::vector<ValueInfo>& infos_;
  std::size_t next_ = 0;
};

template <typename Named>
Arguments in_model_order(const std::vector<ValueInfo>& inputs, const std::vector<ValueInfo>& defaults,
                         std::span<const Named> given) {
  Arguments arguments;
  arguments.data.resize(inputs.size());
  std::vector<bool> seen(inputs.size(), false);
  std::map<std::size_t, Datum> replaced;
  Positions of_inputs(inputs), of_defaults(defaults);
  for (const Named& named : given) {
    bool again = false;
    if (const auto input = of_inputs.find(named.name)) {
      again = seen[*input];
      seen[*input] = true;
      arguments.data[*input] = content(named);
    } else if (const auto position = of_defaults.find(named.name)) {
      again = !replaced.emplace(*position, content(named)).second;
    } else {
      refuse_name(named.name, inputs, defaults);
    }
    if (again) throw_caller(ErrorCode::InvalidArgument, "input {} is given twice", named.name);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!seen[i]) throw_caller(ErrorCode::InvalidArgument, "input {} is not given", inputs[i].name);
  }
  for (auto& [position, datum] : replaced) {
    arguments.data.push_back(std::move(datum));
    arguments.replaced.push_back(position);
  }
  return arguments;
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
      parallelism{.pool = &runtime::ThreadPool::process(), .threads = api::thread_count(options.threads)} {
  if (options.kernels == KernelChoice::Generated)
    kernels = std::make_shared<jit::KernelService>(open_store(options));
  frontend::LoadOptions load = load_options(options);
  load.warn = options.warn;
  graph::Graph graph = source.graph(load);
  for (const graph::ValueId id : graph.inputs) inputs.push_back(describe(graph, id));
  for (const graph::ValueId id : graph.outputs) outputs.push_back(describe(graph, id));
  for (const graph::NodeId id : graph.topological_order()) {
    const graph::Node& node = graph.node(id);
    nodes.push_back({.name = node.name,
                     .op = std::string(name(node.op)),
                     .operator_class = std::string(contract(node.op).operator_class)});
  }
  defaults = source.defaults(load);
  load.warn = {};  // of what the model says it has told
  api::Executions::Options making{
      .load = std::move(load),
      .defaults = {},
      .make = [this](graph::Graph made) { return make_execution(std::move(made)); },
      .warn = options.warn};
  for (const ValueInfo& info : defaults) making.defaults.push_back(info.name);
  executions.emplace(std::move(source), std::move(graph), std::move(making));
}

std::shared_ptr<api::Execution> Session::Implementation::make_execution(graph::Graph graph) const {
  auto execution = std::make_shared<api::Execution>();
  if (options.kernels != KernelChoice::Generated) {
    if (options.kernels == KernelChoice::Reference) runtime::apply_numeric_law(graph);
    execution->reference_graph = std::move(graph);
  } else {
    execution->model.emplace(std::move(graph),
                             runtime::ModelOptions{.target = api::parse_target(options.target),
                                                   .kernels = kernels,
                                                   .strict = options.strict,
                                                   .log = options.log},
                             parallelism, options.memory_limit);
  }
  return execution;
}

std::vector<std::optional<Extents>> Session::Implementation::output_extents(
    std::span<const Extents> extents) {
  std::vector<std::optional<Extents>> result;
  executions->serve(
      {}, [&] { return std::vector<Extents>(extents.begin(), extents.end()); },
      [&](const std::shared_ptr<api::Execution>& execution) {
        graph::Bindings bindings;
        runtime::Contradictions wrong;
        if (execution->model) {
          const runtime::SessionCore& core = execution->model->general();
          wrong = core.bind(extents, bindings);
          if (wrong.empty()) result = runtime::output_extents(core.model().graph(), bindings);
        } else {
          const graph::Graph& graph = *execution->reference_graph;
          bindings.assign(graph.symbols.size(), graph::kUnbound);
          wrong = runtime::bind_extents(graph, extents.empty() ? runtime::declared_extents(graph) : extents,
                                        bindings);
          if (wrong.empty()) result = runtime::output_extents(graph, bindings);
        }
        return wrong;
      });
  return result;
}

std::vector<Datum> Session::Implementation::run_into(std::span<const Datum> data,
                                                     std::span<const Tensor> given) {
  std::vector<Datum> outputs(given.begin(), given.end());
  executions->serve(
      {}, [&] { return runtime::extents_of(data); },
      [&](const std::shared_ptr<api::Execution>& execution) {
        if (!execution->model) return run(*execution, data, outputs);
        runtime::SessionCore& core = execution->model->for_inputs(data);
        graph::Bindings bindings;
        runtime::Contradictions wrong = core.bind(data, bindings);
        if (wrong.empty()) core.run(data, bindings, outputs);
        return wrong;
      });
  if (outputs.size() != given.size()) {
    throw_caller(ErrorCode::InvalidArgument, "got {} outputs, expected {}", given.size(), outputs.size());
  }
  return outputs;
}

std::vector<Datum> Session::Implementation::run(const Arguments& arguments) {
  std::vector<Datum> outputs;
  executions->serve(
      arguments.replaced, [&] { return runtime::extents_of(arguments.data); },
      [&](const std::shared_ptr<api::Execution>& execution) {
        return run(*execution, arguments.data, outputs);
      });
  return outputs;
}

runtime::Contradictions Session::Implementation::run(api::Execution& execution, std::span<const Datum> data,
                                                     std::vector<Datum>& outputs) const {
  graph::Bindings bindings;
  if (execution.model) {
    runtime::SessionCore& core = execution.model->for_inputs(data);
    runtime::Contradictions wrong = core.bind(data, bindings);
    if (wrong.empty()) outputs = core.run(data, bindings);
    return wrong;
  }
  const graph::Graph& graph = *execution.reference_graph;
  runtime::check_inputs(graph, data);
  bindings.assign(graph.symbols.size(), graph::kUnbound);
  runtime::Contradictions wrong = runtime::bind_extents(graph, runtime::extents_of(data), bindings);
  if (wrong.empty()) outputs = evaluate(graph, data);
  return wrong;
}

std::vector<Datum> Session::Implementation::evaluate(const graph::Graph& graph,
                                                     std::span<const Datum> data) const {
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
const std::vector<ValueInfo>& Session::defaults() const { return implementation().defaults; }
const std::vector<ValueInfo>& Session::outputs() const { return implementation().outputs; }
const std::vector<NodeInfo>& Session::nodes() const { return implementation().nodes; }

std::vector<Datum> Session::run(std::span<const NamedDatum> inputs) const {
  Implementation& model = implementation();
  return within_memory([&] { return model.run(in_model_order(model.inputs, model.defaults, inputs)); });
}

std::vector<Tensor> Session::run(std::span<const NamedTensor> inputs) const {
  Implementation& model = implementation();
  std::vector<Datum> data =
      within_memory([&] { return model.run(in_model_order(model.inputs, model.defaults, inputs)); });
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
  Implementation& loaded = implementation();
  return within_memory([&] { return loaded.output_extents(input_extents); });
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
  loaded.executions->newest()->model->newest().visit(
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
    const std::shared_ptr<api::Execution> execution =
        input_extents.empty() ? loaded.executions->newest() : loaded.executions->for_extents(input_extents);
    if (execution->model) return api::explain(execution->model->newest(), stage, filter, input_extents);
    if (stage == "graph") return to_text(*execution->reference_graph);
    throw_caller(ErrorCode::InvalidArgument, "reference kernels have no stage {}, only graph", stage);
  });
}

std::string_view version() { return KILN_VERSION; }

}  // namespace kiln
