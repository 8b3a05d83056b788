#include "runtime/operands.h"

#include <cstring>

#include "ir/base/errors.h"

namespace kiln::runtime {
namespace {

template <typename T>
void store_integers(Tensor& tensor, std::span<const std::int64_t> values) {
  auto out = tensor.as_mutable<T>();
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = static_cast<T>(values[i]);
}

}  // namespace

Tensor elements_tensor(const graph::Value& value, std::span<const std::int64_t> bindings) {
  if (value.constant) return *value.constant;
  std::vector<std::int64_t> values;
  for (const graph::Dim& dim : *value.elements) values.push_back(dim.evaluate(bindings));
  Extents extents;
  for (const graph::Dim& dim : *value.shape) extents.push_back(dim.evaluate(bindings));
  Tensor tensor(value.dtype, std::move(extents));
  require(tensor.elements() == static_cast<std::int64_t>(values.size()),
          "value {} has {} elements, {} are known", value.name, tensor.elements(), values.size());
  switch (value.dtype) {
    case DType::I64:
      store_integers<std::int64_t>(tensor, values);
      break;
    case DType::I32:
      store_integers<std::int32_t>(tensor, values);
      break;
    case DType::I1:
      store_integers<std::uint8_t>(tensor, values);
      break;
    case DType::F32:
      store_integers<float>(tensor, values);
      break;
    case DType::F64:
      store_integers<double>(tensor, values);
      break;
    default:
      throw_bug("value {} of {} cannot be shape arithmetic", value.name, name(value.dtype));
  }
  return tensor;
}

std::optional<std::vector<graph::Dim>> known_elements(const graph::Graph& graph, const graph::Node& node,
                                                      std::size_t input) {
  if (input >= node.inputs.size() || !node.inputs[input]) return std::nullopt;
  const graph::Value& value = graph.value(node.inputs[input]);
  if (value.constant && (is_integer(value.constant->dtype()) || value.constant->dtype() == DType::I1)) {
    const auto integers = value.constant->to_integers();
    return std::vector<graph::Dim>(integers.begin(), integers.end());
  }
  return value.elements;
}

std::optional<std::vector<std::int64_t>> constant_elements(const graph::Graph& graph, const graph::Node& node,
                                                           std::size_t input) {
  const auto dims = known_elements(graph, node, input);
  if (!dims) return std::nullopt;
  std::vector<std::int64_t> integers;
  for (const graph::Dim& dim : *dims) {
    if (!dim.is_constant()) return std::nullopt;
    integers.push_back(dim.constant());
  }
  return integers;
}

}  // namespace kiln::runtime
