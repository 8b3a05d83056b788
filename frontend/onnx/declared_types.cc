#include "frontend/onnx/declared_types.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>

#include <fmt/ranges.h>

#include "frontend/onnx/tensor_reader.h"
#include "ir/base/errors.h"

namespace kiln::frontend {

Formal declared_type(const onnx::TypeProto& type, const std::string& what) {
  const auto tensor = [&](const onnx::TypeProto& item, Container container) -> Formal {
    return {require_dtype(item.tensor_type().elem_type(), what), container, std::nullopt};
  };
  if (type.has_tensor_type()) return tensor(type, Container::Tensor);
  if (type.has_sequence_type()) {
    const onnx::TypeProto& item = type.sequence_type().elem_type();
    if (item.has_tensor_type()) return tensor(item, Container::Sequence);
    if (item.has_map_type()) return tensor(item.map_type().value_type(), Container::MapSequence);
  }
  if (type.has_map_type()) return tensor(type.map_type().value_type(), Container::Map);
  if (type.has_optional_type()) {
    const onnx::TypeProto& item = type.optional_type().elem_type();
    if (item.has_tensor_type()) return tensor(item, Container::Optional);
    if (item.has_sequence_type() && item.sequence_type().elem_type().has_tensor_type()) {
      return tensor(item.sequence_type().elem_type(), Container::OptionalSequence);
    }
  }
  throw_caller(ErrorCode::Unsupported,
               "{} is neither a dense tensor nor a sequence, an optional or a map of such", what);
}

// "?" and "None" are what exporters write when they know nothing, in several places with unrelated extents.
bool is_anonymous(const std::string& dim_param) {
  return dim_param.empty() || dim_param == "?" || dim_param == "None" || dim_param == "-1";
}

bool can_be(const graph::Shape& shape, const onnx::TensorShapeProto& declared) {
  if (static_cast<int>(shape.size()) != declared.dim_size()) return false;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const auto& dim = declared.dim(static_cast<int>(axis));
    if (!shape[axis].is_constant() || !dim.has_dim_value() || dim.dim_value() < 0) continue;
    if (shape[axis].constant() != dim.dim_value()) return false;
  }
  return true;
}

std::string shape_text(const onnx::TensorShapeProto& declared) {
  std::vector<std::string> extents;
  for (const auto& dim : declared.dim()) {
    extents.push_back(dim.has_dim_value()       ? fmt::format("{}", dim.dim_value())
                      : dim.dim_param().empty() ? "?"
                                                : dim.dim_param());
  }
  return fmt::format("[{}]", fmt::join(extents, ", "));
}

std::vector<ValueInfo> default_inputs(const onnx::ModelProto& model, const LoadOptions& options) {
  std::unordered_map<std::string_view, std::int64_t> initializers;  // data types by name
  const onnx::GraphProto& graph = model.graph();
  for (const auto& tensor : graph.initializer()) initializers.emplace(tensor.name(), tensor.data_type());
  for (const auto& tensor : graph.sparse_initializer())
    initializers.emplace(tensor.values().name(), tensor.values().data_type());
  std::vector<ValueInfo> defaults;
  for (const auto& input : graph.input()) {
    const auto initializer = initializers.find(input.name());
    if (initializer == initializers.end() || options.constant_inputs.contains(input.name())) continue;
    ValueInfo& info = defaults.emplace_back();
    info.name = input.name();
    info.dtype = require_dtype(initializer->second, fmt::format("initializer '{}'", input.name()));
    const auto& type = input.type().tensor_type();
    if (!type.has_shape() || options.hide_rank) continue;
    info.shape.emplace();
    for (const auto& dim : type.shape().dim()) {
      const bool known = dim.has_dim_value() && dim.dim_value() >= 0 && !options.hide_dims;
      const bool named = dim.has_dim_param() && !is_anonymous(dim.dim_param()) && !options.hide_dims;
      info.shape->push_back(
          {.extent = known ? dim.dim_value() : -1, .symbol = named ? dim.dim_param() : std::string()});
    }
  }
  return defaults;
}

}  // namespace kiln::frontend
