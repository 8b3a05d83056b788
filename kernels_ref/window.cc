#include "kernels_ref/window.h"

#include <algorithm>

#include "ir/base/errors.h"

namespace kiln::reference {
namespace {

// Far above any real attribute, and far from overflow in products of two.
constexpr std::int64_t kLargest = std::int64_t{1} << 30;

}  // namespace

std::vector<std::int64_t> window_attribute(const graph::Node& node, std::string_view attribute,
                                           std::size_t count, std::int64_t otherwise, std::int64_t minimum) {
  if (!has(node, attribute)) return std::vector<std::int64_t>(count, otherwise);
  const auto given = integers(node, attribute);
  if (given.size() != count) {
    throw_caller(ErrorCode::InvalidArgument, "{} must have {} elements, got {}", attribute, count,
                 given.size());
  }
  for (const std::int64_t value : given) {
    if (value < minimum || value > kLargest) {
      throw_caller(ErrorCode::InvalidArgument, "{} must be {} to {}, got {}", attribute, minimum, kLargest,
                   value);
    }
  }
  return {given.begin(), given.end()};
}

void expect_positions(const WindowAxis& axis, std::size_t number) {
  if (axis.output >= 1) return;
  throw_caller(ErrorCode::ShapeMismatch,
               "a window of {} elements does not fit in axis {} with {} elements, padded by {} and {}",
               axis.reach(), number, axis.input, axis.pad_begin, axis.pad_end);
}

std::vector<WindowAxis> window_axes(const graph::Node& node, std::span<const std::int64_t> spatial,
                                    std::span<const std::int64_t> kernel, bool ceil_mode) {
  const std::size_t rank = spatial.size();
  std::vector<std::int64_t> taps(kernel.begin(), kernel.end());
  if (taps.empty() || has(node, "kernel_shape")) taps = window_attribute(node, "kernel_shape", rank, 1, 0);
  const auto strides = window_attribute(node, "strides", rank, 1, 1);
  const auto dilations = window_attribute(node, "dilations", rank, 1, 1);
  const auto pads = window_attribute(node, "pads", 2 * rank, 0, -kLargest);
  const std::string& auto_pad = text(node, "auto_pad");
  if (!kernel.empty() && !std::equal(taps.begin(), taps.end(), kernel.begin(), kernel.end())) {
    throw_caller(ErrorCode::ShapeMismatch, "kernel_shape {} differs from the weights' {}", to_string(taps),
                 to_string(kernel));
  }
  std::vector<WindowAxis> axes(rank);
  for (std::size_t k = 0; k < rank; ++k) {
    WindowAxis& axis = axes[k];
    axis = {.input = spatial[k], .kernel = taps[k], .stride = strides[k], .dilation = dilations[k]};
    if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
      axis.output = ceil_divide(axis.input, axis.stride);
      const std::int64_t total =
          std::max<std::int64_t>(0, (axis.output - 1) * axis.stride + axis.reach() - axis.input);
      axis.pad_begin = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      axis.pad_end = total - axis.pad_begin;
    } else {
      if (auto_pad == "NOTSET") {
        axis.pad_begin = pads[k];
        axis.pad_end = pads[k + rank];
      } else if (auto_pad != "VALID") {
        throw_caller(ErrorCode::InvalidArgument,
                     "auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, got '{}'", auto_pad);
      }
      const std::int64_t room = axis.input + axis.pad_begin + axis.pad_end - axis.reach();
      axis.output = (ceil_mode ? ceil_divide(room, axis.stride) : floor_divide(room, axis.stride)) + 1;
      // A last window that would start in the padding at the end is left out.
      if (ceil_mode && (axis.output - 1) * axis.stride >= axis.input + axis.pad_begin) --axis.output;
    }
    expect_positions(axis, 2 + k);
  }
  return axes;
}

}  // namespace kiln::reference
