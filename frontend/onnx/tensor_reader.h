// TensorProto -> Tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <kiln/tensor.h>
#include <onnx/onnx_pb.h>

#include "frontend/onnx/mapped_file.h"

namespace kiln::frontend {

// The dtype for a number of TensorProto.DataType, also of versions newer than the schema; and back.
std::optional<DType> dtype_from_onnx(std::int64_t data_type);
std::int64_t onnx_data_type(DType dtype);
// The same; throws Error (caller, unsupported) that names `what` if there is no such dtype.
DType require_dtype(std::int64_t data_type, const std::string& what);

// Where the tensors of one file keep what is not in their protobuf messages.
struct TensorStorage {
  std::vector<std::span<const std::byte>> payloads;      // as parse() returned them
  std::shared_ptr<const void> owner;                     // of the payloads' bytes
  std::optional<std::string> folder;                     // of external data; none: external data is refused
  std::int64_t max_external_bytes = INT64_MAX;           // of one file
  std::int64_t max_dense_bytes = std::int64_t{2} << 30;  // of one sparse tensor made dense
};

// Reads tensors whose every size is checked against the bytes that are there before anything is allocated.
// Data that lie suitably aligned in a mapped file stay there; others are copied once. Not thread safe.
class TensorReader {
 public:
  explicit TensorReader(TensorStorage storage) : storage_(std::move(storage)) {}

  // Throws Error (caller) that names the tensor, what is wrong, got and expected.
  Tensor read(const onnx::TensorProto& proto);
  Tensor read(const onnx::SparseTensorProto& proto);

 private:
  Tensor read_unnamed(const onnx::TensorProto& proto);
  Tensor read_external(const onnx::TensorProto& proto, DType dtype, Extents extents);

  TensorStorage storage_;
  std::map<std::string, std::shared_ptr<const MappedFile>> external_files_;
};

}  // namespace kiln::frontend
