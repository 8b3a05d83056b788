// Files that hold one value in ONNX's protobuf form, as in ONNX test data (input_0.pb).
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <kiln/tensor.h>

namespace kiln::frontend {

// A file does not say what it holds: that is the type of the model's input or output.
enum class FileKind : std::uint8_t { Tensor, Sequence, Optional };

// A tensor; the tensors of a sequence; monostate: an optional without a value.
using FileContent = std::variant<Tensor, std::vector<Tensor>, std::monostate>;

struct TensorFile {
  std::string name;  // as stored; often the input's or output's name, or empty
  FileContent content;
};

// Reads `path`. Large data stay in the mapped file. Throws Error (caller) if it is damaged, refers to another
// file, is above `max_bytes`, or holds maps, sparse tensors or nested sequences. Thread safe.
TensorFile read_tensor_pb(const std::string& path, FileKind kind = FileKind::Tensor,
                          std::int64_t max_bytes = std::int64_t{1} << 34);

// Writes a tensor. Throws Error (environment, io) if the file cannot be written, (caller, limit_exceeded)
// above protobuf's 2 GiB.
void write_tensor_pb(const std::string& path, const Tensor& tensor, const std::string& name = {});

}  // namespace kiln::frontend
