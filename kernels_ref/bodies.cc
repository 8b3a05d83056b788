#include "kernels_ref/bodies.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "ir/base/errors.h"
#include "ir/graph/specialise.h"

namespace kiln::reference {

using graph::Graph;

const Graph& body_of(const Call& call, std::string_view attribute) {
  return *std::get<std::shared_ptr<Graph>>(call.node.attributes.find(attribute)->second);
}

std::vector<Datum> run(const Call& call, const Graph& body, std::vector<Datum> inputs) {
  require(call.run_body != nullptr, "{} was called without a way to run its graphs", name(call.node.op));
  std::vector<Datum> outputs = (*call.run_body)(body, std::move(inputs));
  require(outputs.size() == body.outputs.size(), "graph \"{}\" gave {} outputs", body.name, outputs.size());
  return outputs;
}

namespace {

graph::Bindings bound_extents(const Graph& graph, const InputExtents& inputs) {
  graph::Bindings bindings(graph.symbols.size(), graph::kUnbound);
  for (std::size_t s = 0; s < bindings.size(); ++s) {
    const graph::SymbolSource& source = graph.symbols[s].source;
    const auto input = std::find(graph.inputs.begin(), graph.inputs.end(), source.value);
    if (source.kind != graph::SymbolSource::Kind::InputDim || input == graph.inputs.end()) continue;
    const auto& extents = inputs[static_cast<std::size_t>(input - graph.inputs.begin())];
    const auto axis = static_cast<std::size_t>(source.index);
    if (extents && axis < extents->size()) bindings[s] = (*extents)[axis];
  }
  return bindings;
}

}  // namespace

Extents extents_without_running(const Graph& body, std::size_t output, const InputExtents& inputs) {
  const Graph* graph = &body;
  std::optional<Graph> of_ranks;
  Extents result;
  try {
    std::map<std::size_t, graph::InputFacts> ranks;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] && !body.value(body.inputs[i]).shape) ranks[i].rank = inputs[i]->size();
    }
    if (!ranks.empty()) graph = &of_ranks.emplace(graph::specialise(body, ranks));
    const graph::Value& value = graph->value(graph->outputs[output]);
    if (!value.shape) return {};
    const graph::Bindings bindings = bound_extents(*graph, inputs);
    for (const graph::Dim& dim : *value.shape) {
      result.push_back(std::max<std::int64_t>(dim.try_evaluate(bindings).value_or(0), 0));
    }
  } catch (const Error&) {
    // Sizes that no execution could have: what never runs need not be possible.
    const auto& shape = graph->value(graph->outputs[output]).shape;
    result.resize(shape ? shape->size() : 0);
  }
  return result;
}

void append(std::vector<Datum>& data, const Call& call, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) data.push_back(call.has_input(i) ? *call.inputs[i] : Datum());
}

}  // namespace kiln::reference
