// What the forms of attention share: softmax(scale * q k^T + bias) v, with heads apart as [batch, heads,
// length, size].
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include <kiln/tensor.h>

#include "kernels_ref/broadcast.h"
#include "kernels_ref/element.h"
#include "kernels_ref/gemm.h"
#include "kernels_ref/nest.h"
#include "kernels_ref/reference.h"

namespace kiln::reference {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Copies x, [batch, heads, length, size] or [batch, length, heads * size] from column `column` on, to
// positions from `offset` on of `to`, which is [batch, heads, room, size].
void copy_heads(const Call& call, const Tensor& x, Tensor& to, std::int64_t offset, std::int64_t column = 0);

// [batch, heads, length, size] as [batch, length, heads * size].
Tensor without_heads(const Call& call, const Tensor& x);

// Puts `x` into an output, if that is wanted, in the type that it has in the model.
void store_output(Call& call, std::size_t index, const Tensor& x, DType dtype);

// The heads of the queries that share one head of the keys. Throws Error (caller, shape_mismatch).
std::int64_t group_size(const Tensor& q, const Tensor& k);

// [batch, heads, queries, keys]: scale * q k^T, for the first `keys` positions of k.
template <typename T>
Tensor scaled_scores(const Call& call, const Tensor& q, const Tensor& k, std::int64_t keys, double scale) {
  const std::int64_t heads = q.extents()[1], queries = q.extents()[2], size = q.extents()[3];
  const std::int64_t group = group_size(q, k), head = k.extents()[2] * size;
  Tensor scores(kDType<T>, {q.extents()[0], heads, queries, keys});
  const T *q_data = q.as<T>().data(), *k_data = k.as<T>().data();
  T* to = scores.as_mutable<T>().data();
  matrix_product<T>(
      call, q.extents()[0] * heads, queries, keys, size,
      [&](std::int64_t n) { return Matrix<T>{q_data + n * queries * size, size, 1}; },
      [&](std::int64_t n, std::int64_t l, std::int64_t column, std::int64_t count, T* row) {
        copy_matrix_row(Matrix<T>{k_data + n / group * head, 1, size}, l, column, count, row);
      },
      [&](std::int64_t n) { return to + n * queries * keys; });
  for_range(call, scores.elements(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = static_cast<T>(static_cast<double>(to[i]) * scale);
  });
  return scores;
}

// [batch, heads, queries, size of v]: probabilities times the first positions of v.
template <typename T>
Tensor weighted_values(const Call& call, const Tensor& probabilities, const Tensor& v) {
  const Extents& p = probabilities.extents();
  const std::int64_t queries = p[2], keys = p[3], size = v.extents()[3];
  const std::int64_t group = group_size(probabilities, v), head = v.extents()[2] * size;
  Tensor result(kDType<T>, {p[0], p[1], queries, size});
  const T *p_data = probabilities.as<T>().data(), *v_data = v.as<T>().data();
  T* to = result.as_mutable<T>().data();
  matrix_product<T>(
      call, p[0] * p[1], queries, size, keys,
      [&](std::int64_t n) { return Matrix<T>{p_data + n * queries * keys, keys, 1}; },
      [&](std::int64_t n, std::int64_t l, std::int64_t column, std::int64_t count, T* row) {
        copy_matrix_row(Matrix<T>{v_data + n / group * head, size, 1}, l, column, count, row);
      },
      [&](std::int64_t n) { return to + n * queries * size; });
  return result;
}

// Calls row(batch, head, query, scores) for every row of [batch, heads, queries, keys].
template <typename T, typename Row>
void for_score_rows(const Call& call, Tensor& scores, Row row) {
  const Extents& e = scores.extents();
  T* data = scores.as_mutable<T>().data();
  for_range(call, e[0] * e[1] * e[2], 20 * e[3], [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      row(i / (e[1] * e[2]), i / e[2] % e[1], i % e[2], data + i * e[3]);
    }
  });
}

template <typename T>
void softcap_row(T* row, std::int64_t count, double cap) {
  for (std::int64_t t = 0; t < count; ++t)
    row[t] = static_cast<T>(cap * std::tanh(static_cast<double>(row[t]) / cap));
}

// `sink` is one more score, whose share is dropped.
template <typename T>
void softmax_row(T* row, std::int64_t count, std::optional<double> sink = std::nullopt) {
  if (count == 0) return;
  double peak = sink.value_or(-kInfinity);
  for (std::int64_t t = 0; t < count; ++t) peak = larger(peak, static_cast<double>(row[t]));
  double sum = sink ? std::exp(*sink - peak) : 0;
  for (std::int64_t t = 0; t < count; ++t) sum += std::exp(static_cast<double>(row[t]) - peak);
  for (std::int64_t t = 0; t < count; ++t)
    row[t] = static_cast<T>(std::exp(static_cast<double>(row[t]) - peak) / sum);
}

}  // namespace kiln::reference
