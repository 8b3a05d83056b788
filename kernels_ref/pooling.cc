// Pooling over windows of any number of spatial axes. Taps in the padding take no part, except in the divisor
// of an average that counts them.
#include <cmath>
#include <limits>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/broadcast.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"
#include "kernels_ref/window.h"

namespace kiln::reference {
namespace {

struct Pooling {
  std::vector<WindowAxis> axes;
  Extents output;                        // of the result
  std::int64_t planes;                   // batch * channels
  std::int64_t input_size, output_size;  // of one plane
};

Pooling describe(const Call& call) {
  const Tensor& x = call.input(0);
  expect_rank("X", x, 3);
  const auto spatial = std::span(x.extents()).subspan(2);
  Pooling pooling{.axes = window_axes(call.node, spatial, {}, integer(call.node, "ceil_mode") != 0),
                  .output = {x.extents()[0], x.extents()[1]},
                  .planes = x.extents()[0] * x.extents()[1],
                  .input_size = product(x.extents(), 2, x.extents().size()),
                  .output_size = 1};
  for (const WindowAxis& axis : pooling.axes) {
    pooling.output.push_back(axis.output);
    pooling.output_size *= axis.output;
  }
  return pooling;
}

// Calls visit(offset in the plane) for every tap inside the input of the window at `position` of the output.
template <typename Visit>
void over_window(const Pooling& pooling, std::int64_t position, Extents& output, Extents& tap, Visit visit) {
  const std::size_t rank = pooling.axes.size();
  output.resize(rank);
  tap.assign(rank, 0);
  for (std::size_t k = rank; k-- > 0; position /= pooling.axes[k].output)
    output[k] = position % pooling.axes[k].output;
  for (const WindowAxis& axis : pooling.axes) {
    if (axis.kernel == 0) return;
  }
  while (true) {
    std::int64_t offset = 0;
    bool inside = true;
    for (std::size_t k = 0; k < rank; ++k) {
      const std::int64_t i = pooling.axes[k].at(output[k], tap[k]);
      inside = inside && pooling.axes[k].inside(i);
      offset = offset * pooling.axes[k].input + i;
    }
    if (inside) visit(offset);
    std::size_t next = rank;  // the axis after the one to advance
    while (next > 0 && ++tap[next - 1] == pooling.axes[next - 1].kernel) tap[--next] = 0;
    if (next == 0) return;
  }
}

// Calls window(plane, position, visit_taps) for every output element.
template <typename Window>
void for_windows(const Call& call, const Pooling& pooling, Window window) {
  std::int64_t taps = 1;
  for (const WindowAxis& axis : pooling.axes) taps *= axis.kernel;
  for_range(call, pooling.planes * pooling.output_size, 4 * taps, [&](std::int64_t begin, std::int64_t end) {
    Extents output, tap;
    for (std::int64_t i = begin; i < end; ++i) {
      window(i / pooling.output_size, i % pooling.output_size,
             [&](auto visit) { over_window(pooling, i % pooling.output_size, output, tap, visit); });
    }
  });
}

// Taps of the window at `position` that lie in the input or its padding, but not beyond.
std::int64_t padded_taps(const Pooling& pooling, std::int64_t position) {
  std::int64_t count = 1;
  for (std::size_t k = pooling.axes.size(); k-- > 0;) {
    const WindowAxis& axis = pooling.axes[k];
    const std::int64_t start = position % axis.output * axis.stride;
    const std::int64_t room = axis.input + axis.pad_begin + axis.pad_end - start;
    count *= std::clamp<std::int64_t>(ceil_divide(room, axis.dilation), 0, axis.kernel);
    position /= axis.output;
  }
  return count;
}

// Row-major position in a plane as the column-major one.
std::int64_t column_major(const Pooling& pooling, std::int64_t offset) {
  std::int64_t result = 0, stride = 1;
  Extents index(pooling.axes.size());
  for (std::size_t k = index.size(); k-- > 0; offset /= pooling.axes[k].input)
    index[k] = offset % pooling.axes[k].input;
  for (std::size_t k = 0; k < index.size(); ++k) {
    result += index[k] * stride;
    stride *= pooling.axes[k].input;
  }
  return result;
}

std::int64_t checked_p(const Call& call) {
  const std::int64_t p = integer(call.node, "p");
  if (p <= 0) throw_caller(ErrorCode::InvalidArgument, "p must be positive, got {}", p);
  return p;
}

// Sum of |x|^p, one element at a time.
double power_of(double x, std::int64_t p) {
  return p == 2 ? x * x : std::pow(std::abs(x), static_cast<double>(p));
}
double root_of(double x, std::int64_t p) {
  return p == 2 ? std::sqrt(x) : std::pow(x, 1 / static_cast<double>(p));
}

// y[n, c, 1, ...] = finish(fold of step over the plane from `start`).
template <typename Step, typename Finish>
void pool_planes(Call& call, Kernel self, double start, Step step, Finish finish) {
  const Tensor& x = call.input(0);
  if (computed_in_f32(call, x.dtype(), self)) return;
  expect_rank("X", x, 2);
  Extents extents(x.extents().size(), 1);
  std::copy_n(x.extents().begin(), 2, extents.begin());
  const std::int64_t count = product(x.extents(), 2, x.extents().size());
  Tensor& y = call.output(0, x.dtype(), extents);
  dispatch(WideFloats{}, x.dtype(), [&]<typename T>() {
    for_range(call, y.elements(), count, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t plane = begin; plane < end; ++plane) {
        const T* from = x.as<T>().data() + plane * count;
        double total = start;
        for (std::int64_t i = 0; i < count; ++i) total = step(total, static_cast<double>(from[i]));
        y.as_mutable<T>().data()[plane] = static_cast<T>(finish(total, static_cast<double>(count)));
      }
    });
  });
}

}  // namespace

void max_pool(Call& call) {
  const Tensor& x = call.input(0);
  const Pooling pooling = describe(call);
  const bool columns_first = integer(call.node, "storage_order") != 0;
  call.output(0, x.dtype(), pooling.output);
  std::int64_t* indices = nullptr;
  if (call.wants(1)) indices = call.output(1, DType::I64, pooling.output).as_mutable<std::int64_t>().data();
  dispatch(decltype(join(Floats{}, Types<std::int8_t, std::uint8_t>{})){}, x.dtype(), [&]<typename T>() {
    using C = Compute<T>;
    using Limits = std::numeric_limits<C>;
    const C lowest = Limits::has_infinity ? -Limits::infinity() : Limits::min();
    T* to = call.outputs[0].tensor().as_mutable<T>().data();
    for_windows(call, pooling, [&](std::int64_t plane, std::int64_t position, auto taps) {
      const T* from = x.as<T>().data() + plane * pooling.input_size;
      C best = lowest;
      std::int64_t best_offset = -1;
      taps([&](std::int64_t offset) {
        const C value = static_cast<C>(from[offset]);
        if (best_offset < 0 || value > best || (is_nan_element(value) && !is_nan_element(best))) {
          best = value;
          best_offset = offset;
        }
      });
      const std::int64_t at = plane * pooling.output_size + position;
      to[at] = T(best);
      if (indices == nullptr) return;
      const std::int64_t offset =
          columns_first && best_offset >= 0 ? column_major(pooling, best_offset) : best_offset;
      indices[at] = best_offset < 0 ? -1 : plane * pooling.input_size + offset;
    });
  });
}

void average_pool(Call& call) {
  const Tensor& x = call.input(0);
  if (computed_in_f32(call, x.dtype(), average_pool)) return;
  const Pooling pooling = describe(call);
  const bool count_padding = integer(call.node, "count_include_pad") != 0;
  Tensor& y = call.output(0, x.dtype(), pooling.output);
  dispatch(WideFloats{}, x.dtype(), [&]<typename T>() {
    T* to = y.as_mutable<T>().data();
    for_windows(call, pooling, [&](std::int64_t plane, std::int64_t position, auto taps) {
      const T* from = x.as<T>().data() + plane * pooling.input_size;
      double sum = 0;
      std::int64_t count = 0;
      taps([&](std::int64_t offset) {
        sum += static_cast<double>(from[offset]);
        ++count;
      });
      if (count_padding) count = padded_taps(pooling, position);
      to[plane * pooling.output_size + position] = static_cast<T>(sum / static_cast<double>(count));
    });
  });
}

void lp_pool(Call& call) {
  const Tensor& x = call.input(0);
  if (computed_in_f32(call, x.dtype(), lp_pool)) return;
  const Pooling pooling = describe(call);
  const std::int64_t p = checked_p(call);
  Tensor& y = call.output(0, x.dtype(), pooling.output);
  dispatch(WideFloats{}, x.dtype(), [&]<typename T>() {
    T* to = y.as_mutable<T>().data();
    for_windows(call, pooling, [&](std::int64_t plane, std::int64_t position, auto taps) {
      const T* from = x.as<T>().data() + plane * pooling.input_size;
      double sum = 0;
      taps([&](std::int64_t offset) { sum += power_of(static_cast<double>(from[offset]), p); });
      to[plane * pooling.output_size + position] = static_cast<T>(root_of(sum, p));
    });
  });
}

void global_max_pool(Call& call) {
  pool_planes(
      call, global_max_pool, -std::numeric_limits<double>::infinity(),
      [](double a, double b) { return larger(a, b); }, [](double total, double) { return total; });
}
void global_average_pool(Call& call) {
  pool_planes(
      call, global_average_pool, 0, [](double a, double b) { return a + b; },
      [](double total, double count) { return total / count; });
}
void global_lp_pool(Call& call) {
  const std::int64_t p = checked_p(call);
  pool_planes(
      call, global_lp_pool, 0, [=](double a, double b) { return a + power_of(b, p); },
      [=](double total, double) { return root_of(total, p); });
}

}  // namespace kiln::reference
