// Tensors and sequences in files: ONNX TensorProto (.pb) and NumPy arrays (.npy).
#pragma once

#include <string>

#include <kiln/datum.h>
#include <kiln/kiln.h>
#include <kiln/tensor.h>

namespace kiln {

// Reads by the extension, .pb or .npy. Throws Error (environment, io; caller, invalid_argument) naming the
// file.
Tensor read_tensor(const std::string& path);
// The same for a .pb file that holds what a model's input or output of this container and dtype is, which the
// file does not say itself; with the name that it may give it. Maps are not read.
NamedDatum read_datum(const std::string& path, Container container, DType dtype);

// Writes by the extension.
void write_tensor(const std::string& path, const Tensor& tensor, const std::string& name = {});

}  // namespace kiln
