// Where each element of a Resize comes from: per axis, the elements of the input that one of the result is
// made of, and their weights. Where `sizes` is given, coordinates are exact rationals, so that rounding of
// nearest never hangs on an error of the scale.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph/graph.h"

namespace kiln::reference {

struct ResizeAxis {
  std::int64_t input, output;
  double scale = 1;
  std::int64_t scale_output = 0, scale_input = 0;  // scale as their exact quotient, 0 if not known so
  double roi_start = 0, roi_end = 1;
};

// What the optional operands hold; empty if absent.
struct ResizeOperands {
  std::vector<double> roi, scales;
  std::vector<std::int64_t> sizes;
};

// Extents, scales and regions of every axis of an input of these extents.
std::vector<ResizeAxis> resize_axes(const graph::Node& node, const Extents& input,
                                    const ResizeOperands& operands);

// What one element of the result is made of along one axis: consecutive elements from `first`, clamped to the
// axis when read; of `nearest` a single one. Nothing of it counts if it lies outside.
struct ResizeTaps {
  std::int64_t first = 0;
  std::vector<double> weights;
  bool outside = false;
};

// For every index of the result along an axis.
std::vector<ResizeTaps> resize_taps(const graph::Node& node, const ResizeAxis& axis);

}  // namespace kiln::reference
