// Copies through one table of source indices per axis.
#pragma once

#include <cstdint>
#include <vector>

#include <kiln/tensor.h>

#include "kernels_ref/arguments.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {

// y[i0, i1, ...] = x[indices[0][i0], indices[1][i1], ...], or `fill` where one of them is -1.
template <typename T>
void copy_mapped(const Call& call, const Tensor& x, const std::vector<std::vector<std::int64_t>>& indices,
                 const T& fill, Tensor& y) {
  const Extents strides = dense_strides(x.extents());
  const T* from = x.as<T>().data();
  T* to = y.as_mutable<T>().data();
  if (y.rank() == 0) {
    to[0] = from[0];
    return;
  }
  const std::size_t inner = y.extents().size() - 1;
  const std::int64_t width = y.extents()[inner];
  const std::int64_t rows = product(y.extents(), 0, inner);
  for_range(call, rows, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t offset = 0, rest = row;
      bool constant = false;
      for (std::size_t axis = inner; axis-- > 0;) {
        const std::int64_t source = indices[axis][static_cast<std::size_t>(rest % y.extents()[axis])];
        rest /= y.extents()[axis];
        constant |= source < 0;
        offset += source * strides[axis];
      }
      T* target = to + row * width;
      for (std::int64_t i = 0; i < width; ++i) {
        const std::int64_t source = constant ? -1 : indices[inner][static_cast<std::size_t>(i)];
        target[i] = source < 0 ? fill : from[offset + source];
      }
    }
  });
}

}  // namespace kiln::reference
