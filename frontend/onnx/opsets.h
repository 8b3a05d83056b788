// Which version of each domain's operators a model or a function speaks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include <onnx/onnx_pb.h>

namespace kiln::frontend {

using Opsets = std::map<std::string, std::int64_t, std::less<>>;  // by domain

// "ai.onnx" for the domain that has no name.
std::string domain_name(const std::string& domain);

// Throws Error (caller): invalid_model for a domain in two versions, unsupported for one of ai.onnx that is
// not known yet.
Opsets read_opsets(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports);

// The version of a domain's operators. Throws Error (caller, invalid_model) if it is not imported.
std::int64_t opset_version(const Opsets& opsets, const std::string& domain);

}  // namespace kiln::frontend
