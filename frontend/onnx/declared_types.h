// What a model declares of its inputs and outputs.
#pragma once

#include <string>
#include <vector>

#include <kiln/value_info.h>
#include <onnx/onnx_pb.h>

#include "frontend/onnx/loader.h"
#include "frontend/onnx/translation.h"
#include "ir/graph/graph.h"

namespace kiln::frontend {

// Dtype and container of a declared type; the shape is left out. Throws Error (caller, unsupported) that
// names `what` for a type that Kiln has not.
Formal declared_type(const onnx::TypeProto& type, const std::string& what);

// True for the name of a dimension that stands for no particular symbol.
bool is_anonymous(const std::string& dim_param);

// True unless the rank or an extent that is a number here and there contradicts.
bool can_be(const graph::Shape& shape, const onnx::TensorShapeProto& declared);

// "[batch, 4, ?]"
std::string shape_text(const onnx::TensorShapeProto& declared);

// What ModelSource::defaults() gives.
std::vector<ValueInfo> default_inputs(const onnx::ModelProto& model, const LoadOptions& options);

}  // namespace kiln::frontend
