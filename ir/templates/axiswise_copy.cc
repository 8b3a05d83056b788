#include "ir/templates/axiswise_copy.h"

#include <algorithm>

#include "ir/templates/epilogue.h"

namespace kiln::templates {

using graph::Dim;

AxiswiseNest axiswise_nest(const graph::Problem& problem, const std::vector<bool>& changed) {
  const graph::Node& node = problem.graph.node(problem.root);
  const graph::Value& data = problem.graph.value(node.inputs[0]);
  std::vector<std::vector<Dim>> strides{data.layout->strides};
  append_epilogue_strides(problem, strides);
  AxiswiseNest nest;
  nest.space = collapse_around(*problem.graph.value(node.outputs[0]).shape, strides, strides.size() - 1,
                               changed, nest.changed_axis);
  for (std::size_t at = 0; at < nest.space.rank(); ++at) {
    const bool is_changed = nest.changed_axis[at] >= 0;
    const auto axis = static_cast<std::size_t>(std::max(nest.changed_axis[at], 0));
    nest.extents.push_back(is_changed ? (*data.shape)[axis] : nest.space.extents[at]);
    nest.strides.push_back(is_changed ? data.layout->strides[axis] : nest.space.strides[0][at]);
  }
  return nest;
}

std::vector<VariantChoice> copy_variants(const IterationSpace& space) {
  const CopyBlock block = copy_block(space);
  return {{.name = "default",
           .guard = std::nullopt,
           .parameters = {{"inner", block.inner}, {"rows", block.rows}}}};
}

std::vector<std::int64_t> copy_box(std::size_t rank, const Parameters& parameters) {
  std::vector<std::int64_t> box(rank, 1);
  box[rank - 1] = parameters.at("inner");
  if (rank > 1) box[rank - 2] = parameters.at("rows");
  return box;
}

}  // namespace kiln::templates
