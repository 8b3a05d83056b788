// Tensors in files: ONNX TensorProto (.pb) and NumPy arrays (.npy).
#pragma once

#include <string>
#include <vector>

#include <kiln/tensor.h>

namespace kiln {

// What a .pb file of the ONNX test layout holds: a tensor, a sequence of tensors, or an optional one.
struct TensorFileValue {
  enum class Kind { Tensor, Sequence, Optional } kind = Kind::Tensor;
  std::string name;             // as stored; may be empty
  std::vector<Tensor> tensors;  // Tensor: one; Sequence: any number; Optional: none or one
};

// Reads by the extension, .pb or .npy. Throws Error (environment, io; caller, invalid_argument) naming the
// file.
Tensor read_tensor(const std::string& path);
TensorFileValue read_tensor_value(const std::string& path, TensorFileValue::Kind kind);

// Writes by the extension.
void write_tensor(const std::string& path, const Tensor& tensor, const std::string& name = {});

}  // namespace kiln
