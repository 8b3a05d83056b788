#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

#include <kiln/tensor.h>

#include "ir/base/checked_math.h"
#include "ir/base/errors.h"
#include "ir/base/float_types.h"
#include "ir/base/narrow_types.h"

namespace kiln {
namespace {

constexpr std::size_t kAlignment = 64;

std::shared_ptr<std::byte> allocate_zeroed(std::int64_t bytes) {
  const std::size_t rounded = (static_cast<std::size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded == 0 ? kAlignment : rounded));
  if (memory == nullptr)
    throw_environment(ErrorCode::OutOfMemory, "cannot allocate {} bytes for a tensor", bytes);
  std::memset(memory, 0, rounded);
  return {memory, [](std::byte* p) { std::free(p); }};
}

std::shared_ptr<std::vector<std::string>> allocate_strings(std::int64_t elements) {
  try {
    return std::make_shared<std::vector<std::string>>(static_cast<std::size_t>(elements));
  } catch (const std::exception&) {  // bad_alloc or length_error
    throw_environment(ErrorCode::OutOfMemory, "cannot allocate {} strings for a tensor", elements);
  }
}

template <typename T>
void append_integers(const Tensor& tensor, std::vector<std::int64_t>& out) {
  for (const T value : tensor.as<T>()) out.push_back(static_cast<std::int64_t>(value));
}

}  // namespace

std::string to_string(std::span<const std::int64_t> extents) {
  if (extents.empty()) return "scalar";
  return fmt::format("{}", fmt::join(extents, "x"));
}

Tensor::Tensor(DType dtype, Extents extents) : dtype_(dtype), extents_(std::move(extents)) {
  elements_ = element_count(extents_);
  if (dtype == DType::String) {
    auto strings = allocate_strings(elements_);
    data_ = reinterpret_cast<const std::byte*>(strings->data());
    owner_ = std::move(strings);
    return;
  }
  auto memory = allocate_zeroed(kiln::byte_size(dtype, elements_));
  data_ = memory.get();
  owner_ = std::move(memory);
}

Tensor::Tensor(DType dtype, Extents extents, std::shared_ptr<const void> owner, const std::byte* data)
    : dtype_(dtype), extents_(std::move(extents)), owner_(std::move(owner)), data_(data) {
  elements_ = element_count(extents_);
  const std::int64_t bytes = kiln::byte_size(dtype_, elements_);
  if (data_ == nullptr && bytes > 0) {
    throw_caller(ErrorCode::InvalidArgument, "a tensor of {} {} is made of a null pointer, expected {} bytes",
                 kiln::name(dtype_), to_string(extents_), bytes);
  }
}

Tensor Tensor::view(DType dtype, Extents extents, void* data) {
  return {dtype, std::move(extents), nullptr, static_cast<const std::byte*>(data)};
}

Tensor Tensor::copy() const {
  if (elements_ != element_count(extents_)) return {};  // without elements
  Tensor result(dtype_, extents_);
  result.copy_from(*this);
  return result;
}

void Tensor::copy_from(const Tensor& other) {
  if (dtype_ != other.dtype_ || extents_ != other.extents_ || elements_ != other.elements_) {
    throw_caller(ErrorCode::ShapeMismatch, "cannot copy {} {} into {} {}", kiln::name(other.dtype_),
                 to_string(other.extents_), kiln::name(dtype_), to_string(extents_));
  }
  if (dtype_ == DType::String) {
    std::ranges::copy(other.as<std::string>(), as_mutable<std::string>().begin());
  } else if (byte_size() > 0) {
    std::memcpy(mutable_data(), other.data_, static_cast<std::size_t>(byte_size()));
  }
}

void Tensor::check_source(std::int64_t values, std::size_t value_size) const {
  const bool fits =
      dtype_ == DType::String ? value_size == 0 : value_size * 8 == static_cast<std::size_t>(bits(dtype_));
  if (!fits) {
    throw_caller(ErrorCode::TypeMismatch, "elements of {} cannot be made of {}", kiln::name(dtype_),
                 value_size == 0 ? "strings" : fmt::format("values of {} bytes", value_size));
  }
  if (elements_ != values) {
    throw_caller(ErrorCode::ShapeMismatch, "{} elements wanted for {}, got {} values", elements_,
                 to_string(extents_), values);
  }
}

Tensor Tensor::from_integers(std::span<const std::int64_t> values) {
  return from(DType::I64, {static_cast<std::int64_t>(values.size())}, values);
}

Tensor Tensor::from_integer(std::int64_t value) {
  return from(DType::I64, {}, std::span<const std::int64_t>(&value, 1));
}

std::int64_t Tensor::byte_size() const {
  if (dtype_ == DType::String) return elements_ * static_cast<std::int64_t>(sizeof(std::string));
  return kiln::byte_size(dtype_, elements_);
}

Tensor Tensor::reshaped(Extents extents) const {
  Tensor result = *this;
  result.extents_ = std::move(extents);
  const std::int64_t elements = element_count(result.extents_);
  if (elements != elements_) {
    throw_caller(ErrorCode::ShapeMismatch, "cannot view {} elements as {}", elements_,
                 to_string(result.extents_));
  }
  return result;
}

double Tensor::number(std::int64_t index) const {
  if (index < 0 || index >= elements_)
    throw_caller(ErrorCode::IndexOutOfRange, "element {} is asked for, the tensor has {}", index, elements_);
  const auto element = [&]<typename T>(T) {
    return static_cast<double>(as<T>()[static_cast<std::size_t>(index)]);
  };
  const auto packed = [&] { return load_packed(data_, bits(dtype_), index); };
  switch (dtype_) {
    case DType::I1:
    case DType::U8:
      return element(std::uint8_t{});
    case DType::I8:
      return element(std::int8_t{});
    case DType::I16:
      return element(std::int16_t{});
    case DType::U16:
      return element(std::uint16_t{});
    case DType::I32:
      return element(std::int32_t{});
    case DType::U32:
      return element(std::uint32_t{});
    case DType::I64:
      return element(std::int64_t{});
    case DType::U64:
      return element(std::uint64_t{});
    case DType::F16:
      return element(Float16{});
    case DType::BF16:
      return element(BFloat16{});
    case DType::F32:
      return element(float{});
    case DType::F64:
      return element(double{});
    case DType::F8E4M3FN:
    case DType::F8E4M3FNUZ:
    case DType::F8E5M2:
    case DType::F8E5M2FNUZ:
    case DType::F8E8M0:
    case DType::F4E2M1:
      return decode_narrow_float(dtype_, packed());
    case DType::U2:
    case DType::U4:
      return packed();
    case DType::I2:
    case DType::I4: {
      const int sign = 1 << (bits(dtype_) - 1);
      return (packed() ^ sign) - sign;
    }
    case DType::C64:
    case DType::C128:
    case DType::String:
      break;
  }
  throw_caller(ErrorCode::TypeMismatch, "expected a tensor of numbers, got {}", name(dtype_));
}

std::vector<std::int64_t> Tensor::to_integers() const {
  std::vector<std::int64_t> out;
  out.reserve(static_cast<std::size_t>(elements_));
  switch (dtype_) {
    case DType::I1:
    case DType::U8:
      append_integers<std::uint8_t>(*this, out);
      break;
    case DType::I8:
      append_integers<std::int8_t>(*this, out);
      break;
    case DType::I16:
      append_integers<std::int16_t>(*this, out);
      break;
    case DType::I32:
      append_integers<std::int32_t>(*this, out);
      break;
    case DType::I64:
      append_integers<std::int64_t>(*this, out);
      break;
    case DType::U16:
      append_integers<std::uint16_t>(*this, out);
      break;
    case DType::U32:
      append_integers<std::uint32_t>(*this, out);
      break;
    case DType::U64:
      append_integers<std::uint64_t>(*this, out);
      break;
    default:
      throw_caller(ErrorCode::TypeMismatch, "expected an integer tensor, got {}", name(dtype_));
  }
  return out;
}

bool Tensor::operator==(const Tensor& other) const {
  if (dtype_ != other.dtype_ || extents_ != other.extents_ || elements_ != other.elements_) return false;
  if (dtype_ == DType::String) {
    const auto a = as<std::string>(), b = other.as<std::string>();
    return std::equal(a.begin(), a.end(), b.begin());
  }
  return elements_ == 0 || std::memcmp(data_, other.data_, static_cast<std::size_t>(byte_size())) == 0;
}

}  // namespace kiln
