// Resize in all modes: per axis a table of source taps with weights, applied one axis after the other in f64.
// Where `sizes` is given, coordinates are exact rationals, so that rounding of nearest never hangs on an
// error of the scale.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/element.h"
#include "kernels_ref/index_map.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"

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

struct ResizeAxis {
  std::int64_t input, output;
  double scale = 1;
  std::int64_t scale_output = 0, scale_input = 0;  // scale as their exact quotient, 0 if not known so
  double roi_start = 0, roi_end = 1;

  bool exact() const {
    constexpr std::int64_t kSmall = std::int64_t{1} << 29;
    return scale_output > 0 && scale_output < kSmall && scale_input < kSmall && output < kSmall;
  }
};

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
    if (axis.exact()) return from_ratio(o * axis.scale_input, axis.scale_output);
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
  if (axis.exact() && shift == 0) {
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

// Source taps of one output index: consecutive indices from `first`, clamped to the axis when read.
struct Taps {
  std::int64_t first = 0;
  std::vector<double> weights;
};

Taps interpolation_taps(const Call& call, const ResizeAxis& axis, const Coordinate& x, bool cubic) {
  const bool antialias = integer(call.node, "antialias") != 0;
  const double squeeze = antialias ? std::min(axis.scale, 1.0) : 1.0;
  const double radius = (cubic ? 2 : 1) / squeeze;
  if (radius > 0x1p24) throw_caller(ErrorCode::LimitExceeded, "cannot shrink by a scale of {}", axis.scale);
  const double a = number(call.node, "cubic_coeff_a");
  Taps taps;
  taps.first = x.floor + static_cast<std::int64_t>(std::floor(-radius)) + 1;
  const std::int64_t last = x.floor + static_cast<std::int64_t>(std::ceil(radius));
  double sum = 0;
  for (std::int64_t i = taps.first; i <= last; ++i) {
    const double distance = (static_cast<double>(i - x.floor) - x.fraction) * squeeze;
    double weight = cubic ? cubic_weight(distance, a) : linear_weight(distance);
    if (integer(call.node, "exclude_outside") != 0 && (i < 0 || i >= axis.input)) weight = 0;
    taps.weights.push_back(weight);
    sum += weight;
  }
  for (double& weight : taps.weights) weight /= sum;
  return taps;
}

// Replaces one axis of a dense f64 tensor by its interpolation.
std::vector<double> interpolate(const Call& call, const std::vector<double>& from, Extents& extents,
                                std::size_t axis, const ResizeAxis& along, const std::vector<Taps>& taps) {
  const std::int64_t outer = product(extents, 0, axis), inner = product(extents, axis + 1, extents.size());
  extents[axis] = along.output;
  std::vector<double> to(static_cast<std::size_t>(element_count(extents)));
  for_range(call, outer * along.output, inner * 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const Taps& t = taps[static_cast<std::size_t>(row % along.output)];
      double* target = to.data() + row * inner;
      for (std::size_t k = 0; k < t.weights.size(); ++k) {
        if (t.weights[k] == 0) continue;
        const std::int64_t index =
            std::clamp<std::int64_t>(t.first + static_cast<std::int64_t>(k), 0, along.input - 1);
        const double* source = from.data() + (row / along.output * along.input + index) * inner;
        for (std::int64_t i = 0; i < inner; ++i) target[i] += t.weights[k] * source[i];
      }
    }
  });
  return to;
}

// Extents, scales and regions of every axis from the inputs.
std::vector<ResizeAxis> describe(const Call& call) {
  const Tensor& x = call.input(0);
  std::vector<ResizeAxis> result;
  for (const std::int64_t extent : x.extents())
    result.push_back({.input = extent, .output = extent, .scale_output = 1, .scale_input = 1});
  std::vector<std::size_t> axes;
  if (has(call.node, "axes")) {
    axis_flags(integers(call.node, "axes"), x.rank());
    for (const std::int64_t axis : integers(call.node, "axes"))
      axes.push_back(normalized_axis(axis, x.rank()));
  } else {
    for (std::size_t axis = 0; axis < result.size(); ++axis) axes.push_back(axis);
  }
  const bool has_sizes = call.has_input(3) && call.input(3).elements() > 0;
  const bool has_scales = call.has_input(2) && call.input(2).elements() > 0;
  if (has_sizes == has_scales)
    throw_caller(ErrorCode::InvalidArgument, "exactly one of scales and sizes must be given");
  if (has_scales) {
    const std::vector<double> scales = to_numbers(call.input(2));
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
    const std::vector<std::int64_t> sizes = call.input(3).to_integers();
    if (sizes.size() != axes.size())
      throw_caller(ErrorCode::ShapeMismatch, "expected {} sizes, got {}", axes.size(), sizes.size());
    const std::string& policy = text(call.node, "keep_aspect_ratio_policy");
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
  if (call.has_input(1) && call.input(1).elements() > 0 &&
      text(call.node, "coordinate_transformation_mode") == "tf_crop_and_resize") {
    const std::vector<double> roi = to_numbers(call.input(1));
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

}  // namespace

void resize(Call& call) {
  const Tensor& x = call.input(0);
  const std::vector<ResizeAxis> axes = describe(call);
  const std::string& mode = text(call.node, "mode");
  const std::string& transform = text(call.node, "coordinate_transformation_mode");
  const bool crops = transform == "tf_crop_and_resize";
  const double outside = number(call.node, "extrapolation_value");
  Extents extents;
  for (const ResizeAxis& axis : axes) extents.push_back(axis.output);
  Tensor& y = call.output(0, x.dtype(), extents);
  if (y.elements() == 0) return;  // whatever the other extents are
  // Per axis and output index: where it lies, and whether that is off the input.
  std::vector<std::vector<Coordinate>> places(axes.size());
  std::vector<std::vector<bool>> off(axes.size());
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const bool still = axes[k].output == axes[k].input && axes[k].scale == 1 && !crops;
    for (std::int64_t o = 0; o < axes[k].output; ++o) {
      places[k].push_back(still ? Coordinate{o, 0} : source_of(axes[k], transform, o));
      const double value = places[k].back().value();
      off[k].push_back(crops && (value < 0 || value > static_cast<double>(axes[k].input - 1)));
    }
  }
  if (mode == "nearest") {
    std::vector<std::vector<std::int64_t>> indices(axes.size());
    for (std::size_t k = 0; k < axes.size(); ++k) {
      for (std::size_t o = 0; o < places[k].size(); ++o) {
        const std::int64_t index = nearest_index(places[k][o], text(call.node, "nearest_mode"));
        indices[k].push_back(off[k][o] ? -1 : std::clamp<std::int64_t>(index, 0, axes[k].input - 1));
      }
    }
    if (x.dtype() == DType::String) return copy_mapped<std::string>(call, x, indices, "", y);
    return dispatch(NumbersAndBooleans{}, x.dtype(),
                    [&]<typename T>() { copy_mapped<T>(call, x, indices, convert<T>(outside), y); });
  }
  if (mode != "linear" && mode != "cubic")
    throw_caller(ErrorCode::InvalidArgument, "unknown mode '{}'", mode);
  std::vector<double> values = to_numbers(x);
  Extents current = x.extents();
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const bool still = axes[k].output == axes[k].input && axes[k].scale == 1 && !crops;
    if (still) continue;
    std::vector<Taps> taps;
    for (const Coordinate& place : places[k])
      taps.push_back(interpolation_taps(call, axes[k], place, mode == "cubic"));
    values = interpolate(call, values, current, k, axes[k], taps);
  }
  dispatch(Numbers{}, x.dtype(), [&]<typename T>() {
    T* to = y.as_mutable<T>().data();
    for (std::int64_t i = 0; i < y.elements(); ++i) {
      bool is_off = false;
      std::int64_t rest = i;
      for (std::size_t k = crops ? axes.size() : 0; k-- > 0; rest /= extents[k]) {
        is_off = is_off || off[k][static_cast<std::size_t>(rest % extents[k])];
      }
      to[i] = convert<T>(is_off ? outside : values[static_cast<std::size_t>(i)]);
    }
  });
}

}  // namespace kiln::reference
