// The one blocked matrix product behind MatMul, Gemm and the convolutions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/base/checked_math.h"
#include "kernels_ref/nest.h"
#include "kernels_ref/reference.h"

namespace kiln::reference {

// One matrix operand: element (i, j) is at data[i * row + j * column].
template <typename T>
struct Matrix {
  const T* data;
  std::int64_t row, column;
};

constexpr std::int64_t kRows = 4;        // of a register tile
constexpr std::int64_t kRowBlock = 256;  // rows and columns of C that one task computes
constexpr std::int64_t kColumnBlock = 128;
constexpr std::int64_t kDepthBlock = 256;  // products that are summed before they are added to C

template <typename T>
struct Vector {
  using Type [[gnu::vector_size(16)]] = T;
  static constexpr std::int64_t kLanes = 16 / static_cast<std::int64_t>(sizeof(T));
};

// Columns of a register tile.
template <typename T>
constexpr std::int64_t kColumns = 2 * Vector<T>::kLanes;

// sums[r][j] = sum over k of a[k][r] * b[k][j], both packed.
template <typename T, std::int64_t R>
void micro_kernel(const T* a, const T* b, std::int64_t depth, T* sums) {
  using V = typename Vector<T>::Type;
  constexpr std::int64_t kLanes = Vector<T>::kLanes;
  V total[R][2] = {};
  for (std::int64_t k = 0; k < depth; ++k) {
    V low, high;
    __builtin_memcpy(&low, b + k * kColumns<T>, sizeof low);
    __builtin_memcpy(&high, b + k * kColumns<T> + kLanes, sizeof high);
    for (std::int64_t r = 0; r < R; ++r) {
      const T factor = a[k * R + r];
      total[r][0] += factor * low;
      total[r][1] += factor * high;
    }
  }
  __builtin_memcpy(sums, total, sizeof total);
}

// Adds (or, `first`, puts) a[rows x depth] * b[depth x columns] to c, where b is packed in panels.
template <typename T>
void row_block(const Matrix<T>& a, std::int64_t rows, const T* b, std::int64_t columns, std::int64_t depth,
               T* c, std::int64_t c_row, bool first, std::vector<T>& packed) {
  packed.resize(static_cast<std::size_t>(kRows * depth));
  for (std::int64_t i = 0; i < rows; i += kRows) {
    const std::int64_t count = std::min(kRows, rows - i);
    for (std::int64_t k = 0; k < depth; ++k) {
      for (std::int64_t r = 0; r < count; ++r) {
        packed[static_cast<std::size_t>(k * count + r)] = a.data[(i + r) * a.row + k * a.column];
      }
    }
    for (std::int64_t j = 0; j < columns; j += kColumns<T>) {
      T sums[kRows * kColumns<T>];
      const T* panel = b + j * depth;
      switch (count) {
        case 1:
          micro_kernel<T, 1>(packed.data(), panel, depth, sums);
          break;
        case 2:
          micro_kernel<T, 2>(packed.data(), panel, depth, sums);
          break;
        case 3:
          micro_kernel<T, 3>(packed.data(), panel, depth, sums);
          break;
        default:
          micro_kernel<T, 4>(packed.data(), panel, depth, sums);
          break;
      }
      const std::int64_t width = std::min(kColumns<T>, columns - j);
      for (std::int64_t r = 0; r < count; ++r) {
        T* target = c + (i + r) * c_row + j;
        const T* sum = sums + r * kColumns<T>;
        for (std::int64_t l = 0; l < width; ++l) target[l] = first ? sum[l] : target[l] + sum[l];
      }
    }
  }
}

// For every batch n: c_n[M x N] = a_n[M x K] * b_n[K x N], c row-major with N columns. Sums of a float are
// taken in its own type, over runs of K that are then added up. `a_of(n)` gives a Matrix, `c_of(n)` a
// pointer, and `b_row(n, k, column, count, to)` writes `count` elements of row k of b_n from `column` on. T
// is a float or an unsigned type of 32 or 64 bits (signed integers wrap alike).
template <typename T, typename AOf, typename BRow, typename COf>
void matrix_product(const Call& call, std::int64_t batches, std::int64_t rows, std::int64_t columns,
                    std::int64_t depth, AOf a_of, BRow b_row, COf c_of) {
  if (batches == 0 || rows == 0 || columns == 0) return;
  const std::int64_t row_blocks = ceil_divide(rows, kRowBlock),
                     column_blocks = ceil_divide(columns, kColumnBlock);
  const std::int64_t cost =
      std::min(rows, kRowBlock) * std::min(columns, kColumnBlock) * std::max<std::int64_t>(depth, 1);
  for_range(call, batches * row_blocks * column_blocks, cost, [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> b(static_cast<std::size_t>(kDepthBlock * (kColumnBlock + kColumns<T>))),
        line(kColumnBlock + kColumns<T>), a;
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t column = task % column_blocks * kColumnBlock;
      const std::int64_t row = task / column_blocks % row_blocks * kRowBlock;
      const std::int64_t batch = task / column_blocks / row_blocks;
      const std::int64_t width = std::min(kColumnBlock, columns - column);
      const Matrix<T> whole = a_of(batch);
      T* c = c_of(batch) + row * columns + column;
      std::int64_t start = 0;
      do {  // once even for depth 0, which gives zeros
        const std::int64_t block = std::min(kDepthBlock, depth - start);
        for (std::int64_t k = 0; k < block; ++k) {
          b_row(batch, start + k, column, width, line.data());
          for (std::int64_t j = 0; j < width; j += kColumns<T>) {
            std::copy_n(line.data() + j, kColumns<T>, b.data() + j * block + k * kColumns<T>);
          }
        }
        row_block(Matrix<T>{whole.data + row * whole.row + start * whole.column, whole.row, whole.column},
                  std::min(kRowBlock, rows - row), b.data(), width, block, c, columns, start == 0, a);
        start += kDepthBlock;
      } while (start < depth);
    }
  });
}

// b_row of matrix_product() for operands in memory.
template <typename T>
void copy_matrix_row(const Matrix<T>& b, std::int64_t k, std::int64_t column, std::int64_t count, T* to) {
  const T* from = b.data + k * b.row + column * b.column;
  if (b.column == 1) {
    std::copy_n(from, count, to);
  } else {
    for (std::int64_t j = 0; j < count; ++j) to[j] = from[j * b.column];
  }
}

}  // namespace kiln::reference
