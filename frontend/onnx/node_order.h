// The order in which the nodes of a graph can be imported: files may list them in any.
#pragma once

#include <string>
#include <vector>

#include <onnx/onnx_pb.h>

#include "frontend/onnx/scope.h"

namespace kiln::frontend {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

// What messages call the node at `index` of the scope's graph.
std::string node_name(const Scope& scope, const onnx::NodeProto& node, int index);

// Indices of `nodes` so that producers come first, otherwise in the order of the file. Tools that edit models
// append a Constant to override an earlier one of the same name, and ONNX Runtime lets the last one stand: so
// does Kiln, for all readers. Throws Error (caller, invalid_model) that names the node for any other second
// definition, also of what `scope` has already, and for a cycle.
std::vector<int> producers_first(const Nodes& nodes, const Scope& scope);

}  // namespace kiln::frontend
