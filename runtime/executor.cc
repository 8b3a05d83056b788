#include "runtime/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/base/checked_math.h"
#include "ir/base/errors.h"
#include "ir/graph/guards.h"
#include "kernels_ref/reference.h"
#include "runtime/float_state.h"
#include "runtime/operands.h"

namespace kiln::runtime {
namespace {

using graph::NodeId;
using graph::ValueId;

// How long a run waits for memory that other runs hold, before it is refused.
constexpr std::chrono::seconds kArenaWait{30};

// Copies between strided and dense memory, elements of any fixed size.
void copy_strided(const std::byte* from, std::span<const std::int64_t> from_strides, std::byte* to,
                  std::span<const std::int64_t> to_strides, std::span<const std::int64_t> extents,
                  std::int64_t bytes) {
  if (extents.empty()) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return;
  }
  const bool innermost = extents.size() == 1;
  if (innermost && from_strides[0] == 1 && to_strides[0] == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes * extents[0]));
    return;
  }
  for (std::int64_t i = 0; i < extents[0]; ++i) {
    copy_strided(from + i * from_strides[0] * bytes, from_strides.subspan(1), to + i * to_strides[0] * bytes,
                 to_strides.subspan(1), extents.subspan(1), bytes);
  }
}

// The same content in memory that outlives the arenas.
Datum with_own_memory(const Datum& datum) {
  if (datum.is_tensor()) return datum.tensor().owns_memory() ? datum : Datum(datum.tensor().copy());
  if (!datum.is_sequence()) return datum;
  const std::vector<Datum>& items = datum.sequence().items;
  if (std::all_of(items.begin(), items.end(),
                  [](const Datum& item) { return !item.is_tensor() || item.tensor().owns_memory(); })) {
    return datum;
  }
  Sequence sequence{datum.sequence().dtype, {}};
  for (const Datum& item : items) sequence.items.push_back(with_own_memory(item));
  return sequence;
}

class Run {
 public:
  Run(const Model& model, const Plan& plan, const Parallelism& parallelism, ArenaPool& arenas,
      const reference::RunBody& run_body, std::span<const Datum> inputs, std::span<Datum> outputs)
      : model_(model),
        graph_(model.graph()),
        plan_(plan),
        parallelism_(parallelism),
        arena_pool_(arenas),
        run_body_(run_body),
        inputs_(inputs),
        outputs_(outputs),
        parallel_([parallelism](std::int64_t count, std::int64_t grain, const reference::RangeBody& body) {
          parallelism.pool->parallel_for(
              count, {.grain = grain, .chunking = Chunking::Dynamic, .max_threads = parallelism.threads},
              body);
        }) {}

  void execute() {
    const FloatState float_state;
    std::optional<ThreadPool::ActiveRun> active;
    if (parallelism_.threads > 1) active.emplace(*parallelism_.pool);
    run_segment(plan_.first);
    if (plan_.first.next_region < model_.regions().size() || !made_sizes_.empty()) run_later_segments();
    collect_outputs();
  }

 private:
  void run_segment(const Segment& segment) {
    // Every thread of the run has scratch of its own behind the planned buffers.
    const std::int64_t scratch_start = ceil_divide(segment.arena_bytes, 64) * 64;
    arenas_.push_back(arena_pool_.lease(scratch_start + parallelism_.threads * segment.scratch_bytes,
                                        std::chrono::steady_clock::now() + kArenaWait));
    scratch_ = {arenas_.back().data() + scratch_start, segment.scratch_bytes};
    for (const Step& step : segment.steps) {
      std::visit([this](const auto& s) { run_step(s); }, step);
    }
  }

  // Sizes that only now are known make these Plans good for this run alone.
  void run_later_segments() {
    bindings_ = plan_.bindings;
    Placements placements = plan_.placements;
    std::size_t region = plan_.first.next_region;
    bind_made_sizes();
    for (std::uint32_t number = 1; region < model_.regions().size(); ++number) {
      graph::check_guards(graph_, bindings_);
      allocate_outputs();
      const Segment segment = make_segment(model_, region, number, bindings_, placements);
      run_segment(segment);
      bind_made_sizes();
      region = segment.next_region;
    }
  }

  void run_step(const LaunchStep& step) {
    const BoundLaunch& launch = step.launch;
    std::vector<std::uint64_t>& words = words_;
    words.assign(launch.words.begin(), launch.words.end());
    for (const BoundLaunch::Patch& patch : launch.patches) {
      words[patch.word] = reinterpret_cast<std::uint64_t>(address(patch.buffer));
    }
    try {
      run_launch(launch, words, scratch_, parallelism_);
    } catch (Error& error) {
      add_place(error, model_.regions()[step.region].region.root);
      throw;
    }
  }

  void run_step(const ReferenceStep& step) {
    const graph::Node& node = graph_.node(step.node);
    std::vector<Datum> held;
    std::vector<const Datum*> inputs;
    held.reserve(step.inputs.size());
    for (const ReferenceStep::Input& input : step.inputs) {
      const bool present = !std::holds_alternative<std::monostate>(input);
      if (present) held.push_back(input_datum(input));
      inputs.push_back(present ? &held.back() : nullptr);
    }
    reference::Call call{
        .node = node, .inputs = inputs, .outputs = {}, .parallel = &parallel_, .run_body = &run_body_};
    for (const auto& output : step.outputs) {
      call.outputs.push_back(output && output->dense
                                 ? Tensor::view(output->dtype, output->extents, address(output->buffer))
                                 : Datum());
    }
    try {
      const reference::Kernel kernel = reference::find(node.op);
      if (kernel == nullptr) throw_caller(ErrorCode::Unsupported, "operator has no kernel");
      kernel(call);
    } catch (Error& error) {
      add_place(error, step.node);
      throw;
    }
    for (std::size_t i = 0; i < step.outputs.size(); ++i) {
      if (node.outputs[i]) keep_output(node.outputs[i], step.outputs[i], call.outputs[i]);
    }
  }

  void run_step(const BindStep& step) { made_sizes_.push_back(step.value); }

  Datum input_datum(const ReferenceStep::Input& input) {
    if (const auto* known = std::get_if<Tensor>(&input)) return *known;
    if (const auto* made = std::get_if<ValueId>(&input)) return made_datum(*made);
    const TensorRef& ref = std::get<TensorRef>(input);
    if (ref.dense) return Tensor::view(ref.dtype, ref.extents, address(ref.buffer));
    Tensor tensor(ref.dtype, ref.extents);
    if (tensor.elements() == 0) return tensor;
    copy_strided(address(ref.buffer), ref.strides, tensor.mutable_data(), dense_strides(ref.extents),
                 ref.extents, bits(ref.dtype) / 8);
    return tensor;
  }

  // A Value that has no planned memory: made while running, or an input.
  const Datum& made_datum(ValueId id) const {
    const auto found = made_.find(id.index);
    if (found != made_.end()) return found->second;
    const auto input = std::find(graph_.inputs.begin(), graph_.inputs.end(), id);
    require(input != graph_.inputs.end(), "value {} is read before it is made", graph_.value(id).name);
    return inputs_[static_cast<std::size_t>(input - graph_.inputs.begin())];
  }

  void keep_output(ValueId id, const std::optional<TensorRef>& ref, const Datum& datum) {
    if (!ref) {
      made_[id.index] = with_own_memory(datum);
      return;
    }
    const Tensor& tensor = datum.tensor();
    std::byte* memory = address(ref->buffer);
    if (tensor.data() == memory && ref->dense) return;
    if (tensor.dtype() != ref->dtype || tensor.extents() != ref->extents) {
      throw_caller(ErrorCode::ShapeMismatch, "value {} has extents {}, the model says {}",
                   graph_.value(id).name, to_string(tensor.extents()), to_string(ref->extents));
    }
    if (tensor.elements() == 0) return;
    if (ref->dense) {
      std::memcpy(memory, tensor.data(), static_cast<std::size_t>(tensor.byte_size()));
      return;
    }
    copy_strided(tensor.data(), dense_strides(ref->extents), memory, ref->strides, ref->extents,
                 bits(ref->dtype) / 8);
  }

  void bind_made_sizes() {
    for (const ValueId id : made_sizes_) {
      const Extents& extents = made_datum(id).tensor().extents();
      for (std::size_t s = 0; s < graph_.symbols.size(); ++s) {
        const graph::SymbolSource& source = graph_.symbols[s].source;
        if (source.kind != graph::SymbolSource::Kind::NodeResult || source.value != id) continue;
        if (bindings_.size() <= s) bindings_.resize(s + 1, graph::kUnbound);
        bindings_[s] = extents.at(static_cast<std::size_t>(source.index));
      }
    }
    made_sizes_.clear();
  }

  // Outputs whose sizes only the Segments before have told.
  void allocate_outputs() {
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      const graph::Value& value = graph_.value(graph_.outputs[i]);
      if (outputs_[i].has_value() || value.dtype == DType::String || value.container != Container::Tensor)
        continue;
      if (auto extents = try_extents(graph_, graph_.outputs[i], bindings_))
        outputs_[i] = Tensor(value.dtype, std::move(*extents));
    }
  }

  // Outputs that no Step wrote in place: what was made while running, an input passed on, or arithmetic on
  // sizes of what was made.
  void collect_outputs() {
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      const auto made = made_.find(graph_.outputs[i].index);
      const auto input = std::find(graph_.inputs.begin(), graph_.inputs.end(), graph_.outputs[i]);
      if (made != made_.end()) {
        outputs_[i] = made->second;
      } else if (input != graph_.inputs.end()) {
        outputs_[i] = with_own_memory(inputs_[static_cast<std::size_t>(input - graph_.inputs.begin())]);
      } else if (const graph::Value& value = graph_.value(graph_.outputs[i]);
                 is_known(value) && !try_elements_tensor(value, plan_.bindings)) {
        const Tensor elements = elements_tensor(value, bindings_);
        if (outputs_[i].has_value()) {
          outputs_[i].tensor().copy_from(elements);
        } else {
          outputs_[i] = elements;
        }
      }
    }
  }

  std::byte* address(const BufferRef& buffer) {
    const auto at = [&](const std::byte* start) { return const_cast<std::byte*>(start) + buffer.offset; };
    switch (buffer.kind) {
      case BufferRef::Kind::Fixed:
        return at(buffer.fixed);
      case BufferRef::Kind::Arena:
        return at(arenas_[buffer.index].data());
      case BufferRef::Kind::Input:
        return at(inputs_[buffer.index].tensor().data());
      case BufferRef::Kind::Output:
        return at(outputs_[buffer.index].tensor().data());
      case BufferRef::Kind::Tensor:
        return at(made_datum(ValueId{buffer.index}).tensor().data());
    }
    return nullptr;
  }

  void add_place(Error& error, NodeId id) const {
    const graph::Node& node = graph_.node(id);
    error.with("node", node.name).with("op", std::string(name(node.op)));
  }

  const Model& model_;
  const graph::Graph& graph_;
  const Plan& plan_;
  Parallelism parallelism_;
  ArenaPool& arena_pool_;
  const reference::RunBody& run_body_;
  std::span<const Datum> inputs_;
  std::span<Datum> outputs_;
  reference::ParallelFor parallel_;
  std::vector<ArenaPool::Lease> arenas_;
  std::unordered_map<std::uint32_t, Datum> made_;
  std::vector<ValueId> made_sizes_;
  graph::Bindings bindings_;
  LaunchScratch scratch_;
  std::vector<std::uint64_t> words_;
};

}  // namespace

void execute(const Model& model, const Plan& plan, const Parallelism& parallelism, ArenaPool& arenas,
             const reference::RunBody& run_body, std::span<const Datum> inputs, std::span<Datum> outputs) {
  Run(model, plan, parallelism, arenas, run_body, inputs, outputs).execute();
}

}  // namespace kiln::runtime
