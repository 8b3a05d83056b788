// map: any chain of elementwise nodes over one space, with broadcast and strided operands. One pass over
// memory, whatever the number of nodes.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "ir/templates/axiswise_copy.h"
#include "ir/templates/node_emitter.h"
#include "ir/templates/program_builder.h"
#include "ir/templates/samples.h"
#include "ir/templates/template.h"

namespace kiln::templates {
namespace {

using graph::Dim;
using graph::Problem;
using graph::Shape;
using graph::ValueId;
using tile::Indices;

IterationSpace space_of(const Problem& problem) {
  const graph::Graph& graph = problem.graph;
  const Shape& shape = *graph.value(graph.outputs[0]).shape;
  std::vector<std::vector<Dim>> strides;
  for (const ValueId id : graph.inputs) strides.push_back(broadcast_strides(graph.value(id), shape));
  for (const ValueId id : graph.outputs) strides.push_back(broadcast_strides(graph.value(id), shape));
  return collapse(shape, strides, graph.inputs.size());
}

std::optional<std::string> refuses(const Problem& problem, const Target&) {
  const graph::Graph& graph = problem.graph;
  for (const graph::NodeId id : graph.topological_order()) {
    if (auto reason = why_not_emittable(graph, graph.node(id))) return reason;
  }
  for (const ValueId id : graph.outputs) {
    const auto& shape = graph.value(id).shape;
    if (!shape) return "the rank is unknown before running";
    if (*shape != *graph.value(graph.outputs[0]).shape) return "its results differ in shape";
  }
  if (space_of(problem).rank() > std::size_t{tile::kMaxGridRank}) return "more axes than a grid has";
  return std::nullopt;
}

std::vector<VariantChoice> variants(const Problem& problem, const Target&) {
  return copy_variants(space_of(problem));
}

Program build(const Problem& problem, const Parameters& parameters, const Target&) {
  const graph::Graph& graph = problem.graph;
  const IterationSpace space = space_of(problem);
  const std::vector<std::int64_t> box = copy_box(space.rank(), parameters);

  ProgramBuilder program(problem);
  ProgramBuilder::Launch launch(program, "map");
  tile::KernelBuilder& k = launch.builder();
  std::vector<tile::View> views;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    // A repeated axis has the extent of the space: every index reads the same element.
    views.push_back(launch.input(fmt::format("x{}", i), program.input(i), space.extents, space.strides[i]));
  }
  std::vector<tile::View> results;
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    results.push_back(launch.output(fmt::format("y{}", i), program.output(i), space.extents,
                                    space.strides[graph.inputs.size() + i]));
  }
  const Indices at = blocked_grid(k, results[0], box);
  NodeEmitter emitter(k, graph);
  emitter.limit_to([&] { return elements_inside(k, results[0], at, box); });
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    emitter.define(graph.inputs[i], views[i].load(at, box));
  }
  for (const graph::NodeId id : graph.topological_order()) emitter.emit(graph.node(id));
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    results[i].store(at, k.broadcast(emitter.stored(graph.outputs[i]), box));
  }
  std::int64_t element_bytes = 0;
  for (const ValueId id : graph.inputs) element_bytes += bits(graph.value(id).dtype) / 8;
  for (const ValueId id : graph.outputs) element_bytes += bits(graph.value(id).dtype) / 8;
  const std::int64_t elements = parameters.at("inner") * parameters.at("rows");
  launch.cost(static_cast<std::int64_t>(graph.node_count()) * elements, element_bytes * elements);
  program.add(launch);
  return program.finish();
}

}  // namespace

extern const Template map_template;
const Template map_template{.name = "map",
                            .version = 1,
                            .refuses = refuses,
                            .variants = variants,
                            .build = build,
                            .samples = map_samples};

}  // namespace kiln::templates
