#include "kernels_ref/heads.h"

#include "ir/base/errors.h"
#include "kernels_ref/arguments.h"

namespace kiln::reference {

void copy_heads(const Call& call, const Tensor& x, Tensor& to, std::int64_t offset, std::int64_t column) {
  const std::int64_t heads = to.extents()[1], room = to.extents()[2], size = to.extents()[3];
  const bool flat = x.rank() == 3;
  const std::int64_t length = x.extents()[flat ? 1 : 2], row = flat ? x.extents()[2] : size;
  Nest<2> nest;
  nest.extents = {x.extents()[0], heads, length, size};
  nest.strides[0] = {heads * room * size, room * size, size, 1};
  nest.strides[1] =
      flat ? Extents{length * row, size, row, 1} : Extents{heads * length * size, length * size, size, 1};
  if (element_count(nest.extents) == 0) return;
  const std::int64_t bytes = element_bytes(x.dtype());
  copy_elements(call, x.dtype(), coalesce(nest), to.mutable_data() + offset * size * bytes,
                x.data() + column * bytes);
}

Tensor without_heads(const Call& call, const Tensor& x) {
  const Extents& e = x.extents();
  Tensor result(x.dtype(), {e[0], e[2], e[1] * e[3]});
  Nest<2> nest;
  nest.extents = {e[0], e[2], e[1], e[3]};
  nest.strides[0] = dense_strides(nest.extents);
  nest.strides[1] = {e[1] * e[2] * e[3], e[3], e[2] * e[3], 1};
  if (x.elements() > 0) copy_elements(call, x.dtype(), coalesce(nest), result.mutable_data(), x.data());
  return result;
}

void store_output(Call& call, std::size_t index, const Tensor& x, DType dtype) {
  if (!call.wants(index)) return;
  const Tensor narrow = converted(call, x, dtype);
  call.output_view(index, narrow, narrow.extents());
}

std::int64_t group_size(const Tensor& q, const Tensor& k) {
  const std::int64_t heads = q.extents()[1], key_heads = k.extents()[1];
  if (key_heads == 0 ? heads != 0 : heads % key_heads != 0) {
    throw_caller(ErrorCode::ShapeMismatch,
                 "{} heads of the query do not divide into groups for {} heads of the key", heads, key_heads);
  }
  return key_heads == 0 ? 1 : heads / key_heads;
}

}  // namespace kiln::reference
