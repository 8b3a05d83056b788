// gather: whole slices of one operand, chosen by the elements of another, with an elementwise epilogue. The
// indices are read where the slices are copied; one out of range is reported through the kernel's status.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "ir/templates/epilogue.h"
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
using graph::ValueId;
using tile::Indices;

// The result's axes in three groups: those of the data before the gathered axis, those of the indices, and
// those of the data behind it.
struct Nest {
  IterationSpace space;  // operands: data (0 along the indices), indices (0 elsewhere), epilogue, outputs
  std::size_t outer = 0, indices = 0;  // axes of the first two groups
  Dim gathered_extent = 0, gathered_stride = 0;
};

Nest nest_of(const Problem& problem) {
  const Graph& graph = problem.graph;
  const Node& node = graph.node(problem.root);
  const graph::Value& data = graph.value(node.inputs[0]);
  const graph::Value& indices = graph.value(node.inputs[1]);
  const Shape& shape = *graph.value(node.outputs[0]).shape;
  const auto axis = static_cast<std::size_t>(integer(node, "axis"));
  const std::size_t index_rank = indices.shape->size();

  std::vector<std::vector<Dim>> strides(2, std::vector<Dim>(shape.size(), Dim(0)));
  std::vector<std::vector<int>> groups(3);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const bool before = i < axis, chosen = !before && i < axis + index_rank;
    groups[before ? 0 : chosen ? 1 : 2].push_back(static_cast<int>(i));
    if (chosen) {
      strides[1][i] = indices.layout->strides[i - axis];
    } else {
      strides[0][i] = data.layout->strides[before ? i : i + 1 - index_rank];
    }
  }
  append_epilogue_strides(problem, strides);
  Nest nest;
  std::vector<int> counts;
  nest.space = collapse_groups(shape, strides, strides.size() - 1, groups, counts);
  nest.outer = static_cast<std::size_t>(counts[0]);
  nest.indices = static_cast<std::size_t>(counts[1]);
  nest.gathered_extent = (*data.shape)[axis];
  nest.gathered_stride = data.layout->strides[axis];
  return nest;
}

std::optional<std::string> refuses(const Problem& problem, const Target&) {
  const Graph& graph = problem.graph;
  const Node& node = graph.node(problem.root);
  if (node.op != OpKind::Gather) return "its root is no Gather";
  for (std::size_t i = 0; i < 2; ++i) {
    if (!graph.value(node.inputs[i]).shape) return "the rank is unknown before running";
    if (!input_number(problem, node.inputs[i])) return "an operand is not in memory";
  }
  const DType dtype = graph.value(node.inputs[0]).dtype;
  if (!is_computable(dtype)) return fmt::format("elements of {}", name(dtype));
  if (auto reason = why_no_epilogue(problem)) return reason;
  if (nest_of(problem).space.rank() > std::size_t{tile::kMaxGridRank}) return "more axes than a grid has";
  return std::nullopt;
}

std::vector<VariantChoice> variants(const Problem& problem, const Target&) {
  const Nest nest = nest_of(problem);
  const auto block = [](const Dim& extent, std::int64_t unknown, std::int64_t limit) {
    return extent.is_constant() ? std::clamp<std::int64_t>(extent.constant(), 1, limit) : unknown;
  };
  const std::int64_t slice = block(nest.space.extents.back(), kCopiedElements / 4, kCopiedElements);
  const std::int64_t rows = std::max<std::int64_t>(1, kCopiedElements / slice);
  return {{.name = "default",
           .guard = std::nullopt,
           .parameters = {{"slice", slice},
                          {"rows", block(nest.space.extents[nest.outer + nest.indices - 1], rows, rows)}}}};
}

Program build(const Problem& problem, const Parameters& parameters, const Target&) {
  const Graph& graph = problem.graph;
  const Node& node = graph.node(problem.root);
  const Nest nest = nest_of(problem);
  const IterationSpace& space = nest.space;
  const std::size_t behind = nest.outer + nest.indices;
  const auto part = [](const std::vector<Dim>& dims, std::size_t from, std::size_t to) {
    return std::vector<Dim>(dims.begin() + static_cast<std::ptrdiff_t>(from),
                            dims.begin() + static_cast<std::ptrdiff_t>(to));
  };
  // Axes of the data: those of the result with the gathered one for those of the indices.
  const auto of_data = [&](const std::vector<Dim>& dims, const Dim& gathered) {
    std::vector<Dim> result = part(dims, 0, nest.outer);
    result.push_back(gathered);
    const std::vector<Dim> inner = part(dims, behind, space.rank());
    result.insert(result.end(), inner.begin(), inner.end());
    return result;
  };

  ProgramBuilder program(problem);
  ProgramBuilder::Launch launch(program, "gather");
  tile::KernelBuilder& k = launch.builder();
  const tile::View data = launch.input("x", program.input(*input_number(problem, node.inputs[0])),
                                       of_data(space.extents, nest.gathered_extent),
                                       of_data(space.strides[0], nest.gathered_stride));
  const tile::View indices =
      launch.input("i", program.input(*input_number(problem, node.inputs[1])),
                   part(space.extents, nest.outer, behind), part(space.strides[1], nest.outer, behind));
  Epilogue epilogue(program, launch, problem, space, 2);

  std::vector<std::int64_t> box(space.rank(), 1);
  box[behind - 1] = parameters.at("rows");
  box.back() = parameters.at("slice");
  const Indices at = blocked_grid(k, epilogue.output(), box);
  const tile::View chosen = data.gather(static_cast<int>(nest.outer), indices);
  epilogue.finish(chosen.load(at, box), at, box);
  const std::int64_t elements = parameters.at("rows") * parameters.at("slice");
  launch.cost(elements * (1 + epilogue_flops(problem)), elements * (8 + epilogue_bytes(problem)));
  program.add(launch);
  return program.finish();
}

}  // namespace

extern const Template gather_template;
const Template gather_template{.name = "gather",
                               .version = 1,
                               .refuses = refuses,
                               .variants = variants,
                               .build = build,
                               .samples = gather_samples};

}  // namespace kiln::templates
