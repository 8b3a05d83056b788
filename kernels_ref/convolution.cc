// Convolutions of 1 to 3 spatial axes: a matrix product of the weights with windows that are gathered a block
// of output positions at a time. A tap in the padding contributes nothing: its gathered 0 does no harm as
// long as the weights are finite; otherwise plain loops skip such taps.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/element.h"
#include "kernels_ref/gemm.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"
#include "kernels_ref/window.h"

namespace kiln::reference {
namespace {

// Shapes of a convolution with three spatial axes, the first ones trivial where there are fewer.
struct Convolution {
  std::int64_t batch, groups;
  std::int64_t inputs, outputs;  // channels of one group
  std::array<WindowAxis, 3> axes;
  Extents output;  // of the result

  std::int64_t taps() const { return axes[0].kernel * axes[1].kernel * axes[2].kernel; }
  std::int64_t input_size() const { return axes[0].input * axes[1].input * axes[2].input; }
  std::int64_t output_size() const { return axes[0].output * axes[1].output * axes[2].output; }
};

void expect_spatial(const Tensor& x, const Tensor& w) {
  if (x.rank() < 3 || x.rank() > 5 || w.rank() != x.rank()) {
    throw_caller(ErrorCode::ShapeMismatch,
                 "expected input and weights with 1 to 3 spatial axes each, got {} and {}",
                 to_string(x.extents()), to_string(w.extents()));
  }
}

std::array<WindowAxis, 3> three_axes(const std::vector<WindowAxis>& axes) {
  std::array<WindowAxis, 3> result;
  std::copy(axes.begin(), axes.end(), result.end() - static_cast<std::ptrdiff_t>(axes.size()));
  return result;
}

Convolution describe(const Call& call, const Tensor& x, const Tensor& w) {
  expect_spatial(x, w);
  const std::int64_t groups = integer(call.node, "group");
  const Extents &xe = x.extents(), &we = w.extents();
  if (groups <= 0 || we[0] % groups != 0 || xe[1] != we[1] * groups) {
    throw_caller(ErrorCode::ShapeMismatch, "input of {} does not fit weights of {} in {} groups",
                 to_string(xe), to_string(we), groups);
  }
  const std::vector<WindowAxis> axes =
      window_axes(call.node, std::span(xe).subspan(2), std::span(we).subspan(2), false);
  Convolution conv{.batch = xe[0],
                   .groups = groups,
                   .inputs = we[1],
                   .outputs = we[0] / groups,
                   .axes = three_axes(axes),
                   .output = {xe[0], we[0]}};
  for (const WindowAxis& axis : axes) conv.output.push_back(axis.output);
  return conv;
}

// Output positions along the innermost axis whose tap k lies inside the input: [first, second).
std::pair<std::int64_t, std::int64_t> inside_range(const WindowAxis& axis, std::int64_t k) {
  const std::int64_t shift = k * axis.dilation - axis.pad_begin;
  const std::int64_t begin = std::clamp<std::int64_t>(ceil_divide(-shift, axis.stride), 0, axis.output);
  const std::int64_t end =
      std::clamp<std::int64_t>(floor_divide(axis.input - 1 - shift, axis.stride) + 1, begin, axis.output);
  return {begin, end};
}

// Writes, for `count` output positions from `position` on, the input element under tap `tap` of the channel
// at `channel`, 0 in the padding.
template <typename T>
void gather_window_row(const Convolution& conv, const T* channel, std::int64_t tap, std::int64_t position,
                       std::int64_t count, T* to) {
  const auto& [a, b, c] = conv.axes;
  const std::int64_t kc = tap % c.kernel, kb = tap / c.kernel % b.kernel, ka = tap / c.kernel / b.kernel;
  const auto [inside_begin, inside_end] = inside_range(c, kc);
  while (count > 0) {
    const std::int64_t oc = position % c.output, ob = position / c.output % b.output;
    const std::int64_t oa = position / c.output / b.output;
    const std::int64_t run = std::min(count, c.output - oc);
    const std::int64_t ia = a.at(oa, ka), ib = b.at(ob, kb);
    if (!a.inside(ia) || !b.inside(ib)) {
      std::fill_n(to, run, T{0});
    } else {
      const T* line = channel + (ia * b.input + ib) * c.input;
      const std::int64_t begin = std::clamp(inside_begin, oc, oc + run),
                         end = std::clamp(inside_end, begin, oc + run);
      std::fill(to, to + (begin - oc), T{0});
      const T* from = line + c.at(begin, kc);
      if (c.stride == 1) {
        std::copy_n(from, end - begin, to + (begin - oc));
      } else {
        for (std::int64_t i = 0; i < end - begin; ++i) to[begin - oc + i] = from[i * c.stride];
      }
      std::fill(to + (end - oc), to + run, T{0});
    }
    to += run;
    position += run;
    count -= run;
  }
}

template <typename T>
void convolve_as_product(const Call& call, const Convolution& conv, const T* x, const T* w, T* y) {
  const std::int64_t depth = conv.inputs * conv.taps();
  matrix_product<T>(
      call, conv.batch * conv.groups, conv.outputs, conv.output_size(), depth,
      [&](std::int64_t n) { return Matrix<T>{w + n % conv.groups * conv.outputs * depth, depth, 1}; },
      [&](std::int64_t n, std::int64_t k, std::int64_t position, std::int64_t count, T* to) {
        const T* channel = x + (n * conv.inputs + k / conv.taps()) * conv.input_size();
        gather_window_row(conv, channel, k % conv.taps(), position, count, to);
      },
      [&](std::int64_t n) { return y + n * conv.outputs * conv.output_size(); });
}

template <typename T>
void convolve_plainly(const Call& call, const Convolution& conv, const T* x, const T* w, T* y) {
  const auto& [a, b, c] = conv.axes;
  const std::int64_t depth = conv.inputs * conv.taps();
  for_range(call, conv.batch * conv.groups * conv.outputs, conv.output_size() * depth,
            [&](std::int64_t begin, std::int64_t end) {
              for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t group = row / conv.outputs;  // of all batches
                const T* image = x + group * conv.inputs * conv.input_size();
                const T* weights = w + row % (conv.groups * conv.outputs) * depth;
                T* to = y + row * conv.output_size();
                for (std::int64_t position = 0; position < conv.output_size(); ++position) {
                  const std::int64_t oc = position % c.output, ob = position / c.output % b.output;
                  const std::int64_t oa = position / c.output / b.output;
                  T total{0};
                  for (std::int64_t k = 0; k < depth; ++k) {
                    const std::int64_t tap = k % conv.taps(), channel = k / conv.taps();
                    const std::int64_t ia = a.at(oa, tap / c.kernel / b.kernel),
                                       ib = b.at(ob, tap / c.kernel % b.kernel);
                    const std::int64_t ic = c.at(oc, tap % c.kernel);
                    if (!a.inside(ia) || !b.inside(ib) || !c.inside(ic)) continue;
                    total += weights[k] * image[((channel * a.input + ia) * b.input + ib) * c.input + ic];
                  }
                  to[position] = total;
                }
              }
            });
}

template <typename T>
void add_bias(Tensor& y, const Tensor& bias, std::int64_t channels) {
  expect_extents("B", bias, {channels});
  const std::int64_t inner = product(y.extents(), 2, y.extents().size());
  T* to = y.as_mutable<T>().data();
  for (std::int64_t row = 0; row < y.extents()[0] * channels; ++row) {
    const T value = bias.as<T>()[static_cast<std::size_t>(row % channels)];
    for (std::int64_t i = 0; i < inner; ++i) *to++ += value;
  }
}

void expect_dtypes(const Call& call) {
  for (std::size_t i = 1; i < 3; ++i) {
    if (call.has_input(i) && call.input(i).dtype() != call.input(0).dtype()) {
      throw_caller(ErrorCode::TypeMismatch, "operands must have one type, got {} and {}",
                   name(call.input(0).dtype()), name(call.input(i).dtype()));
    }
  }
}

// x - zero point as i32. A zero point with an element per output channel belongs to the weights.
Tensor centred(const Call& call, const Tensor& x, std::size_t zero_index) {
  Tensor wide = converted(call, x, DType::I32);
  if (!call.has_input(zero_index)) return wide;
  const std::vector<std::int64_t> zeros = call.input(zero_index).to_integers();
  const auto count = static_cast<std::int64_t>(zeros.size());
  if (count != 1 && (x.rank() == 0 || count != x.extents()[0])) {
    throw_caller(ErrorCode::ShapeMismatch, "{} zero points for {}", count, to_string(x.extents()));
  }
  const std::int64_t inner = count == 1 ? x.elements() : x.elements() / count;
  std::int32_t* to = wide.as_mutable<std::int32_t>().data();
  for (std::int64_t i = 0; i < x.elements(); ++i)
    to[i] -= static_cast<std::int32_t>(zeros[static_cast<std::size_t>(i / inner)]);
  return wide;
}

}  // namespace

void conv(Call& call) {
  const Tensor &x = call.input(0), &w = call.input(1);
  if (computed_in_f32(call, x.dtype(), conv)) return;
  expect_dtypes(call);
  const Convolution shape = describe(call, x, w);
  Tensor& y = call.output(0, x.dtype(), shape.output);
  dispatch(WideFloats{}, x.dtype(), [&]<typename T>() {
    const auto weights = w.as<T>();
    const bool finite =
        std::all_of(weights.begin(), weights.end(), [](T value) { return std::isfinite(value); });
    T* to = y.as_mutable<T>().data();
    if (finite)
      convolve_as_product(call, shape, x.as<T>().data(), weights.data(), to);
    else
      convolve_plainly(call, shape, x.as<T>().data(), weights.data(), to);
    if (call.has_input(2)) add_bias<T>(y, call.input(2), shape.groups * shape.outputs);
  });
}

void conv_integer(Call& call) {
  const Tensor x = centred(call, call.input(0), 2), w = centred(call, call.input(1), 3);
  const Convolution shape = describe(call, x, w);
  Tensor& y = call.output(0, DType::I32, shape.output);
  convolve_as_product(call, shape, reinterpret_cast<const std::uint32_t*>(x.data()),
                      reinterpret_cast<const std::uint32_t*>(w.data()),
                      reinterpret_cast<std::uint32_t*>(y.mutable_data()));
}

void conv_transpose(Call& call) {
  const Tensor &x = call.input(0), &w = call.input(1);
  if (computed_in_f32(call, x.dtype(), conv_transpose)) return;
  expect_dtypes(call);
  expect_spatial(x, w);
  const Extents &xe = x.extents(), &we = w.extents();
  const std::int64_t groups = integer(call.node, "group");
  if (groups <= 0 || xe[1] != we[0] || xe[1] % groups != 0) {
    throw_caller(ErrorCode::ShapeMismatch, "input of {} does not fit weights of {} in {} groups",
                 to_string(xe), to_string(we), groups);
  }
  // Axes of the convolution whose gradient this is: its output is our input.
  const std::size_t rank = xe.size() - 2;
  const auto strides = window_attribute(call.node, "strides", rank, 1, 1);
  const auto dilations = window_attribute(call.node, "dilations", rank, 1, 1);
  const auto pads = window_attribute(call.node, "pads", 2 * rank, 0, 0);
  const auto extra = window_attribute(call.node, "output_padding", rank, 0, 0);
  const std::string& auto_pad = text(call.node, "auto_pad");
  std::vector<std::int64_t> wanted;
  if (has(call.node, "output_shape")) {
    const auto given = integers(call.node, "output_shape");
    // Some exporters list batch and channels too.
    wanted.assign(given.end() - static_cast<std::ptrdiff_t>(std::min(given.size(), rank)), given.end());
    if (wanted.size() != rank)
      throw_caller(ErrorCode::InvalidArgument, "output_shape must have {} elements", rank);
  }
  std::vector<WindowAxis> axes(rank);
  Convolution shape{.batch = xe[0],
                    .groups = groups,
                    .inputs = we[1],
                    .outputs = xe[1] / groups,
                    .axes = {},
                    .output = {xe[0], we[1] * groups}};
  for (std::size_t k = 0; k < rank; ++k) {
    WindowAxis& axis = axes[k];
    axis = {.output = xe[k + 2], .kernel = we[k + 2], .stride = strides[k], .dilation = dilations[k]};
    const std::int64_t full = axis.stride * (axis.output - 1) + extra[k] + axis.reach();
    const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
    if (!wanted.empty() || same) {
      axis.input = wanted.empty() ? axis.output * axis.stride : wanted[k];
      const std::int64_t total = full - axis.input;
      axis.pad_begin = auto_pad == "SAME_UPPER" ? floor_divide(total, 2) : total - floor_divide(total, 2);
    } else {
      axis.pad_begin = auto_pad == "VALID" ? 0 : pads[k];
      axis.input = full - (auto_pad == "VALID" ? 0 : pads[k] + pads[k + rank]);
    }
    if (axis.input < 0) {
      throw_caller(ErrorCode::ShapeMismatch, "the padding of axis {} takes {} elements more than there are",
                   2 + k, -axis.input);
    }
    shape.output.push_back(axis.input);
  }
  shape.axes = three_axes(axes);
  Tensor& y = call.output(0, x.dtype(), shape.output);
  const std::int64_t depth = shape.inputs * shape.taps(), positions = shape.output_size();
  const auto& [a, b, c] = shape.axes;
  dispatch(WideFloats{}, x.dtype(), [&]<typename T>() {
    T* to = y.as_mutable<T>().data();
    std::fill_n(to, y.elements(), T{0});
    std::vector<T> columns(static_cast<std::size_t>(depth * positions));
    for (std::int64_t n = 0; n < shape.batch * groups; ++n) {
      // columns[channel, tap, position] = weights^T * input, then each tap is added where it lands.
      const T* image = x.as<T>().data() + n * shape.outputs * positions;
      const T* weights = w.as<T>().data() + n % groups * shape.outputs * depth;
      matrix_product<T>(
          call, 1, depth, positions, shape.outputs,
          [&](std::int64_t) { return Matrix<T>{weights, 1, depth}; },
          [&](std::int64_t, std::int64_t k, std::int64_t column, std::int64_t count, T* row) {
            copy_matrix_row(Matrix<T>{image, positions, 1}, k, column, count, row);
          },
          [&](std::int64_t) { return columns.data(); });
      for_range(call, shape.inputs, shape.taps() * positions, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin * shape.taps(); row < end * shape.taps(); ++row) {
          T* channel = to + (n * shape.inputs + row / shape.taps()) * shape.input_size();
          const std::int64_t tap = row % shape.taps();
          const T* from = columns.data() + row * positions;
          for (std::int64_t position = 0; position < positions; ++position) {
            const std::int64_t ic = c.at(position % c.output, tap % c.kernel);
            const std::int64_t ib = b.at(position / c.output % b.output, tap / c.kernel % b.kernel);
            const std::int64_t ia = a.at(position / c.output / b.output, tap / c.kernel / b.kernel);
            if (!a.inside(ia) || !b.inside(ib) || !c.inside(ic)) continue;
            channel[(ia * b.input + ib) * c.input + ic] += from[position];
          }
        }
      });
    }
    if (call.has_input(2)) add_bias<T>(y, call.input(2), shape.groups * shape.inputs);
  });
}

}  // namespace kiln::reference
