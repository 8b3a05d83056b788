#include "frontend/onnx/translation.h"

#include <algorithm>
#include <utility>

#include "ir/base/errors.h"
#include "ir/base/float_types.h"

namespace kiln::frontend {
namespace {

template <typename T>
std::vector<T> convert(std::span<const double> values) {
  std::vector<T> converted;
  for (const double value : values) converted.push_back(static_cast<T>(value));
  return converted;
}

}  // namespace

ValueId Translation::input(std::size_t index) const {
  if (!has_input(index)) invalid(fmt::format("input {} is missing", index));
  return inputs[index];
}

bool Translation::awaits_rank(ValueId value, std::int64_t low, std::int64_t high) {
  if (!value) return false;
  const auto input = std::find(inputs.begin(), inputs.end(), value);
  require(input != inputs.end(), "{} awaits the rank of what is not its input", op);
  if (const auto known = rank(value)) {
    if (*known < low || *known > high)
      invalid(fmt::format("an input has rank {}, expected {} to {}", *known, low, high));
    return false;
  }
  open_rank = {static_cast<std::size_t>(input - inputs.begin()), low, high};
  return true;
}

std::optional<std::int64_t> Translation::rank(ValueId value) const {
  const auto& shape = graph.value(value).shape;
  if (!shape) return std::nullopt;
  return static_cast<std::int64_t>(shape->size());
}

std::optional<std::vector<std::int64_t>> Translation::constant_integers(ValueId value) const {
  const auto& constant = graph.value(value).constant;
  if (!constant || !is_integer(constant->dtype())) return std::nullopt;
  return constant->to_integers();
}

template <typename T>
std::optional<T> Translation::take(std::string_view name, std::string_view type) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return std::nullopt;
  T* value = std::get_if<T>(&found->second);
  if (value == nullptr) invalid(fmt::format("attribute '{}' is not {}", name, type));
  std::optional<T> taken = std::move(*value);
  attributes.erase(found);
  return taken;
}

std::optional<std::int64_t> Translation::take_integer(std::string_view name) {
  return take<std::int64_t>(name, "an integer");
}
std::optional<double> Translation::take_number(std::string_view name) {
  return take<double>(name, "a number");
}
std::optional<std::vector<std::int64_t>> Translation::take_integers(std::string_view name) {
  return take<std::vector<std::int64_t>>(name, "a list of integers");
}
std::optional<std::vector<double>> Translation::take_numbers(std::string_view name) {
  return take<std::vector<double>>(name, "a list of numbers");
}
std::optional<std::vector<std::string>> Translation::take_texts(std::string_view name) {
  return take<std::vector<std::string>>(name, "a list of strings");
}
std::optional<Tensor> Translation::take_tensor(std::string_view name) {
  return take<Tensor>(name, "a tensor");
}
std::int64_t Translation::take_integer(std::string_view name, std::int64_t absent) {
  return take_integer(name).value_or(absent);
}
double Translation::take_number(std::string_view name, double absent) {
  return take_number(name).value_or(absent);
}
std::string Translation::take_text(std::string_view name, std::string_view absent) {
  return take<std::string>(name, "a string").value_or(std::string(absent));
}

void Translation::drop(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (const auto found = attributes.find(name); found != attributes.end()) attributes.erase(found);
  }
}

void Translation::expect_integer(std::string_view name, std::int64_t only, std::int64_t absent) {
  const std::int64_t value = take_integer(name, absent);
  if (value != only)
    unsupported(fmt::format("attribute '{}' is {}, only {} is supported", name, value, only));
}

ValueId Translation::integers(std::span<const std::int64_t> values) {
  return graph.add_constant(Tensor::from_integers(values));
}

ValueId Translation::integer(std::int64_t value) { return graph.add_constant(Tensor::from_integer(value)); }

ValueId Translation::numbers(DType type, Extents extents, std::span<const double> values) {
  const auto make = [&]<typename T>(T) {
    const std::vector<T> converted = convert<T>(values);
    return graph.add_constant(Tensor::from(type, std::move(extents), std::span(converted)));
  };
  switch (type) {
    case DType::F16:
      return make(Float16());
    case DType::BF16:
      return make(BFloat16());
    case DType::F32:
      return make(float());
    case DType::F64:
      return make(double());
    default:
      unsupported(fmt::format("a constant of type {} is wanted, expected a float", name(type)));
  }
}

// An output without a name would be left out.
std::vector<std::string> Translation::intermediate_names(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i)
    names.push_back(fmt::format("{}/{}.{}", node, graph.node_count(), i));
  return names;
}

ValueId Translation::add(OpKind kind, std::vector<ValueId> operands, Attributes node_attributes) {
  const ValueId result = graph.add(kind, std::move(operands), std::move(node_attributes));
  graph.node(graph.value(result).producer).name = node;
  return result;
}

std::vector<ValueId> Translation::add_many(OpKind kind, std::vector<ValueId> operands,
                                           Attributes node_attributes, std::size_t output_count) {
  const std::vector<std::string> names = intermediate_names(output_count);
  const graph::NodeId made =
      graph.add_node(kind, std::move(operands), std::move(node_attributes), node, names);
  return graph.node(made).outputs;
}

void Translation::finish(OpKind kind, std::vector<ValueId> operands, Attributes node_attributes) {
  const graph::NodeId made =
      graph.add_node(kind, std::move(operands), std::move(node_attributes), node, outputs);
  results = graph.node(made).outputs;
}

void Translation::finish_output(std::size_t index, OpKind kind, std::vector<ValueId> operands,
                                Attributes node_attributes) {
  results.resize(std::max(results.size(), outputs.size()));
  if (!wants(index)) return;
  const graph::NodeId made = graph.add_node(kind, std::move(operands), std::move(node_attributes), node,
                                            std::span(&outputs[index], 1));
  results[index] = graph.node(made).outputs[0];
}

void Translation::finish_with(std::initializer_list<ValueId> values) {
  if (outputs.size() > values.size()) {
    invalid(fmt::format("it has {} outputs, at most {} are possible", outputs.size(), values.size()));
  }
  std::size_t index = 0;
  for (const ValueId value : values) finish_output(index++, OpKind::Identity, {value});
}

void Translation::unsupported(std::string_view what) const {
  throw_caller(ErrorCode::Unsupported, "{}", what);
}
void Translation::invalid(std::string_view what) const { throw_caller(ErrorCode::InvalidModel, "{}", what); }

}  // namespace kiln::frontend
