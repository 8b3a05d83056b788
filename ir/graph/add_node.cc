// Graph::add_node: a node is checked against its contract and completed before it enters the graph.
#include <algorithm>
#include <utility>

#include "ir/base/errors.h"
#include "ir/graph/contract.h"
#include "ir/graph/graph.h"
#include "ir/graph/infer.h"

namespace kiln::graph {
namespace {

AttributeType type_of(const Attribute& attribute) { return static_cast<AttributeType>(attribute.index()); }

std::string_view name(AttributeType type) {
  switch (type) {
    case AttributeType::Integer:
      return "an integer";
    case AttributeType::Number:
      return "a float";
    case AttributeType::Text:
      return "a text";
    case AttributeType::Integers:
      return "integers";
    case AttributeType::Numbers:
      return "floats";
    case AttributeType::Texts:
      return "texts";
    case AttributeType::Tensor:
      return "a tensor";
    case AttributeType::Graph:
      return "a graph";
  }
  return "";
}

void complete_attributes(const OpContract& op, Attributes& attributes) {
  for (const auto& [name_given, value] : attributes) {
    const auto found = std::find_if(op.attributes.begin(), op.attributes.end(),
                                    [&](const AttributeSpec& spec) { return spec.name == name_given; });
    if (found == op.attributes.end()) {
      throw_caller(ErrorCode::InvalidModel, "unknown attribute \"{}\"", name_given);
    }
    if (type_of(value) != found->type) {
      throw_caller(ErrorCode::InvalidModel, "attribute \"{}\" is {}, expected {}", name_given,
                   name(type_of(value)), name(found->type));
    }
  }
  for (const AttributeSpec& spec : op.attributes) {
    if (attributes.contains(spec.name)) continue;
    if (spec.required) throw_caller(ErrorCode::InvalidModel, "attribute \"{}\" is missing", spec.name);
    if (!spec.default_text.empty()) attributes.emplace(spec.name, default_value(spec));
  }
}

// The operand that entry `index` of a node's list stands for: a variadic one takes the rest.
const OperandSpec& operand(std::span<const OperandSpec> specs, std::size_t index) {
  return specs[std::min(index, specs.size() - 1)];
}

template <typename Entry>
void check_count(std::span<const OperandSpec> specs, std::vector<Entry>& entries, std::string_view what) {
  const bool variadic = !specs.empty() && specs.back().variadic;
  if (entries.size() > specs.size() && !variadic) {
    throw_caller(ErrorCode::InvalidModel, "got {} {}, expected at most {}", entries.size(), what,
                 specs.size());
  }
  const std::size_t least = specs.size() - (variadic && specs.back().optional ? 1 : 0);
  if (entries.size() < least) entries.resize(least);
}

// The dtype that each type letter stands for in one node, as its operands say.
class TypeBindings {
 public:
  explicit TypeBindings(const OpContract& op) : op_(op), bound_(op.types.size()) {}

  void bind(const OperandSpec& spec, const Value& value) {
    if (spec.mixed) return;
    if (value.container != spec.container) {
      throw_caller(ErrorCode::TypeMismatch, "\"{}\" is a {}, expected a {}", spec.name,
                   kiln::name(value.container), kiln::name(spec.container));
    }
    const DType dtype = value.dtype;
    const std::size_t index = constraint(spec.types);
    const std::span<const DType> allowed = op_.types[index].allowed;
    if (std::find(allowed.begin(), allowed.end(), dtype) == allowed.end()) {
      std::vector<std::string_view> names;
      for (const DType item : allowed) names.push_back(kiln::name(item));
      throw_caller(ErrorCode::TypeMismatch, "\"{}\" has type {}, expected one of {}", spec.name,
                   kiln::name(dtype), fmt::join(names, ", "));
    }
    if (bound_[index] && *bound_[index] != dtype) {
      throw_caller(ErrorCode::TypeMismatch, "\"{}\" has type {}, expected {} as of another operand",
                   spec.name, kiln::name(dtype), kiln::name(*bound_[index]));
    }
    bound_[index] = dtype;
  }

  // The dtype of an operand if the letter is bound or stands for one dtype only.
  std::optional<DType> find(const OperandSpec& spec) const {
    if (spec.mixed) return std::nullopt;
    const std::size_t index = constraint(spec.types);
    if (bound_[index]) return bound_[index];
    if (op_.types[index].allowed.size() == 1) return op_.types[index].allowed[0];
    return std::nullopt;
  }

 private:
  std::size_t constraint(std::string_view letter) const {
    for (std::size_t i = 0; i < op_.types.size(); ++i) {
      if (op_.types[i].letter == letter) return i;
    }
    throw_bug("ops.def has no type \"{}\" for {}", letter, op_.name);
  }

  const OpContract& op_;
  std::vector<std::optional<DType>> bound_;
};

}  // namespace

NodeId Graph::add_node(OpKind kind, std::vector<ValueId> node_inputs, Attributes attributes,
                       std::string node_name, std::span<const std::string> wanted) {
  const OpContract& op = contract(kind);
  const std::size_t old_values = values_.size(), old_symbols = symbols.size(), old_guards = guards.size();
  const NodeId id{static_cast<std::uint32_t>(nodes_.size())};
  Node node;
  node.op = kind;
  node.name = std::move(node_name);
  try {
    node.inputs = std::move(node_inputs);
    check_count(op.inputs, node.inputs, "inputs");
    std::vector<std::string> names(wanted.begin(), wanted.end());
    check_count(op.outputs, names, "outputs");
    node.attributes = std::move(attributes);
    complete_attributes(op, node.attributes);

    TypeBindings types(op);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const OperandSpec& spec = operand(op.inputs, i);
      const ValueId input = node.inputs[i];
      if (!input) {
        if (!spec.optional)
          throw_caller(ErrorCode::InvalidModel, "input {} (\"{}\") is missing", i, spec.name);
        continue;
      }
      require(input.index < values_.size(), "input {} of a node does not exist", i);
      types.bind(spec, value(input));
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      const OperandSpec& spec = operand(op.outputs, i);
      if (names[i].empty() && spec.optional) {
        node.outputs.push_back(ValueId::none());
        continue;
      }
      Value output;
      output.name = std::move(names[i]);
      output.dtype = types.find(spec).value_or(DType::F32);
      output.container = spec.container;
      output.producer = id;
      node.outputs.push_back(add_value(std::move(output)));
    }
    op.infer(*this, node);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i]) types.bind(operand(op.outputs, i), value(node.outputs[i]));
    }
    evaluate_elements(*this, node);
  } catch (Error& error) {
    values_.resize(old_values);
    readers_.resize(old_values);
    symbols.resize(old_symbols);
    guards.resize(old_guards);
    error.with("node", node.name).with("op", std::string(op.name));
    throw;
  }
  for (const ValueId input : node.inputs) {
    if (input) readers_[input.index].push_back(id);
  }
  nodes_.push_back(std::move(node));
  return id;
}

ValueId Graph::add(OpKind kind, std::vector<ValueId> node_inputs, Attributes attributes) {
  std::size_t count = 0;
  const std::span<const OperandSpec> specs = contract(kind).outputs;
  while (count < specs.size() && !specs[count].optional) ++count;
  if (const auto found = attributes.find("num_outputs"); found != attributes.end() && specs.back().variadic) {
    constexpr std::int64_t kMost = 1 << 16;
    if (const auto* outputs_wanted = std::get_if<std::int64_t>(&found->second)) {
      count = static_cast<std::size_t>(std::clamp<std::int64_t>(*outputs_wanted, 1, kMost));
    }
  }
  const NodeId id =
      add_node(kind, std::move(node_inputs), std::move(attributes), {}, std::vector<std::string>(count));
  return node(id).outputs[0];
}

}  // namespace kiln::graph
