#include "frontend/onnx/attributes.h"

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "frontend/onnx/declared_types.h"
#include "ir/base/errors.h"

namespace kiln::frontend {
namespace {

Attribute type_attribute(const onnx::AttributeProto& attribute) {
  const Formal type = declared_type(attribute.tp(), fmt::format("attribute '{}'", attribute.name()));
  const bool sequence =
      type.container == Container::Sequence || type.container == Container::OptionalSequence;
  return std::vector<std::int64_t>{static_cast<std::int64_t>(type.dtype), sequence ? 1 : 0};
}

}  // namespace

Attribute read_attribute(const onnx::AttributeProto& attribute, TensorReader& tensors) {
  using Proto = onnx::AttributeProto;
  Proto::AttributeType type = attribute.type();
  if (type == Proto::UNDEFINED) {  // the first versions of the format had no type
    if (attribute.has_f()) type = Proto::FLOAT;
    if (attribute.has_i()) type = Proto::INT;
    if (attribute.has_s()) type = Proto::STRING;
    if (attribute.has_t()) type = Proto::TENSOR;
    if (attribute.has_g()) type = Proto::GRAPH;
    if (attribute.floats_size() > 0) type = Proto::FLOATS;
    if (attribute.ints_size() > 0) type = Proto::INTS;
    if (attribute.strings_size() > 0) type = Proto::STRINGS;
  }
  switch (type) {
    case Proto::FLOAT:
      return double{attribute.f()};
    case Proto::INT:
      return std::int64_t{attribute.i()};
    case Proto::STRING:
      return attribute.s();
    case Proto::TENSOR:
      return tensors.read(attribute.t());
    case Proto::SPARSE_TENSOR:
      return tensors.read(attribute.sparse_tensor());
    case Proto::FLOATS:
      return std::vector<double>(attribute.floats().begin(), attribute.floats().end());
    case Proto::INTS:
      return std::vector<std::int64_t>(attribute.ints().begin(), attribute.ints().end());
    case Proto::STRINGS:
      return std::vector<std::string>(attribute.strings().begin(), attribute.strings().end());
    case Proto::TYPE_PROTO:
      return type_attribute(attribute);
    case Proto::GRAPH:
    case Proto::GRAPHS:
    case Proto::UNDEFINED:
    case Proto::TENSORS:
    case Proto::SPARSE_TENSORS:
    case Proto::TYPE_PROTOS:
      break;
  }
  throw_caller(ErrorCode::Unsupported, "attribute '{}' is of a type that is not supported ({})",
               attribute.name(), static_cast<int>(type));
}

}  // namespace kiln::frontend
