// Sliding windows of convolutions and pooling.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <kiln/tensor.h>

#include "ir/base/checked_math.h"
#include "kernels_ref/reference.h"

namespace kiln::reference {

// One spatial axis: tap k of output o reads input o * stride + k * dilation - pad_begin.
struct WindowAxis {
  std::int64_t input = 1, output = 1, kernel = 1, stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;

  std::int64_t reach() const { return (kernel - 1) * dilation + 1; }
  std::int64_t at(std::int64_t o, std::int64_t k) const { return o * stride + k * dilation - pad_begin; }
  bool inside(std::int64_t i) const { return i >= 0 && i < input; }
};

// The axes of a node with the attributes kernel_shape, strides, dilations, pads, auto_pad (and ceil_mode
// where `ceil_mode`), for an input of these spatial extents. `kernel` is used where the node has no
// kernel_shape. Throws Error (caller) on attributes of the wrong length or out of range.
std::vector<WindowAxis> window_axes(const graph::Node& node, std::span<const std::int64_t> spatial,
                                    std::span<const std::int64_t> kernel, bool ceil_mode);

// Throws Error (caller, shape_mismatch) if the window fits nowhere on its axis, which is axis `number`.
void expect_positions(const WindowAxis& axis, std::size_t number);

// The attribute, or `count` times `otherwise` if absent. Throws Error (caller) if of another length or if an
// element is below `minimum`.
std::vector<std::int64_t> window_attribute(const graph::Node& node, std::string_view attribute,
                                           std::size_t count, std::int64_t otherwise, std::int64_t minimum);

}  // namespace kiln::reference
