// Softmax, its logarithm, and the one-hot of the maximum, along one axis. Sums are in f64. A row whose
// greatest element is -inf (all masked) or +inf gives NaN.
#include <cmath>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/broadcast.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {
namespace {

// Calls row(input, output, count, stride) for every line along the axis.
template <typename Row>
void for_rows(Call& call, Kernel self, Row row) {
  const Tensor& x = call.input(0);
  if (computed_in_f32(call, x.dtype(), self)) return;
  const Tensor lines = x.rank() == 0 ? x.reshaped({1}) : x;
  const std::size_t axis = normalized_axis(integer(call.node, "axis"), lines.rank());
  const std::int64_t outer = product(lines.extents(), 0, axis), count = lines.extents()[axis];
  const std::int64_t inner = product(lines.extents(), axis + 1, lines.extents().size());
  Tensor& y = call.output(0, x.dtype(), x.extents());
  if (y.elements() == 0) return;
  dispatch(WideFloats{}, x.dtype(), [&]<typename T>() {
    const T* from = x.as<T>().data();
    T* to = y.as_mutable<T>().data();
    for_range(call, outer * inner, 20 * count, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t offset = i / inner * count * inner + i % inner;
        row(from + offset, to + offset, count, inner);
      }
    });
  });
}

template <typename T>
T greatest(const T* x, std::int64_t count, std::int64_t stride) {
  T result = x[0];
  for (std::int64_t i = 1; i < count; ++i) result = larger(result, x[i * stride]);
  return result;
}

}  // namespace

void softmax(Call& call) {
  for_rows(call, softmax, []<typename T>(const T* x, T* y, std::int64_t count, std::int64_t stride) {
    const T peak = greatest(x, count, stride);
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const T e = std::exp(x[i * stride] - peak);
      y[i * stride] = e;
      sum += e;
    }
    for (std::int64_t i = 0; i < count; ++i) y[i * stride] = static_cast<T>(y[i * stride] / sum);
  });
}
void log_softmax(Call& call) {
  for_rows(call, log_softmax, []<typename T>(const T* x, T* y, std::int64_t count, std::int64_t stride) {
    const T peak = greatest(x, count, stride);
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += std::exp(static_cast<double>(x[i * stride]) - peak);
    const double log_sum = std::log(sum);
    for (std::int64_t i = 0; i < count; ++i) {
      y[i * stride] = static_cast<T>(static_cast<double>(x[i * stride]) - peak - log_sum);
    }
  });
}
void hardmax(Call& call) {
  for_rows(call, hardmax, []<typename T>(const T* x, T* y, std::int64_t count, std::int64_t stride) {
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < count && !is_nan_element(x[best * stride]); ++i) {
      const T value = x[i * stride];
      if (value > x[best * stride] || is_nan_element(value)) best = i;
    }
    for (std::int64_t i = 0; i < count; ++i) y[i * stride] = i == best ? T{1} : T{0};
  });
}

}  // namespace kiln::reference
