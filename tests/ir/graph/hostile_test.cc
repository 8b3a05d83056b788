// Random nodes: whatever a file may say, add_node() either infers or throws an Error that names the op.
#include <random>

#include <gtest/gtest.h>

#include "ir/graph/contract.h"
#include "tests/ir/graph/graph_builder.h"

namespace kiln::graph {
namespace {

class RandomNodes {
 public:
  explicit RandomNodes(std::uint32_t seed) : random_(seed) {}

  // True if the node was accepted.
  bool try_one(const OpContract& op) {
    Graph graph;
    symbols_ = {symbol(graph, "a"), symbol(graph, "b")};
    std::vector<ValueId> inputs;
    std::map<std::string_view, DType> types;
    for (const OperandSpec& spec : op.inputs) {
      const std::size_t count = spec.variadic ? 1 + pick(3) : 1;
      for (std::size_t i = 0; i < count; ++i) {
        inputs.push_back(spec.optional && pick(2) == 0 ? ValueId::none()
                                                       : input(graph, type_of(op, spec, types)));
      }
    }
    std::vector<std::string> wanted;
    for (const OperandSpec& spec : op.outputs)
      wanted.emplace_back(spec.optional && pick(2) == 0 ? "" : "out");
    if (op.outputs.back().variadic) wanted.resize(wanted.size() + pick(3), "out");
    Attributes attributes;
    for (const AttributeSpec& spec : op.attributes) {
      if (!spec.required && pick(3) > 0) continue;
      attributes.emplace(spec.name, attribute(spec));
    }
    try {
      const NodeId id = graph.add_node(op.kind, inputs, attributes, "node", wanted);
      for (const ValueId output : graph.node(id).outputs) check(graph, output);
      EXPECT_FALSE(to_text(graph).empty());
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Caller) << op.name << ": " << error.what();
      EXPECT_NE(std::string(error.what()).find(fmt_op(op)), std::string::npos) << error.what();
      return false;
    }
  }

 private:
  static std::string fmt_op(const OpContract& op) { return "op=" + std::string(op.name); }

  std::size_t pick(std::size_t below) { return random_() % below; }

  std::int64_t any_integer() {
    constexpr std::int64_t kHard[] = {0, 1, -1, 2, 3, -2, 7, 64, INT64_MAX, INT64_MIN, INT32_MAX, INT32_MIN};
    return kHard[pick(pick(4) == 0 ? std::size(kHard) : 5)];
  }

  DType type_of(const OpContract& op, const OperandSpec& spec, std::map<std::string_view, DType>& types) {
    for (const TypeConstraint& constraint : op.types) {
      if (constraint.letter != spec.types) continue;
      return types.emplace(constraint.letter, constraint.allowed[pick(constraint.allowed.size())])
          .first->second;
    }
    return DType::F32;
  }

  ValueId input(Graph& graph, DType dtype) {
    if (pick(8) == 0) return add_input(graph, dtype, std::nullopt);
    if (pick(3) == 0) {
      // A constant, integers with extreme values.
      Tensor tensor(dtype, pick(3) == 0 ? Extents{} : Extents{static_cast<std::int64_t>(pick(5))});
      for (std::int64_t i = 0; dtype == DType::I64 && i < tensor.elements(); ++i) {
        tensor.as_mutable<std::int64_t>()[static_cast<std::size_t>(i)] = any_integer();
      }
      return graph.add_constant(std::move(tensor));
    }
    Shape shape;
    const std::size_t rank = pick(6);
    for (std::size_t i = 0; i < rank; ++i) {
      const std::size_t kind = pick(6);
      shape.push_back(kind < 2                    ? symbols_[kind]
                      : kind == 2                 ? symbols_[0] * symbols_[1] + 1
                      : kind == 3 && pick(8) == 0 ? Dim(INT64_MAX / 2)
                                                  : Dim(static_cast<std::int64_t>(pick(5))));
    }
    const ValueId id = add_input(graph, dtype, shape);
    if (dtype == DType::I64 && pick(3) == 0 && shape.size() == 1 && shape[0].is_constant() &&
        shape[0].constant() < 8) {
      std::vector<Dim> elements;
      for (std::int64_t i = 0; i < shape[0].constant(); ++i)
        elements.push_back(pick(2) == 0 ? symbols_[0] - 1 : symbols_[1]);
      graph.value(id).elements = elements;
    }
    return id;
  }

  Attribute attribute(const AttributeSpec& spec) {
    switch (spec.type) {
      case AttributeType::Integer:
        return any_integer();
      case AttributeType::Number:
        return pick(2) == 0 ? 0.5 : std::numeric_limits<double>::infinity();
      case AttributeType::Text: {
        const char* const words[] = {"",         "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID",     "DCR",
                                     "constant", "none",   "add",        "nearest",    "not_larger"};
        return std::string(words[pick(std::size(words))]);
      }
      case AttributeType::Integers: {
        std::vector<std::int64_t> values(pick(5));
        for (std::int64_t& value : values) value = any_integer();
        return values;
      }
      case AttributeType::Numbers:
        return std::vector<double>(pick(3), 1.0);
      case AttributeType::Texts:
        return std::vector<std::string>(pick(3), "x");
      case AttributeType::Tensor:
        return Tensor(pick(2) == 0 ? DType::F32 : DType::I64, pick(2) == 0 ? Extents{} : Extents{2});
      case AttributeType::Graph:
        return std::make_shared<Graph>();
    }
    return any_integer();
  }

  // What is inferred holds together, for any values of the Symbols.
  void check(const Graph& graph, ValueId id) {
    if (!id) return;
    const Value& value = graph.value(id);
    if (!value.shape) return;
    const std::vector<std::int64_t> bindings(graph.symbols.size(), 3);
    for (const Dim& extent : *value.shape) {
      try {
        extent.evaluate(bindings);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::Caller) << error.what();
      }
      EXPECT_TRUE(!extent.is_constant() || extent.constant() >= 0);
    }
    if (value.elements && element_count(*value.shape).is_constant()) {
      EXPECT_EQ(static_cast<std::int64_t>(value.elements->size()), element_count(*value.shape).constant());
    }
  }

  std::mt19937 random_;
  std::vector<Dim> symbols_;
};

TEST(Hostile, RandomNodesNeverCrash) {
  RandomNodes nodes(99);
  std::size_t accepted_ops = 0;
  for (const OpContract& op : contracts()) {
    int accepted = 0;
    for (int i = 0; i < 200; ++i) accepted += nodes.try_one(op) ? 1 : 0;
    accepted_ops += accepted > 0 ? 1 : 0;
  }
  // Most operators are hit by nodes that pass, too; graphs, packed weights and the like are not made by
  // chance.
  EXPECT_GT(accepted_ops, contracts().size() * 8 / 10);
}

}  // namespace
}  // namespace kiln::graph
