// The operator contract: what ops.def says of each operator, as data.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "ir/graph/graph.h"

namespace kiln::graph {

// How an operator takes part in regions.
enum class FusionClass : std::uint8_t {
  Elementwise,  // each output element from the input elements at the same (broadcast) index
  View,         // Transpose, Reshape, Squeeze, Slice, Split, Expand ...: an index map, no arithmetic
  Rows,         // reductions, softmax and norms: several passes over rows
  Dot,          // Gemm, MatMul, Conv
  Pool,         // windows with a reduction
  Movement,     // Concat, Pad, Gather, DepthToSpace ...: moves elements, not always as strides
  Control,      // runs the Graphs in its attributes
  Shape,        // Shape, Size, ConstantOfShape, Range ...: host arithmetic on few integers
  Opaque,       // reference kernels only
  Random,       // the same, and each run draws anew: never folded, never merged with an equal node
};

struct OperandSpec {
  std::string_view name;
  std::string_view types;  // letter of a type constraint shared within the operator, such as "T"
  bool optional = false;
  bool variadic = false;  // only the last operand
  Container container = Container::Tensor;
  bool mixed = false;  // any container of any dtype, each entry of a variadic one on its own; no `types`
};

struct TypeConstraint {
  std::string_view letter;
  std::span<const DType> allowed;
};

enum class AttributeType : std::uint8_t { Integer, Number, Text, Integers, Numbers, Texts, Tensor, Graph };

struct AttributeSpec {
  std::string_view name;
  AttributeType type;
  bool required = false;
  // The default in text form: "1", "0.01", "constant", "[]"; ignored if required, and empty means that the
  // attribute stays absent.
  std::string_view default_text;
};

// The value of `default_text`, which is not empty. A float is the f32 nearest to the text, as f64.
Attribute default_value(const AttributeSpec& spec);

// Fills in dtype, shape and elements of the node's outputs, adding Symbols and Guards to the Graph. Throws
// Error (caller) on an impossible type or shape.
using InferFunction = void (*)(Graph& graph, Node& node);

struct OpContract {
  OpKind kind;
  std::string_view name;    // the enumerator: the ONNX name, unique across domains
  std::string_view domain;  // "ai.onnx" unless said
  // What it computes, for people and reports: "elementwise", "reduction", "softmax", "normalisation",
  // "pooling", "data movement", "matmul", "convolution", "shape" or "other".
  std::string_view operator_class;
  std::span<const OperandSpec> inputs;
  std::span<const OperandSpec> outputs;
  std::span<const TypeConstraint> types;
  std::span<const AttributeSpec> attributes;
  InferFunction infer;
  FusionClass fusion;
  // {input, output} pairs that may share memory when the input dies here and the sizes agree.
  std::span<const std::pair<int, int>> in_place;
};

// The contract of `kind`. O(1), thread safe.
const OpContract& contract(OpKind kind);
std::span<const OpContract> contracts();

}  // namespace kiln::graph
