#include "kernels_ref/pieces.h"

#include <utility>
#include <vector>

#include "ir/base/checked_math.h"
#include "ir/base/errors.h"
#include "kernels_ref/arguments.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {

Tensor piece(const Call& call, const Tensor& tensor, std::size_t axis, std::int64_t start,
             std::int64_t count) {
  if (bits(tensor.dtype()) < 8) {
    return packed(tensor.dtype(), piece(call, unpacked(tensor), axis, start, count));
  }
  Extents extents = tensor.extents();
  extents[axis] = count;
  Tensor result(tensor.dtype(), extents);
  copy_piece(call, tensor, axis, start, result);
  return result;
}

void copy_piece(const Call& call, const Tensor& tensor, std::size_t axis, std::int64_t start,
                Tensor& result) {
  if (result.elements() == 0) return;
  const Extents strides = dense_strides(tensor.extents());
  copy_elements(call, tensor.dtype(), {result.extents(), {dense_strides(result.extents()), strides}},
                result.mutable_data(), tensor.data() + start * strides[axis] * element_bytes(tensor.dtype()));
}

Tensor slice_at(const Call& call, const Tensor& tensor, std::size_t axis, std::int64_t index) {
  Extents extents = tensor.extents();
  extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(axis));
  return piece(call, tensor, axis, index, 1).reshaped(std::move(extents));
}

Extents joined_extents(std::span<const Tensor> parts, std::size_t axis) {
  const Tensor& first = parts.front();
  Extents extents = first.extents();
  extents[axis] = 0;
  for (const Tensor& part : parts) {
    if (part.dtype() != first.dtype()) {
      throw_caller(ErrorCode::TypeMismatch, "cannot join {} and {}", name(first.dtype()), name(part.dtype()));
    }
    Extents expected = first.extents();
    if (part.rank() == first.rank()) expected[axis] = part.extents()[axis];
    expect_extents("a tensor to join", part, expected);
    extents[axis] += part.extents()[axis];
  }
  return extents;
}

void join_into(const Call& call, std::span<const Tensor> parts, std::size_t axis, Tensor& result) {
  const Extents strides = dense_strides(result.extents());
  std::int64_t start = 0;
  for (const Tensor& part : parts) {
    if (part.elements() > 0) {
      copy_elements(call, part.dtype(), {part.extents(), {strides, dense_strides(part.extents())}},
                    result.mutable_data() + start * strides[axis] * element_bytes(part.dtype()), part.data());
    }
    start += part.extents()[axis];
  }
}

Tensor joined(const Call& call, std::span<const Tensor> parts, std::size_t axis) {
  const DType dtype = parts.front().dtype();
  Extents extents = joined_extents(parts, axis);
  if (bits(dtype) < 8) {
    std::vector<Tensor> bytes;
    for (const Tensor& part : parts) bytes.push_back(unpacked(part));
    return packed(dtype, joined(call, bytes, axis));
  }
  Tensor result(dtype, std::move(extents));
  join_into(call, parts, axis, result);
  return result;
}

Tensor stacked(const Call& call, std::span<const Tensor> parts, std::size_t axis) {
  std::vector<Tensor> slices;
  for (const Tensor& part : parts) {
    Extents extents = part.extents();
    extents.insert(extents.begin() + static_cast<std::ptrdiff_t>(axis), 1);
    slices.push_back(part.reshaped(std::move(extents)));
  }
  return joined(call, slices, axis);
}

}  // namespace kiln::reference
