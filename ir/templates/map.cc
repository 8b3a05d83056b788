// map: any chain of elementwise nodes over one space, with broadcast and strided operands. One pass over
// memory, whatever the number of nodes.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

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

constexpr std::int64_t kElementsPerProgram = 4096;
constexpr std::size_t kMaxAxes = 6;  // grid dimensions of the kernel ABI

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
  if (space_of(problem).rank() > kMaxAxes) return "more axes than a grid has";
  return std::nullopt;
}

std::vector<VariantChoice> variants(const Problem& problem, const Target&) {
  // A tile covers the innermost axis as far as it goes, then rows of the next.
  const IterationSpace space = space_of(problem);
  const Dim& inner = space.extents.back();
  const std::int64_t wanted = space.rank() == 1 ? kElementsPerProgram : kElementsPerProgram / 4;
  const std::int64_t block =
      inner.is_constant() ? std::clamp<std::int64_t>(inner.constant(), 1, kElementsPerProgram) : wanted;
  const std::int64_t rows = space.rank() == 1 ? 1 : std::max<std::int64_t>(1, kElementsPerProgram / block);
  return {{.name = "default", .guard = std::nullopt, .parameters = {{"block", block}, {"rows", rows}}}};
}

Program build(const Problem& problem, const Parameters& parameters, const Target&) {
  const graph::Graph& graph = problem.graph;
  const IterationSpace space = space_of(problem);
  const std::size_t rank = space.rank();
  std::vector<std::int64_t> tile_extents(rank, 1);
  tile_extents[rank - 1] = parameters.at("block");
  if (rank > 1) tile_extents[rank - 2] = parameters.at("rows");

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
  const Indices at = blocked_grid(k, results[0], tile_extents);
  NodeEmitter emitter(k, graph);
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    emitter.define(graph.inputs[i], views[i].load(at, tile_extents));
  }
  for (const graph::NodeId id : graph.topological_order()) emitter.emit(graph.node(id));
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    results[i].store(at, k.broadcast(emitter.stored(graph.outputs[i]), tile_extents));
  }
  std::int64_t element_bytes = 0;
  for (const ValueId id : graph.inputs) element_bytes += bits(graph.value(id).dtype) / 8;
  for (const ValueId id : graph.outputs) element_bytes += bits(graph.value(id).dtype) / 8;
  const std::int64_t elements = parameters.at("block") * parameters.at("rows");
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
