// Determinants and inverses of square matrices, by elimination with row exchange in f64.
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/element.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {
namespace {

// The side of the matrices in the last two axes.
std::int64_t side_of(const Tensor& x) {
  expect_rank("X", x, 2);
  const std::size_t rank = x.extents().size();
  if (x.extents()[rank - 1] != x.extents()[rank - 2]) {
    throw_caller(ErrorCode::ShapeMismatch, "expected square matrices, got {}", to_string(x.extents()));
  }
  return x.extents()[rank - 1];
}

// Brings the left `side` columns of `matrix` to the unit matrix (to an upper triangle if not `reduce`) and
// returns their determinant. Stops where a column has no pivot: then the determinant is 0.
double eliminate(std::vector<double>& matrix, std::int64_t side, std::int64_t columns, bool reduce) {
  const auto at = [&](std::int64_t row, std::int64_t column) -> double& {
    return matrix[static_cast<std::size_t>(row * columns + column)];
  };
  double determinant = 1;
  for (std::int64_t k = 0; k < side; ++k) {
    std::int64_t pivot = k;
    for (std::int64_t row = k + 1; row < side; ++row) {
      if (std::abs(at(row, k)) > std::abs(at(pivot, k))) pivot = row;
    }
    if (at(pivot, k) == 0) return 0;
    if (pivot != k) {
      for (std::int64_t column = 0; column < columns; ++column) std::swap(at(k, column), at(pivot, column));
      determinant = -determinant;
    }
    determinant *= at(k, k);
    const double scale = 1 / at(k, k);
    for (std::int64_t row = reduce ? 0 : k + 1; row < side; ++row) {
      if (row == k || at(row, k) == 0) continue;
      const double factor = at(row, k) * scale;
      for (std::int64_t column = k; column < columns; ++column) at(row, column) -= factor * at(k, column);
    }
    if (!reduce) continue;
    for (std::int64_t column = k; column < columns; ++column) at(k, column) *= scale;
  }
  return determinant;
}

}  // namespace

void det(Call& call) {
  const Tensor& x = call.input(0);
  if (computed_in_f32(call, x.dtype(), det)) return;
  const std::int64_t side = side_of(x);
  const Extents extents(x.extents().begin(), x.extents().end() - 2);
  expect_bounded(extents, "the determinants");
  Tensor& y = call.output(0, x.dtype(), extents);
  dispatch(WideFloats{}, x.dtype(), [&]<typename T>() {
    for_range(call, y.elements(), side * side * side, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const T* from = x.as<T>().data() + i * side * side;
        std::vector<double> matrix(from, from + side * side);
        y.as_mutable<T>().data()[i] = static_cast<T>(eliminate(matrix, side, side, false));
      }
    });
  });
}

void inverse(Call& call) {
  const Tensor& x = call.input(0);
  if (computed_in_f32(call, x.dtype(), inverse)) return;
  const std::int64_t side = side_of(x);
  Tensor& y = call.output(0, x.dtype(), x.extents());
  const std::int64_t count = side == 0 ? 0 : x.elements() / (side * side);
  dispatch(WideFloats{}, x.dtype(), [&]<typename T>() {
    for_range(call, count, 4 * side * side * side, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const T* from = x.as<T>().data() + i * side * side;
        T* to = y.as_mutable<T>().data() + i * side * side;
        // [matrix | unit matrix]
        std::vector<double> both(static_cast<std::size_t>(2 * side * side));
        for (std::int64_t row = 0; row < side; ++row) {
          double* line = both.data() + row * 2 * side;
          for (std::int64_t k = 0; k < side; ++k) line[k] = static_cast<double>(from[row * side + k]);
          line[side + row] = 1;
        }
        const bool singular = eliminate(both, side, 2 * side, true) == 0;
        for (std::int64_t k = 0; k < side * side; ++k) {
          const double element = both[static_cast<std::size_t>(k / side * 2 * side + side + k % side)];
          to[k] = singular ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(element);
        }
      }
    });
  });
}

}  // namespace kiln::reference
