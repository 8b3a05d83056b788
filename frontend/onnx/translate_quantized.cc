// Translators: quantised operators. Products become exact i32 sums, one f32 multiplication and a rounding;
// others are computed in f32 between DequantizeLinear and QuantizeLinear.
#include "frontend/onnx/along_axis.h"
#include "frontend/onnx/channels_last.h"
#include "frontend/onnx/shape_nodes.h"
#include "frontend/onnx/tensor_reader.h"
#include "frontend/onnx/translators.h"
#include "ir/base/errors.h"

namespace kiln::frontend::translate {
namespace {

ValueId as_scalar(Translation& node, ValueId value) {
  if (const auto& constant = node.graph.value(value).constant) {
    return node.graph.add_constant(constant->reshaped({}));
  }
  return node.add(OpKind::Reshape, {value, node.integers(std::span<const std::int64_t>())});
}

// A vector of one scale or zero point means the same as a scalar, along whatever axis.
ValueId scalar_if_one(Translation& node, ValueId value) {
  if (!value) return value;
  const auto& shape = node.graph.value(value).shape;
  return shape && shape->size() == 1 && (*shape)[0] == graph::Dim(1) ? as_scalar(node, value) : value;
}

ValueId dequantize(Translation& node, ValueId x, ValueId scale, ValueId zero_point) {
  return node.add(OpKind::DequantizeLinear, {x, scalar_if_one(node, scale), scalar_if_one(node, zero_point)});
}

// `axis` of a scale that is a vector.
void finish_quantized(Translation& node, ValueId x, ValueId scale, ValueId zero_point,
                      std::int64_t axis = 1) {
  node.finish(OpKind::QuantizeLinear, {x, scalar_if_one(node, scale), scalar_if_one(node, zero_point)},
              {{"axis", axis}});
}

ValueId as_type(Translation& node, ValueId value, DType type) {
  return node.add(OpKind::Cast, {value}, to(type));
}

}  // namespace

// QuantizeLinear and DequantizeLinear: types are numbers of ONNX, where 0 means that none is given.
void quantize_linear(Translation& node) {
  for (const std::string_view name : {"output_dtype", "precision"}) {
    if (const std::int64_t number = node.take_integer(name, 0); number != 0) {
      node.attributes[std::string(name)] =
          static_cast<std::int64_t>(require_dtype(number, fmt::format("attribute '{}'", name)));
    }
  }
  const auto block = node.attributes.find("block_size");
  if (block != node.attributes.end() && block->second != Attribute(std::int64_t{0})) {
    return node.finish(*graph::op_from_name(node.op), node.inputs);
  }
  const auto given = node.attributes.find("axis");
  const auto* axis = given == node.attributes.end() ? nullptr : std::get_if<std::int64_t>(&given->second);
  const auto rank = node.rank(node.input(0));
  // A vector along an axis that x does not have can only be one of one element.
  const bool no_such_axis = rank && (axis == nullptr ? 1 : *axis) >= *rank;
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    if (!node.has_input(i)) continue;
    const bool one = no_such_axis && node.rank(node.inputs[i]) == 1;
    node.inputs[i] = one ? as_scalar(node, node.inputs[i]) : scalar_if_one(node, node.inputs[i]);
  }
  node.finish(*graph::op_from_name(node.op), node.inputs);
}

void qlinear_conv(Translation& node) {
  const bool channels_last = node.take_integer("channels_last", 0) != 0;
  const ValueId x = channels_last ? channels_second(node, node.input(0), false) : node.input(0);
  const ValueId w = node.input(3);
  ValueId sum = node.add(OpKind::ConvInteger,
                         {x, w, scalar_if_one(node, node.input(2)), scalar_if_one(node, node.input(5))},
                         std::move(node.attributes));
  if (node.has_input(8)) {
    sum = node.add(OpKind::Add, {sum, along_axis(node, node.input(8), w, 1)});
  }
  const ValueId scale =
      node.add(OpKind::Mul, {scalar_if_one(node, node.input(1)), scalar_if_one(node, node.input(4))});
  ValueId y = node.add(OpKind::Mul, {as_type(node, sum, DType::F32), along_axis(node, scale, w, 1)});
  if (channels_last) y = channels_second(node, y, true);
  finish_quantized(node, y, node.input(6), node.input(7));
}

// Scales of `a` may be one for each row, those of `b` one for each column.
void qlinear_matmul(Translation& node) {
  const ValueId sum = node.add(
      OpKind::MatMulInteger,
      {node.input(0), node.input(3), scalar_if_one(node, node.input(2)), scalar_if_one(node, node.input(5))});
  const DType type = node.dtype(node.input(1));
  const ValueId rows = along_axis(node, scalar_if_one(node, node.input(1)), sum, -2);
  const ValueId scale = node.add(OpKind::Mul, {rows, scalar_if_one(node, node.input(4))});
  const ValueId y = node.add(OpKind::Mul, {as_type(node, sum, type), scale});
  finish_quantized(node, y, node.input(6), node.input(7), -2);
}

// a, a_scale, a_zero_point, b, b_scale, b_zero_point, bias (i32), y_scale, y_zero_point
void qgemm(Translation& node) {
  const DType type = node.dtype(node.input(1));
  const auto operand = [&](std::size_t index, std::string_view transposed) {
    const ValueId value = node.input(index);
    if (node.take_integer(transposed, 0) == 0) return value;
    return node.add(OpKind::Transpose, {value}, {{"perm", std::vector<std::int64_t>{1, 0}}});
  };
  const ValueId a = operand(0, "transA"), b = operand(3, "transB");
  ValueId sum = node.add(OpKind::MatMulInteger,
                         {a, b, scalar_if_one(node, node.input(2)), scalar_if_one(node, node.input(5))});
  if (node.has_input(6)) sum = node.add(OpKind::Add, {sum, node.input(6)});
  ValueId scale =
      node.add(OpKind::Mul, {scalar_if_one(node, node.input(1)), scalar_if_one(node, node.input(4))});
  scale = node.add(OpKind::Mul, {scale, node.scalar(type, node.take_number("alpha", 1))});
  const ValueId sum_as_float = as_type(node, sum, type);
  if (!node.has_input(7)) return node.finish(OpKind::Mul, {sum_as_float, scale});
  finish_quantized(node, node.add(OpKind::Mul, {sum_as_float, scale}), node.input(7), node.optional_input(8));
}

// A, B, a_scale, b_scale, a_zero_point, b_zero_point, bias
void matmul_integer_to_float(Translation& node) {
  const ValueId sum = node.add(OpKind::MatMulInteger,
                               {node.input(0), node.input(1), scalar_if_one(node, node.optional_input(4)),
                                scalar_if_one(node, node.optional_input(5))});
  const ValueId scale =
      node.add(OpKind::Mul, {scalar_if_one(node, node.input(2)), scalar_if_one(node, node.input(3))});
  const ValueId factor = as_type(node, sum, node.dtype(node.input(2)));
  if (!node.has_input(6)) return node.finish(OpKind::Mul, {factor, scale});
  node.finish(OpKind::Add, {node.add(OpKind::Mul, {factor, scale}), node.input(6)});
}

// 16-bit operands, products and sums of 32 bits that wrap.
void matmul_integer_16(Translation& node) {
  const ValueId a = node.input(0), b = node.input(1);
  const bool both_unsigned = node.dtype(a) == DType::U16 && node.dtype(b) == DType::U16;
  const DType type = both_unsigned ? DType::U32 : DType::I32;
  node.finish(OpKind::MatMul, {as_type(node, a, type), as_type(node, b, type)});
}

// A, A_zero_point, B, B_zero_point
void mul_integer(Translation& node) {
  const auto operand = [&](std::size_t index) {
    const ValueId x = as_type(node, node.input(index), DType::I32);
    if (!node.has_input(index + 1)) return x;
    return node.add(OpKind::Sub, {x, as_type(node, scalar_if_one(node, node.input(index + 1)), DType::I32)});
  };
  node.finish(OpKind::Mul, {operand(0), operand(2)});
}

// A, B, b_scale, b_zero_point, bias
void dynamic_quantize_matmul(Translation& node) {
  const std::vector<ValueId> a = node.add_many(OpKind::DynamicQuantizeLinear, {node.input(0)}, {}, 3);
  const ValueId sum = node.add(OpKind::MatMulInteger,
                               {a[0], node.input(1), a[2], scalar_if_one(node, node.optional_input(3))});
  const ValueId scale = node.add(OpKind::Mul, {a[1], scalar_if_one(node, node.input(2))});
  const ValueId factor = as_type(node, sum, DType::F32);
  if (!node.has_input(4)) return node.finish(OpKind::Mul, {factor, scale});
  node.finish(OpKind::Add, {node.add(OpKind::Mul, {factor, scale}), node.input(4)});
}

// QLinear<Name>: x, x_scale, x_zero_point, y_scale, y_zero_point.
void qlinear_unary(Translation& node) {
  const std::optional<OpKind> kind = graph::op_from_name(std::string_view(node.op).substr(7));
  if (!kind) node.unsupported(fmt::format("operator {} is not supported", node.op));
  ValueId x = node.input(0);
  const bool channels_last = node.take_integer("channels_last", 0) != 0;
  if (channels_last) x = channels_second(node, x, false);
  std::vector<ValueId> operands = {dequantize(node, x, node.input(1), node.optional_input(2))};
  if (*kind == OpKind::ReduceMean) {
    if (const auto axes = node.take_integers("axes")) operands.push_back(node.integers(*axes));
  }
  bool flattened = false;
  if (*kind == OpKind::Softmax && node.take_integer("opset", 13) < 13) {
    const TrailingAxes axes = axes_from(node, x, node.take_integer("axis", -1));
    flattened = !axes.single;
    if (flattened) operands[0] = node.add(OpKind::Flatten, {operands[0]}, {{"axis", axes.first}});
    node.attributes["axis"] = flattened ? -1 : axes.first;
  }
  ValueId y = node.add(*kind, std::move(operands), std::move(node.attributes));
  if (flattened) y = reshaped(node, y, {node.add(OpKind::Shape, {x})});
  if (channels_last) y = channels_second(node, y, true);
  finish_quantized(node, y, node.input(3), node.optional_input(4));
}

// a and b with scale and zero point each, then those of the result.
void qlinear_binary(Translation& node) {
  const OpKind kind = *graph::op_from_name(std::string_view(node.op).substr(7));
  const ValueId a = dequantize(node, node.input(0), node.input(1), node.optional_input(2));
  const ValueId b = dequantize(node, node.input(3), node.input(4), node.optional_input(5));
  finish_quantized(node, node.add(kind, {a, b}), node.input(6), node.optional_input(7));
}

// y_scale, y_zero_point, then each input with scale and zero point.
void qlinear_concat(Translation& node) {
  std::vector<ValueId> parts;
  for (std::size_t i = 2; i < node.inputs.size(); i += 3) {
    parts.push_back(dequantize(node, node.input(i), node.input(i + 1), node.optional_input(i + 2)));
  }
  const ValueId joined = node.add(OpKind::Concat, std::move(parts), std::move(node.attributes));
  finish_quantized(node, joined, node.input(0), node.optional_input(1));
}

void qlinear_where(Translation& node) {
  const ValueId x = dequantize(node, node.input(1), node.input(2), node.optional_input(3));
  const ValueId y = dequantize(node, node.input(4), node.input(5), node.optional_input(6));
  const ValueId z = node.add(OpKind::Where, {node.input(0), x, y});
  finish_quantized(node, z, node.input(7), node.optional_input(8));
}

}  // namespace kiln::frontend::translate
