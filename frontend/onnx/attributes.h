// AttributeProto -> Attribute.
#pragma once

#include <onnx/onnx_pb.h>

#include "frontend/onnx/tensor_reader.h"
#include "frontend/onnx/translation.h"

namespace kiln::frontend {

// An attribute that holds no Graph; a type becomes "dtype, whether a sequence". Throws Error (caller) that
// names it for a kind that no operator of ours has.
Attribute read_attribute(const onnx::AttributeProto& attribute, TensorReader& tensors);

}  // namespace kiln::frontend
