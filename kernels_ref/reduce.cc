// Reductions over axes. Floats accumulate in f64 and round once; integers wrap.
#include <cmath>
#include <limits>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/broadcast.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {
namespace {

using Reducible = decltype(join(WideFloats{}, Integers{}));

struct ReducePlan {
  Extents output;      // of the result
  Nest<1> kept;        // where each result starts in the input
  Nest<1> reduced;     // the elements of one result
  std::int64_t count;  // of them
};

ReducePlan plan_reduce(const Call& call) {
  const Tensor& x = call.input(0);
  const std::vector<std::int64_t> axes = optional_integers(call, 1);
  std::vector<bool> reduced = axis_flags(axes, x.rank());
  if (axes.empty() && integer(call.node, "noop_with_empty_axes") == 0) reduced.assign(reduced.size(), true);
  const bool keep = integer(call.node, "keepdims") != 0;
  const Extents strides = dense_strides(x.extents());
  ReducePlan plan{};
  Nest<1> kept, inner;
  for (std::size_t axis = 0; axis < reduced.size(); ++axis) {
    Nest<1>& nest = reduced[axis] ? inner : kept;
    nest.extents.push_back(x.extents()[axis]);
    nest.strides[0].push_back(strides[axis]);
    if (!reduced[axis])
      plan.output.push_back(x.extents()[axis]);
    else if (keep)
      plan.output.push_back(1);
  }
  plan.kept = coalesce(kept);
  plan.reduced = coalesce(inner);
  plan.count = element_count(inner.extents);
  return plan;
}

// result = finish(all of step(accumulator, element), from `start`).
template <typename T, typename Accumulator, typename Step, typename Finish>
void reduce_as(Call& call, Accumulator start, Step step, Finish finish) {
  const ReducePlan plan = plan_reduce(call);
  const T* from = call.input(0).as<T>().data();
  T* to = call.output(0, kDType<T>, plan.output).template as_mutable<T>().data();
  const std::int64_t stride = plan.reduced.strides[0].back();
  for_range(call, element_count(plan.output), plan.count, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t at = begin;
    walk(plan.kept, begin, end, [&](const std::array<std::int64_t, 1>& kept, std::int64_t length) {
      for (std::int64_t k = 0; k < length; ++k) {
        const T* base = from + kept[0] + k * plan.kept.strides[0].back();
        Accumulator total = start;
        walk(plan.reduced, 0, plan.count, [&](const std::array<std::int64_t, 1>& inner, std::int64_t run) {
          for (std::int64_t i = 0; i < run; ++i) {
            total =
                step(total, static_cast<Accumulator>(static_cast<Compute<T>>(base[inner[0] + i * stride])));
          }
        });
        to[at++] = T(finish(total, plan.count));
      }
    });
  });
}

// Sums and products: floats in f64, integers in their own wrapping arithmetic.
template <typename Step, typename Finish>
void reduce_sum_like(Call& call, Kernel self, int start, Step step, Finish finish) {
  if (computed_in_f32(call, call.input(0).dtype(), self)) return;
  dispatch(Reducible{}, call.input(0).dtype(), [&]<typename T>() {
    using Accumulator = std::conditional_t<std::is_floating_point_v<T>, double, T>;
    reduce_as<T>(call, static_cast<Accumulator>(start), step, finish);
  });
}

// Results that are not integers even for integers: all in f64.
template <typename Step, typename Finish>
void reduce_in_f64(Call& call, Kernel self, Step step, Finish finish) {
  if (computed_in_f32(call, call.input(0).dtype(), self)) return;
  dispatch(Reducible{}, call.input(0).dtype(), [&]<typename T>() {
    reduce_as<T>(call, 0.0, step, [&](double total, std::int64_t) { return convert<T>(finish(total)); });
  });
}

template <typename T>
T absolute(T x) {
  if constexpr (std::is_integral_v<T>)
    return x < 0 ? difference_of(T{0}, x) : x;
  else
    return std::abs(x);
}

constexpr auto kAsIs = [](auto total, std::int64_t) { return total; };

template <typename Step>
void reduce_extreme(Call& call, bool greatest, Step step) {
  dispatch(NumbersAndBooleans{}, call.input(0).dtype(), [&]<typename T>() {
    using C = Compute<T>;
    using Limits = std::numeric_limits<C>;
    const C lowest = Limits::has_infinity ? -Limits::infinity() : Limits::min();
    const C highest = Limits::has_infinity ? Limits::infinity() : Limits::max();
    reduce_as<T>(call, greatest ? lowest : highest, step, kAsIs);
  });
}

}  // namespace

void reduce_sum(Call& call) {
  reduce_sum_like(call, reduce_sum, 0, []<typename T>(T a, T b) { return sum_of(a, b); }, kAsIs);
}
void reduce_prod(Call& call) {
  reduce_sum_like(call, reduce_prod, 1, []<typename T>(T a, T b) { return product_of(a, b); }, kAsIs);
}
void reduce_sum_square(Call& call) {
  reduce_sum_like(
      call, reduce_sum_square, 0, []<typename T>(T a, T b) { return sum_of(a, product_of(b, b)); }, kAsIs);
}
void reduce_l1(Call& call) {
  reduce_sum_like(call, reduce_l1, 0, []<typename T>(T a, T b) { return sum_of(a, absolute(b)); }, kAsIs);
}
void reduce_mean(Call& call) {
  if (computed_in_f32(call, call.input(0).dtype(), reduce_mean)) return;
  dispatch(Reducible{}, call.input(0).dtype(), [&]<typename T>() {
    // An integer mean truncates its quotient; its sum is kept in 64 bits.
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    using Accumulator = std::conditional_t<std::is_floating_point_v<T>, double, Wide>;
    reduce_as<T>(
        call, Accumulator{0}, []<typename A>(A a, A b) { return sum_of(a, b); },
        [](Accumulator total, std::int64_t count) {
          return static_cast<T>(quotient_of(total, static_cast<Accumulator>(count)));
        });
  });
}
void reduce_l2(Call& call) {
  reduce_in_f64(
      call, reduce_l2, [](double a, double b) { return a + b * b; },
      [](double total) { return std::sqrt(total); });
}
void reduce_log_sum(Call& call) {
  reduce_in_f64(
      call, reduce_log_sum, [](double a, double b) { return a + b; },
      [](double total) { return std::log(total); });
}
void reduce_log_sum_exp(Call& call) {
  if (computed_in_f32(call, call.input(0).dtype(), reduce_log_sum_exp)) return;
  // The largest exponent so far, and the sum of exponentials relative to it.
  struct State {
    double largest = -std::numeric_limits<double>::infinity();
    double sum = 0;
    State() = default;
    explicit State(double x) : largest(x), sum(1) {}
  };
  const auto step = [](State a, State b) {
    if (std::isnan(a.largest) || b.largest == -std::numeric_limits<double>::infinity()) return a;
    if (std::isnan(b.largest) || a.largest == -std::numeric_limits<double>::infinity()) return b;
    if (a.largest < b.largest) {
      a.sum = a.sum * std::exp(a.largest - b.largest) + 1;
      a.largest = b.largest;
    } else {
      a.sum += b.largest == a.largest ? 1 : std::exp(b.largest - a.largest);
    }
    return a;
  };
  dispatch(Reducible{}, call.input(0).dtype(), [&]<typename T>() {
    reduce_as<T>(call, State(), step, [](State state, std::int64_t) {
      return convert<T>(state.largest + (state.sum == 0 ? 0 : std::log(state.sum)));
    });
  });
}
void reduce_max(Call& call) {
  reduce_extreme(call, true, []<typename T>(T a, T b) { return larger(a, b); });
}
void reduce_min(Call& call) {
  reduce_extreme(call, false, []<typename T>(T a, T b) { return smaller(a, b); });
}

}  // namespace kiln::reference
