// Scalars and tiles as the interpreter holds them, and what every Opcode on values means: one plain loop
// each, in index order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/tile/kernel.h"

namespace kiln::tile {

// Row-major elements of one dtype that computes; a scalar has no extents and one element.
class TileValue {
 public:
  TileValue() = default;
  explicit TileValue(Type type);  // zeros
  explicit TileValue(Literal literal);

  const Type& type() const { return type_; }
  DType dtype() const { return type_.element; }
  std::int64_t elements() const { return elements_; }
  std::byte* bytes() { return bytes_.data(); }
  const std::byte* bytes() const { return bytes_.data(); }

  template <typename T>
  T* data() {
    return reinterpret_cast<T*>(bytes_.data());
  }
  template <typename T>
  const T* data() const {
    return reinterpret_cast<const T*>(bytes_.data());
  }
  std::int64_t index() const { return *data<std::int64_t>(); }  // of an i64 scalar
  Literal literal(std::int64_t element = 0) const;

  TileValue reshaped(Type type) const;

 private:
  Type type_;
  std::int64_t elements_ = 0;
  std::vector<std::byte> bytes_;
};

using TileValues = std::span<const TileValue* const>;

TileValue broadcast(const TileValue& value, const Type& type);
TileValue transpose(const TileValue& value, std::span<const std::int64_t> permutation, const Type& type);
TileValue slice(const TileValue& value, std::span<const std::int64_t> offsets, const Type& type);
TileValue concat(TileValues values, std::int64_t axis, const Type& type);
TileValue iota(std::int64_t axis, const Type& type);
TileValue cast(const TileValue& value, const Type& type);
TileValue elementwise(Function function, TileValues operands, const Type& type);
TileValue mask(const TileValue& value, std::int64_t axis, std::int64_t length, const TileValue& fill);
TileValue dot(const TileValue& accumulator, const TileValue& a, const TileValue& b, std::int64_t batch_axes);
std::vector<TileValue> reduce(Combiner combiner, const TileValue& value, std::int64_t axis,
                              std::span<const Type> types);
std::vector<TileValue> scan(Combiner combiner, const TileValue& value, const Attributes& attributes,
                            std::span<const Type> types);

}  // namespace kiln::tile
