#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include "ir/base/errors.h"
#include "ir/graph/contract.h"
#include "runtime/operands.h"
#include "runtime/passes/passes.h"
#include "runtime/view_layout.h"

// Two sweeps. The first chooses an axis order for every Value that will own memory: channels innermost after
// convolutions and pools and whatever follows them element by element, and the order that makes a later
// Transpose dense. The second, in topological order, gives every Value its Layout: views become aliases,
// inputs of a Concat are placed inside its result, and where strides cannot say it an Identity copy is
// inserted.

namespace kiln::runtime {
namespace {

using graph::AxisOrder;
using graph::Dim;
using graph::FusionClass;
using graph::Graph;
using graph::Layout;
using graph::Node;
using graph::NodeId;
using graph::OpKind;
using graph::Shape;
using graph::ValueId;

AxisOrder row_major(std::size_t rank) {
  AxisOrder order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

AxisOrder channels_last(std::size_t rank) {
  AxisOrder order = row_major(rank);
  std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return order;
}

bool makes_channels_last(OpKind op) {
  switch (op) {
    case OpKind::Conv:
    case OpKind::ConvTranspose:
    case OpKind::MaxPool:
    case OpKind::AveragePool:
    case OpKind::LpPool:
      return true;
    default:
      return false;
  }
}

// Results that lie best where their input does.
bool follows_input_order(const Node& node) {
  switch (contract(node.op).fusion) {
    case FusionClass::Elementwise:
    case FusionClass::Rows:
      return true;
    case FusionClass::View:
    case FusionClass::Movement:
      return node.op == OpKind::Slice || node.op == OpKind::Split || node.op == OpKind::Concat ||
             node.op == OpKind::Pad || node.op == OpKind::Resize || node.op == OpKind::Gather;
    case FusionClass::Dot:
    case FusionClass::Pool:
    case FusionClass::Control:
    case FusionClass::Shape:
    case FusionClass::Opaque:
    case FusionClass::Random:
      return false;
  }
  return false;
}

// True if an extent is known only once some node has run.
bool made_while_running(const Graph& graph, const graph::Shape& shape) {
  return std::ranges::any_of(shape, [&](const Dim& dim) {
    return std::ranges::any_of(dim.symbols(), [&](graph::SymbolId symbol) {
      return graph.symbols[symbol.index].source.kind == graph::SymbolSource::Kind::NodeResult;
    });
  });
}

// Strings are objects: each Value of them is a dense tensor of its own, which strides never address.
// True for elements that no strides can reach: strings are objects, and several narrow ones share a byte.
bool must_be_dense(const Graph& graph, ValueId id) {
  const DType dtype = graph.value(id).dtype;
  return dtype == DType::String || bits(dtype) < 8;
}

class LayoutAssignment {
 public:
  explicit LayoutAssignment(Graph& graph) : graph_(graph), consumers_(graph.consumers()) {}

  void run() {
    const auto order = graph_.topological_order();
    orders_.resize(graph_.value_count());
    choose_orders(order);
    prefer_dense_transposes(order);
    place_concat_inputs(order);
    for (std::uint32_t i = 0; i < graph_.value_count(); ++i) {
      if (!graph_.value(ValueId{i}).producer) own(ValueId{i});
    }
    for (const NodeId id : order) assign(id);
    give_outputs_their_own_memory();
  }

 private:
  struct Placement {
    ValueId whole;
    std::size_t axis = 0;
    Dim start = 0;
  };

  // ---- first sweep

  void choose_orders(const std::vector<NodeId>& order) {
    for (const NodeId id : order) {
      const Node& node = graph_.node(id);
      for (const ValueId output : node.outputs) {
        if (output && graph_.value(output).shape) orders_[output.index] = chosen_order(node, output);
      }
    }
  }

  AxisOrder chosen_order(const Node& node, ValueId output) const {
    const std::size_t rank = graph_.value(output).shape->size();
    if (makes_sizes(graph_, node) || must_be_dense(graph_, output)) return row_major(rank);
    if (rank >= 3 && makes_channels_last(node.op)) return channels_last(rank);
    if (node.op == OpKind::Transpose && order_of(node.inputs[0])) return transposed_order(node);
    if (follows_input_order(node)) {
      for (const ValueId input : node.inputs) {
        const auto* order = input ? order_of(input) : nullptr;
        if (order && order->size() == rank && *order != row_major(rank)) return *order;
      }
    }
    return row_major(rank);
  }

  const AxisOrder* order_of(ValueId id) const {
    return id.index < orders_.size() && orders_[id.index] ? &*orders_[id.index] : nullptr;
  }

  // Memory order of a transposed view: result axis k is input axis perm[k].
  AxisOrder transposed_order(const Node& node) const {
    const AxisOrder& input = *order_of(node.inputs[0]);
    const std::size_t rank = input.size();
    std::vector<int> result_axis(rank);
    for (std::size_t k = 0; k < rank; ++k) {
      const std::size_t from =
          has(node, "perm") ? static_cast<std::size_t>(integers(node, "perm")[k]) : rank - 1 - k;
      result_axis[from] = static_cast<int>(k);
    }
    AxisOrder order;
    for (const int axis : input) order.push_back(result_axis[static_cast<std::size_t>(axis)]);
    return order;
  }

  // The producer of a Value read only by a Transpose that keeps the innermost axis writes in the transposed
  // order, so that what follows (a Reshape that merges heads) is a view as well.
  void prefer_dense_transposes(const std::vector<NodeId>& order) {
    for (const NodeId id : order) {
      const Node& node = graph_.node(id);
      if (node.op != OpKind::Transpose || !has(node, "perm")) continue;
      const ValueId input = node.inputs[0];
      const auto permutation = integers(node, "perm");
      if (must_be_dense(graph_, input) || !order_of(input) ||
          *order_of(input) != row_major(permutation.size()) || !owns_memory(input) ||
          makes_sizes(graph_, graph_.node(graph_.value(input).producer)) ||
          consumers_[input.index].size() != 1 || graph_.is_output(input) || permutation.empty() ||
          permutation.back() != static_cast<std::int64_t>(permutation.size()) - 1) {
        continue;
      }
      orders_[input.index] = AxisOrder(permutation.begin(), permutation.end());
      orders_[node.outputs[0].index] = row_major(permutation.size());
    }
  }

  // True for results of computations; false for inputs, constants, and views.
  bool owns_memory(ValueId id) const {
    const graph::Value& value = graph_.value(id);
    return value.producer && !value.constant && !value.elements &&
           !is_view_operator(graph_.node(value.producer).op);
  }

  void place_concat_inputs(const std::vector<NodeId>& order) {
    placements_.resize(graph_.value_count());
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      const NodeId id = *it;
      if (graph_.node(id).op != OpKind::Concat) continue;
      const ValueId whole = graph_.node(id).outputs[0];
      if (graph_.value(whole).shape && !must_be_dense(graph_, whole)) place_inputs(id);
    }
  }

  void place_inputs(NodeId id) {
    const ValueId whole = graph_.node(id).outputs[0];
    if (graph_.value(whole).elements) return;
    const std::size_t rank = graph_.value(whole).shape->size();
    const std::int64_t axis_attribute = integer(graph_.node(id), "axis");
    const auto axis = static_cast<std::size_t>(
        axis_attribute < 0 ? axis_attribute + static_cast<std::int64_t>(rank) : axis_attribute);
    if (graph_.is_output(whole)) orders_[whole.index] = row_major(rank);
    // While a size is still to be made there is no memory to write a part into.
    const bool sized_early = !made_while_running(graph_, *graph_.value(whole).shape);
    Dim start = 0;
    for (std::size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
      ValueId part = graph_.node(id).inputs[i];
      if (!graph_.value(part).shape) return;
      const bool can_be_placed = sized_early && owns_memory(part) && !graph_.is_output(part) &&
                                 !placements_[part.index] && order_of(part) &&
                                 *order_of(part) == *order_of(whole);
      if (!can_be_placed) part = insert_copy(id, i, *order_of(whole));
      placements_[part.index] = Placement{whole, axis, start};
      start = start + (*graph_.value(part).shape)[axis];
    }
  }

  // ---- second sweep

  void assign(NodeId id) {
    const Node& node = graph_.node(id);
    if (is_view_operator(node.op) && !makes_sizes(graph_, node) && !must_be_dense(graph_, node.inputs[0]) &&
        graph_.value(node.inputs[0]).layout && assign_views(id)) {
      return;
    }
    for (const ValueId input : graph_.node(id).inputs) assign_inserted_copy(input);
    for (const ValueId output : graph_.node(id).outputs) {
      if (output) own(output);
    }
  }

  // Copies made by place_inputs() are newer than the topological order being walked.
  void assign_inserted_copy(ValueId id) {
    if (id && !graph_.value(id).layout) own(id);
  }

  bool assign_views(NodeId id) {
    if (alias_outputs(id)) return true;
    const OpKind op = graph_.node(id).op;
    const bool reshapes =
        op == OpKind::Reshape || op == OpKind::Flatten || op == OpKind::Squeeze || op == OpKind::Unsqueeze;
    const graph::Value& input = graph_.value(graph_.node(id).inputs[0]);
    if (!reshapes || !input.shape || !graph_.value(graph_.node(id).outputs[0]).shape) return false;
    own(insert_copy(id, 0, row_major(input.shape->size())));
    return alias_outputs(id);
  }

  bool alias_outputs(NodeId id) {
    const Node& node = graph_.node(id);
    std::vector<std::optional<Layout>> layouts;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      layouts.push_back(node.outputs[i] ? view_layout(graph_, node, i, *graph_.value(node.inputs[0]).layout)
                                        : std::nullopt);
      if (node.outputs[i] && !layouts.back()) return false;
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i]) graph_.value(node.outputs[i]).layout = std::move(layouts[i]);
    }
    return true;
  }

  // Gives a Value memory of its own, or its place inside a Concat's.
  void own(ValueId id) {
    graph::Value& value = graph_.value(id);
    if (!value.shape || value.layout) return;
    if (id.index < placements_.size() && placements_[id.index]) {
      const Placement placement = *placements_[id.index];
      own(placement.whole);
      const Layout& whole = *graph_.value(placement.whole).layout;
      graph_.value(id).layout =
          Layout{.storage = whole.storage,
                 .offset = whole.offset + placement.start * whole.strides[placement.axis],
                 .strides = whole.strides,
                 .halo = {}};
      return;
    }
    const AxisOrder* order = order_of(id);
    try {
      value.layout =
          Layout{.storage = id,
                 .offset = 0,
                 .strides = strides_in_order(*value.shape, order ? *order : row_major(value.shape->size())),
                 .halo = {}};
    } catch (Error& error) {  // more elements than a number counts
      throw error.with("value", value.name);
    }
  }

  // Graph outputs are dense row-major and share memory with nothing else.
  void give_outputs_their_own_memory() {
    std::set<ValueId> seen;
    for (ValueId& output : graph_.outputs) {
      const graph::Value& value = graph_.value(output);
      const bool shared = seen.contains(output);
      const bool right = value.producer && value.layout && value.layout->storage == output &&
                         is_dense(*value.shape, value.layout->strides);
      if (value.shape && (shared || !right)) {
        const ValueId copy = graph_.add(OpKind::Identity, {output});
        orders_.resize(graph_.value_count());
        own(copy);
        // The name of a graph output stays with what the caller sees.
        std::swap(graph_.value(copy).name, graph_.value(output).name);
        output = copy;
      }
      seen.insert(output);
    }
  }

  // Operand `input` of a node is read through a copy in `order`; gives the copy, which has no Layout yet.
  ValueId insert_copy(NodeId id, std::size_t input, AxisOrder order) {
    const ValueId copy = graph_.add(OpKind::Identity, {graph_.node(id).inputs[input]});
    graph_.set_input(id, input, copy);
    graph_.node(graph_.value(copy).producer).name = graph_.node(id).name + ".copy";
    orders_.resize(graph_.value_count());
    placements_.resize(graph_.value_count());
    orders_[copy.index] = std::move(order);
    return copy;
  }

  Graph& graph_;
  std::vector<std::vector<NodeId>> consumers_;
  std::vector<std::optional<AxisOrder>> orders_;
  std::vector<std::optional<Placement>> placements_;
};

}  // namespace

void assign_layouts(Graph& graph) { LayoutAssignment(graph).run(); }

}  // namespace kiln::runtime
