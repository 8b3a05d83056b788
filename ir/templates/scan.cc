// scan: running sums and products along one axis. A program owns some neighbours of the axis and walks along
// it in blocks; from the end if reversed, through views that run backwards. Floats run in f64.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "ir/graph/operands.h"
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
using graph::Shape;
using tile::Combiner;
using tile::Expr;
using tile::Exprs;
using tile::Indices;

constexpr std::int64_t kBlock = 256, kNeighbours = 64, kBlockOfNeighbours = 16;

struct Nest {
  IterationSpace space;  // operands: the input, the result
  std::size_t axis = 0;  // that the scan runs along
};

std::optional<std::size_t> scanned_axis(const Graph& graph, const Node& node) {
  const auto axis = graph::constant_elements(graph, node, 1);
  const auto& shape = graph.value(node.inputs[0]).shape;
  if (!axis || axis->size() != 1 || !shape) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(shape->size());
  const std::int64_t index = (*axis)[0] < 0 ? (*axis)[0] + rank : (*axis)[0];
  if (index < 0 || index >= rank) return std::nullopt;
  return static_cast<std::size_t>(index);
}

Nest nest_of(const Problem& problem) {
  const Graph& graph = problem.graph;
  const Node& node = graph.node(problem.root);
  const graph::Value &x = graph.value(node.inputs[0]), &y = graph.value(node.outputs[0]);
  const std::size_t axis = *scanned_axis(graph, node);
  std::vector<std::vector<int>> groups(3);
  for (std::size_t i = 0; i < x.shape->size(); ++i)
    groups[i < axis ? 0 : i == axis ? 1 : 2].push_back(static_cast<int>(i));
  const std::vector<std::vector<Dim>> strides{x.layout->strides, y.layout->strides};
  std::vector<int> counts;
  Nest nest;
  nest.space = collapse_groups(*y.shape, strides, 1, groups, counts);
  nest.axis = static_cast<std::size_t>(counts[0]);
  return nest;
}

std::optional<std::string> refuses(const Problem& problem, const Target&) {
  const Graph& graph = problem.graph;
  const Node& node = graph.node(problem.root);
  if (node.op != OpKind::CumSum && node.op != OpKind::CumProd) return "its root is no scan";
  if (graph.node_count() > 1) return "a scan stands alone";
  if (!scanned_axis(graph, node)) return "its axis is not known before running";
  if (!input_number(problem, node.inputs[0])) return "its input is a literal";
  if (nest_of(problem).space.rank() > std::size_t{tile::kMaxGridRank}) return "more axes than a grid has";
  return std::nullopt;
}

std::vector<VariantChoice> variants(const Problem& problem, const Target&) {
  const Nest nest = nest_of(problem);
  const auto limited = [](const Dim& extent, std::int64_t limit) {
    return extent.is_constant() ? std::clamp<std::int64_t>(extent.constant(), 1, limit) : limit;
  };
  const std::int64_t neighbours = limited(nest.space.extents.back(), kNeighbours);
  const std::int64_t block =
      limited(nest.space.extents[nest.axis], neighbours == 1 ? kBlock : kBlockOfNeighbours);
  return {{.name = "default",
           .guard = std::nullopt,
           .parameters = {{"block", block}, {"neighbours", neighbours}}}};
}

Program build(const Problem& problem, const Parameters& parameters, const Target&) {
  const Graph& graph = problem.graph;
  const Node& node = graph.node(problem.root);
  const Nest nest = nest_of(problem);
  const IterationSpace& space = nest.space;
  const std::int64_t block = parameters.at("block"), neighbours = parameters.at("neighbours");
  const DType dtype = graph.value(node.inputs[0]).dtype;
  const DType running = is_float(dtype) ? DType::F64 : dtype;
  const bool product = node.op == OpKind::CumProd;
  const auto combined = [&](Expr a, Expr b) { return product ? a * b : a + b; };

  ProgramBuilder program(problem);
  ProgramBuilder::Launch launch(program, "scan");
  tile::KernelBuilder& k = launch.builder();
  tile::View x = launch.input("x", program.input(*input_number(problem, node.inputs[0])), space.extents,
                              space.strides[0]);
  tile::View y = launch.output("y", program.output(0), space.extents, space.strides[1]);
  const int axis = static_cast<int>(nest.axis);
  const int last = static_cast<int>(space.rank()) - 1;
  k.grid([&] {
    Indices grid;
    for (int a = 0; a <= last; ++a) {
      if (a == axis) {
        grid.emplace_back(1);
      } else {
        grid.emplace_back(a == last ? ceildiv(y.dim(a), neighbours) : y.dim(a));
      }
    }
    return grid;
  });
  if (integer(node, "reverse") != 0) {
    Indices starts, extents;
    std::vector<std::int64_t> steps;
    for (int a = 0; a <= last; ++a) {
      starts.emplace_back(a == axis ? tile::Index(y.dim(a) - 1) : tile::Index(0));
      extents.emplace_back(y.dim(a));
      steps.push_back(a == axis ? -1 : 1);
    }
    x = x.slice(starts, extents, steps);
    y = y.slice(starts, extents, steps);
  }
  std::vector<std::int64_t> box(space.rank(), 1);
  box.back() = neighbours;
  const Expr none = k.full(running, box, product ? 1 : 0);
  box[nest.axis] = block;
  Indices at;
  for (int a = 0; a <= last; ++a) {
    const Expr id = k.program_id(a);
    at.emplace_back(a == last ? id * neighbours : id);
  }
  k.loop(0, y.dim(axis), block, {none}, [&](Expr first, const Exprs& carried) -> Exprs {
    at[nest.axis] = first;
    const Expr part = k.cast(x.load(at, box, product ? 1 : 0), running);
    const Combiner combiner = product ? Combiner::Prod : Combiner::Sum;
    const Expr scanned = k.scan(combiner, part, axis, integer(node, "exclusive") != 0)[0];
    y.store(at, k.cast(combined(carried[0], scanned), dtype));
    return {combined(carried[0], k.reshape(k.reduce(combiner, part, axis), carried[0].type().extents))};
  });
  const Dim elements = Dim(neighbours) * space.extents[nest.axis];
  launch.cost(Dim(4) * elements, Dim(bits(dtype) / 4) * elements);
  program.add(launch);
  return program.finish();
}

}  // namespace

extern const Template scan_template;
const Template scan_template{.name = "scan",
                             .version = 1,
                             .refuses = refuses,
                             .variants = variants,
                             .build = build,
                             .samples = scan_samples};

}  // namespace kiln::templates
