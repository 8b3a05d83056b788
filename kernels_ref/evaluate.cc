#include <optional>
#include <unordered_map>
#include <utility>

#include "ir/base/errors.h"
#include "ir/graph/guards.h"
#include "kernels_ref/reference.h"

namespace kiln::reference {
namespace {

// What one evaluation has made, freed when no node still wants them.
class Evaluation {
 public:
  Evaluation(const graph::Graph& graph, const EvaluateOptions& options)
      : graph_(graph),
        options_(options),
        data_(graph.value_count()),
        readers_(graph.value_count()),
        bindings_(graph.symbols.size(), graph::kUnbound) {}

  std::vector<Datum> run(std::span<const Datum> inputs) {
    if (inputs.size() != graph_.inputs.size()) {
      throw_caller(ErrorCode::InvalidArgument, "expected {} inputs, got {}", graph_.inputs.size(),
                   inputs.size());
    }
    const std::vector<graph::NodeId> order = graph_.topological_order();
    for (const graph::NodeId id : order) {
      for (const graph::ValueId input : graph_.node(id).inputs) {
        if (input) ++readers_[input.index];
      }
    }
    for (const graph::ValueId output : graph_.outputs) ++readers_[output.index];
    for (std::size_t s = 0; s < graph_.symbols.size(); ++s)
      symbols_.emplace(graph_.symbols[s].source.value, s);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      data_[graph_.inputs[i].index] = entering(inputs[i]);
      bind(graph_.inputs[i], inputs[i]);
    }
    graph::check_guards(graph_, bindings_);
    for (const graph::NodeId id : order) run_node(graph_.node(id));
    std::vector<Datum> outputs;
    for (const graph::ValueId output : graph_.outputs) outputs.push_back(datum(output));
    return outputs;
  }

 private:
  Datum entering(const Datum& datum) const { return options_.f64 ? widened_to_f64(datum) : datum; }

  // The Symbols that stand for extents of this Value; false if there are none.
  bool bind(graph::ValueId id, const Datum& datum) {
    const auto [begin, end] = symbols_.equal_range(id);
    for (auto symbol = begin; symbol != end && datum.is_tensor(); ++symbol) {
      const graph::SymbolSource& source = graph_.symbols[symbol->second].source;
      const Extents& extents = datum.tensor().extents();
      const auto axis = static_cast<std::size_t>(source.index);
      if (source.kind != graph::SymbolSource::Kind::InputElement && axis < extents.size())
        bindings_[symbol->second] = extents[axis];
    }
    return begin != end;
  }

  // A Reshape of nothing takes the extents that inference gives: see reshape().
  Datum prepared_output(const graph::Node& node, const Tensor& input) const {
    const graph::Value& output = graph_.value(node.outputs[0]);
    if (input.elements() != 0 || !output.shape) return {};
    Extents extents;
    for (const graph::Dim& dim : *output.shape) {
      const auto extent = dim.try_evaluate(bindings_);
      if (!extent) return {};
      extents.push_back(*extent);
    }
    return Tensor(input.dtype(), std::move(extents));
  }

  const Datum& datum(graph::ValueId id) {
    std::optional<Datum>& slot = data_[id.index];
    const graph::Value& value = graph_.value(id);
    if (!slot && value.constant) slot = entering(*value.constant);
    if (!slot) throw_bug("value '{}' is read before it is made", value.name);
    return *slot;
  }

  void run_node(const graph::Node& node) {
    try {
      const Kernel kernel = find(node.op);
      if (kernel == nullptr)
        throw_caller(ErrorCode::Unsupported, "there is no reference kernel for this operator");
      std::vector<const Datum*> inputs;
      for (const graph::ValueId input : node.inputs) inputs.push_back(input ? &datum(input) : nullptr);
      const RunBody run_body = [this](const graph::Graph& body, std::vector<Datum> given) {
        return evaluate(body, given, options_);
      };
      Call call{.node = node,
                .inputs = inputs,
                .outputs = std::vector<Datum>(node.outputs.size()),
                .parallel = options_.parallel,
                .promote_f32 = options_.f64,
                .run_body = &run_body};
      if (node.op == graph::OpKind::Reshape) call.outputs[0] = prepared_output(node, call.input(0));
      kernel(call);
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        const graph::ValueId output = node.outputs[i];
        if (output && bind(output, call.outputs[i])) graph::check_guards(graph_, bindings_);
        if (output && readers_[output.index] > 0) data_[output.index] = std::move(call.outputs[i]);
      }
    } catch (Error& error) {
      throw error.with("node", node.name).with("op", std::string(name(node.op)));
    }
    for (const graph::ValueId input : node.inputs) {
      if (input && --readers_[input.index] == 0) data_[input.index].reset();
    }
  }

  const graph::Graph& graph_;
  const EvaluateOptions options_;
  std::vector<std::optional<Datum>> data_;
  std::vector<std::int64_t> readers_;
  std::unordered_multimap<graph::ValueId, std::size_t> symbols_;  // by the Value whose extents they are
  graph::Bindings bindings_;
};

}  // namespace

std::vector<Datum> evaluate(const graph::Graph& graph, std::span<const Datum> inputs,
                            const EvaluateOptions& options) {
  return Evaluation(graph, options).run(inputs);
}

std::vector<Tensor> evaluate(const graph::Graph& graph, std::span<const Tensor> inputs,
                             const EvaluateOptions& options) {
  const std::vector<Datum> data(inputs.begin(), inputs.end());
  std::vector<Tensor> outputs;
  for (const Datum& output : Evaluation(graph, options).run(data)) outputs.push_back(output.tensor());
  return outputs;
}

}  // namespace kiln::reference
