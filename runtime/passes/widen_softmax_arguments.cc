#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph/contract.h"
#include "runtime/passes/passes.h"

namespace kiln::runtime {
namespace {

using graph::FusionClass;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::OpKind;
using graph::ValueId;

bool is_half(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16; }

class Widening {
 public:
  explicit Widening(Graph& graph) : graph_(graph), consumers_(graph.consumers()) {}

  void widen(NodeId softmax) {
    const Node node = graph_.node(softmax);
    const DType dtype = graph_.value(node.inputs[0]).dtype;
    const ValueId wide = again(node, {widened(node.inputs[0], 0)});
    graph_.replace_uses(node.outputs[0], cast(wide, dtype, node.name));
    graph_.remove_node(softmax);
  }

 private:
  // How far back to look for the node whose sums are in f32 anyway. Scale, mask and views are on the way.
  static constexpr int kMaxDepth = 16;

  // `value` in f32: by the nodes that make it where only the Softmax needs them, else by a Cast.
  ValueId widened(ValueId value, int depth) {
    const NodeId producer = graph_.value(value).producer;
    if (!producer || depth == kMaxDepth || !is_remakable(value, graph_.node(producer)))
      return cast(value, DType::F32, "");
    const Node node = graph_.node(producer);
    const FusionClass fusion = contract(node.op).fusion;
    const bool goes_on = fusion == FusionClass::Elementwise || fusion == FusionClass::View;
    std::vector<ValueId> inputs = node.inputs;
    for (ValueId& input : inputs) {
      if (!input || graph_.value(input).dtype != graph_.value(value).dtype) continue;
      input = goes_on ? widened(input, depth + 1) : cast(input, DType::F32, "");
    }
    const ValueId wide = again(node, std::move(inputs));
    graph_.remove_node(producer);
    return wide;
  }

  // One result of the same dtype as its operands, read once, whose extents the node alone does not decide.
  bool is_remakable(ValueId value, const Node& node) const {
    const graph::OpContract& rules = contract(node.op);
    const FusionClass fusion = rules.fusion;
    if (fusion != FusionClass::Elementwise && fusion != FusionClass::View && fusion != FusionClass::Rows &&
        fusion != FusionClass::Dot)
      return false;
    if (node.outputs.size() != 1 || consumers_[value.index].size() != 1 || graph_.is_output(value))
      return false;
    for (const graph::Symbol& symbol : graph_.symbols) {
      if (symbol.source.kind == graph::SymbolSource::Kind::NodeResult && symbol.source.value == value)
        return false;
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const std::size_t operand = std::min(i, rules.inputs.size() - 1);
      if (node.inputs[i] && rules.inputs[operand].types == rules.outputs[0].types) return true;
    }
    return false;
  }

  ValueId again(const Node& node, std::vector<ValueId> inputs) {
    return named(graph_.add(node.op, std::move(inputs), node.attributes), node.name);
  }

  ValueId cast(ValueId value, DType dtype, const std::string& name) {
    return named(graph_.add(OpKind::Cast, {value}, {{"to", static_cast<std::int64_t>(dtype)}}), name);
  }

  ValueId named(ValueId value, const std::string& name) {
    graph_.node(graph_.value(value).producer).name = name;
    return value;
  }

  Graph& graph_;
  const std::vector<std::vector<NodeId>> consumers_;  // of the Graph as it was
};

}  // namespace

void widen_softmax_arguments(Graph& graph) {
  std::vector<NodeId> narrow;
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    if ((node.op == OpKind::Softmax || node.op == OpKind::LogSoftmax) &&
        is_half(graph.value(node.inputs[0]).dtype)) {
      narrow.push_back(id);
    }
  }
  if (narrow.empty()) return;
  Widening widening(graph);
  for (const NodeId id : narrow) widening.widen(id);
}

}  // namespace kiln::runtime
