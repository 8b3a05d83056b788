#include "kernels_ref/resize_taps.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "ir/base/checked_math.h"
#include "kernels_ref/arguments.h"
#include "kernels_ref/element.h"

namespace kiln::reference {
namespace {

// A place on the input axis: floor + fraction, with 0 <= fraction < 1.
struct Coordinate {
  std::int64_t floor;
  double fraction;
  double value() const { return static_cast<double>(floor) + fraction; }
};

Coordinate from_number(double x) {
  // Kept in a range that integers hold; taps are clamped to the axis anyway.
  const double whole = std::floor(std::clamp(x, -0x1p40, 0x1p40));
  return {static_cast<std::int64_t>(whole),
          std::isfinite(x) ? std::clamp(x - whole, 0.0, std::nexttoward(1.0, 0)) : 0};
}
Coordinate from_ratio(std::int64_t numerator, std::int64_t denominator) {
  const std::int64_t rest = floor_modulo(numerator, denominator);
  return {floor_divide(numerator, denominator), static_cast<double>(rest) / static_cast<double>(denominator)};
}

bool is_exact(const ResizeAxis& axis) {
  constexpr std::int64_t kSmall = std::int64_t{1} << 29;
  return axis.scale_output > 0 && axis.scale_output < kSmall && axis.scale_input < kSmall &&
         axis.output < kSmall;
}

// Where output index `o` lies on the input axis.
Coordinate source_of(const ResizeAxis& axis, const std::string& mode, std::int64_t o) {
  if (mode == "align_corners") {
    return axis.output == 1 ? Coordinate{0, 0} : from_ratio(o * (axis.input - 1), axis.output - 1);
  }
  if (mode == "tf_crop_and_resize") {
    const double last = static_cast<double>(axis.input - 1);
    const double width = (axis.roi_end - axis.roi_start) * last;
    const double along =
        axis.output == 1 ? width / 2 : static_cast<double>(o) * width / static_cast<double>(axis.output - 1);
    return from_number(along + axis.roi_start * last);
  }
  if (mode == "asymmetric") {
    if (is_exact(axis)) return from_ratio(o * axis.scale_input, axis.scale_output);
    return from_number(static_cast<double>(o) / axis.scale);
  }
  double shift = 0;
  if (mode == "half_pixel_symmetric") {
    const double input = static_cast<double>(axis.input);
    shift = input / 2 * (1 - static_cast<double>(axis.output) / (axis.scale * input));
  } else if (mode == "pytorch_half_pixel") {
    if (axis.output == 1) return {0, 0};
  } else if (mode != "half_pixel") {
    throw_caller(ErrorCode::InvalidArgument, "unknown coordinate_transformation_mode '{}'", mode);
  }
  if (is_exact(axis) && shift == 0) {
    return from_ratio((2 * o + 1) * axis.scale_input - axis.scale_output, 2 * axis.scale_output);
  }
  return from_number(shift + (static_cast<double>(o) + 0.5) / axis.scale - 0.5);
}

std::int64_t nearest_index(const Coordinate& x, const std::string& mode) {
  if (mode == "floor") return x.floor;
  if (mode == "ceil") return x.floor + (x.fraction > 0 ? 1 : 0);
  if (mode == "round_prefer_floor") return x.floor + (x.fraction > 0.5 ? 1 : 0);
  if (mode == "round_prefer_ceil") return x.floor + (x.fraction >= 0.5 ? 1 : 0);
  throw_caller(ErrorCode::InvalidArgument, "unknown nearest_mode '{}'", mode);
}

double linear_weight(double distance) { return std::max(0.0, 1 - std::abs(distance)); }
double cubic_weight(double distance, double a) {
  const double x = std::abs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

ResizeTaps interpolation_taps(const graph::Node& node, const ResizeAxis& axis, const Coordinate& x) {
  const bool cubic = text(node, "mode") == "cubic";
  const bool antialias = integer(node, "antialias") != 0;
  const double squeeze = antialias ? std::min(axis.scale, 1.0) : 1.0;
  const double radius = (cubic ? 2 : 1) / squeeze;
  if (radius > 0x1p24) throw_caller(ErrorCode::LimitExceeded, "cannot shrink by a scale of {}", axis.scale);
  const double a = number(node, "cubic_coeff_a");
  ResizeTaps taps;
  taps.first = x.floor + static_cast<std::int64_t>(std::floor(-radius)) + 1;
  const std::int64_t last = x.floor + static_cast<std::int64_t>(std::ceil(radius));
  double sum = 0;
  for (std::int64_t i = taps.first; i <= last; ++i) {
    const double distance = (static_cast<double>(i - x.floor) - x.fraction) * squeeze;
    double weight = cubic ? cubic_weight(distance, a) : linear_weight(distance);
    if (integer(node, "exclude_outside") != 0 && (i < 0 || i >= axis.input)) weight = 0;
    taps.weights.push_back(weight);
    sum += weight;
  }
  for (double& weight : taps.weights) weight /= sum;
  return taps;
}

}  // namespace

std::vector<ResizeAxis> resize_axes(const graph::Node& node, const Extents& input,
                                    const ResizeOperands& operands) {
  const auto& [roi, scales, sizes] = operands;
  const auto rank = static_cast<std::int64_t>(input.size());
  std::vector<ResizeAxis> result;
  for (const std::int64_t extent : input)
    result.push_back({.input = extent, .output = extent, .scale_output = 1, .scale_input = 1});
  std::vector<std::size_t> axes;
  if (has(node, "axes")) {
    axis_flags(integers(node, "axes"), rank);
    for (const std::int64_t axis : integers(node, "axes")) axes.push_back(normalized_axis(axis, rank));
  } else {
    for (std::size_t axis = 0; axis < result.size(); ++axis) axes.push_back(axis);
  }
  if (sizes.empty() == scales.empty())
    throw_caller(ErrorCode::InvalidArgument, "exactly one of scales and sizes must be given");
  if (!scales.empty()) {
    if (scales.size() != axes.size())
      throw_caller(ErrorCode::ShapeMismatch, "expected {} scales, got {}", axes.size(), scales.size());
    for (std::size_t k = 0; k < axes.size(); ++k) {
      ResizeAxis& axis = result[axes[k]];
      if (!(scales[k] > 0) || std::isinf(scales[k]))
        throw_caller(ErrorCode::InvalidArgument, "a scale must be positive and finite, got {}", scales[k]);
      axis.output = convert<std::int64_t>(std::floor(static_cast<double>(axis.input) * scales[k]));
      axis.scale = scales[k];
      axis.scale_output = axis.scale_input = 0;
    }
  } else {
    if (sizes.size() != axes.size())
      throw_caller(ErrorCode::ShapeMismatch, "expected {} sizes, got {}", axes.size(), sizes.size());
    const std::string& policy = text(node, "keep_aspect_ratio_policy");
    // Under a policy, the axis with the smallest (or largest) scale sets that of all.
    std::size_t leader = 0;
    const auto scale = [&](std::size_t k) {
      return static_cast<double>(sizes[k]) / static_cast<double>(result[axes[k]].input);
    };
    for (std::size_t k = 0; k < axes.size(); ++k) {
      if (sizes[k] < 0)
        throw_caller(ErrorCode::InvalidArgument, "a size must not be negative, got {}", sizes[k]);
      if (policy == "not_smaller" ? scale(k) > scale(leader) : scale(k) < scale(leader)) leader = k;
    }
    const std::int64_t leader_input = axes.empty() ? 1 : result[axes[leader]].input;
    for (std::size_t k = 0; k < axes.size(); ++k) {
      ResizeAxis& axis = result[axes[k]];
      if (policy == "stretch") {
        axis.output = axis.scale_output = sizes[k];
        axis.scale_input = axis.input;
      } else if (policy == "not_larger" || policy == "not_smaller") {
        axis.scale_output = sizes[leader];
        axis.scale_input = leader_input;
        axis.output =
            convert<std::int64_t>(std::floor(scale(leader) * static_cast<double>(axis.input) + 0.5));
      } else {
        throw_caller(ErrorCode::InvalidArgument, "unknown keep_aspect_ratio_policy '{}'", policy);
      }
      axis.scale = static_cast<double>(axis.scale_output) / static_cast<double>(axis.scale_input);
    }
  }
  if (!roi.empty() && text(node, "coordinate_transformation_mode") == "tf_crop_and_resize") {
    if (roi.size() != 2 * axes.size())
      throw_caller(ErrorCode::ShapeMismatch, "expected {} elements of roi, got {}", 2 * axes.size(),
                   roi.size());
    for (std::size_t k = 0; k < axes.size(); ++k) {
      result[axes[k]].roi_start = roi[k];
      result[axes[k]].roi_end = roi[k + axes.size()];
    }
  }
  for (const ResizeAxis& axis : result) {
    if (axis.input == 0 && axis.output != 0)
      throw_caller(ErrorCode::ShapeMismatch, "cannot enlarge an empty axis");
  }
  return result;
}

std::vector<ResizeTaps> resize_taps(const graph::Node& node, const ResizeAxis& axis) {
  const std::string& transform = text(node, "coordinate_transformation_mode");
  const std::string& mode = text(node, "mode");
  if (mode != "nearest" && mode != "linear" && mode != "cubic")
    throw_caller(ErrorCode::InvalidArgument, "unknown mode '{}'", mode);
  const bool crops = transform == "tf_crop_and_resize";
  const bool still = axis.output == axis.input && axis.scale == 1 && !crops;
  std::vector<ResizeTaps> result;
  for (std::int64_t o = 0; o < axis.output; ++o) {
    const Coordinate place = still ? Coordinate{o, 0} : source_of(axis, transform, o);
    ResizeTaps taps{.first = o, .weights = {1}};
    if (mode == "nearest") {
      taps.first =
          std::clamp<std::int64_t>(nearest_index(place, text(node, "nearest_mode")), 0, axis.input - 1);
    } else if (!still) {
      taps = interpolation_taps(node, axis, place);
    }
    taps.outside = crops && (place.value() < 0 || place.value() > static_cast<double>(axis.input - 1));
    result.push_back(std::move(taps));
  }
  return result;
}

}  // namespace kiln::reference
