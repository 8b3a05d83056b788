#include "ir/tile/tile_value.h"

#include <cstring>

#include "ir/base/errors.h"
#include "ir/tile/primitives.h"
#include "ir/tile/verifier.h"

namespace kiln::tile {
namespace {

std::size_t element_size(DType dtype) { return static_cast<std::size_t>(bits(dtype)) / 8; }

std::vector<std::int64_t> row_major(std::span<const std::int64_t> extents) {
  std::vector<std::int64_t> strides(extents.size());
  std::int64_t stride = 1;
  for (std::size_t axis = extents.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= extents[axis];
  }
  return strides;
}

// Copies, for every index of `extents`, the element at offset + sum index_k * strides[k] of `from`.
TileValue rearranged(const TileValue& from, const Type& type, std::int64_t offset,
                     std::span<const std::int64_t> strides) {
  TileValue to(type);
  const std::size_t size = element_size(type.element);
  const std::size_t rank = type.extents.size();
  std::vector<std::int64_t> index(rank, 0);
  std::byte* out = to.bytes();
  for (std::int64_t i = 0; i < to.elements(); ++i) {
    std::memcpy(out, from.bytes() + static_cast<std::size_t>(offset) * size, size);
    out += size;
    for (std::size_t axis = rank; axis-- > 0;) {
      offset += strides[axis];
      if (++index[axis] < type.extents[axis]) break;
      offset -= strides[axis] * index[axis];
      index[axis] = 0;
    }
  }
  return to;
}

// The operand itself if a flat loop can read it (as many elements, or one), else broadcast into `storage`.
const TileValue* spread(const TileValue* value, const Type& type, TileValue& storage) {
  if (value->elements() == 1 || value->elements() == type.elements()) return value;
  storage = broadcast(*value, Type::tile(value->dtype(), type.extents));
  return &storage;
}

std::int64_t step(const TileValue& value) { return value.elements() == 1 ? 0 : 1; }

}  // namespace

TileValue::TileValue(Type type)
    : type_(std::move(type)),
      elements_(type_.elements()),
      bytes_(static_cast<std::size_t>(byte_size(type_.element, elements_))) {}

TileValue::TileValue(Literal literal) : TileValue(Type::scalar(literal.dtype)) {
  with_element_type(literal.dtype, [&]<typename T>() { *data<T>() = from_bits<T>(literal.bits); });
}

Literal TileValue::literal(std::int64_t element) const {
  return with_element_type(dtype(),
                           [&]<typename T>() { return Literal{dtype(), bits_of(data<T>()[element])}; });
}

TileValue TileValue::reshaped(Type type) const {
  TileValue result = *this;
  result.type_ = std::move(type);
  return result;
}

TileValue broadcast(const TileValue& value, const Type& type) {
  const std::vector<std::int64_t> own = row_major(value.type().extents);
  std::vector<std::int64_t> strides(type.extents.size(), 0);
  const std::size_t shift = strides.size() - own.size();
  for (std::size_t axis = 0; axis < own.size(); ++axis) {
    if (value.type().extents[axis] != 1) strides[shift + axis] = own[axis];
  }
  return rearranged(value, type, 0, strides);
}

TileValue transpose(const TileValue& value, std::span<const std::int64_t> permutation, const Type& type) {
  const std::vector<std::int64_t> own = row_major(value.type().extents);
  std::vector<std::int64_t> strides;
  for (const std::int64_t axis : permutation) strides.push_back(own[static_cast<std::size_t>(axis)]);
  return rearranged(value, type, 0, strides);
}

TileValue slice(const TileValue& value, std::span<const std::int64_t> offsets, const Type& type) {
  const std::vector<std::int64_t> own = row_major(value.type().extents);
  std::int64_t offset = 0;
  for (std::size_t axis = 0; axis < own.size(); ++axis) offset += offsets[axis] * own[axis];
  return rearranged(value, type, offset, own);
}

TileValue concat(TileValues values, std::int64_t axis, const Type& type) {
  TileValue result(type);
  const std::size_t size = element_size(type.element);
  const auto k = static_cast<std::size_t>(axis);
  std::size_t outer = 1;
  for (std::size_t i = 0; i < k; ++i) outer *= static_cast<std::size_t>(type.extents[i]);
  std::byte* out = result.bytes();
  for (std::size_t i = 0; i < outer; ++i) {
    for (const TileValue* value : values) {
      const std::size_t run = static_cast<std::size_t>(value->elements()) / outer * size;
      std::memcpy(out, value->bytes() + i * run, run);
      out += run;
    }
  }
  return result;
}

TileValue iota(std::int64_t axis, const Type& type) {
  TileValue result(type);
  const std::int64_t stride = row_major(type.extents)[static_cast<std::size_t>(axis)];
  const std::int64_t extent = type.extents[static_cast<std::size_t>(axis)];
  with_element_type(type.element, [&]<typename T>() {
    if constexpr (kIsInteger<T>) {
      for (std::int64_t i = 0; i < result.elements(); ++i) {
        result.data<T>()[i] = static_cast<T>(i / stride % extent);
      }
    }
  });
  return result;
}

TileValue cast(const TileValue& value, const Type& type) {
  TileValue result(type);
  with_element_type(value.dtype(), [&]<typename From>() {
    with_element_type(type.element, [&]<typename To>() {
      for (std::int64_t i = 0; i < result.elements(); ++i) {
        result.data<To>()[i] = cast_element<To>(value.data<From>()[i]);
      }
    });
  });
  return result;
}

TileValue elementwise(Function function, TileValues operands, const Type& type) {
  TileValue result(type);
  const std::int64_t count = result.elements();
  TileValue spread_a, spread_b, spread_c;
  const TileValue& a = *spread(operands[0], type, spread_a);
  const std::int64_t step_a = step(a);
  if (operands.size() == 1) {
    with_element_type(a.dtype(), [&]<typename T>() {
      with_unary<T>(function, [&](auto op) {
        auto* out = result.data<decltype(op(T{}))>();
        const T* x = a.data<T>();
        for (std::int64_t i = 0; i < count; ++i) out[i] = op(x[i * step_a]);
      });
    });
    return result;
  }
  const TileValue& b = *spread(operands[1], type, spread_b);
  const std::int64_t step_b = step(b);
  if (function == Function::Ldexp) {
    with_element_type(a.dtype(), [&]<typename T>() {
      if constexpr (kIsFloat<T>) {
        using Exponent = std::conditional_t<std::is_same_v<T, double>, std::int64_t, std::int32_t>;
        for (std::int64_t i = 0; i < count; ++i) {
          result.data<T>()[i] = primitive::ldexp(a.data<T>()[i * step_a], b.data<Exponent>()[i * step_b]);
        }
      }
    });
    return result;
  }
  if (operands.size() == 2) {
    with_element_type(a.dtype(), [&]<typename T>() {
      with_binary<T>(function, [&](auto op) {
        auto* out = result.data<decltype(op(T{}, T{}))>();
        const T *x = a.data<T>(), *y = b.data<T>();
        for (std::int64_t i = 0; i < count; ++i) out[i] = op(x[i * step_a], y[i * step_b]);
      });
    });
    return result;
  }
  const TileValue& c = *spread(operands[2], type, spread_c);
  const std::int64_t step_c = step(c);
  with_element_type(type.element, [&]<typename T>() {
    T* out = result.data<T>();
    const T *y = b.data<T>(), *z = c.data<T>();
    if (function == Function::Select) {
      const bool* x = a.data<bool>();
      for (std::int64_t i = 0; i < count; ++i) out[i] = x[i * step_a] ? y[i * step_b] : z[i * step_c];
    } else if constexpr (kIsFloat<T>) {
      const T* x = a.data<T>();
      for (std::int64_t i = 0; i < count; ++i)
        out[i] = primitive::fma(x[i * step_a], y[i * step_b], z[i * step_c]);
    }
  });
  return result;
}

TileValue mask(const TileValue& value, std::int64_t axis, std::int64_t length, const TileValue& fill) {
  TileValue result = value;
  const std::size_t size = element_size(value.dtype());
  const std::int64_t stride = row_major(value.type().extents)[static_cast<std::size_t>(axis)];
  const std::int64_t extent = value.type().extents[static_cast<std::size_t>(axis)];
  for (std::int64_t i = 0; i < value.elements(); ++i) {
    if (i / stride % extent >= length) {
      std::memcpy(result.bytes() + static_cast<std::size_t>(i) * size, fill.bytes(), size);
    }
  }
  return result;
}

namespace {

// Sums products in index order: fma in the accumulator's type, or wrapping integers.
template <typename To, typename A, typename B>
void dot_loops(const DotShape& shape, To* out, const A* a, const B* b) {
  for (std::int64_t batch = 0; batch < shape.batch; ++batch) {
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      for (std::int64_t depth = 0; depth < shape.depth; ++depth) {
        const To x = cast_element<To>(a[(batch * shape.rows + row) * shape.depth + depth]);
        const B* y = b + (batch * shape.depth + depth) * shape.columns;
        To* sums = out + (batch * shape.rows + row) * shape.columns;
        for (std::int64_t column = 0; column < shape.columns; ++column) {
          if constexpr (kIsFloat<To>) {
            sums[column] = std::fma(x, cast_element<To>(y[column]), sums[column]);
          } else {
            sums[column] = primitive::add(sums[column], primitive::mul(x, cast_element<To>(y[column])));
          }
        }
      }
    }
  }
}

}  // namespace

TileValue dot(const TileValue& accumulator, const TileValue& a, const TileValue& b, std::int64_t batch_axes) {
  const DotShape shape = dot_shape(accumulator.type(), a.type(), b.type(), batch_axes);
  TileValue result = accumulator;
  with_element_type(a.dtype(), [&]<typename A>() {
    if constexpr (sizeof(A) == 1) {
      with_element_type(b.dtype(), [&]<typename B>() {
        if constexpr (sizeof(B) == 1) dot_loops(shape, result.data<std::int32_t>(), a.data<A>(), b.data<B>());
      });
    } else if (result.dtype() == DType::F32) {
      dot_loops(shape, result.data<float>(), a.data<A>(), b.data<A>());
    } else if (result.dtype() == DType::F64) {
      dot_loops(shape, result.data<double>(), a.data<A>(), b.data<A>());
    } else if constexpr (kIsInteger<A>) {
      dot_loops(shape, result.data<A>(), a.data<A>(), b.data<A>());
    }
  });
  return result;
}

}  // namespace kiln::tile
