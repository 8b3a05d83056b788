// Convolution whose taps read the input at learned places, between elements by linear interpolation.
#include <cmath>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/element.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"
#include "kernels_ref/window.h"

namespace kiln::reference {
namespace {

struct Deformation {
  std::int64_t batch, inputs, outputs;  // channels
  std::int64_t groups, offset_groups;
  std::int64_t input_size, output_size, taps;
  std::vector<WindowAxis> axes;
  Extents output;  // of the result
};

std::vector<WindowAxis> window_of(const Call& call, const Tensor& x, const Tensor& w) {
  const std::size_t rank = x.extents().size() - 2;
  if (has(call.node, "kernel_shape")) {
    const auto given = window_attribute(call.node, "kernel_shape", rank, 1, 1);
    const Extents kernel(w.extents().begin() + 2, w.extents().end());
    if (given != kernel) {
      throw_caller(ErrorCode::ShapeMismatch, "kernel_shape {} differs from the weights' {}", to_string(given),
                   to_string(kernel));
    }
  }
  const auto strides = window_attribute(call.node, "strides", rank, 1, 1);
  const auto dilations = window_attribute(call.node, "dilations", rank, 1, 1);
  const auto pads = window_attribute(call.node, "pads", 2 * rank, 0, 0);
  std::vector<WindowAxis> axes(rank);
  for (std::size_t k = 0; k < rank; ++k) {
    axes[k] = {.input = x.extents()[2 + k],
               .kernel = w.extents()[2 + k],
               .stride = strides[k],
               .dilation = dilations[k],
               .pad_begin = pads[k],
               .pad_end = pads[rank + k]};
    const std::int64_t room = axes[k].input + pads[k] + pads[rank + k] - axes[k].reach();
    axes[k].output = floor_divide(room, axes[k].stride) + 1;
    expect_positions(axes[k], 2 + k);
  }
  return axes;
}

Deformation describe(const Call& call, const Tensor& x, const Tensor& w) {
  expect_rank("X", x, 3);
  if (w.rank() != x.rank()) {
    throw_caller(ErrorCode::ShapeMismatch, "expected input and weights of one rank, got {} and {}",
                 to_string(x.extents()), to_string(w.extents()));
  }
  const std::size_t rank = x.extents().size() - 2;
  Deformation d{.batch = x.extents()[0],
                .inputs = x.extents()[1],
                .outputs = w.extents()[0],
                .groups = integer(call.node, "group"),
                .offset_groups = integer(call.node, "offset_group"),
                .input_size = product(x.extents(), 2, rank + 2),
                .output_size = 1,
                .taps = product(w.extents(), 2, rank + 2),
                .axes = window_of(call, x, w),
                .output = {x.extents()[0], w.extents()[0]}};
  if (d.groups < 1 || d.outputs % d.groups != 0 || d.inputs != w.extents()[1] * d.groups) {
    throw_caller(ErrorCode::ShapeMismatch, "input of {} does not fit weights of {} in {} groups",
                 to_string(x.extents()), to_string(w.extents()), d.groups);
  }
  if (d.offset_groups < 1 || d.inputs % d.offset_groups != 0) {
    throw_caller(ErrorCode::ShapeMismatch, "offset_group must divide the {} channels, got {}", d.inputs,
                 d.offset_groups);
  }
  for (const WindowAxis& axis : d.axes) {
    d.output.push_back(axis.output);
    d.output_size *= axis.output;
  }
  Extents field = {d.batch, d.offset_groups * d.taps * static_cast<std::int64_t>(rank)};
  field.insert(field.end(), d.output.begin() + 2, d.output.end());
  expect_extents("offset", call.input(2), field);
  field[1] = d.offset_groups * d.taps;
  if (call.has_input(4)) expect_extents("mask", call.input(4), field);
  if (call.has_input(3)) expect_extents("B", call.input(3), {d.outputs});
  return d;
}

// An element of a plane and its part in a sample.
struct Part {
  std::int64_t offset;
  double weight;
};

// Linear interpolation at `at`, with zeros outside the plane. A place that is not finite has no parts.
void parts_at(const std::vector<WindowAxis>& axes, const std::vector<double>& at, std::vector<Part>& parts) {
  parts.assign(1, {0, 1.0});
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const std::int64_t extent = axes[k].input;
    if (!(at[k] > -1 && at[k] < static_cast<double>(extent))) {
      parts.clear();
      return;
    }
    const double below = std::floor(at[k]), rest = at[k] - below;
    const auto index = static_cast<std::int64_t>(below);
    const std::size_t count = parts.size();
    std::vector<Part> next;
    for (std::size_t i = 0; i < count; ++i) {
      if (index >= 0) next.push_back({parts[i].offset * extent + index, parts[i].weight * (1 - rest)});
      if (index + 1 < extent && rest > 0) {
        next.push_back({parts[i].offset * extent + index + 1, parts[i].weight * rest});
      }
    }
    parts = std::move(next);
  }
}

template <typename T>
void convolve(Call& call, const Deformation& d, const Tensor& x, const Tensor& w, Tensor& y) {
  const std::size_t rank = d.axes.size();
  const T *offset = call.input(2).as<T>().data(), *weights = w.as<T>().data();
  const T* mask = call.has_input(4) ? call.input(4).as<T>().data() : nullptr;
  const T* bias = call.has_input(3) ? call.input(3).as<T>().data() : nullptr;
  T* to = y.as_mutable<T>().data();
  const std::int64_t depth = d.inputs / d.groups, per_group = d.outputs / d.groups;
  const std::int64_t per_offset_group = d.inputs / d.offset_groups;
  const std::int64_t cost = d.taps * (d.inputs * 8 + d.outputs * depth);
  for_range(call, d.batch * d.output_size, cost, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> at(rank), samples(static_cast<std::size_t>(d.inputs * d.taps));
    std::vector<Part> parts;
    Extents position(rank), tap(rank);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t batch = i / d.output_size, point = i % d.output_size;
      std::int64_t rest = point;
      for (std::size_t k = rank; k-- > 0; rest /= d.axes[k].output) position[k] = rest % d.axes[k].output;
      for (std::int64_t g = 0; g < d.offset_groups; ++g) {
        for (std::int64_t t = 0; t < d.taps; ++t) {
          rest = t;
          for (std::size_t k = rank; k-- > 0; rest /= d.axes[k].kernel) tap[k] = rest % d.axes[k].kernel;
          const std::int64_t field = (batch * d.offset_groups + g) * d.taps + t;
          for (std::size_t k = 0; k < rank; ++k) {
            const std::int64_t channel =
                field * static_cast<std::int64_t>(rank) + static_cast<std::int64_t>(k);
            at[k] = static_cast<double>(d.axes[k].at(position[k], tap[k])) +
                    static_cast<double>(offset[channel * d.output_size + point]);
          }
          parts_at(d.axes, at, parts);
          const double factor =
              mask == nullptr ? 1.0 : static_cast<double>(mask[field * d.output_size + point]);
          for (std::int64_t c = g * per_offset_group; c < (g + 1) * per_offset_group; ++c) {
            const T* plane = x.as<T>().data() + (batch * d.inputs + c) * d.input_size;
            double sum = 0;
            for (const Part& part : parts) sum += part.weight * static_cast<double>(plane[part.offset]);
            samples[static_cast<std::size_t>(c * d.taps + t)] = sum * factor;
          }
        }
      }
      for (std::int64_t o = 0; o < d.outputs; ++o) {
        const double* from = samples.data() + o / per_group * depth * d.taps;
        double sum = bias == nullptr ? 0 : static_cast<double>(bias[o]);
        for (std::int64_t k = 0; k < depth * d.taps; ++k) {
          sum += from[k] * static_cast<double>(weights[o * depth * d.taps + k]);
        }
        to[(batch * d.outputs + o) * d.output_size + point] = static_cast<T>(sum);
      }
    }
  });
}

}  // namespace

void deform_conv(Call& call) {
  const Tensor &x = call.input(0), &w = call.input(1);
  if (computed_in_f32(call, x.dtype(), deform_conv)) return;
  const Deformation deformation = describe(call, x, w);
  Tensor& y = call.output(0, x.dtype(), deformation.output);
  if (y.elements() == 0) return;
  dispatch(WideFloats{}, x.dtype(), [&]<typename T>() { convolve<T>(call, deformation, x, w, y); });
}

}  // namespace kiln::reference
