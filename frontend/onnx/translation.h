// One ONNX node on its way into the Graph: what a translator of ops.def works with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <kiln/tensor.h>

#include "ir/graph/graph.h"

namespace kiln::frontend {

using graph::Attribute;
using graph::Attributes;
using graph::OpKind;
using graph::ValueId;

// What a Graph in an attribute gets as an input: extents are those of the Graph around it. Symbolic ones may
// change from one execution to the next.
struct Formal {
  DType dtype = DType::F32;
  Container container = Container::Tensor;
  std::optional<graph::Shape> shape;
};

// An extent of a Formal that is not known: each becomes a Symbol of the input's own, so nothing about it is
// assumed.
inline const graph::Dim kOpenExtent = graph::Dim::symbol(graph::SymbolId{0});

// A Graph in an attribute, made for certain inputs.
struct Body {
  std::shared_ptr<graph::Graph> graph;
  std::vector<ValueId> captures;  // Values around it, which the node lists behind its own inputs
};

// Extents of a body's inputs that turned out not to be the same in every execution: input and axis; an axis
// of kAnyRank says that not even the rank is, kMaybeNothing that the input is an optional.
constexpr std::size_t kAnyRank = SIZE_MAX, kMaybeNothing = SIZE_MAX - 1;
using ChangingExtents = std::set<std::pair<std::size_t, std::size_t>>;

// The attributes of a Cast.
inline Attributes to(DType type) { return {{"to", static_cast<std::int64_t>(type)}}; }

// How Graphs in the attributes of one node become Graphs of ours.
class BodyImporter {
 public:
  virtual ~BodyImporter() = default;
  virtual bool has(std::string_view attribute) const = 0;
  // The Graph with these inputs; throws Error (caller, invalid_model) if it declares another number of them.
  virtual Body import_body(std::string_view attribute, std::span<const Formal> formals) = 0;
  // What the Graph declares of its inputs; f32 of any rank where it says nothing, a Symbol for an extent that
  // is no number.
  virtual std::vector<Formal> declared_inputs(std::string_view attribute) const = 0;
  // Its nodes become nodes of the Graph around it, with these Values for its inputs. Returns its outputs;
  // throws Error (caller, invalid_model) if it declares another number of inputs.
  virtual std::vector<ValueId> inline_body(std::string_view attribute, std::span<const ValueId> inputs) = 0;
  // What is known by now of a Graph that may be imported several times.
  virtual ChangingExtents& changing_extents(std::string_view attribute) = 0;
};

// An input whose rank decides what a node becomes, and shows only when it runs.
struct OpenRank {
  std::size_t input;
  std::int64_t low, high;  // the ranks that it can have
};

// A translator takes away the attributes that the newest meaning lacks, adds what it needs, and calls
// finish() once. An attribute that it leaves goes into the Graph unchanged.
class Translation {
 public:
  Translation(graph::Graph& target, std::string node_name) : graph(target), node(std::move(node_name)) {}

  graph::Graph& graph;
  std::string node;                   // its name, for messages and traces
  std::string domain, op;             // "ai.onnx" for the default domain
  std::int64_t opset = 0;             // of that domain
  std::vector<ValueId> inputs;        // none: absent; the last one is present
  std::vector<std::string> outputs;   // names for the Values; empty: absent; the last one is present
  Attributes attributes;              // but for Graphs
  BodyImporter* bodies = nullptr;     // the Graphs
  std::vector<ValueId> results;       // what finish() made of the outputs
  std::optional<OpenRank> open_rank;  // what awaits_rank() has asked for

  bool has_input(std::size_t index) const {
    return index < inputs.size() && static_cast<bool>(inputs[index]);
  }
  // Throws Error (caller, invalid_model) if it is absent.
  ValueId input(std::size_t index) const;
  // The input, or none.
  ValueId optional_input(std::size_t index) const {
    return index < inputs.size() ? inputs[index] : ValueId::none();
  }
  bool wants(std::size_t output) const { return output < outputs.size() && !outputs[output].empty(); }
  std::optional<std::int64_t> rank(ValueId value) const;
  // True if this input is present and its rank not known. The translator then returns, what it has added
  // stays unused, and it is called anew for each rank from `low` to `high`. Throws Error (caller,
  // invalid_model) if the rank is known to be another.
  bool awaits_rank(ValueId value, std::int64_t low, std::int64_t high);
  // The elements of a constant; nothing if the Value is not a constant of integers.
  std::optional<std::vector<std::int64_t>> constant_integers(ValueId value) const;
  DType dtype(ValueId value) const { return graph.value(value).dtype; }

  // Removes an attribute and returns it; throws Error (caller, invalid_model) if it has another type.
  std::int64_t take_integer(std::string_view name, std::int64_t absent);
  double take_number(std::string_view name, double absent);
  std::string take_text(std::string_view name, std::string_view absent);
  std::optional<std::int64_t> take_integer(std::string_view name);
  std::optional<double> take_number(std::string_view name);
  std::optional<std::vector<std::int64_t>> take_integers(std::string_view name);
  std::optional<std::vector<double>> take_numbers(std::string_view name);
  std::optional<std::vector<std::string>> take_texts(std::string_view name);
  std::optional<Tensor> take_tensor(std::string_view name);
  void drop(std::initializer_list<std::string_view> names);
  // Removes an attribute for which only one value can be translated.
  void expect_integer(std::string_view name, std::int64_t only, std::int64_t absent);

  ValueId integers(std::span<const std::int64_t> values);  // a constant vector of i64
  ValueId integers(std::initializer_list<std::int64_t> values) {
    return integers(std::span(values.begin(), values.size()));
  }
  ValueId integer(std::int64_t value);                                            // a constant scalar of i64
  ValueId numbers(DType dtype, Extents extents, std::span<const double> values);  // a constant of floats
  ValueId scalar(DType dtype, double value) { return numbers(dtype, {}, std::span(&value, 1)); }
  // A node in between; returns its first output, or all of them.
  ValueId add(OpKind kind, std::vector<ValueId> operands, Attributes node_attributes = {});
  std::vector<ValueId> add_many(OpKind kind, std::vector<ValueId> operands, Attributes node_attributes,
                                std::size_t output_count);

  // The node whose outputs are those of the ONNX node.
  void finish(OpKind kind, std::vector<ValueId> operands, Attributes node_attributes);
  void finish(OpKind kind, std::vector<ValueId> operands) {
    finish(kind, std::move(operands), std::move(attributes));
  }
  // The node that makes output `index` alone; nothing if that output is not wanted. For nodes that become
  // several, in place of finish().
  void finish_output(std::size_t index, OpKind kind, std::vector<ValueId> operands,
                     Attributes node_attributes = {});
  // Values that are the outputs, from the first on.
  void finish_with(std::initializer_list<ValueId> values);

  [[noreturn]] void unsupported(std::string_view what) const;
  [[noreturn]] void invalid(std::string_view what) const;

 private:
  std::vector<std::string> intermediate_names(std::size_t count);
  template <typename T>
  std::optional<T> take(std::string_view name, std::string_view type);
};

}  // namespace kiln::frontend
