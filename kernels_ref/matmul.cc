// Matrix products. Signed integers multiply as unsigned ones, which wrap alike.
#include <type_traits>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/broadcast.h"
#include "kernels_ref/gemm.h"
#include "kernels_ref/kernels.h"

namespace kiln::reference {
namespace {

using Multipliable = Types<float, double, std::int32_t, std::int64_t, std::uint32_t, std::uint64_t>;

template <typename T>
struct FactorOf {
  using Type = T;
};
template <>
struct FactorOf<std::int32_t> {
  using Type = std::uint32_t;
};
template <>
struct FactorOf<std::int64_t> {
  using Type = std::uint64_t;
};

void expect_one_dtype(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype()) {
    throw_caller(ErrorCode::TypeMismatch, "cannot multiply {} by {}", name(a.dtype()), name(b.dtype()));
  }
}

// Element offsets of the matrices of a batch, in the row-major order of `batch`.
std::vector<std::int64_t> batch_offsets(const Extents& own, const Extents& batch, std::int64_t matrix) {
  std::vector<std::int64_t> offsets;
  const Nest<1> nest = coalesce(Nest<1>{batch, {broadcast_strides(own, batch)}});
  walk(nest, 0, element_count(batch), [&](const std::array<std::int64_t, 1>& start, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      offsets.push_back((start[0] + i * nest.strides[0].back()) * matrix);
  });
  return offsets;
}

// NumPy's matmul: batch axes broadcast; a vector is a row on the left and a column on the right.
void multiply(Call& call, const Tensor& left, const Tensor& right) {
  expect_one_dtype(left, right);
  expect_rank("A", left, 1);
  expect_rank("B", right, 1);
  Extents a = left.extents(), b = right.extents();
  const bool row_vector = a.size() == 1, column_vector = b.size() == 1;
  if (row_vector) a.insert(a.begin(), 1);
  if (column_vector) b.push_back(1);
  const std::int64_t rows = a[a.size() - 2], depth = a.back(), columns = b.back();
  if (b[b.size() - 2] != depth) {
    throw_caller(ErrorCode::ShapeMismatch, "cannot multiply {} by {}: {} columns, {} rows",
                 to_string(left.extents()), to_string(right.extents()), depth, b[b.size() - 2]);
  }
  const Extents a_batch(a.begin(), a.end() - 2), b_batch(b.begin(), b.end() - 2);
  const Extents batch = broadcast_extents(a_batch, b_batch);
  Extents extents = batch;
  if (!row_vector) extents.push_back(rows);
  if (!column_vector) extents.push_back(columns);
  Tensor& y = call.output(0, left.dtype(), extents);
  const std::vector<std::int64_t> a_offsets = batch_offsets(a_batch, batch, rows * depth);
  const std::vector<std::int64_t> b_offsets = batch_offsets(b_batch, batch, depth * columns);
  dispatch(Multipliable{}, left.dtype(), [&]<typename T>() {
    using F = typename FactorOf<T>::Type;
    const auto* a_data = reinterpret_cast<const F*>(left.data());
    const auto* b_data = reinterpret_cast<const F*>(right.data());
    auto* y_data = reinterpret_cast<F*>(y.mutable_data());
    matrix_product<F>(
        call, static_cast<std::int64_t>(a_offsets.size()), rows, columns, depth,
        [&](std::int64_t n) { return Matrix<F>{a_data + a_offsets[static_cast<std::size_t>(n)], depth, 1}; },
        [&](std::int64_t n, std::int64_t k, std::int64_t column, std::int64_t count, F* to) {
          copy_matrix_row(Matrix<F>{b_data + b_offsets[static_cast<std::size_t>(n)], columns, 1}, k, column,
                          count, to);
        },
        [&](std::int64_t n) { return y_data + n * rows * columns; });
  });
}

// alpha * product + beta * c in the type of the elements; integer scales are truncated.
template <typename T>
void scale_and_add(Tensor& y, const Tensor* c, double alpha, double beta) {
  T* to = y.as_mutable<T>().data();
  const T scale = convert<T>(alpha), c_scale = convert<T>(beta);
  if (alpha != 1) {
    for (std::int64_t i = 0; i < y.elements(); ++i) to[i] = product_of(to[i], scale);
  }
  if (c == nullptr || beta == 0) return;
  const Nest<2> nest = coalesce(
      Nest<2>{y.extents(), {dense_strides(y.extents()), broadcast_strides(c->extents(), y.extents())}});
  const T* from = c->as<T>().data();
  walk(nest, 0, y.elements(), [&](const std::array<std::int64_t, 2>& offsets, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      T& element = to[offsets[0] + i];
      element = sum_of(element, product_of(from[offsets[1] + i * nest.strides[1].back()], c_scale));
    }
  });
}

// x - zero point as i32; the zero point is one element, or one for each row (rows) or column.
Tensor centred(const Call& call, const Tensor& x, std::size_t zero_index, bool rows) {
  Tensor wide = converted(call, x, DType::I32);
  if (!call.has_input(zero_index)) return wide;
  const Tensor zero = converted(call, call.input(zero_index), DType::I32);
  Extents per = zero.extents();
  // One per row: as a column, so that it broadcasts along the row.
  if (rows && zero.rank() == 1 && zero.elements() > 1) per.push_back(1);
  const Extents strides =
      zero.elements() == 1 ? Extents(x.extents().size(), 0) : broadcast_strides(per, x.extents());
  const Nest<2> nest = coalesce(Nest<2>{x.extents(), {dense_strides(x.extents()), strides}});
  std::int32_t* to = wide.as_mutable<std::int32_t>().data();
  const std::int32_t* zeros = zero.as<std::int32_t>().data();
  walk(nest, 0, x.elements(), [&](const std::array<std::int64_t, 2>& offsets, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      to[offsets[0] + i] -= zeros[offsets[1] + i * nest.strides[1].back()];
  });
  return wide;
}

}  // namespace

void matmul(Call& call) {
  if (computed_in_f32(call, call.input(0).dtype(), matmul)) return;
  multiply(call, call.input(0), call.input(1));
}

void matmul_integer(Call& call) {
  multiply(call, centred(call, call.input(0), 2, true), centred(call, call.input(1), 3, false));
}

void gemm(Call& call) {
  const Tensor &a = call.input(0), &b = call.input(1);
  if (computed_in_f32(call, a.dtype(), gemm)) return;
  expect_one_dtype(a, b);
  if (a.rank() != 2 || b.rank() != 2) {
    throw_caller(ErrorCode::ShapeMismatch, "expected two matrices, got {} and {}", to_string(a.extents()),
                 to_string(b.extents()));
  }
  const bool a_turned = integer(call.node, "transA") != 0, b_turned = integer(call.node, "transB") != 0;
  const std::int64_t rows = a.extents()[a_turned ? 1 : 0], depth = a.extents()[a_turned ? 0 : 1];
  const std::int64_t columns = b.extents()[b_turned ? 0 : 1];
  if (b.extents()[b_turned ? 1 : 0] != depth) {
    throw_caller(ErrorCode::ShapeMismatch, "cannot multiply {} by {} with transA {} and transB {}",
                 to_string(a.extents()), to_string(b.extents()), a_turned, b_turned);
  }
  const Tensor* c = call.has_input(2) ? &call.input(2) : nullptr;
  if (c != nullptr) expect_one_dtype(a, *c);
  Tensor& y = call.output(0, a.dtype(), {rows, columns});
  dispatch(Multipliable{}, a.dtype(), [&]<typename T>() {
    using F = typename FactorOf<T>::Type;
    const Matrix<F> left{reinterpret_cast<const F*>(a.data()), a_turned ? 1 : depth, a_turned ? rows : 1};
    const Matrix<F> right{reinterpret_cast<const F*>(b.data()), b_turned ? 1 : columns, b_turned ? depth : 1};
    matrix_product<F>(
        call, 1, rows, columns, depth, [&](std::int64_t) { return left; },
        [&](std::int64_t, std::int64_t k, std::int64_t column, std::int64_t count, F* to) {
          copy_matrix_row(right, k, column, count, to);
        },
        [&](std::int64_t) { return reinterpret_cast<F*>(y.mutable_data()); });
    scale_and_add<T>(y, c, number(call.node, "alpha"), number(call.node, "beta"));
  });
}

}  // namespace kiln::reference
