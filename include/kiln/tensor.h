// A dense row-major host tensor: what a Session takes and gives, and constants inside Kiln. Copying shares
// the bytes; the bytes of a shared tensor are not to be written while others read them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <kiln/dtype.h>

namespace kiln {

using Extents = std::vector<std::int64_t>;

// "2x3x4", or "scalar" for rank 0.
std::string to_string(std::span<const std::int64_t> extents);

class Tensor {
 public:
  // Without elements or memory, as is a Tensor that was moved from; no model takes it.
  Tensor() = default;

  Tensor(const Tensor&) = default;
  Tensor& operator=(const Tensor&) = default;
  Tensor(Tensor&& other) noexcept { *this = std::move(other); }
  Tensor& operator=(Tensor&& other) noexcept;
  ~Tensor() = default;

  // New zeroed storage, 64-byte aligned (strings: empty). Throws Error (limit_exceeded or
  // out_of_memory) instead of bad_alloc.
  Tensor(DType dtype, Extents extents);

  // Bytes owned by `owner` (a mapped file, a caller's buffer); `data` holds byte_size() bytes. Throws Error
  // (caller, invalid_argument) if it is null and some are needed.
  Tensor(DType dtype, Extents extents, std::shared_ptr<const void> owner, const std::byte* data);

  // Memory of the caller, which must outlive every copy; read and written in place. As above if it is null.
  static Tensor view(DType dtype, Extents extents, void* data);

  // Throws Error (caller): shape_mismatch unless the extents hold exactly the values, type_mismatch unless T
  // has the size of the dtype's elements (std::string for strings; none has that of elements below a byte).
  template <typename T>
  static Tensor from(DType dtype, Extents extents, std::span<const T> values);
  // A rank-1 i64 tensor; a rank-0 one.
  static Tensor from_integers(std::span<const std::int64_t> values);
  static Tensor from_integer(std::int64_t value);

  DType dtype() const { return dtype_; }
  const Extents& extents() const { return extents_; }
  std::int64_t rank() const { return static_cast<std::int64_t>(extents_.size()); }
  std::int64_t elements() const { return elements_; }
  std::int64_t byte_size() const;  // strings: bytes of the std::string objects

  const std::byte* data() const { return data_; }
  // For the creator of the bytes, before they are shared.
  std::byte* mutable_data() { return const_cast<std::byte*>(data_); }

  // Elements as T, whose size must be that of the dtype (bool-like i1 as std::uint8_t or bool; f16 and
  // bf16 as 16-bit types; strings as std::string).
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data_), static_cast<std::size_t>(elements_)};
  }
  template <typename T>
  std::span<T> as_mutable() {
    return {reinterpret_cast<T*>(mutable_data()), static_cast<std::size_t>(elements_)};
  }

  // False for memory of the caller (view()).
  bool owns_memory() const { return owner_ != nullptr; }
  // The same elements in new memory.
  Tensor copy() const;
  // Copies the elements of `other` into the memory of this one. Throws Error (shape_mismatch) unless dtype
  // and extents are the same.
  void copy_from(const Tensor& other);

  // The same bytes under other extents of equal product.
  Tensor reshaped(Extents extents) const;

  // Element `index` of any dtype but string and complex; those of 64 bits are rounded. Throws Error
  // (type_mismatch; index_out_of_range).
  double number(std::int64_t index) const;

  // Elements of any integer dtype as i64. Throws Error (type_mismatch) otherwise.
  std::vector<std::int64_t> to_integers() const;

  bool operator==(const Tensor& other) const;  // dtype, extents and bytes

 private:
  // Throws as from() does; `value_size` 0 stands for strings.
  void check_source(std::int64_t values, std::size_t value_size) const;

  DType dtype_ = DType::F32;
  Extents extents_;
  std::int64_t elements_ = 0;
  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
};

inline Tensor& Tensor::operator=(Tensor&& other) noexcept {
  if (this == &other) return *this;
  dtype_ = other.dtype_;
  extents_ = std::exchange(other.extents_, {});
  elements_ = std::exchange(other.elements_, 0);
  owner_ = std::exchange(other.owner_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  return *this;
}

template <typename T>
Tensor Tensor::from(DType dtype, Extents extents, std::span<const T> values) {
  Tensor tensor(dtype, std::move(extents));
  constexpr bool kStrings = std::is_same_v<T, std::string>;
  tensor.check_source(static_cast<std::int64_t>(values.size()), kStrings ? 0 : sizeof(T));
  std::copy(values.begin(), values.end(), tensor.as_mutable<T>().begin());
  return tensor;
}

}  // namespace kiln
