#include "kernels_ref/nest.h"

#include "ir/base/errors.h"
#include "kernels_ref/element.h"

namespace kiln::reference {
namespace {

template <typename T>
void copy_as(const Call& call, const Nest<2>& nest, T* destination, const T* source) {
  const Nest<2> flat = coalesce(nest);
  const std::int64_t to_stride = flat.strides[0].back(), from_stride = flat.strides[1].back();
  walk_all(call, flat, 1, [&](const std::array<std::int64_t, 2>& offsets, std::int64_t count) {
    T* to = destination + offsets[0];
    const T* from = source + offsets[1];
    if (to_stride == 1 && from_stride == 1) {
      std::copy(from, from + count, to);
    } else {
      for (std::int64_t i = 0; i < count; ++i) to[i * to_stride] = from[i * from_stride];
    }
  });
}

}  // namespace

Extents broadcast_strides(const Extents& from, const Extents& to) {
  const Extents dense = dense_strides(from);
  Extents strides(to.size(), 0);
  bool fits = from.size() <= to.size();
  for (std::size_t k = 0; fits && k < from.size(); ++k) {
    const std::size_t axis = to.size() - from.size() + k;
    if (from[k] == to[axis]) {
      strides[axis] = from[k] == 1 ? 0 : dense[k];
    } else {
      fits = from[k] == 1;
    }
  }
  if (!fits)
    throw_caller(ErrorCode::ShapeMismatch, "cannot broadcast {} to {}", to_string(from), to_string(to));
  return strides;
}

Extents broadcast_extents(const Extents& a, const Extents& b) {
  const Extents& longer = a.size() >= b.size() ? a : b;
  const Extents& shorter = a.size() >= b.size() ? b : a;
  Extents result = longer;
  for (std::size_t k = 0; k < shorter.size(); ++k) {
    std::int64_t& extent = result[longer.size() - shorter.size() + k];
    if (extent == 1) {
      extent = shorter[k];
    } else if (shorter[k] != 1 && shorter[k] != extent) {
      throw_caller(ErrorCode::ShapeMismatch, "cannot broadcast {} and {} together", to_string(a),
                   to_string(b));
    }
  }
  return result;
}

std::int64_t element_bytes(DType dtype) {
  return dtype == DType::String ? static_cast<std::int64_t>(sizeof(std::string)) : bits(dtype) / 8;
}

void copy_elements(const Call& call, DType dtype, const Nest<2>& nest, std::byte* destination,
                   const std::byte* source) {
  dispatch_storage(dtype, [&]<typename T>() {
    copy_as(call, nest, reinterpret_cast<T*>(destination), reinterpret_cast<const T*>(source));
  });
}

}  // namespace kiln::reference
