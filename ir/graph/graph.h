// The tensor program: operators in their newest ONNX meaning over Values with symbolic shapes.
//
// A Graph is a value type built by the frontend and by passes; it is not thread safe while it changes.
// Nodes and Values are addressed by Ids that stay valid until compact() renumbers them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <kiln/datum.h>
#include <kiln/tensor.h>

#include "ir/base/id.h"
#include "ir/graph/dim.h"
#include "ir/graph/layout.h"

namespace kiln::graph {

class Graph;

using NodeId = Id<struct NodeTag>;

// One enumerator per row of ops.def.
enum class OpKind : std::uint16_t {
#define KILN_OP(kind, ...) kind,
#include "ir/graph/ops.def"
#undef KILN_OP
};

std::string_view name(OpKind kind);
std::optional<OpKind> op_from_name(std::string_view name);

// An attribute's value. Floats are kept as f64, integers (and enumerations given as integers) as i64.
using Attribute = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>,
                               std::vector<double>, std::vector<std::string>, Tensor, std::shared_ptr<Graph>>;
using Attributes = std::map<std::string, Attribute, std::less<>>;

// The container with a value, and the one that may be nothing; maps have no such form.
Container certain(Container container);
Container maybe(Container container);

constexpr std::size_t kMaxKnownElements = 64;

struct Value {
  std::string name;          // unique in its Graph, for messages; may be empty in derived Graphs
  DType dtype = DType::F32;  // of the tensors in it
  Container container = Container::Tensor;
  std::optional<Shape> shape;      // nothing: not a tensor, or the rank is unknown before running
  NodeId producer;                 // none: a graph input or a constant
  std::optional<Tensor> constant;  // an initializer, or what folding found
  // Elements of a Value of at most kMaxKnownElements when all are integers known symbolically (shape
  // arithmetic), row-major: an integer Value, a boolean one (0 or 1), or floats that are whole numbers.
  std::optional<std::vector<Dim>> elements;
  std::optional<Layout> layout;  // assigned by the layout pass
};

struct Node {
  OpKind op = OpKind::Identity;
  std::string name;  // of the ONNX node, for messages and traces
  // One entry per operand of the contract, none where an optional one is absent; a variadic operand, always
  // the last, has as many entries as are given.
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Attributes attributes;  // complete: defaults of the contract are filled in by add_node()
  bool removed = false;
};

// Where a Symbol's value comes from.
struct SymbolSource {
  enum class Kind : std::uint8_t { InputDim, InputElement, NodeResult };
  Kind kind = Kind::InputDim;
  ValueId value;           // the graph input, or the Value that a Step makes
  std::int64_t index = 0;  // axis (InputDim, NodeResult dims) or flat element index (InputElement)
};

struct Symbol {
  std::string name;  // dim_param, or a made-up unique name
  SymbolSource source;
};

// What shape inference assumed of two extents; checked when their Symbols are bound.
struct Guard {
  enum class Relation : std::uint8_t { Equal, AtLeast };
  Dim left, right;
  std::string reason;  // names node, op and axis, for the message
  Relation relation = Relation::Equal;
};

class Graph {
 public:
  std::string name;
  std::vector<ValueId> inputs;  // without initializers
  // A Graph in a node: how many inputs, the last ones, are Values of the Graph around it. The node lists them
  // behind its own inputs, those of its first Graph attribute (by name) first.
  std::size_t captures = 0;
  std::vector<ValueId> outputs;
  std::vector<Symbol> symbols;
  std::vector<Guard> guards;

  ValueId add_value(Value value);
  ValueId add_constant(Tensor tensor, std::string name = {});
  SymbolId add_symbol(Symbol symbol);  // an empty name becomes "?" and the Symbol's number

  // Appends a node, fills in the contract's default attributes, checks counts, attributes and type
  // constraints (Error names node, op, got, expected), creates its outputs and infers their dtypes, shapes
  // and elements. An entry of `wanted` that is empty leaves that optional output out.
  NodeId add_node(OpKind op, std::vector<ValueId> inputs, Attributes attributes, std::string name,
                  std::span<const std::string> wanted);
  // The same with every required output (of a variadic one: as many as a num_outputs attribute says, else
  // one), unnamed; returns the first output.
  ValueId add(OpKind op, std::vector<ValueId> inputs, Attributes attributes = {});

  Value& value(ValueId id) { return values_[id.index]; }
  const Value& value(ValueId id) const { return values_[id.index]; }
  Node& node(NodeId id) { return nodes_[id.index]; }
  const Node& node(NodeId id) const { return nodes_[id.index]; }
  std::size_t value_count() const { return values_.size(); }
  std::size_t node_count() const { return nodes_.size(); }

  // Nodes that are not removed, in an order in which producers come first. O(nodes + edges).
  std::vector<NodeId> topological_order() const;
  // For each Value, the nodes that read it (a node once per operand), in topological order.
  std::vector<std::vector<NodeId>> consumers() const;
  bool is_output(ValueId id) const;

  // The only way to change an input of a node, so that replace_uses() knows every reader.
  void set_input(NodeId node, std::size_t operand, ValueId value);
  // Makes every reader (and graph output) of `from` use `to`. O(readers).
  void replace_uses(ValueId from, ValueId to);
  void remove_node(NodeId id);
  // Drops removed nodes and unreachable Values and renumbers, keeping order.
  void compact();

  std::string symbol_name(SymbolId id) const { return symbols[id.index].name; }

 private:
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<std::vector<NodeId>> readers_;  // by Value: nodes that read it now or did before, any order
};

// Typed access to attributes; throws Error (bug) if absent or of another type, as add_node() checked both.
std::int64_t integer(const Node& node, std::string_view attribute);
double number(const Node& node, std::string_view attribute);
const std::string& text(const Node& node, std::string_view attribute);
std::span<const std::int64_t> integers(const Node& node, std::string_view attribute);
std::span<const double> numbers(const Node& node, std::string_view attribute);
std::span<const std::string> texts(const Node& node, std::string_view attribute);
const Tensor& tensor(const Node& node, std::string_view attribute);
bool has(const Node& node, std::string_view attribute);

// The text form: one line per symbol, input, constant (large ones abbreviated by hash), node with dtypes
// and shapes, and output. Attributes with their default value are left out.
std::string to_text(const Graph& graph);

}  // namespace kiln::graph
