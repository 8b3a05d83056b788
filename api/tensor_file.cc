#include "frontend/onnx/tensor_file.h"

#include <bit>
#include <cctype>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <kiln/tensor_file.h>

#include "ir/base/checked_math.h"
#include "ir/base/errors.h"
#include "runtime/inputs.h"

// The .npy format, version 1 and 2: "\x93NUMPY", two version bytes, the header's length (2 or 4 bytes,
// little-endian), and a Python dict literal with the keys descr, fortran_order and shape; then the elements.

namespace kiln {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::uint32_t kMaxHeader = 1 << 16;

struct NpyType {
  std::string_view descr;
  DType dtype;
};
constexpr NpyType kNpyTypes[] = {
    {"|b1", DType::I1},  {"|i1", DType::I8},  {"<i2", DType::I16}, {"<i4", DType::I32},
    {"<i8", DType::I64}, {"|u1", DType::U8},  {"<u2", DType::U16}, {"<u4", DType::U32},
    {"<u8", DType::U64}, {"<f2", DType::F16}, {"<f4", DType::F32}, {"<f8", DType::F64},
};

bool ends_with(const std::string& path, std::string_view extension) { return path.ends_with(extension); }

[[noreturn]] void bad_file(const std::string& path, std::string_view why) {
  throw_caller(ErrorCode::InvalidArgument, "{} is no NumPy array that Kiln reads: {}", path, why);
}

// What follows `key` and a colon in the header.
std::string_view field(const std::string& path, std::string_view header, std::string_view key) {
  const std::size_t at = header.find(fmt::format("'{}'", key));
  const std::size_t colon = at == std::string_view::npos ? at : header.find(':', at);
  if (colon == std::string_view::npos) bad_file(path, fmt::format("its header has no {}", key));
  std::string_view rest = header.substr(colon + 1);
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  return rest;
}

// A quoted descr, such as '<f4'.
DType parse_type(const std::string& path, std::string_view text) {
  const std::size_t close = text.empty() ? std::string_view::npos : text.find(text.front(), 1);
  if (close == std::string_view::npos || (text.front() != '\'' && text.front() != '"'))
    bad_file(path, "its elements are of several fields, expected plain numbers");
  const std::string_view descr = text.substr(1, close - 1);
  for (const NpyType& type : kNpyTypes) {
    if (descr == type.descr) return type.dtype;
  }
  std::string known;
  for (const NpyType& type : kNpyTypes) known += fmt::format("{}{}", known.empty() ? "" : ", ", type.descr);
  bad_file(path, fmt::format("its elements are of NumPy type {}, expected one of {}", descr, known));
}

Extents parse_shape(const std::string& path, std::string_view text) {
  const std::size_t close = text.find(')');
  if (text.empty() || text.front() != '(' || close == std::string_view::npos)
    bad_file(path, "its shape is malformed");
  text = text.substr(1, close - 1);
  Extents extents;
  while (!text.empty()) {
    if (text.front() == ' ' || text.front() == ',') {
      text.remove_prefix(1);
      continue;
    }
    std::int64_t extent = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (error != std::errc() || extent < 0) bad_file(path, "its shape is malformed");
    extents.push_back(extent);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  }
  return extents;
}

Tensor read_npy(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw_caller(ErrorCode::NotFound, "no such file: '{}'", path);
  if (!std::filesystem::is_regular_file(status))
    throw_caller(ErrorCode::Io, "'{}' is not a regular file", path);
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw_environment(ErrorCode::Io, "cannot open '{}'", path);
  const std::int64_t file_bytes = file.tellg();
  if (file_bytes == 0) bad_file(path, "it is empty");
  file.seekg(0);
  char start[8] = {};
  if (!file.read(start, 8) || std::string_view(start, 6) != kMagic)
    bad_file(path, "it does not begin with the magic bytes");
  unsigned char length[4] = {};
  const bool short_length = start[6] == 1;
  file.read(reinterpret_cast<char*>(length), short_length ? 2 : 4);
  const std::uint32_t header_bytes =
      length[0] | length[1] << 8 | length[2] << 16 | static_cast<std::uint32_t>(length[3]) << 24;
  if (!file || header_bytes > kMaxHeader) bad_file(path, "its header is damaged");
  std::string header(header_bytes, '\0');
  if (!file.read(header.data(), header_bytes)) bad_file(path, "its header is cut off");
  if (field(path, header, "fortran_order").starts_with("True"))
    bad_file(path, "it is in Fortran order; save it with numpy.ascontiguousarray");
  const DType dtype = parse_type(path, field(path, header, "descr"));
  const Extents extents = parse_shape(path, field(path, header, "shape"));
  // The size is checked against the file before anything of that size is allocated.
  const std::int64_t bytes = byte_size(dtype, element_count(extents));
  if (bytes != file_bytes - file.tellg()) {
    bad_file(path, fmt::format("{} bytes follow the header, {} of {} need {}", file_bytes - file.tellg(),
                               to_string(extents), name(dtype), bytes));
  }
  Tensor tensor(dtype, extents);
  if (!file.read(reinterpret_cast<char*>(tensor.mutable_data()), bytes))
    throw_environment(ErrorCode::Io, "cannot read {}", path);
  return tensor;
}

void write_npy(const std::string& path, const Tensor& tensor) {
  std::optional<std::string_view> descr;
  for (const NpyType& type : kNpyTypes) {
    if (type.dtype == tensor.dtype()) descr = type.descr;
  }
  if (!descr)
    throw_caller(ErrorCode::Unsupported, "NumPy has no element type for {}; write {} as .pb",
                 name(tensor.dtype()), path);
  std::string shape;
  for (const std::int64_t extent : tensor.extents()) shape += fmt::format("{},", extent);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", *descr, shape);
  // The elements start at a multiple of 64.
  const std::size_t unpadded = 10 + header.size() + 1;
  header.append((64 - unpadded % 64) % 64, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  const char length[2] = {static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  file << kMagic << '\x01' << '\0';
  file.write(length, 2);
  file << header;
  file.write(reinterpret_cast<const char*>(tensor.data()), tensor.byte_size());
  file.close();
  if (!file) throw_environment(ErrorCode::Io, "cannot write {}", path);
}

}  // namespace

Tensor read_tensor(const std::string& path) {
  if (ends_with(path, ".npy")) return read_npy(path);
  if (!ends_with(path, ".pb")) throw_caller(ErrorCode::InvalidArgument, "{} is neither .npy nor .pb", path);
  return frontend::read_datum_pb(path).datum.tensor();
}

NamedDatum read_datum(const std::string& path, Container container, DType dtype) {
  if (container == Container::Tensor && !ends_with(path, ".pb")) return {"", read_tensor(path)};
  frontend::DatumFile file = frontend::read_datum_pb(path, container, dtype);
  return {std::move(file.name), std::move(file.datum)};
}

void write_tensor(const std::string& path, const Tensor& tensor, const std::string& name) {
  if (!runtime::has_elements(tensor)) {
    throw_caller(ErrorCode::InvalidArgument,
                 "the tensor for {} has no elements: it was default-constructed or moved from", path);
  }
  if (ends_with(path, ".npy")) {
    write_npy(path, tensor);
  } else if (ends_with(path, ".pb")) {
    frontend::write_tensor_pb(path, tensor, name);
  } else {
    throw_caller(ErrorCode::InvalidArgument, "{} is neither .npy nor .pb", path);
  }
}

}  // namespace kiln
