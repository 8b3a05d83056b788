// Tensors taken apart and joined along an axis, for sequences and loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <kiln/tensor.h>

#include "kernels_ref/reference.h"

namespace kiln::reference {

// `count` slices of `tensor` along `axis` from `start` on, in memory of its own.
Tensor piece(const Call& call, const Tensor& tensor, std::size_t axis, std::int64_t start,
             std::int64_t count);

// The slices from `start` on into `result`, which has the extents of `tensor` but along `axis`. Not for types
// packed several to a byte.
void copy_piece(const Call& call, const Tensor& tensor, std::size_t axis, std::int64_t start, Tensor& result);

// One slice, without the axis.
Tensor slice_at(const Call& call, const Tensor& tensor, std::size_t axis, std::int64_t index);

// The extents of `parts` joined along `axis`, which exists. At least one; throws Error (caller) unless dtypes
// and the other extents agree.
Extents joined_extents(std::span<const Tensor> parts, std::size_t axis);
// `parts` into `result`, which has these extents. Not for types packed several to a byte.
void join_into(const Call& call, std::span<const Tensor> parts, std::size_t axis, Tensor& result);
Tensor joined(const Call& call, std::span<const Tensor> parts, std::size_t axis);

// `parts` of equal extents side by side along a new `axis`.
Tensor stacked(const Call& call, std::span<const Tensor> parts, std::size_t axis);

}  // namespace kiln::reference
