// What pad and resize share: the first operand is copied to the result, with other extents along some axes.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/templates/iteration_space.h"
#include "ir/templates/template.h"

namespace kiln::templates {

struct AxiswiseNest {
  IterationSpace space;                      // of the result; operands: data, epilogue, outputs
  std::vector<graph::Dim> extents, strides;  // of the data, per axis of the space
  std::vector<int> changed_axis;             // per axis of the space: the data's axis that changes, or -1
};

// `changed[axis]`: whether the root's data and its result differ in extent along the axis.
AxiswiseNest axiswise_nest(const graph::Problem& problem, const std::vector<bool>& changed);

// The one Variant of a copy over `space`: its parameters are those of copy_block().
std::vector<VariantChoice> copy_variants(const IterationSpace& space);

// The tile's extents per axis of a space of this rank.
std::vector<std::int64_t> copy_box(std::size_t rank, const Parameters& parameters);

}  // namespace kiln::templates
