// range: start, start + delta, ... , for bounds that are known before running.
#include <algorithm>
#include <array>
#include <vector>

#include "ir/templates/iteration_space.h"
#include "ir/templates/node_emitter.h"
#include "ir/templates/program_builder.h"
#include "ir/templates/samples.h"
#include "ir/templates/template.h"

namespace kiln::templates {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::OpKind;
using graph::Problem;
using tile::Expr;
using tile::Indices;

std::optional<std::string> refuses(const Problem& problem, const Target&) {
  const Graph& graph = problem.graph;
  const Node& node = graph.node(problem.root);
  if (node.op != OpKind::Range) return "its root is no Range";
  if (graph.node_count() != 1) return "it takes no epilogue";
  bool by_elements = true, by_constants = (*graph.value(node.outputs[0]).shape)[0].is_constant();
  for (const graph::ValueId input : node.inputs) {
    const graph::Value& value = graph.value(input);
    by_elements = by_elements && value.elements;
    by_constants = by_constants && value.constant && value.constant->elements() == 1;
  }
  if (!by_elements && !by_constants) return "its bounds are known only while running";
  return std::nullopt;
}

std::vector<VariantChoice> variants(const Problem& problem, const Target&) {
  const Dim& extent = (*problem.graph.value(problem.graph.outputs[0]).shape)[0];
  const std::int64_t block = extent.is_constant()
                                 ? std::clamp<std::int64_t>(extent.constant(), 1, kCopiedElements)
                                 : kCopiedElements;
  return {{.name = "default", .guard = std::nullopt, .parameters = {{"block", block}}}};
}

Program build(const Problem& problem, const Parameters& parameters, const Target&) {
  const Graph& graph = problem.graph;
  const Node& node = graph.node(problem.root);
  const graph::Value& result = graph.value(graph.outputs[0]);
  const DType dtype = compute_dtype(result.dtype);
  const std::array<std::int64_t, 1> box{parameters.at("block")};

  ProgramBuilder program(problem);
  ProgramBuilder::Launch launch(program, "range");
  tile::KernelBuilder& k = launch.builder();
  NodeEmitter emitter(k, graph);
  const tile::View y = launch.output("y", program.output(0), *result.shape, result.layout->strides);
  const auto bound = [&](const char* name, graph::ValueId id) {
    const graph::Value& value = graph.value(id);
    if (value.constant) return emitter.value(id);
    return launch.scalar(name, (*value.elements)[0]);
  };
  Expr start = bound("start", node.inputs[0]), delta = bound("delta", node.inputs[2]);
  const Indices at = blocked_grid(k, y, box);
  const Expr position = k.iota(DType::I64, {box[0]}, 0) + at[0].expr;
  const auto in = [&](DType to, Expr x) { return x.type().element == to ? x : k.cast(x, to); };
  const Expr values = in(dtype, start) + in(dtype, position) * in(dtype, delta);
  y.store(at, in(result.dtype, values));
  launch.cost(2 * box[0], box[0] * (bits(result.dtype) / 8));
  program.add(launch);
  return program.finish();
}

}  // namespace

extern const Template range_template;
const Template range_template{.name = "range",
                              .version = 1,
                              .refuses = refuses,
                              .variants = variants,
                              .build = build,
                              .samples = range_samples};

}  // namespace kiln::templates
