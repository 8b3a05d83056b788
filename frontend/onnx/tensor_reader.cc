#include "frontend/onnx/tensor_reader.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "frontend/onnx/wire.h"
#include "ir/base/checked_math.h"
#include "ir/base/errors.h"

namespace kiln::frontend {
namespace {

// By TensorProto.DataType, beginning with 1.
constexpr DType kDTypes[] = {
    DType::F32,    DType::U8,         DType::I8,   DType::U16,  DType::I16,      DType::I32,
    DType::I64,    DType::String,     DType::I1,   DType::F16,  DType::F64,      DType::U32,
    DType::U64,    DType::C64,        DType::C128, DType::BF16, DType::F8E4M3FN, DType::F8E4M3FNUZ,
    DType::F8E5M2, DType::F8E5M2FNUZ, DType::U4,   DType::I4,   DType::F4E2M1,   DType::F8E8M0,
    DType::U2,     DType::I2,
};

static_assert(std::endian::native == std::endian::little, "tensor files are little-endian");

Extents read_extents(const google::protobuf::RepeatedField<std::int64_t>& dims) {
  Extents extents(dims.begin(), dims.end());
  constexpr std::size_t kMaxRank = 64;
  if (extents.size() > kMaxRank) {
    throw_caller(ErrorCode::LimitExceeded, "rank {} is above {}", extents.size(), kMaxRank);
  }
  for (const std::int64_t extent : extents) {
    if (extent < 0) throw_caller(ErrorCode::InvalidModel, "it has the negative extent {}", extent);
  }
  element_count(extents);
  return extents;
}

std::size_t alignment(DType dtype) {
  return dtype == DType::C128 ? 8 : static_cast<std::size_t>(std::clamp(bits(dtype) / 8, 1, 8));
}

bool is_canonical(DType dtype, std::span<const std::byte> bytes) {
  return dtype != DType::I1 ||
         std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b <= std::byte{1}; });
}

// `bytes` as a tensor: in place if `owner` keeps them and they are aligned, otherwise copied.
Tensor from_bytes(DType dtype, Extents extents, std::span<const std::byte> bytes,
                  const std::shared_ptr<const void>& owner) {
  const std::int64_t elements = element_count(extents);
  const std::int64_t expected = byte_size(dtype, elements);
  if (static_cast<std::uint64_t>(expected) != bytes.size()) {
    throw_caller(ErrorCode::InvalidModel, "it has {} bytes of data, {} {} elements need {}", bytes.size(),
                 elements, name(dtype), expected);
  }
  const bool aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment(dtype) == 0;
  if (owner != nullptr && aligned && !bytes.empty() && is_canonical(dtype, bytes)) {
    return {dtype, std::move(extents), owner, bytes.data()};
  }
  Tensor tensor(dtype, std::move(extents));
  if (bytes.empty()) return tensor;
  std::memcpy(tensor.mutable_data(), bytes.data(), bytes.size());
  if (dtype == DType::I1) {
    for (std::byte& value : tensor.as_mutable<std::byte>()) value = std::byte{value != std::byte{0}};
  }
  return tensor;
}

// Values of a typed field, converted to Stored; `per_element` values (of a complex number: 2) or, if
// negative, elements per value (of packed types).
template <typename Stored, typename Field>
Tensor from_field(DType dtype, Extents extents, const Field& field, std::int64_t per_element = 1) {
  const std::int64_t elements = element_count(extents);
  const auto expected = per_element > 0 ? checked_multiply(elements, per_element)
                                        : std::optional(ceil_divide(elements, -per_element));
  if (!expected || *expected != field.size()) {
    throw_caller(ErrorCode::InvalidModel, "it has {} values, expected {} for {} {} elements", field.size(),
                 expected.value_or(-1), elements, name(dtype));
  }
  Tensor tensor(dtype, std::move(extents));
  auto* out = reinterpret_cast<Stored*>(tensor.mutable_data());
  for (const auto value : field) *out++ = static_cast<Stored>(value);
  return tensor;
}

Tensor from_fields(const onnx::TensorProto& proto, DType dtype, Extents extents) {
  switch (dtype) {
    case DType::F32:
      return from_field<float>(dtype, std::move(extents), proto.float_data());
    case DType::C64:
      return from_field<float>(dtype, std::move(extents), proto.float_data(), 2);
    case DType::F64:
      return from_field<double>(dtype, std::move(extents), proto.double_data());
    case DType::C128:
      return from_field<double>(dtype, std::move(extents), proto.double_data(), 2);
    case DType::I64:
      return from_field<std::int64_t>(dtype, std::move(extents), proto.int64_data());
    case DType::U64:
      return from_field<std::uint64_t>(dtype, std::move(extents), proto.uint64_data());
    case DType::U32:
      return from_field<std::uint32_t>(dtype, std::move(extents), proto.uint64_data());
    case DType::I32:
      return from_field<std::int32_t>(dtype, std::move(extents), proto.int32_data());
    case DType::I1:
      return from_field<bool>(dtype, std::move(extents), proto.int32_data());
    case DType::I16:
    case DType::U16:
    case DType::F16:
    case DType::BF16:
      return from_field<std::uint16_t>(dtype, std::move(extents), proto.int32_data());
    case DType::I8:
    case DType::U8:
    case DType::F8E4M3FN:
    case DType::F8E4M3FNUZ:
    case DType::F8E5M2:
    case DType::F8E5M2FNUZ:
    case DType::F8E8M0:
      return from_field<std::uint8_t>(dtype, std::move(extents), proto.int32_data());
    case DType::I4:
    case DType::U4:
    case DType::F4E2M1:
      return from_field<std::uint8_t>(dtype, std::move(extents), proto.int32_data(), -2);
    case DType::I2:
    case DType::U2:
      return from_field<std::uint8_t>(dtype, std::move(extents), proto.int32_data(), -4);
    case DType::String:
      break;
  }
  const std::int64_t elements = element_count(extents);
  if (elements != proto.string_data_size()) {
    throw_caller(ErrorCode::InvalidModel, "it has {} strings, expected {}", proto.string_data_size(),
                 elements);
  }
  Tensor tensor(dtype, std::move(extents));
  std::copy(proto.string_data().begin(), proto.string_data().end(), tensor.as_mutable<std::string>().begin());
  return tensor;
}

// Throws if the elements are there more than once: which of them are meant, nobody can tell.
void check_fields(const onnx::TensorProto& proto, bool has_raw_data) {
  const std::pair<const char*, bool> fields[] = {
      {"external_data", proto.data_location() == onnx::TensorProto::EXTERNAL},
      {"raw_data", has_raw_data},
      {"float_data", proto.float_data_size() > 0},
      {"int32_data", proto.int32_data_size() > 0},
      {"string_data", proto.string_data_size() > 0},
      {"int64_data", proto.int64_data_size() > 0},
      {"double_data", proto.double_data_size() > 0},
      {"uint64_data", proto.uint64_data_size() > 0},
  };
  const char* first = nullptr;
  for (const auto& [name, filled] : fields) {
    if (!filled) continue;
    if (first != nullptr)
      throw_caller(ErrorCode::InvalidModel, "it has data in {} and in {}, expected one of them", first, name);
    first = name;
  }
}

std::int64_t read_number(std::string_view key, std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    throw_caller(ErrorCode::InvalidModel, "its external data have the {} '{}', expected a number >= 0", key,
                 text);
  }
  return value;
}

}  // namespace

std::optional<DType> dtype_from_onnx(std::int64_t data_type) {
  if (data_type < 1 || data_type > static_cast<std::int64_t>(std::size(kDTypes))) return std::nullopt;
  return kDTypes[data_type - 1];
}

std::int64_t onnx_data_type(DType dtype) {
  return std::find(std::begin(kDTypes), std::end(kDTypes), dtype) - std::begin(kDTypes) + 1;
}

DType require_dtype(std::int64_t data_type, const std::string& what) {
  const std::optional<DType> dtype = dtype_from_onnx(data_type);
  if (!dtype) {
    throw_caller(ErrorCode::Unsupported, "{} has the data type number {}, known are 1 to {}", what, data_type,
                 std::size(kDTypes));
  }
  return *dtype;
}

Tensor TensorReader::read(const onnx::TensorProto& proto) {
  try {
    return read_unnamed(proto);
  } catch (Error& error) {
    throw error.with("tensor", proto.name());
  }
}

Tensor TensorReader::read_unnamed(const onnx::TensorProto& proto) {
  const DType dtype = require_dtype(proto.data_type(), "it");
  if (proto.has_segment()) throw_caller(ErrorCode::Unsupported, "it is split into segments");
  Extents extents = read_extents(proto.dims());
  const std::optional<std::size_t> payload = payload_index(proto);
  check_fields(proto, payload || !proto.raw_data().empty());
  if (proto.data_location() == onnx::TensorProto::EXTERNAL)
    return read_external(proto, dtype, std::move(extents));
  if (!payload && proto.raw_data().empty()) return from_fields(proto, dtype, std::move(extents));
  if (dtype == DType::String) throw_caller(ErrorCode::InvalidModel, "its strings are in raw_data");
  if (!payload)
    return from_bytes(dtype, std::move(extents), std::as_bytes(std::span(proto.raw_data())), nullptr);
  require(*payload < storage_.payloads.size(), "payload {} does not exist", *payload);
  return from_bytes(dtype, std::move(extents), storage_.payloads[*payload], storage_.owner);
}

Tensor TensorReader::read_external(const onnx::TensorProto& proto, DType dtype, Extents extents) {
  if (!storage_.folder)
    throw_caller(ErrorCode::Unsupported, "its data are in another file, which is not allowed here");
  if (dtype == DType::String) throw_caller(ErrorCode::InvalidModel, "its strings are in external data");
  std::string location;
  std::int64_t offset = 0;
  std::optional<std::int64_t> length;
  std::set<std::string_view> keys;
  for (const auto& entry : proto.external_data()) {
    if (!keys.insert(entry.key()).second)
      throw_caller(ErrorCode::InvalidModel, "its external data have the {} twice", entry.key());
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = read_number("offset", entry.value());
    if (entry.key() == "length") length = read_number("length", entry.value());
  }
  std::shared_ptr<const MappedFile>& file = external_files_[location];
  if (file == nullptr) {
    file = MappedFile::open_below(*storage_.folder, location, storage_.max_external_bytes);
  }
  const auto size = static_cast<std::int64_t>(file->bytes().size());
  const std::int64_t wanted = length.value_or(byte_size(dtype, element_count(extents)));
  if (offset > size || wanted > size - offset) {
    throw_caller(ErrorCode::InvalidModel,
                 "its external data are bytes {} to {}+{} of '{}', which has {} bytes", offset, offset,
                 wanted, location, size);
  }
  const auto bytes =
      file->bytes().subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(wanted));
  return from_bytes(dtype, std::move(extents), bytes, file);
}

Tensor TensorReader::read(const onnx::SparseTensorProto& proto) {
  const Tensor values = read(proto.values());
  const Tensor indices = read(proto.indices());
  try {
    Extents extents = read_extents(proto.dims());
    const std::int64_t rank = static_cast<std::int64_t>(extents.size());
    const std::int64_t elements = element_count(extents);
    const std::int64_t count = values.elements();
    const bool linear = indices.rank() == 1 && indices.extents()[0] == count;
    if (values.rank() != 1 || indices.dtype() != DType::I64 ||
        !(linear || (indices.rank() == 2 && indices.extents() == Extents{count, rank}))) {
      throw_caller(
          ErrorCode::InvalidModel,
          "a sparse tensor needs n values and n or n x rank i64 indices, got {} {} values and {} {} indices",
          to_string(values.extents()), name(values.dtype()), to_string(indices.extents()),
          name(indices.dtype()));
    }
    const int width = bits(values.dtype()) / 8;
    if (values.dtype() == DType::String || width == 0) {
      throw_caller(ErrorCode::Unsupported, "sparse tensors of {} are not supported", name(values.dtype()));
    }
    if (byte_size(values.dtype(), elements) > storage_.max_dense_bytes) {
      throw_caller(ErrorCode::LimitExceeded,
                   "a sparse tensor of {} {} elements is above the limit of {} bytes", elements,
                   name(values.dtype()), storage_.max_dense_bytes);
    }
    Tensor dense(values.dtype(), extents);
    std::vector<bool> given(static_cast<std::size_t>(elements));
    const auto index = indices.as<std::int64_t>();
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t flat = linear ? index[static_cast<std::size_t>(i)] : 0;
      bool inside = linear ? flat >= 0 && flat < elements : true;
      for (std::int64_t axis = 0; !linear && axis < rank; ++axis) {
        const std::int64_t coordinate = index[static_cast<std::size_t>(i * rank + axis)];
        const std::int64_t extent = extents[static_cast<std::size_t>(axis)];
        inside = inside && coordinate >= 0 && coordinate < extent;
        if (inside) flat = flat * extent + coordinate;
      }
      if (!inside) {
        throw_caller(ErrorCode::InvalidModel, "index {} of a sparse tensor is outside {}", i,
                     to_string(extents));
      }
      if (given[static_cast<std::size_t>(flat)]) {
        throw_caller(ErrorCode::InvalidModel, "index {} of a sparse tensor of {} names an element twice", i,
                     to_string(extents));
      }
      given[static_cast<std::size_t>(flat)] = true;
      std::memcpy(dense.mutable_data() + flat * width, values.data() + i * width,
                  static_cast<std::size_t>(width));
    }
    return dense;
  } catch (Error& error) {
    throw error.with("tensor", proto.values().name());
  }
}

}  // namespace kiln::frontend
