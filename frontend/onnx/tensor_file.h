// Files that hold one value in ONNX's protobuf form, as in ONNX test data (input_0.pb).
#pragma once

#include <cstdint>
#include <string>

#include <kiln/datum.h>
#include <kiln/tensor.h>

namespace kiln::frontend {

struct DatumFile {
  std::string name;  // as stored; often the input's or output's name, or empty
  Datum datum;
};

// Reads `path`, which holds what an input or output of this container and dtype is: the file does not say
// itself. Large data stay in the mapped file. Throws Error (caller) if it is damaged, refers to another file,
// is above `max_bytes`, or holds maps, sparse tensors or nested sequences. Thread safe.
DatumFile read_datum_pb(const std::string& path, Container container = Container::Tensor,
                        DType dtype = DType::F32, std::int64_t max_bytes = std::int64_t{1} << 34);

// Writes a tensor. Throws Error (environment, io) if the file cannot be written, (caller, limit_exceeded)
// above protobuf's 2 GiB.
void write_tensor_pb(const std::string& path, const Tensor& tensor, const std::string& name = {});

}  // namespace kiln::frontend
