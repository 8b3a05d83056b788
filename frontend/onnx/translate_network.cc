// Translators: norms, softmax, pooling and matrix products.
#include <algorithm>

#include "frontend/onnx/along_axis.h"
#include "frontend/onnx/shape_nodes.h"
#include "frontend/onnx/translators.h"
#include "ir/base/errors.h"

namespace kiln::frontend::translate {
namespace {

// A value as its intermediate results are computed: f16 and bf16 as f32.
ValueId widened(Translation& node, ValueId value) { return cast(node, value, wide_dtype(node.dtype(value))); }

Attributes axis_attribute(std::int64_t axis) { return {{"axis", axis}}; }

ValueId normalize(Translation& node, ValueId centred, ValueId variance, ValueId scale, ValueId bias,
                  double epsilon) {
  const ValueId shifted = node.add(OpKind::Add, {variance, node.scalar(node.dtype(variance), epsilon)});
  const ValueId unit = node.add(OpKind::Div, {centred, node.add(OpKind::Sqrt, {shifted})});
  return node.add(OpKind::Add, {node.add(OpKind::Mul, {unit, scale}), bias});
}

// All axes but 1.
ValueId all_but_channels(Translation& node, ValueId x) {
  if (const auto rank = node.rank(x)) {
    std::vector<std::int64_t> others = {0};
    for (std::int64_t axis = 2; axis < *rank; ++axis) others.push_back(axis);
    return node.integers(others);
  }
  const ValueId rank =
      node.add(OpKind::Reshape, {rank_of(node, x), node.integers(std::span<const std::int64_t>())});
  const ValueId spatial = node.add(OpKind::Range, {node.integer(2), rank, node.integer(1)});
  return node.add(OpKind::Concat, {node.integers({0}), spatial}, axis_attribute(0));
}

// Statistics of the batch itself, and the running ones moved towards them.
void batch_normalization_training(Translation& node) {
  const ValueId x = node.input(0);
  const auto rank = node.rank(x);
  if (rank && *rank < 2) node.unsupported("training_mode needs an input of rank 2 or more");
  for (const ValueId input : node.inputs) {
    if (node.dtype(input) != node.dtype(x)) node.unsupported("training_mode needs inputs of one type");
  }
  const double epsilon = node.take_number("epsilon", 1e-5);
  const double momentum = node.take_number("momentum", 0.9);
  const ValueId axes = all_but_channels(node, x);
  const auto channels = [&](std::size_t i) { return along_axis(node, node.input(i), x, 1); };
  const ValueId mean = node.add(OpKind::ReduceMean, {x, axes});
  const ValueId centred = node.add(OpKind::Sub, {x, mean});
  const ValueId variance = node.add(OpKind::ReduceMean, {node.add(OpKind::Mul, {centred, centred}), axes});
  const ValueId y = normalize(node, centred, variance, channels(1), channels(2), epsilon);
  const auto running = [&](std::size_t i, ValueId current) {
    const DType type = node.dtype(x);
    const ValueId old_part = node.add(OpKind::Mul, {node.input(i), node.scalar(type, momentum)});
    const ValueId flat = node.add(OpKind::Squeeze, {current, axes});
    return node.add(OpKind::Add, {old_part, node.add(OpKind::Mul, {flat, node.scalar(type, 1 - momentum)})});
  };
  node.finish_with({y, running(3, mean), running(4, variance)});
}

}  // namespace

void batch_normalization(Translation& node) {
  if (node.take_integer("training_mode", 0) != 0) return batch_normalization_training(node);
  node.finish(OpKind::BatchNormalization, node.inputs);
}

// Inference only, whatever is_test says. spatial = 0 has statistics for each element of a sample.
void batch_normalization_1(Translation& node) {
  node.drop({"consumed_inputs", "is_test", "momentum"});
  if (node.outputs.size() > 1) node.unsupported("its outputs for training are not supported");
  const bool spatial = node.take_integer("spatial", 1) != 0;
  const ValueId x = node.input(0);
  if (spatial || node.rank(x) == 2) return node.finish(OpKind::BatchNormalization, node.inputs);
  const double epsilon = node.take_number("epsilon", 1e-5);
  const ValueId centred = node.add(OpKind::Sub, {x, node.input(3)});
  node.finish_with({normalize(node, centred, node.input(4), node.input(1), node.input(2), epsilon)});
}

// Scale and bias were those of groups.
void group_normalization_18(Translation& node) {
  const ValueId x = node.input(0);
  const auto groups = std::get_if<std::int64_t>(&node.attributes["num_groups"]);
  if (groups == nullptr) node.invalid("attribute 'num_groups' is missing or not an integer");
  if (*groups <= 0) node.invalid(fmt::format("attribute 'num_groups' is {}, expected at least 1", *groups));
  const auto& shape = node.graph.value(x).shape;
  if (shape && shape->size() > 1 && (*shape)[1].is_constant() && (*shape)[1].constant() % *groups != 0) {
    node.invalid(fmt::format("{} channels do not divide into {} groups", (*shape)[1].constant(), *groups));
  }
  const ValueId channels =
      node.add(OpKind::Shape, {x}, {{"start", std::int64_t{1}}, {"end", std::int64_t{2}}});
  const ValueId number = node.integers({*groups});
  const ValueId sizes =
      node.add(OpKind::Concat, {number, node.add(OpKind::Div, {channels, number})}, axis_attribute(0));
  const auto spread = [&](ValueId vector) {
    const ValueId column = node.add(OpKind::Unsqueeze, {vector, node.integers({1})});
    return node.add(OpKind::Reshape, {node.add(OpKind::Expand, {column, sizes}), channels});
  };
  node.finish(OpKind::GroupNormalization, {x, spread(node.input(1)), spread(node.input(2))});
}

// Before opset 13 all axes from `axis` on were one.
void softmax_flattened(Translation& node) {
  const OpKind kind = *graph::op_from_name(node.op);
  const ValueId x = node.input(0);
  const auto [axis, single] = axes_from(node, x, node.take_integer("axis", 1));
  if (single) return node.finish(kind, {x}, axis_attribute(axis));
  const ValueId flat = node.add(OpKind::Flatten, {x}, axis_attribute(axis));
  const ValueId result = node.add(kind, {flat}, axis_attribute(-1));
  node.finish(OpKind::Reshape, {result, node.add(OpKind::Shape, {x})}, {{"allowzero", std::int64_t{1}}});
}

// p was a float.
void lp_pool_1(Translation& node) {
  const double p = node.take_number("p", 2);
  if (!(p >= 1 && p <= 1 << 20) || p != static_cast<double>(static_cast<std::int64_t>(p))) {
    node.unsupported(fmt::format("attribute 'p' is {}, expected a whole number from 1 on", p));
  }
  node.attributes["p"] = static_cast<std::int64_t>(p);
  same(node);
}

void gemm_1(Translation& node) {
  node.drop({"broadcast"});
  node.finish(OpKind::Gemm, node.inputs);
}

// (x * scale) + one bias per channel.
void image_scaler(Translation& node) {
  const ValueId x = node.input(0);
  const DType type = node.dtype(x);
  const ValueId scaled = node.add(OpKind::Mul, {x, node.scalar(type, node.take_number("scale", 1))});
  const auto bias = node.take_numbers("bias");
  if (!bias) return node.finish_with({scaled});
  const ValueId vector = node.numbers(type, {static_cast<std::int64_t>(bias->size())}, *bias);
  node.finish(OpKind::Add, {scaled, along_axis(node, vector, x, 1)});
}

// Y = A * sigmoid(alpha * A) * B
void swiglu(Translation& node) {
  const ValueId a = node.input(0), b = node.input(1);
  const ValueId gate = node.add(OpKind::Swish, {widened(node, a)}, {{"alpha", node.take_number("alpha", 1)}});
  const ValueId wide_b = widened(node, b);
  if (wide_b == b) return node.finish(OpKind::Mul, {gate, b});
  node.finish(OpKind::Cast, {node.add(OpKind::Mul, {gate, wide_b})}, to(node.dtype(a)));
}

// Scores -> the loss of their log-softmax over axis 1, and that itself.
void softmax_cross_entropy_loss(Translation& node) {
  const ValueId scores = node.input(0);
  const std::int64_t type = static_cast<std::int64_t>(node.dtype(scores));
  const ValueId log_prob = node.add(OpKind::LogSoftmax, {widened(node, scores)}, axis_attribute(1));
  ValueId weights = node.optional_input(2);
  if (weights) weights = widened(node, weights);
  const ValueId loss = node.add(OpKind::NegativeLogLikelihoodLoss, {log_prob, node.input(1), weights},
                                std::move(node.attributes));
  node.finish_output(0, OpKind::Cast, {loss}, {{"to", type}});
  node.finish_output(1, OpKind::Cast, {log_prob}, {{"to", type}});
}

}  // namespace kiln::frontend::translate
