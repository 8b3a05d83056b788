#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/passes/passes.h"

namespace kiln::runtime {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::OpKind;
using graph::Shape;
using graph::ValueId;

// An operand that a DequantizeLinear of 8-bit integers makes: scale * (integers - zero_point).
struct Dequantised {
  ValueId integers, scale, zero_point;  // zero_point: may be absent
  std::optional<std::int64_t> axis;     // along which scale and zero point vary
};

std::optional<Dequantised> dequantised(const Graph& graph, ValueId value) {
  const NodeId producer = graph.value(value).producer;
  if (!producer || graph.node(producer).op != OpKind::DequantizeLinear) return std::nullopt;
  const Node& node = graph.node(producer);
  const graph::Value &integers = graph.value(node.inputs[0]), &scale = graph.value(node.inputs[1]);
  if ((integers.dtype != DType::I8 && integers.dtype != DType::U8) || scale.dtype != DType::F32 ||
      graph.value(value).dtype != DType::F32 || integer(node, "block_size") != 0 || !integers.shape ||
      !scale.shape) {
    return std::nullopt;
  }
  Dequantised result{node.inputs[0], node.inputs[1], node.inputs[2], std::nullopt};
  if (scale.shape->size() > 1) return std::nullopt;
  if (result.zero_point && graph.value(result.zero_point).shape != scale.shape) return std::nullopt;
  if (scale.shape->size() == 1 && (*scale.shape)[0] != Dim(1)) result.axis = integer(node, "axis");
  return result;
}

class Rewriter {
 public:
  Rewriter(Graph& graph, NodeId id) : graph_(graph), node_(graph.node(id)) {}

  // What stands for the node's result, or nothing where the node stays as it is.
  std::optional<ValueId> run() {
    const auto left = dequantised(graph_, node_.inputs[0]), right = dequantised(graph_, node_.inputs[1]);
    if (!left || left->axis || !right || (right->axis && right->axis != output_axis(*right)))
      return std::nullopt;
    const auto& shape = graph_.value(node_.outputs[0]).shape;
    if (!shape || shape->empty()) return std::nullopt;
    if (node_.op == OpKind::Gemm && (number(node_, "alpha") != 1 || number(node_, "beta") != 1))
      return std::nullopt;
    ValueId sum = graph_.add(node_.op, {centred(*left), centred(*right)}, node_.attributes);
    graph_.node(graph_.value(sum).producer).name = node_.name;
    sum = add(OpKind::Mul, sum, add(OpKind::Mul, left->scale, per_channel(right->scale)));
    if (node_.inputs.size() > 2 && node_.inputs[2]) sum = add(OpKind::Add, sum, per_channel(node_.inputs[2]));
    return sum;
  }

 private:
  // The axis of the right operand that becomes one of the result.
  std::int64_t output_axis(const Dequantised& right) const {
    if (node_.op == OpKind::Conv) return 0;
    if (node_.op == OpKind::Gemm) return integer(node_, "transB") != 0 ? 0 : 1;
    return graph_.value(right.integers).shape->size() == 2 ? 1 : -1;
  }

  ValueId add(OpKind op, ValueId a, ValueId b) { return graph_.add(op, {a, b}); }

  // integers - zero point, exact in f32. Constants are made here, as they are worth four times their bytes.
  ValueId centred(const Dequantised& operand) {
    const auto& constant = graph_.value(operand.integers).constant;
    const auto* zero = operand.zero_point ? &graph_.value(operand.zero_point).constant : nullptr;
    if (constant && (zero == nullptr || *zero)) {
      return graph_.add_constant(
          centred_constant(*constant, zero == nullptr ? nullptr : &**zero, operand.axis));
    }
    const ValueId wide = as_f32(operand.integers);
    if (!operand.zero_point) return wide;
    ValueId offset = as_f32(operand.zero_point);
    if (operand.axis) offset = along(offset, *operand.axis, graph_.value(operand.integers).shape->size());
    return add(OpKind::Sub, wide, offset);
  }

  static Tensor centred_constant(const Tensor& integers, const Tensor* zero,
                                 const std::optional<std::int64_t>& axis) {
    const std::vector<std::int64_t> zeros =
        zero == nullptr ? std::vector<std::int64_t>{0} : zero->to_integers();
    std::size_t inner = 1;  // elements that have the same zero point in a row
    if (axis) {
      for (auto i = static_cast<std::size_t>(*axis) + 1; i < integers.extents().size(); ++i)
        inner *= static_cast<std::size_t>(integers.extents()[i]);
    }
    Tensor result(DType::F32, integers.extents());
    const auto centre = [&]<typename T>(std::span<const T> from) {
      float* to = result.as_mutable<float>().data();
      for (std::size_t i = 0; i < from.size(); ++i)
        to[i] = static_cast<float>(from[i] - zeros[i / inner % zeros.size()]);
    };
    if (integers.dtype() == DType::I8) {
      centre(integers.as<std::int8_t>());
    } else {
      centre(integers.as<std::uint8_t>());
    }
    return result;
  }

  ValueId as_f32(ValueId value) {
    return graph_.add(OpKind::Cast, {value}, {{"to", static_cast<std::int64_t>(DType::F32)}});
  }

  // A vector over output channels so that it broadcasts over the result; a scalar as it is.
  ValueId per_channel(ValueId value) {
    if (node_.op != OpKind::Conv || graph_.value(value).shape->empty()) return value;
    return along(value, 0, graph_.value(node_.inputs[1]).shape->size() - 1);
  }

  // A vector as one axis of a tensor of `rank`.
  ValueId along(ValueId vector, std::int64_t axis, std::size_t rank) {
    std::vector<std::int64_t> extents(rank, 1);
    extents[static_cast<std::size_t>(axis)] = -1;
    return graph_.add(OpKind::Reshape, {vector, graph_.add_constant(Tensor::from_integers(extents))});
  }

  Graph& graph_;
  const Node node_;
};

}  // namespace

void scale_after_sums(Graph& graph) {
  for (const NodeId id : graph.topological_order()) {
    const OpKind op = graph.node(id).op;
    if (op != OpKind::Conv && op != OpKind::MatMul && op != OpKind::Gemm) continue;
    const ValueId output = graph.node(id).outputs[0];
    const auto replacement = Rewriter(graph, id).run();
    if (!replacement) continue;
    graph.replace_uses(output, *replacement);
    graph.remove_node(id);
  }
}

}  // namespace kiln::runtime
