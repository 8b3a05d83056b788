// pick: elements, or runs of them, that index operands choose one by one (GatherElements, GatherND), or
// lengths (ReverseSequence), with an elementwise epilogue.
#include <vector>

#include "ir/templates/axiswise_copy.h"
#include "ir/templates/chosen_places.h"
#include "ir/templates/epilogue.h"
#include "ir/templates/samples.h"
#include "ir/templates/template.h"

namespace kiln::templates {
namespace {

using graph::Dim;
using graph::Node;
using graph::OpKind;
using graph::Problem;
using tile::Indices;

IterationSpace space_of(const Problem& problem, const ChosenPlaces& places) {
  std::vector<std::vector<Dim>> strides = place_strides(places);
  append_epilogue_strides(problem, strides);
  return collapse(places.shape, strides, strides.size() - 1);
}

std::optional<std::string> refuses(const Problem& problem, const Target&) {
  const Node& node = problem.graph.node(problem.root);
  if (node.op != OpKind::GatherElements && node.op != OpKind::GatherND && node.op != OpKind::ReverseSequence)
    return "its root picks no elements";
  if (auto reason = why_no_places(problem)) return reason;
  if (auto reason = why_no_epilogue(problem)) return reason;
  if (space_of(problem, chosen_places(problem)).rank() > std::size_t{tile::kMaxGridRank})
    return "more axes than a grid has";
  return std::nullopt;
}

std::vector<VariantChoice> variants(const Problem& problem, const Target&) {
  return copy_variants(space_of(problem, chosen_places(problem)));
}

Program build(const Problem& problem, const Parameters& parameters, const Target&) {
  const graph::Graph& graph = problem.graph;
  const Node& node = graph.node(problem.root);
  const ChosenPlaces places = chosen_places(problem);
  const IterationSpace space = space_of(problem, places);
  const std::vector<std::int64_t> box = copy_box(space.rank(), parameters);

  ProgramBuilder program(problem);
  ProgramBuilder::Launch launch(program, "pick");
  PlaceTable table(program, launch, problem, places, space, space.rank() - 1);
  const PlaceTable::Target& target = table.target();
  const tile::View data = launch.input("x", program.input(*input_number(problem, node.inputs[0])),
                                       target.extents, target.strides, target.offset);
  Epilogue epilogue(program, launch, problem, space, place_strides(places).size());
  const Indices at = blocked_grid(launch.builder(), epilogue.output(), box);
  table.reserve(box);
  const tile::Expr picked = table.choose(data, at).load(table.from(at), table.extents());
  epilogue.finish(launch.builder().reshape(picked, box), at, box);
  const std::int64_t elements = parameters.at("rows") * parameters.at("inner");
  launch.cost(elements * (8 + epilogue_flops(problem)), elements * (16 + epilogue_bytes(problem)));
  program.add(launch);
  return program.finish();
}

}  // namespace

extern const Template pick_template;
const Template pick_template{.name = "pick",
                             .version = 1,
                             .refuses = refuses,
                             .variants = variants,
                             .build = build,
                             .samples = pick_samples};

}  // namespace kiln::templates
