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
#include "jit/cache/store.h"
#include "kernels_ref/reference.h"
#include "runtime/passes/passes.h"
#include "runtime/thread_pool.h"

namespace kiln {
namespace {

frontend::LoadOptions load_options(const Options& options) {
  frontend::LoadOptions load;
  load.hide_dims = options.ignore_declared_dims;
  load.hide_rank = options.ignore_declared_ranks;
  for (const NamedTensor& constant : options.constant_inputs)
    load.constant_inputs[constant.name] = constant.tensor;
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

std::shared_ptr<jit::KernelService> make_kernels(const Options& options) {
  std::shared_ptr<jit::Store> store;
  const std::string path = options.cache == "off" ? "" : api::cache_path(options.cache);
  if (!path.empty()) {
    jit::StoreOptions store_options;
    store_options.path = path;
    store_options.log = options.log;
    store = std::make_shared<jit::Store>(std::move(store_options));
  }
  return std::make_shared<jit::KernelService>(std::move(store));
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
    : options(given),
      parallelism{.pool = &runtime::ThreadPool::process(), .threads = api::thread_count(options.threads)},
      source_(std::move(source)) {
  if (options.kernels == KernelChoice::Generated) kernels = make_kernels(options);
  graph::Graph graph = source_.graph(load_options(options));
  for (const graph::ValueId id : graph.inputs) inputs.push_back(describe(graph, id));
  for (const graph::ValueId id : graph.outputs) outputs.push_back(describe(graph, id));
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

std::vector<Extents> Session::Implementation::extents_of(std::span<const Datum> data) {
  std::vector<Extents> extents;
  for (const Datum& datum : data) extents.push_back(datum.is_tensor() ? datum.tensor().extents() : Extents());
  return extents;
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
  if (options.log) {
    options.log(fmt::format("warning: {}: what is given counts", api::describe(wrong, inputs, extents)));
  }
  return *(opened_[opened] = std::move(execution));
}

template <typename Body>
auto Session::Implementation::with_execution(std::span<const Datum> data, const Body& body) {
  const frontend::OpenedInputs wrong = api::wrong_inputs(inputs, data);
  if (wrong.empty()) return body(*(newest_ = &declared_));
  const std::vector<Extents> extents = extents_of(data);
  try {
    return body(*(newest_ = &opened_execution(wrong, extents)));
  } catch (Error& error) {
    throw error.with("inputs", api::describe(wrong, inputs, extents));
  }
}

void Session::Implementation::run(std::span<const Datum> data, std::span<Datum> results) {
  with_execution(data, [&](Execution& execution) { execution.model->for_inputs(data).run(data, results); });
}

std::vector<Datum> Session::Implementation::run(std::span<const Datum> data) {
  return with_execution(data, [&](Execution& execution) {
    return execution.model ? execution.model->for_inputs(data).run(data)
                           : evaluate(*execution.reference_graph, data);
  });
}

std::vector<Datum> Session::Implementation::evaluate(const graph::Graph& graph,
                                                     std::span<const Datum> data) const {
  for (std::size_t i = 0; i < data.size() && i < inputs.size(); ++i) {
    if (data[i].is_tensor() && data[i].tensor().dtype() != inputs[i].dtype) {
      throw_caller(ErrorCode::TypeMismatch, "input {} has dtype {}, expected {}", inputs[i].name,
                   name(data[i].tensor().dtype()), name(inputs[i].dtype));
    }
  }
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

const std::vector<ValueInfo>& Session::inputs() const { return implementation_->inputs; }
const std::vector<ValueInfo>& Session::outputs() const { return implementation_->outputs; }

std::vector<Datum> Session::run(std::span<const NamedDatum> inputs) const {
  return within_memory([&] { return implementation_->run(in_model_order(implementation_->inputs, inputs)); });
}

std::vector<Tensor> Session::run(std::span<const NamedTensor> inputs) const {
  std::vector<Datum> data =
      within_memory([&] { return implementation_->run(in_model_order(implementation_->inputs, inputs)); });
  std::vector<Tensor> outputs;
  for (Datum& output : data) outputs.push_back(std::move(output.tensor()));
  return outputs;
}

std::vector<Tensor> Session::run(std::initializer_list<NamedTensor> inputs) const {
  return run(std::span<const NamedTensor>(inputs.begin(), inputs.size()));
}

void Session::run(std::span<const Tensor> inputs, std::span<Tensor> outputs) const {
  const std::vector<Datum> data(inputs.begin(), inputs.end());
  if (implementation_->kernels) {
    std::vector<Datum> filled(outputs.begin(), outputs.end());
    within_memory([&] { implementation_->run(data, filled); });
    return;
  }
  const std::vector<Datum> results = within_memory([&] { return implementation_->run(data); });
  if (outputs.size() != results.size()) {
    throw_caller(ErrorCode::InvalidArgument, "got {} outputs, expected {}", outputs.size(), results.size());
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Tensor& result = results[i].tensor();
    if (outputs[i].dtype() != result.dtype() || outputs[i].extents() != result.extents()) {
      throw_caller(ErrorCode::ShapeMismatch, "output {} is given as {} {}, expected {} {}",
                   implementation_->outputs[i].name, name(outputs[i].dtype()),
                   to_string(outputs[i].extents()), name(result.dtype()), to_string(result.extents()));
    }
    std::copy_n(result.data(), result.byte_size(), outputs[i].mutable_data());
  }
}

std::vector<std::optional<std::vector<std::int64_t>>> Session::output_extents(
    std::span<const std::vector<std::int64_t>> input_extents) const {
  if (!implementation_->kernels) return std::vector<std::optional<Extents>>(implementation_->outputs.size());
  return implementation_->execution_for(input_extents).model->general().output_extents(input_extents);
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
  SessionStats stats;
  if (!implementation_->kernels) return stats;
  const jit::KernelServiceStats kernels = implementation_->kernels->stats();
  stats.kernels_compiled = kernels.compiled;
  stats.kernels_from_cache = kernels.from_cache;
  stats.compile_ms_total = kernels.compile_ms_total;
  std::vector<double> milliseconds;
  implementation_->newest().model->newest().visit(
      [&](const runtime::SessionCore& core) { implementation_->add_stats(core, stats, milliseconds); });
  if (!milliseconds.empty()) {
    const auto middle = milliseconds.begin() + static_cast<std::ptrdiff_t>(milliseconds.size() / 2);
    std::nth_element(milliseconds.begin(), middle, milliseconds.end());
    stats.compile_ms_median = *middle;
  }
  return stats;
}

int Session::threads() const { return implementation_->parallelism.threads; }

std::string Session::explain(std::string_view stage, std::string_view filter,
                             std::span<const std::vector<std::int64_t>> input_extents) const {
  Implementation::Execution& execution =
      input_extents.empty() ? implementation_->newest() : implementation_->execution_for(input_extents);
  if (!execution.model) {
    if (stage == "graph") return to_text(*execution.reference_graph);
    throw_caller(ErrorCode::InvalidArgument, "reference kernels have no stage {}, only graph", stage);
  }
  return api::explain(execution.model->newest(), stage, filter, input_extents);
}

std::string_view version() { return KILN_VERSION; }

}  // namespace kiln
