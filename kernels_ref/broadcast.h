// Elementwise application of a function to operands that broadcast together.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels_ref/element.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {

// output 0 = function(a, b), which takes and gives compute types.
template <typename A, typename B, typename Result, typename Function>
void broadcast_binary(Call& call, const Tensor& a, const Tensor& b, std::int64_t cost, Function function) {
  Tensor& y = call.output(0, kDType<Result>, broadcast_extents(a.extents(), b.extents()));
  const Nest<3> nest =
      coalesce(Nest<3>{y.extents(),
                       {dense_strides(y.extents()), broadcast_strides(a.extents(), y.extents()),
                        broadcast_strides(b.extents(), y.extents())}});
  const std::int64_t a_stride = nest.strides[1].back(), b_stride = nest.strides[2].back();
  const A* a_data = a.as<A>().data();
  const B* b_data = b.as<B>().data();
  Result* y_data = y.as_mutable<Result>().data();
  walk_all(call, nest, cost, [=](const std::array<std::int64_t, 3>& offsets, std::int64_t count) {
    const A* x0 = a_data + offsets[1];
    const B* x1 = b_data + offsets[2];
    Result* to = y_data + offsets[0];
    // Strides that the compiler knows let it vectorise the usual cases.
    const auto row = [&](std::int64_t step0, std::int64_t step1) {
      for (std::int64_t i = 0; i < count; ++i) {
        to[i] =
            Result(function(static_cast<Compute<A>>(x0[i * step0]), static_cast<Compute<B>>(x1[i * step1])));
      }
    };
    if (a_stride == 1 && b_stride == 1)
      row(1, 1);
    else if (a_stride == 1 && b_stride == 0)
      row(1, 0);
    else if (a_stride == 0 && b_stride == 1)
      row(0, 1);
    else
      row(a_stride, b_stride);
  });
}

// The same for inputs 0 and 1 of one dtype out of List.
template <typename List, typename Function>
void map_binary(Call& call, Function function, std::int64_t cost = 1) {
  const Tensor &a = call.input(0), &b = call.input(1);
  if (a.dtype() != b.dtype()) {
    throw_caller(ErrorCode::TypeMismatch, "operands must have one type, got {} and {}", name(a.dtype()),
                 name(b.dtype()));
  }
  dispatch(List{}, a.dtype(), [&]<typename T>() { broadcast_binary<T, T, T>(call, a, b, cost, function); });
}

// NaN of either operand stays.
template <typename T>
T smaller(T a, T b) {
  return a < b || is_nan_element(a) ? a : b;
}
template <typename T>
T larger(T a, T b) {
  return a > b || is_nan_element(a) ? a : b;
}

// Integer arithmetic wraps.
template <typename T>
T sum_of(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  else
    return a + b;
}
template <typename T>
T difference_of(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
  else
    return a - b;
}
template <typename T>
T product_of(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  else
    return a * b;
}
// Integers truncate, minimum / -1 wraps to the minimum, and a zero divisor is an Error (division_by_zero).
template <typename T>
T quotient_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) throw_caller(ErrorCode::DivisionByZero, "integer division by zero");
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return static_cast<T>(-static_cast<std::uint64_t>(a));
    }
    return static_cast<T>(a / b);
  } else {
    return a / b;
  }
}

}  // namespace kiln::reference
