#include "runtime/operands.h"

#include <algorithm>

#include "ir/base/checked_math.h"
#include "ir/base/errors.h"

namespace kiln::runtime {
namespace {

template <typename T>
void store_integers(Tensor& tensor, std::span<const std::int64_t> values) {
  auto out = tensor.as_mutable<T>();
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = static_cast<T>(values[i]);
}

}  // namespace

bool makes_sizes(const graph::Graph& graph, const graph::Node& node) {
  for (const graph::ValueId output : node.outputs) {
    if (!output || !graph.value(output).shape) continue;
    for (const graph::Dim& dim : *graph.value(output).shape) {
      for (const graph::SymbolId symbol : dim.symbols()) {
        const graph::SymbolSource& source = graph.symbols[symbol.index].source;
        if (source.kind == graph::SymbolSource::Kind::NodeResult &&
            std::find(node.outputs.begin(), node.outputs.end(), source.value) != node.outputs.end()) {
          return true;
        }
      }
    }
  }
  return false;
}

Tensor elements_tensor(const graph::Value& value, std::span<const std::int64_t> bindings) {
  std::optional<Tensor> tensor = try_elements_tensor(value, bindings);
  require(tensor.has_value(), "value {} is asked for while Symbols in it are unbound", value.name);
  return *std::move(tensor);
}

std::optional<Tensor> try_elements_tensor(const graph::Value& value, std::span<const std::int64_t> bindings) {
  if (value.constant) return *value.constant;
  std::vector<std::int64_t> values;
  Extents extents;
  for (const auto& [dims, numbers] : {std::pair(&*value.elements, &values), {&*value.shape, &extents}}) {
    for (const graph::Dim& dim : *dims) {
      const auto number = dim.try_evaluate(bindings);
      if (!number) return std::nullopt;
      numbers->push_back(*number);
    }
  }
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

std::optional<Extents> try_extents(const graph::Graph& graph, graph::ValueId id,
                                   std::span<const std::int64_t> bindings) {
  const graph::Value& value = graph.value(id);
  if (!value.shape) return std::nullopt;
  try {
    Extents extents;
    for (const graph::Dim& dim : *value.shape) {
      const auto extent = dim.try_evaluate(bindings);
      if (!extent) return std::nullopt;
      if (*extent < 0)
        throw_caller(ErrorCode::ShapeMismatch, "a result would have extent {} for these input sizes",
                     *extent);
      extents.push_back(*extent);
    }
    byte_size(value.dtype, element_count(extents));  // throws if it is beyond 64 bits
    return extents;
  } catch (Error& error) {
    if (value.producer) {
      const graph::Node& node = graph.node(value.producer);
      error.with("node", node.name).with("op", std::string(name(node.op)));
    }
    throw;
  }
}

}  // namespace kiln::runtime
