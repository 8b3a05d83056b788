#include "runtime/plan.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/base/checked_math.h"
#include "ir/base/errors.h"
#include "ir/graph/guards.h"
#include "runtime/memory_plan.h"
#include "runtime/operands.h"

namespace kiln::runtime {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;
using templates::ProgramValue;

// Plans one Segment. Values get memory when the first Step that writes them is planned, by lifetime.
class SegmentPlanner {
 public:
  SegmentPlanner(const Model& model, std::uint32_t segment, std::span<const std::int64_t> bindings,
                 Placements& placements)
      : model_(model),
        graph_(model.graph()),
        segment_(segment),
        bindings_(bindings),
        placements_(placements) {}

  Segment plan(std::size_t first_region) {
    first_region_ = first_region;
    std::size_t end = first_region;
    // A Region belongs to this Segment if every size that it needs is known.
    while (end < model_.regions().size() && sizes_known(model_.regions()[end])) {
      const CompiledRegion& region = model_.regions()[end++];
      for (const ValueId output : stored_values(region)) note_write(output);
      for (const ValueId input : read_values(region)) note_read(input);
      ++step_;
      if (makes_sizes(region)) break;
    }
    require(end > first_region, "region {} waits for a size that nothing makes", first_region);
    place_values(end);
    evaluate_known_inputs(end);
    Segment segment;
    for (std::size_t i = first_region; i < end; ++i) add_steps(segment, i);
    segment.arena_bytes = arena_bytes_;
    for (const Step& step : segment.steps) {
      if (const auto* launch = std::get_if<LaunchStep>(&step)) {
        segment.scratch_bytes =
            std::max(segment.scratch_bytes, ceil_divide(launch->launch.scratch_bytes, 64) * 64);
      }
    }
    segment.next_region = end;
    for (auto& [id, tensor] : known_) segment.known.push_back(std::move(tensor));
    return segment;
  }

 private:
  struct Life {
    int first = 0, last = 0;
  };

  ValueId storage_of(ValueId id) const {
    const auto& layout = graph_.value(id).layout;
    return layout ? layout->storage : id;
  }

  // Values that a Region leaves in memory: its outputs, or every result where its nodes run one by one.
  std::vector<ValueId> stored_values(const CompiledRegion& region) const {
    if (region.generated()) return region.region.outputs;
    std::vector<ValueId> values;
    for (const NodeId id : region.region.nodes) {
      for (const ValueId output : graph_.node(id).outputs) {
        if (output) values.push_back(output);
      }
    }
    return values;
  }

  std::vector<ValueId> read_values(const CompiledRegion& region) const {
    if (region.generated()) return region.region.inputs;
    std::vector<ValueId> values;
    for (const NodeId id : region.region.nodes) {
      for (const ValueId input : graph_.node(id).inputs) {
        if (input && !is_known(graph_.value(input))) values.push_back(input);
      }
    }
    return values;
  }

  // What a Region reads of arithmetic on sizes, the Plan makes: none that is still to be made may be in it.
  bool elements_known(ValueId id) const {
    const graph::Value& value = graph_.value(storage_of(id));
    return value.constant || !is_known(value) || try_elements_tensor(value, bindings_);
  }

  bool sizes_known(const CompiledRegion& region) const {
    if (!std::ranges::all_of(region.region.inputs, [&](ValueId id) { return elements_known(id); }))
      return false;
    if (!region.generated()) {
      // Reference kernels take tensors whose size shows while running, once they exist.
      return std::all_of(region.region.inputs.begin(), region.region.inputs.end(), [&](ValueId id) {
        return graph_.value(id).constant || !graph_.value(id).layout || try_extents(graph_, id, bindings_);
      });
    }
    for (const auto* values : {&region.region.inputs, &region.region.outputs}) {
      for (const ValueId id : *values) {
        const graph::Value& value = graph_.value(id);
        if (!try_extents(graph_, id, bindings_) || !value.layout->offset.try_evaluate(bindings_))
          return false;
      }
    }
    // A part of a larger tensor has strides that the sizes of the other parts decide.
    return std::ranges::all_of(region.problem.symbol_origin, [&](const graph::Dim& origin) {
      return origin.try_evaluate(bindings_).has_value();
    });
  }

  // True if a result has an extent that no bound Symbol tells.
  bool makes_sizes(const CompiledRegion& region) const {
    for (const ValueId id : stored_values(region)) {
      const graph::Value& value = graph_.value(id);
      if (value.shape && !try_extents(graph_, id, bindings_)) return true;
    }
    return false;
  }

  void note_write(ValueId id) {
    const ValueId storage = storage_of(id);
    const auto [life, inserted] = lives_.try_emplace(storage, Life{step_, step_});
    life->second.last = std::max(life->second.last, step_);
  }

  void note_read(ValueId id) {
    const auto life = lives_.find(storage_of(id));
    if (life != lives_.end()) life->second.last = std::max(life->second.last, step_);
  }

  // Memory for every Value written here; what later Segments read lives to the end.
  void place_values(std::size_t end) {
    for (std::size_t i = end; i < model_.regions().size(); ++i) {
      for (const ValueId input : read_values(model_.regions()[i])) {
        const auto life = lives_.find(storage_of(input));
        if (life != lives_.end()) life->second.last = step_;
      }
    }
    std::vector<ValueId> in_arena;
    for (const auto& [storage, life] : lives_) {
      if (placements_.count(storage)) continue;
      const graph::Value& value = graph_.value(storage);
      const auto extents = try_extents(graph_, storage, bindings_);
      const auto output = std::find(graph_.outputs.begin(), graph_.outputs.end(), storage);
      if (!extents || value.dtype == DType::String || value.container != Container::Tensor) {
        placements_[storage] = {.kind = BufferRef::Kind::Tensor, .index = storage.index};
      } else if (output != graph_.outputs.end()) {
        placements_[storage] = {.kind = BufferRef::Kind::Output,
                                .index = static_cast<std::uint32_t>(output - graph_.outputs.begin())};
      } else {
        in_arena.push_back(storage);
      }
    }
    // Offsets must not depend on the order of a hash table.
    std::sort(in_arena.begin(), in_arena.end());
    std::vector<BufferRequest> buffers;
    for (const ValueId storage : in_arena) {
      const Life& life = lives_[storage];
      const graph::Value& value = graph_.value(storage);
      buffers.push_back(
          {.bytes = byte_size(value.dtype, element_count(*try_extents(graph_, storage, bindings_))),
           .first_step = life.first,
           .last_step = life.last});
    }
    add_workspaces(buffers);
    const MemoryPlan memory = plan_memory(buffers);
    arena_bytes_ = memory.total;
    for (std::size_t i = 0; i < in_arena.size(); ++i) {
      placements_[in_arena[i]] = in_arena_at(memory.offsets[i]);
    }
    for (std::size_t i = 0; i < workspaces_.size(); ++i) {
      workspaces_[i].buffer = in_arena_at(memory.offsets[in_arena.size() + i]);
    }
  }

  BufferRef in_arena_at(std::int64_t offset) const {
    return {.kind = BufferRef::Kind::Arena, .index = segment_, .offset = offset};
  }

  // Shape arithmetic has no Step that writes it: Kernels that read it get a tensor of the Plan's own.
  void evaluate_known_inputs(std::size_t end) {
    for (std::size_t i = first_region_; i < end; ++i) {
      if (!model_.regions()[i].generated()) continue;
      for (const ValueId input : model_.regions()[i].region.inputs) {
        const ValueId storage = storage_of(input);
        const graph::Value& value = graph_.value(storage);
        if (value.constant || !is_known(value) || known_.contains(storage)) continue;
        known_.emplace(storage, elements_tensor(value, bindings_));
      }
    }
  }

  struct Workspace {
    std::size_t region = 0;
    int value = 0;
    BufferRef buffer;
  };

  void add_workspaces(std::vector<BufferRequest>& buffers) {
    int step = 0;
    for (std::size_t i = first_region_; step < step_; ++i, ++step) {
      const CompiledRegion& region = model_.regions()[i];
      if (!region.generated()) continue;
      const graph::Bindings symbols = problem_bindings(region);
      const templates::Program& program = region.variant(symbols).program;
      for (std::size_t v = 0; v < program.values.size(); ++v) {
        const ProgramValue& value = program.values[v];
        if (value.kind != ProgramValue::Kind::Workspace) continue;
        workspaces_.push_back({.region = i, .value = static_cast<int>(v), .buffer = {}});
        buffers.push_back({.bytes = byte_size(value.dtype, value.elements.evaluate(symbols)),
                           .first_step = step,
                           .last_step = step});
      }
    }
  }

  graph::Bindings problem_bindings(const CompiledRegion& region) const {
    graph::Bindings symbols;
    for (const graph::Dim& origin : region.problem.symbol_origin)
      symbols.push_back(origin.evaluate(bindings_));
    return symbols;
  }

  // The start of a Value's storage; a constant or a graph input has it from elsewhere.
  BufferRef storage_buffer(ValueId storage) const {
    const graph::Value& value = graph_.value(storage);
    if (value.constant) return {.fixed = value.constant->data()};
    const auto input = std::find(graph_.inputs.begin(), graph_.inputs.end(), storage);
    if (input != graph_.inputs.end()) {
      return {.kind = BufferRef::Kind::Input,
              .index = static_cast<std::uint32_t>(input - graph_.inputs.begin())};
    }
    if (const auto known = known_.find(storage); known != known_.end())
      return {.fixed = known->second.data()};
    const auto placed = placements_.find(storage);
    require(placed != placements_.end(), "value {} is read before it has memory", value.name);
    return placed->second;
  }

  // Where element 0 of a Value lies.
  BufferRef value_buffer(ValueId id) const {
    const graph::Value& value = graph_.value(id);
    const BufferRef storage = storage_buffer(value.layout->storage);
    return storage.at(value.layout->offset.evaluate(bindings_) * (bits(value.dtype) / 8));
  }

  void add_steps(Segment& segment, std::size_t index) {
    const CompiledRegion& region = model_.regions()[index];
    if (region.generated()) {
      add_launches(segment, index);
    } else {
      for (const NodeId id : region.region.nodes) add_reference(segment, index, id);
    }
  }

  void add_launches(Segment& segment, std::size_t index) {
    const CompiledRegion& region = model_.regions()[index];
    const graph::Bindings symbols = problem_bindings(region);
    const Variant& variant = region.variant(symbols);
    const auto buffer = [&](int number) -> BufferRef {
      const auto i = static_cast<std::size_t>(number);
      const ProgramValue& value = variant.program.values[i];
      switch (value.kind) {
        case ProgramValue::Kind::Input:
          return value_buffer(region.region.inputs[static_cast<std::size_t>(value.index)]);
        case ProgramValue::Kind::Output:
          return value_buffer(region.region.outputs[static_cast<std::size_t>(value.index)]);
        case ProgramValue::Kind::Prepared:
          return {.fixed = variant.prepared[i]->data()};
        case ProgramValue::Kind::Workspace:
          break;
      }
      const auto found = std::find_if(
          workspaces_.begin(), workspaces_.end(),
          [&](const Workspace& workspace) { return workspace.region == index && workspace.value == number; });
      require(found != workspaces_.end(), "workspace {} has no memory", number);
      return found->buffer;
    };
    for (std::size_t i = 0; i < variant.program.kernels.size(); ++i) {
      segment.steps.emplace_back(
          LaunchStep{.launch = bind_launch(variant.program.kernels[i], variant.kernels[i], symbols,
                                           variant.program.values, buffer),
                     .region = index});
    }
  }

  void add_reference(Segment& segment, std::size_t index, NodeId id) {
    const Node& node = graph_.node(id);
    ReferenceStep step{.node = id, .inputs = {}, .outputs = {}, .region = index};
    for (const ValueId input : node.inputs) step.inputs.push_back(reference_input(input));
    for (const ValueId output : node.outputs) {
      step.outputs.push_back(output_ref(output));
    }
    segment.steps.emplace_back(std::move(step));
    for (const ValueId output : node.outputs) {
      if (output && graph_.value(output).shape && !try_extents(graph_, output, bindings_)) {
        segment.steps.emplace_back(BindStep{output});
      }
    }
  }

  ReferenceStep::Input reference_input(ValueId id) const {
    if (!id) return std::monostate{};
    const graph::Value& value = graph_.value(id);
    if (is_known(value)) return elements_tensor(value, bindings_);
    // A tensor that exists only while running is passed as it is, but a view of one has no tensor of its own.
    const bool made = is_made(id);
    if (made && storage_of(id) == id) return id;
    if (auto ref = tensor_ref(id)) return std::move(*ref);
    return id;
  }

  // True for what lies in a tensor that exists only while running.
  bool is_made(ValueId id) const {
    const auto& layout = graph_.value(id).layout;
    return !layout || storage_buffer(layout->storage).kind == BufferRef::Kind::Tensor;
  }

  // Memory of known size; nothing for an output that becomes a tensor while running.
  std::optional<TensorRef> output_ref(ValueId id) const {
    return !id || is_made(id) ? std::nullopt : tensor_ref(id);
  }

  std::optional<TensorRef> tensor_ref(ValueId id) const {
    const graph::Value& value = graph_.value(id);
    const auto extents = try_extents(graph_, id, bindings_);
    if (!extents || !value.layout) return std::nullopt;
    TensorRef ref{.buffer = value_buffer(id), .dtype = value.dtype, .extents = *extents, .strides = {}};
    std::int64_t expected = 1;
    for (const graph::Dim& stride : value.layout->strides) ref.strides.push_back(stride.evaluate(bindings_));
    for (std::size_t i = extents->size(); i-- > 0;) {
      if ((*extents)[i] != 1 && ref.strides[i] != expected) ref.dense = false;
      expected *= (*extents)[i];
    }
    return ref;
  }

  const Model& model_;
  const Graph& graph_;
  std::uint32_t segment_;
  std::span<const std::int64_t> bindings_;
  Placements& placements_;
  std::unordered_map<ValueId, Life> lives_;
  std::vector<Workspace> workspaces_;
  std::unordered_map<ValueId, Tensor> known_;
  std::size_t first_region_ = 0;
  int step_ = 0;
  std::int64_t arena_bytes_ = 0;
};

}  // namespace

Segment make_segment(const Model& model, std::size_t first_region, std::uint32_t segment,
                     std::span<const std::int64_t> bindings, Placements& placements) {
  return SegmentPlanner(model, segment, bindings, placements).plan(first_region);
}

Plan make_plan(const Model& model, graph::Bindings bindings) {
  Plan plan{.bindings = std::move(bindings), .first = {}, .placements = {}};
  graph::check_guards(model.graph(), plan.bindings);
  if (!model.regions().empty()) plan.first = make_segment(model, 0, 0, plan.bindings, plan.placements);
  for (const CompiledRegion& region : model.regions()) {
    if (region.falls_back()) plan.fallback_nodes += static_cast<std::int64_t>(region.region.nodes.size());
  }
  return plan;
}

namespace {

std::string buffer_text(const BufferRef& buffer) {
  switch (buffer.kind) {
    case BufferRef::Kind::Fixed:
      return "constant";
    case BufferRef::Kind::Arena:
      return fmt::format("arena{}+{}", buffer.index, buffer.offset);
    case BufferRef::Kind::Input:
      return fmt::format("input{}+{}", buffer.index, buffer.offset);
    case BufferRef::Kind::Output:
      return fmt::format("output{}+{}", buffer.index, buffer.offset);
    case BufferRef::Kind::Tensor:
      return fmt::format("tensor{}", buffer.index);
  }
  return {};
}

std::string step_text(const LaunchStep& step, const Model& model) {
  const CompiledRegion& region = model.regions()[step.region];
  const Node& root = model.graph().node(region.region.root);
  std::string buffers;
  for (const BoundLaunch::Patch& patch : step.launch.patches) buffers += " " + buffer_text(patch.buffer);
  const std::span<const std::int64_t> grid(step.launch.grid.data(),
                                           static_cast<std::size_t>(step.launch.grid_rank));
  return fmt::format("launch {} {} grid [{}] scratch {} flops {:.3g} bytes {:.3g}:{}", name(root.op),
                     root.name, fmt::join(grid, ", "), step.launch.scratch_bytes, step.launch.flops,
                     step.launch.bytes, buffers);
}

std::string step_text(const ReferenceStep& step, const Model& model) {
  const Node& node = model.graph().node(step.node);
  const CompiledRegion& region = model.regions()[step.region];
  if (region.control) return fmt::format("control {} {}", name(node.op), node.name);
  return fmt::format("reference {} {}: {}", name(node.op), node.name, region.fallback_reason);
}

std::string step_text(const BindStep& step, const Model& model) {
  return fmt::format("bind sizes of {}", model.graph().value(step.value).name);
}

}  // namespace

std::string to_text(const Plan& plan, const Model& model) {
  std::string text;
  for (std::size_t i = 0; i < plan.bindings.size(); ++i) {
    if (plan.bindings[i] == graph::kUnbound) continue;
    text += fmt::format("symbol {} = {}\n", printable(model.graph().symbols[i].name), plan.bindings[i]);
  }
  text += fmt::format("arena {} bytes, prepared constants {} bytes, {} fallback nodes\n",
                      plan.first.arena_bytes, model.prepared_bytes(), plan.fallback_nodes);
  for (const Step& step : plan.first.steps) {
    text += printable(std::visit([&](const auto& s) { return step_text(s, model); }, step)) + "\n";
  }
  if (plan.first.next_region < model.regions().size()) {
    text += fmt::format("{} more regions are planned when the sizes are there\n",
                        model.regions().size() - plan.first.next_region);
  }
  return text;
}

}  // namespace kiln::runtime
