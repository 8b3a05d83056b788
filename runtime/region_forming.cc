#include "runtime/region_forming.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "ir/graph/contract.h"
#include "ir/graph/operands.h"
#include "runtime/operands.h"
#include "runtime/view_layout.h"

namespace kiln::runtime {
namespace {

using graph::Dim;
using graph::FusionClass;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::OpKind;
using graph::Region;
using graph::Shape;
using graph::ValueId;

constexpr int kNoUnit = -1;
// Units looked at before a dependency is assumed: keeps the sweep linear on long chains.
constexpr std::size_t kDependencySearchLimit = 512;
// Passes over a row in one Region: each computes again what the ones before it made of the row.
constexpr int kMaxPasses = 4;

// A Region under construction.
struct Unit {
  FusionClass kind = FusionClass::Opaque;
  NodeId root;
  std::vector<NodeId> nodes;
  Shape space;                     // extents that the Region iterates over
  std::vector<std::int64_t> rows;  // Rows: the reduced axes, ascending
  std::set<ValueId> inputs;
  std::size_t first = 0, last = 0;  // positions in topological order
  std::vector<std::string> notes;
};

// The axis along which consecutive elements lie, or nothing if all extents are 1 or none has stride 1.
std::optional<std::size_t> unit_axis(const graph::Value& value) {
  if (!value.layout || !value.shape) return std::nullopt;
  for (std::size_t i = value.shape->size(); i-- > 0;) {
    if ((*value.shape)[i] != Dim(1) && value.layout->strides[i] == Dim(1)) return i;
  }
  return std::nullopt;
}

// Extents with the reduced axes as 1, or left out.
Shape reduced(const Shape& space, const std::vector<std::int64_t>& rows, bool keep) {
  Shape shape;
  for (std::size_t i = 0; i < space.size(); ++i) {
    if (!std::binary_search(rows.begin(), rows.end(), static_cast<std::int64_t>(i))) {
      shape.push_back(space[i]);
    } else if (keep) {
      shape.push_back(1);
    }
  }
  return shape;
}

// Known operands that say where, and scalars, become part of the code.
bool is_embedded(const Graph& graph, const Node& node, std::size_t operand) {
  const graph::Value& value = graph.value(node.inputs[operand]);
  if (graph::says_where(node, operand)) {
    const auto limit = static_cast<std::int64_t>(graph::kMaxKnownElements);
    return is_known(value) && (!value.constant || value.constant->elements() <= limit);
  }
  const FusionClass fusion = contract(node.op).fusion;
  const bool reads_memory =
      fusion == FusionClass::Movement || fusion == FusionClass::View || fusion == FusionClass::Dot;
  const bool is_fill = node.op == OpKind::Pad && operand == 2;
  return (!reads_memory || is_fill) && value.constant && value.constant->elements() == 1;
}

// Passes over its rows that a node adds to those that its operands need: a norm and a softmax need two
// numbers of a row, one after the other.
int own_passes(const Node& node) {
  if (contract(node.op).fusion != FusionClass::Rows) return 0;
  switch (node.op) {
    case OpKind::Softmax:
    case OpKind::LogSoftmax:
    case OpKind::LayerNormalization:
    case OpKind::InstanceNormalization:
    case OpKind::GroupNormalization:
    case OpKind::MeanVarianceNormalization:
    case OpKind::ReduceLogSumExp:
      return 2;
    default:
      return 1;
  }
}

// Movement whose Template applies elementwise nodes to what it moves.
bool moves_with_epilogue(OpKind op) {
  switch (op) {
    case OpKind::Gather:
    case OpKind::GatherElements:
    case OpKind::GatherND:
    case OpKind::ReverseSequence:
    case OpKind::Pad:
    case OpKind::Resize:
      return true;
    default:
      return false;
  }
}

// Values that a node reads from memory.
std::vector<ValueId> data_inputs(const Graph& graph, const Node& node) {
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] && !is_embedded(graph, node, i)) inputs.push_back(node.inputs[i]);
  }
  return inputs;
}

class RegionForming {
 public:
  explicit RegionForming(const Graph& graph) : graph_(graph), order_(graph.topological_order()) {
    unit_of_.assign(graph.node_count(), kNoUnit);
    passes_.assign(graph.node_count(), 0);
    position_.resize(graph.node_count());
    for (std::size_t i = 0; i < order_.size(); ++i) position_[order_[i].index] = i;
  }

  std::vector<RegionDecision> run() {
    for (const NodeId id : order_) {
      if (!is_free(graph_, graph_.node(id))) place(id);
    }
    return ordered();
  }

 private:
  void place(NodeId id) {
    const Node& node = graph_.node(id);
    std::vector<std::string> refusals;
    // The newest producer first: joining it keeps the Value hottest.
    std::vector<int> candidates;
    for (const ValueId input : node.inputs) {
      const int unit = input ? unit_of_value(input) : kNoUnit;
      if (unit != kNoUnit) candidates.push_back(unit);
    }
    std::sort(candidates.begin(), candidates.end(),
              [&](int a, int b) { return units_[as_index(a)].last > units_[as_index(b)].last; });
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
    for (const int unit : candidates) {
      const std::string refusal = why_not(id, unit);
      if (refusal.empty()) {
        join(id, unit);
        return;
      }
      refusals.push_back(fmt::format("{} not fused into region of {}: {}", describe(id),
                                     describe(units_[as_index(unit)].root), refusal));
    }
    start(id);
    units_.back().notes = std::move(refusals);
  }

  // Why node `id` cannot join `unit`; empty if it can.
  std::string why_not(NodeId id, int unit_number) const {
    const Node& node = graph_.node(id);
    const Unit& unit = units_[as_index(unit_number)];
    const FusionClass kind = contract(node.op).fusion;
    if (unit.nodes.size() >= graph::kMaxRegionNodes) return "the region is full";
    std::string refusal;
    if (kind == FusionClass::Elementwise) {
      refusal = why_not_elementwise(node, unit);
    } else if (kind == FusionClass::Rows) {
      refusal = why_not_rows(node, unit);
    } else {
      refusal = "its operator starts a region";
    }
    if (!refusal.empty()) return refusal;
    if (inputs_after(id, unit).size() > graph::kMaxRegionInputs) return "too many inputs";
    if (depends_on(node, unit_number)) return "it also depends on the region through other nodes";
    return {};
  }

  std::string why_not_elementwise(const Node& node, const Unit& unit) const {
    if (!takes_epilogue(unit)) {
      return "the region's operator takes no epilogue";
    }
    const graph::Value& result = graph_.value(node.outputs[0]);
    if (!result.shape) return "its shape is unknown";
    if (unit.kind == FusionClass::Rows) {
      if (*result.shape != unit.space && *result.shape != reduced(unit.space, unit.rows, true) &&
          *result.shape != reduced(unit.space, unit.rows, false)) {
        return "its shape is neither the rows' nor that of one value a row";
      }
      // A value without the reduced axes cannot align with the rows again.
      if (*result.shape != unit.space && unit.rows.size() < unit.space.size() &&
          *result.shape == reduced(unit.space, unit.rows, false) &&
          result.shape->size() == unit.space.size()) {
        return "its shape is ambiguous";
      }
    } else if (*result.shape != unit.space) {
      return "its shape differs";
    }
    const auto axis = unit_axis(result);
    const auto root_axis = unit_axis(graph_.value(graph_.node(unit.root).outputs[0]));
    if (*result.shape == unit.space && axis && root_axis && unit.kind != FusionClass::Rows &&
        *axis != *root_axis) {
      return "its memory order differs";
    }
    return {};
  }

  bool takes_epilogue(const Unit& unit) const {
    switch (unit.kind) {
      case FusionClass::Elementwise:
      case FusionClass::Rows:
      case FusionClass::Dot:
      case FusionClass::Pool:
        return true;
      case FusionClass::Movement:
        return moves_with_epilogue(graph_.node(unit.root).op);
      case FusionClass::View:
      case FusionClass::Control:
      case FusionClass::Shape:
      case FusionClass::Opaque:
      case FusionClass::Random:
        return false;
    }
    return false;
  }

  std::string why_not_rows(const Node& node, const Unit& unit) const {
    const graph::Value& input = graph_.value(node.inputs[0]);
    const auto axes = row_axes(graph_, node);
    if (!axes || !input.shape) return "its axes or shape are not known";
    if (unit.kind != FusionClass::Elementwise && unit.kind != FusionClass::Rows) {
      return "the region's operator takes no reduction";
    }
    if (unit_of_value(node.inputs[0]) == kNoUnit ||
        &units_[as_index(unit_of_value(node.inputs[0]))] != &unit) {
      return "its rows come from elsewhere";
    }
    if (*input.shape != unit.space) return "its rows differ";
    if (unit.kind == FusionClass::Rows && *axes != unit.rows) return "it reduces other axes";
    if (passes_with(node, unit) > kMaxPasses) return "too many passes over a row";
    return {};
  }

  // Passes over a row until the node's result is there, if it is in `unit`.
  int passes_with(const Node& node, const Unit& unit) const {
    int before = 0;
    for (const ValueId input : node.inputs) {
      const int producer = input ? unit_of_value(input) : kNoUnit;
      if (producer != kNoUnit && &units_[as_index(producer)] == &unit) {
        before = std::max(before, passes_[graph_.value(input).producer.index]);
      }
    }
    return before + own_passes(node);
  }

  // Values that `unit` would read from outside with node `id` in it.
  std::set<ValueId> inputs_after(NodeId id, const Unit& unit) const {
    std::set<ValueId> inputs = unit.inputs;
    const int number = static_cast<int>(&unit - units_.data());
    for (const ValueId input : data_inputs(graph_, graph_.node(id))) {
      if (unit_of_value(input) != number) inputs.insert(input);
    }
    return inputs;
  }

  // True if an operand that is not made in the unit needs the unit's results.
  bool depends_on(const Node& node, int unit) const {
    std::vector<ValueId> pending;
    for (const ValueId input : node.inputs) {
      if (input && unit_of_value(input) != unit) pending.push_back(input);
    }
    std::set<NodeId> seen;
    while (!pending.empty()) {
      const NodeId producer = graph_.value(pending.back()).producer;
      pending.pop_back();
      if (!producer || !seen.insert(producer).second) continue;
      if (seen.size() > kDependencySearchLimit) return true;
      const int other = unit_of_[producer.index];
      if (other == unit) return true;
      const std::size_t last = other == kNoUnit ? position_[producer.index] : units_[as_index(other)].last;
      if (last < units_[as_index(unit)].first) continue;
      const std::vector<NodeId> alone{producer};
      for (const NodeId member : other == kNoUnit ? alone : units_[as_index(other)].nodes) {
        seen.insert(member);
        for (const ValueId input : graph_.node(member).inputs) {
          if (input) pending.push_back(input);
        }
      }
    }
    return false;
  }

  void join(NodeId id, int unit_number) {
    const Node& node = graph_.node(id);
    Unit& unit = units_[as_index(unit_number)];
    unit.inputs = inputs_after(id, unit);
    passes_[id.index] = passes_with(node, unit);
    if (contract(node.op).fusion == FusionClass::Rows && unit.kind == FusionClass::Elementwise) {
      unit.kind = FusionClass::Rows;
      unit.root = id;
      unit.rows = *row_axes(graph_, node);
    }
    unit.nodes.push_back(id);
    unit.last = std::max(unit.last, position_[id.index]);
    unit_of_[id.index] = unit_number;
  }

  void start(NodeId id) {
    const Node& node = graph_.node(id);
    Unit unit;
    unit.kind = contract(node.op).fusion;
    unit.root = id;
    unit.nodes = {id};
    unit.first = unit.last = position_[id.index];
    const ValueId shaped = unit.kind == FusionClass::Rows ? node.inputs[0] : node.outputs[0];
    if (shaped && graph_.value(shaped).shape) unit.space = *graph_.value(shaped).shape;
    if (unit.kind == FusionClass::Rows) {
      const auto axes = row_axes(graph_, node);
      if (axes) {
        unit.rows = *axes;
      } else {
        unit.kind = FusionClass::Opaque;
      }
    }
    for (const ValueId input : data_inputs(graph_, node)) unit.inputs.insert(input);
    unit_of_[id.index] = static_cast<int>(units_.size());
    passes_[id.index] = own_passes(node);
    units_.push_back(std::move(unit));
  }

  // The unit that computes a Value; views belong to none.
  int unit_of_value(ValueId id) const {
    const NodeId producer = graph_.value(id).producer;
    return producer ? unit_of_[producer.index] : kNoUnit;
  }

  std::vector<RegionDecision> ordered() {
    const auto consumers = graph_.consumers();
    std::vector<bool> is_output(graph_.value_count(), false);
    for (const ValueId output : graph_.outputs) is_output[output.index] = true;
    std::vector<RegionDecision> decisions;
    for (const std::size_t i : topological_units()) {
      Unit& unit = units_[i];
      RegionDecision decision;
      decision.region = finished(unit, consumers, is_output);
      decision.notes = std::move(unit.notes);
      decisions.push_back(std::move(decision));
    }
    return decisions;
  }

  // Kahn's algorithm over units; views between units pass their dependencies on.
  std::vector<std::size_t> topological_units() const {
    std::vector<std::set<int>> needs_of_node(graph_.node_count());  // units that a free node depends on
    std::vector<std::set<std::size_t>> followers(units_.size());
    std::vector<std::size_t> missing(units_.size(), 0);
    for (const NodeId id : order_) {
      std::set<int> needs;
      for (const ValueId input : graph_.node(id).inputs) {
        const NodeId producer = input ? graph_.value(input).producer : NodeId::none();
        if (!producer) continue;
        if (unit_of_[producer.index] != kNoUnit) {
          needs.insert(unit_of_[producer.index]);
        } else {
          needs.insert(needs_of_node[producer.index].begin(), needs_of_node[producer.index].end());
        }
      }
      const int own = unit_of_[id.index];
      if (own == kNoUnit) {
        needs_of_node[id.index] = std::move(needs);
        continue;
      }
      for (const int need : needs) {
        if (need != own && followers[as_index(need)].insert(as_index(own)).second) ++missing[as_index(own)];
      }
    }
    const auto later = [&](std::size_t a, std::size_t b) { return units_[a].last > units_[b].last; };
    std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later)> ready(later);
    for (std::size_t i = 0; i < units_.size(); ++i) {
      if (missing[i] == 0) ready.push(i);
    }
    std::vector<std::size_t> result;
    while (!ready.empty()) {
      const std::size_t unit = ready.top();
      ready.pop();
      result.push_back(unit);
      for (const std::size_t follower : followers[unit]) {
        if (--missing[follower] == 0) ready.push(follower);
      }
    }
    return result;
  }

  Region finished(const Unit& unit, const std::vector<std::vector<NodeId>>& consumers,
                  const std::vector<bool>& is_output) const {
    Region region{.nodes = unit.nodes,
                  .root = unit.root,
                  .inputs = {unit.inputs.begin(), unit.inputs.end()},
                  .outputs = {}};
    std::sort(region.nodes.begin(), region.nodes.end(),
              [&](NodeId a, NodeId b) { return position_[a.index] < position_[b.index]; });
    const int number = static_cast<int>(&unit - units_.data());
    for (const NodeId id : region.nodes) {
      for (const ValueId output : graph_.node(id).outputs) {
        if (!output) continue;
        const auto& readers = consumers[output.index];
        const bool leaves = std::any_of(readers.begin(), readers.end(),
                                        [&](NodeId reader) { return unit_of_[reader.index] != number; });
        if (leaves || is_output[output.index]) region.outputs.push_back(output);
      }
    }
    return region;
  }

  std::string describe(NodeId id) const {
    const Node& node = graph_.node(id);
    return fmt::format("{} {}", name(node.op), node.name.empty() ? fmt::format("#{}", id.index) : node.name);
  }

  static std::size_t as_index(int unit) { return static_cast<std::size_t>(unit); }

  const Graph& graph_;
  std::vector<NodeId> order_;
  std::vector<std::size_t> position_;
  std::vector<int> unit_of_;
  std::vector<int> passes_;  // over a row of its unit, until a node's results are there
  std::vector<Unit> units_;
};

}  // namespace

bool is_free(const Graph& graph, const Node& node) {
  return std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) {
    if (!output) return true;
    const graph::Value& value = graph.value(output);
    // What is known needs no Step, unless it has its place inside something that does.
    const bool placed = value.layout && value.layout->storage != output && !is_view_operator(node.op);
    if (is_known(value) && !placed) return true;
    if (!value.layout) return false;
    if (is_view_operator(node.op)) return value.layout->storage != output;
    return node.op == OpKind::Concat &&
           std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
             const auto& layout = graph.value(input).layout;
             return layout && layout->storage == value.layout->storage;
           });
  });
}

std::vector<Region> split_region(const Graph& graph, const Region& region) {
  std::vector<Region> parts;
  for (const NodeId id : region.nodes) {
    const Node& node = graph.node(id);
    Region part{.nodes = {id}, .root = id, .inputs = {}, .outputs = {}};
    for (const ValueId input : data_inputs(graph, node)) {
      if (std::find(part.inputs.begin(), part.inputs.end(), input) == part.inputs.end())
        part.inputs.push_back(input);
    }
    for (const ValueId output : node.outputs) {
      if (output) part.outputs.push_back(output);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

std::vector<RegionDecision> form_regions(const Graph& graph) { return RegionForming(graph).run(); }

}  // namespace kiln::runtime
