// ModelProto -> Graph: names, order, types of inputs, functions. What an operator means is ops.def's matter.
#pragma once

#include <onnx/onnx_pb.h>

#include "frontend/onnx/loader.h"
#include "frontend/onnx/tensor_reader.h"
#include "ir/graph/graph.h"

namespace kiln::frontend {

// Throws Error (caller) as load_model() does.
graph::Graph import_model(const onnx::ModelProto& model, TensorReader& tensors, const LoadOptions& options);

}  // namespace kiln::frontend
