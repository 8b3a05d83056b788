#include "ir/templates/epilogue.h"

#include <algorithm>

#include <fmt/format.h>

namespace kiln::templates {

using graph::Graph;
using graph::NodeId;
using graph::Problem;
using graph::ValueId;

std::vector<std::size_t> epilogue_inputs(const Problem& problem) {
  const Graph& graph = problem.graph;
  std::vector<std::size_t> inputs;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const bool read = [&] {
      for (const NodeId id : graph.topological_order()) {
        if (id == problem.root) continue;
        const auto& operands = graph.node(id).inputs;
        if (std::find(operands.begin(), operands.end(), graph.inputs[i]) != operands.end()) return true;
      }
      return false;
    }();
    if (read) inputs.push_back(i);
  }
  return inputs;
}

std::optional<std::string> why_no_epilogue(const Problem& problem) {
  const Graph& graph = problem.graph;
  const ValueId result = graph.node(problem.root).outputs[0];
  if (!graph.value(result).shape) return "the rank is unknown before running";
  for (const NodeId id : graph.topological_order()) {
    if (id == problem.root) continue;
    if (auto reason = why_not_emittable(graph, graph.node(id))) return reason;
  }
  for (const ValueId id : graph.outputs) {
    if (graph.value(id).shape != graph.value(result).shape)
      return "a result has another shape than the root's";
  }
  return std::nullopt;
}

void append_epilogue_strides(const Problem& problem, std::vector<std::vector<graph::Dim>>& strides) {
  const Graph& graph = problem.graph;
  const graph::Shape& shape = *graph.value(graph.node(problem.root).outputs[0]).shape;
  for (const std::size_t i : epilogue_inputs(problem))
    strides.push_back(broadcast_strides(graph.value(graph.inputs[i]), shape));
  for (const ValueId id : graph.outputs) strides.push_back(broadcast_strides(graph.value(id), shape));
}

Epilogue::Epilogue(ProgramBuilder& program, ProgramBuilder::Launch& launch, const Problem& problem,
                   const IterationSpace& space, std::size_t first_operand)
    : problem_(problem),
      emitter_(launch.builder(), problem.graph),
      builder_(launch.builder()),
      inputs_(epilogue_inputs(problem)) {
  std::size_t operand = first_operand;
  for (const std::size_t i : inputs_) {
    input_views_.push_back(
        launch.input(fmt::format("e{}", i), program.input(i), space.extents, space.strides[operand++]));
  }
  for (std::size_t i = 0; i < problem.graph.outputs.size(); ++i) {
    outputs_.push_back(
        launch.output(fmt::format("y{}", i), program.output(i), space.extents, space.strides[operand++]));
  }
}

void Epilogue::define(ValueId id, tile::Expr value) { emitter_.define(id, value); }

void Epilogue::finish(tile::Expr root_result, const tile::Indices& at,
                      const std::vector<std::int64_t>& extents) {
  const Graph& graph = problem_.graph;
  const ValueId result = graph.node(problem_.root).outputs[0];
  emitter_.limit_to([&] { return elements_inside(builder_, output(), at, extents); });
  // The root's own rounding to its dtype comes first, as for every node.
  const DType dtype = graph.value(result).dtype;
  emitter_.define(result,
                  root_result.type().element == dtype ? root_result : builder_.cast(root_result, dtype));
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    emitter_.define(graph.inputs[inputs_[i]], input_views_[i].load(at, extents));
  }
  for (const NodeId id : graph.topological_order()) {
    if (id != problem_.root) emitter_.emit(graph.node(id));
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i].store(at, builder_.broadcast(emitter_.stored(graph.outputs[i]), extents));
  }
}

std::int64_t epilogue_flops(const Problem& problem) {
  return static_cast<std::int64_t>(problem.graph.node_count()) - 1;
}

std::int64_t epilogue_bytes(const Problem& problem) {
  std::int64_t bytes = 0;
  for (const std::size_t i : epilogue_inputs(problem))
    bytes += bits(problem.graph.value(problem.graph.inputs[i]).dtype) / 8;
  for (const ValueId id : problem.graph.outputs) bytes += bits(problem.graph.value(id).dtype) / 8;
  return bytes;
}

}  // namespace kiln::templates
