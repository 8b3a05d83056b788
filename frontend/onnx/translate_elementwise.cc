// Translators: the default one, and elementwise operators.
#include <limits>

#include "frontend/onnx/along_axis.h"
#include "frontend/onnx/tensor_reader.h"
#include "frontend/onnx/translators.h"
#include "ir/base/errors.h"

namespace kiln::frontend::translate {

void same(Translation& node) {
  const std::optional<OpKind> kind = graph::op_from_name(node.op);
  if (!kind) node.unsupported(fmt::format("operator {} of domain {} is not supported", node.op, node.domain));
  node.finish(*kind, node.inputs);
}

// The first versions listed the inputs that may be overwritten.
void without_consumed_inputs(Translation& node) {
  node.drop({"consumed_inputs"});
  same(node);
}

// Before opset 7, B was broadcast on demand only, and aligned with A beginning at `axis`; without one, at the
// end as today.
void legacy_broadcast(Translation& node) {
  node.drop({"consumed_inputs"});
  const bool broadcast = node.take_integer("broadcast", 0) != 0;
  const std::optional<std::int64_t> axis = node.take_integer("axis");
  if (broadcast && axis && node.inputs.size() == 2) {
    const auto rank_a = node.rank(node.input(0));
    const auto rank_b = node.rank(node.input(1));
    if (!rank_a || !rank_b) {
      const ValueId end = *axis < 0
                              ? node.integers({-*axis})
                              : node.add(OpKind::Sub, {rank_of(node, node.input(0)), node.integers({*axis})});
      const ValueId count = node.add(OpKind::Sub, {end, rank_of(node, node.input(1))});
      node.inputs[1] = with_trailing_axes(node, node.inputs[1], count);
      return same(node);
    }
    const std::int64_t begin = *axis < 0 ? *axis + *rank_a : *axis;
    if (begin < 0 || begin > *rank_a || begin + *rank_b > *rank_a) {
      node.invalid(fmt::format("an input of rank {} cannot be broadcast to rank {} from axis {}", *rank_b,
                               *rank_a, *axis));
    }
    const std::int64_t trailing = *rank_a - begin - *rank_b;
    if (trailing > 0 && *rank_b > 0) {
      std::vector<std::int64_t> axes;
      for (std::int64_t i = 0; i < trailing; ++i) axes.push_back(*rank_b + i);
      node.inputs[1] = node.add(OpKind::Unsqueeze, {node.inputs[1], node.integers(axes)});
    }
  }
  same(node);
}

void cast(Translation& node) {
  const auto to = node.attributes.find("to");
  if (to == node.attributes.end()) node.invalid("attribute 'to' is missing");
  std::int64_t number = 0;
  if (const auto* text = std::get_if<std::string>(&to->second)) {  // opset 1
    onnx::TensorProto::DataType type = onnx::TensorProto::UNDEFINED;
    if (!onnx::TensorProto::DataType_Parse(*text, &type))
      node.invalid(fmt::format("attribute 'to' is '{}'", *text));
    number = type;
    node.drop({"to"});
  } else {
    number = node.take_integer("to", 0);
  }
  node.attributes["to"] = static_cast<std::int64_t>(require_dtype(number, "attribute 'to'"));
  node.finish(OpKind::Cast, node.inputs);
}

void bit_cast(Translation& node) {
  const std::optional<std::int64_t> to = node.take_integer("to");
  if (!to) node.invalid("attribute 'to' is missing");
  node.finish(OpKind::BitCast, node.inputs,
              {{"to", static_cast<std::int64_t>(require_dtype(*to, "attribute 'to'"))}});
}

// Bounds were attributes, in opset 6 with the extremes of f32 as defaults.
void clip_attributes(Translation& node) {
  node.drop({"consumed_inputs"});
  constexpr double kLargest = std::numeric_limits<float>::max();
  const ValueId x = node.input(0);
  std::optional<double> low = node.take_number("min");
  std::optional<double> high = node.take_number("max");
  if (node.opset >= 6) {
    low = low.value_or(-kLargest);
    high = high.value_or(kLargest);
  }
  const auto bound = [&](const std::optional<double>& value) {
    return value ? node.scalar(node.dtype(x), *value) : ValueId::none();
  };
  node.finish(OpKind::Clip, {x, bound(low), bound(high)});
}

// Inference: the ratio says nothing. Before opset 10 the mask was of the data's type.
void dropout_attributes(Translation& node) {
  node.drop({"consumed_inputs", "is_test", "ratio"});
  const ValueId x = node.input(0);
  const bool wants_mask = node.outputs.size() > 1;
  if (!wants_mask || node.opset >= 10) return node.finish(OpKind::Dropout, {x});
  const std::vector<ValueId> made = node.add_many(OpKind::Dropout, {x}, {}, 2);
  node.finish_with({made[0], node.add(OpKind::CastLike, {made[1], x})});
}

// Before opset 7 a slope of one axis ran along the channels.
void prelu_per_channel(Translation& node) {
  node.drop({"consumed_inputs"});
  const auto rank = node.rank(node.input(0));
  const auto& slope = node.graph.value(node.input(1)).shape;
  if (!rank || !slope) {
    node.inputs[1] = along_axis(node, node.inputs[1], node.input(0), 1);
    return node.finish(OpKind::PRelu, node.inputs);
  }
  const bool one = slope->size() == 1 && (*slope)[0] == graph::Dim(1);
  if (slope->size() == 1 && !one && *rank > 2) {
    std::vector<std::int64_t> axes;
    for (std::int64_t axis = 1; axis < *rank - 1; ++axis) axes.push_back(axis);
    node.inputs[1] = node.add(OpKind::Unsqueeze, {node.inputs[1], node.integers(axes)});
  }
  node.finish(OpKind::PRelu, node.inputs);
}

void selu_1(Translation& node) {
  node.drop({"consumed_inputs"});
  node.attributes.try_emplace("alpha", 1.6732);
  node.attributes.try_emplace("gamma", 1.0507);
  node.finish(OpKind::Selu, node.inputs);
}

void affine(Translation& node) {
  const ValueId x = node.input(0);
  const DType type = node.dtype(x);
  const ValueId scaled = node.add(OpKind::Mul, {x, node.scalar(type, node.take_number("alpha", 1))});
  node.finish(OpKind::Add, {scaled, node.scalar(type, node.take_number("beta", 0))});
}

void parametric_softplus(Translation& node) {
  const ValueId x = node.input(0);
  const DType type = node.dtype(x);
  const ValueId scaled = node.add(OpKind::Mul, {x, node.scalar(type, node.take_number("beta", 1))});
  const ValueId soft = node.add(OpKind::Softplus, {scaled});
  node.finish(OpKind::Mul, {soft, node.scalar(type, node.take_number("alpha", 1))});
}

void scaled_tanh(Translation& node) {
  const ValueId x = node.input(0);
  const DType type = node.dtype(x);
  const ValueId scaled = node.add(OpKind::Mul, {x, node.scalar(type, node.take_number("beta", 1))});
  const ValueId bent = node.add(OpKind::Tanh, {scaled});
  node.finish(OpKind::Mul, {bent, node.scalar(type, node.take_number("alpha", 1))});
}

}  // namespace kiln::frontend::translate
