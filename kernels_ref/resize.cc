// Resize in all modes: the taps of one axis after the other, in f64.
#include <algorithm>
#include <string>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/element.h"
#include "kernels_ref/index_map.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"
#include "kernels_ref/resize_taps.h"

namespace kiln::reference {
namespace {

// Replaces one axis of a dense f64 tensor by its interpolation.
std::vector<double> interpolate(const Call& call, const std::vector<double>& from, Extents& extents,
                                std::size_t axis, const ResizeAxis& along,
                                const std::vector<ResizeTaps>& taps) {
  const std::int64_t outer = product(extents, 0, axis), inner = product(extents, axis + 1, extents.size());
  extents[axis] = along.output;
  std::vector<double> to(static_cast<std::size_t>(element_count(extents)));
  for_range(call, outer * along.output, inner * 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const ResizeTaps& t = taps[static_cast<std::size_t>(row % along.output)];
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

}  // namespace

void resize(Call& call) {
  const Tensor& x = call.input(0);
  ResizeOperands operands;
  if (call.has_input(1)) operands.roi = to_numbers(call.input(1));
  if (call.has_input(2)) operands.scales = to_numbers(call.input(2));
  if (call.has_input(3)) operands.sizes = call.input(3).to_integers();
  const std::vector<ResizeAxis> axes = resize_axes(call.node, x.extents(), operands);
  const double outside = number(call.node, "extrapolation_value");
  Extents extents;
  for (const ResizeAxis& axis : axes) extents.push_back(axis.output);
  Tensor& y = call.output(0, x.dtype(), extents);
  if (y.elements() == 0) return;  // whatever the other extents are
  std::vector<std::vector<ResizeTaps>> taps;
  for (const ResizeAxis& axis : axes) taps.push_back(resize_taps(call.node, axis));
  if (text(call.node, "mode") == "nearest") {
    std::vector<std::vector<std::int64_t>> indices(axes.size());
    for (std::size_t k = 0; k < axes.size(); ++k) {
      for (const ResizeTaps& t : taps[k]) indices[k].push_back(t.outside ? -1 : t.first);
    }
    if (x.dtype() == DType::String) return copy_mapped<std::string>(call, x, indices, "", y);
    return dispatch(NumbersAndBooleans{}, x.dtype(),
                    [&]<typename T>() { copy_mapped<T>(call, x, indices, convert<T>(outside), y); });
  }
  std::vector<double> values = to_numbers(x);
  Extents current = x.extents();
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const bool still =
        axes[k].output == axes[k].input &&
        std::ranges::all_of(taps[k], [](const ResizeTaps& t) { return t.weights.size() == 1; });
    if (!still) values = interpolate(call, values, current, k, axes[k], taps[k]);
  }
  dispatch(Numbers{}, x.dtype(), [&]<typename T>() {
    T* to = y.as_mutable<T>().data();
    for (std::int64_t i = 0; i < y.elements(); ++i) {
      bool is_off = false;
      std::int64_t rest = i;
      for (std::size_t k = axes.size(); k-- > 0; rest /= extents[k]) {
        is_off = is_off || taps[k][static_cast<std::size_t>(rest % extents[k])].outside;
      }
      to[i] = convert<T>(is_off ? outside : values[static_cast<std::size_t>(i)]);
    }
  });
}

}  // namespace kiln::reference
