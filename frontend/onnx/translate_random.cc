// Translators: random numbers.
#include "frontend/onnx/shape_nodes.h"
#include "frontend/onnx/tensor_reader.h"
#include "frontend/onnx/translators.h"
#include "ir/base/errors.h"

namespace kiln::frontend::translate {
namespace {

std::int64_t number_of(DType dtype) { return static_cast<std::int64_t>(dtype); }

// Takes the attribute away; `absent` if it is not there.
std::int64_t take_dtype(Translation& node, DType absent) {
  const auto given = node.take_integer("dtype");
  return number_of(given ? require_dtype(*given, "attribute 'dtype'") : absent);
}

// Uniform draws in [0, 1), one for each element of `like`.
ValueId draws(Translation& node, ValueId like, DType type, const std::optional<double>& seed) {
  Attributes attributes = {{"dtype", number_of(type)}};
  if (seed) attributes["seed"] = *seed;
  return node.add(OpKind::RandomUniform, {node.add(OpKind::Shape, {like})}, std::move(attributes));
}

}  // namespace

// RandomNormal and RandomUniform: the shape was an attribute.
void random_of_shape(Translation& node) {
  const auto shape = node.take_integers("shape");
  if (!shape) node.invalid("attribute 'shape' is missing");
  node.attributes["dtype"] = take_dtype(node, DType::F32);
  node.finish(*graph::op_from_name(node.op), {node.integers(*shape)});
}

// RandomNormalLike and RandomUniformLike.
void random_like(Translation& node) {
  const ValueId x = node.input(0);
  node.attributes["dtype"] = take_dtype(node, node.dtype(x));
  const OpKind kind = node.op == "RandomNormalLike" ? OpKind::RandomNormal : OpKind::RandomUniform;
  node.finish(kind, {node.add(OpKind::Shape, {x})});
}

void multinomial(Translation& node) {
  node.attributes["dtype"] = take_dtype(node, DType::I32);
  node.finish(OpKind::Multinomial, node.inputs);
}

// 1 where a uniform draw is below the probability.
void bernoulli(Translation& node) {
  const ValueId probability = node.input(0);
  const std::int64_t to = take_dtype(node, node.dtype(probability));
  const DType type = node.dtype(probability) == DType::F64 ? DType::F64 : DType::F32;
  const ValueId drawn = draws(node, probability, type, node.take_number("seed"));
  const ValueId below = node.add(OpKind::Less, {drawn, cast(node, probability, type)});
  node.finish(OpKind::Cast, {below}, {{"to", to}});
}

// In training an element is kept, and scaled by 1 / (1 - ratio), where a uniform draw is not below the ratio.
void dropout(Translation& node) {
  const ValueId x = node.input(0), training = node.optional_input(2);
  std::optional<bool> trains = false;
  if (training) {
    const auto& constant = node.graph.value(training).constant;
    trains =
        constant && constant->elements() == 1 ? std::optional(constant->to_integers()[0] != 0) : std::nullopt;
  }
  if (trains == false) return same(node);
  const auto seed = node.take_integer("seed");
  const DType type = node.dtype(x) == DType::F64 ? DType::F64 : DType::F32;
  const ValueId ratio = node.has_input(1) ? cast(node, node.input(1), type) : node.scalar(type, 0.5);
  const ValueId drawn = draws(node, x, type, seed ? std::optional(static_cast<double>(*seed)) : std::nullopt);
  ValueId kept = node.add(OpKind::GreaterOrEqual, {drawn, ratio});
  const ValueId share = node.add(OpKind::Sub, {node.scalar(type, 1), ratio});
  const ValueId scaled = node.add(OpKind::Div, {cast(node, x, type), share});
  ValueId y = cast(node, node.add(OpKind::Where, {kept, scaled, node.scalar(type, 0)}), node.dtype(x));
  if (!trains) {
    y = node.add(OpKind::Where, {training, y, x});
    kept = node.add(OpKind::Or, {kept, node.add(OpKind::Not, {training})});
  }
  node.finish_with({y, kept});
}

}  // namespace kiln::frontend::translate
