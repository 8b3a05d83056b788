// Losses. Sums are f64.
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/element.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {

// loss = -weight[target] * input[target]; the mean is over the weights. Targets that are ignore_index weigh
// 0.
void negative_log_likelihood_loss(Call& call) {
  const Tensor &x = call.input(0), &target = call.input(1);
  if (computed_in_f32(call, x.dtype(), negative_log_likelihood_loss)) return;
  expect_rank("input", x, 2);
  Extents extents = x.extents();
  const std::int64_t classes = extents[1];
  extents.erase(extents.begin() + 1);
  expect_extents("target", target, extents);
  expect_bounded(classes, "a list of the classes");
  std::vector<double> weights(static_cast<std::size_t>(classes), 1.0);
  if (call.has_input(2)) {
    expect_extents("weight", call.input(2), {classes});
    weights = to_numbers(call.input(2));
  }
  const std::string& reduction = text(call.node, "reduction");
  const bool none = reduction == "none", ignores = has(call.node, "ignore_index");
  const std::int64_t ignored = ignores ? integer(call.node, "ignore_index") : 0;
  const std::vector<std::int64_t> targets = target.to_integers();
  const std::int64_t inner = product(extents, 1, extents.size());
  Tensor& loss = call.output(0, x.dtype(), none ? extents : Extents());
  dispatch(WideFloats{}, x.dtype(), [&]<typename T>() {
    const T* from = x.as<T>().data();
    T* to = loss.as_mutable<T>().data();
    double total = 0, weight_total = 0;
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const std::int64_t chosen = targets[i];
      double value = 0;
      if (!ignores || chosen != ignored) {
        if (chosen < 0 || chosen >= classes) {
          throw_caller(ErrorCode::IndexOutOfRange, "target {} is none of the {} classes", chosen, classes);
        }
        const auto position = static_cast<std::int64_t>(i);
        const double weight = weights[static_cast<std::size_t>(chosen)];
        const std::int64_t row = position / inner * classes + chosen;
        value = -weight * static_cast<double>(from[row * inner + position % inner]);
        total += value;
        weight_total += weight;
      }
      if (none) to[i] = static_cast<T>(value);
    }
    if (!none) to[0] = static_cast<T>(reduction == "mean" ? total / weight_total : total);
  });
}

}  // namespace kiln::reference
