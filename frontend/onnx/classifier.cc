#include "frontend/onnx/classifier.h"

#include "ir/base/errors.h"

namespace kiln::frontend {
namespace {

Attributes along_last_axis() { return {{"axis", std::int64_t{-1}}}; }

// Softmax in which scores that are zero have no part.
ValueId softmax_zero(Translation& node, ValueId scores) {
  const DType type = node.dtype(scores);
  const ValueId axis = node.integers({-1});
  const ValueId has_part =
      node.add(OpKind::Greater, {node.add(OpKind::Abs, {scores}), node.scalar(type, 1e-7F)});
  const ValueId highest = node.add(OpKind::ReduceMax, {scores, axis});
  const ValueId power = node.add(OpKind::Exp, {node.add(OpKind::Sub, {scores, highest})});
  const ValueId part = node.add(OpKind::Where, {has_part, power, node.scalar(type, 0)});
  const ValueId rest =
      node.add(OpKind::Mul, {scores, node.add(OpKind::Exp, {node.add(OpKind::Neg, {highest})})});
  const ValueId sum = node.add(OpKind::ReduceSum, {part, axis});
  return node.add(OpKind::Div, {node.add(OpKind::Where, {has_part, part, rest}), sum});
}

// sqrt(2) * erfinv(2 x - 1) by Winitzki's approximation, which the standard's reference and ONNX Runtime
// take.
ValueId probit(Translation& node, ValueId x) {
  const DType type = node.dtype(x);
  const auto constant = [&](double value) { return node.scalar(type, static_cast<float>(value)); };
  const auto add = [&](OpKind kind, ValueId a, ValueId b) { return node.add(kind, {a, b}); };
  constexpr double kA = 0.147, kPi = 3.14159, kSqrt2 = 1.41421356;
  const ValueId one = constant(1), t = add(OpKind::Sub, add(OpKind::Mul, x, constant(2)), one);
  const ValueId log =
      node.add(OpKind::Log, {add(OpKind::Mul, add(OpKind::Sub, one, t), add(OpKind::Add, one, t))});
  const ValueId v = add(OpKind::Add, constant(2 / (kPi * kA)), add(OpKind::Mul, constant(0.5), log));
  const ValueId inner = add(OpKind::Sub, add(OpKind::Mul, v, v), add(OpKind::Mul, constant(1 / kA), log));
  const ValueId size = node.add(OpKind::Sqrt, {add(OpKind::Sub, node.add(OpKind::Sqrt, {inner}), v)});
  const ValueId sign =
      node.add(OpKind::Where, {add(OpKind::Less, t, constant(0)), constant(-kSqrt2), constant(kSqrt2)});
  return add(OpKind::Mul, sign, size);
}

}  // namespace

ValueId sample_matrix(Translation& node, std::int64_t features, DType integers_as) {
  ValueId x = node.input(0);
  if (is_integer(node.dtype(x))) {
    x = node.add(OpKind::Cast, {x}, to(integers_as));
  }
  if (node.rank(x) == 2) return x;
  return node.add(OpKind::Reshape, {x, node.integers({-1, features})});
}

ClassLabels::ClassLabels(Translation& node, std::string_view integers) {
  auto words = node.take_texts("classlabels_strings");
  const auto given = node.take_integers(integers);
  strings_ = words && !words->empty();
  if (strings_) {
    count_ = static_cast<std::int64_t>(words->size());
    values_ =
        node.graph.add_constant(Tensor::from(DType::String, {count_}, std::span<const std::string>(*words)));
  } else if (given && !given->empty()) {
    count_ = static_cast<std::int64_t>(given->size());
    values_ = node.integers(*given);
  } else {
    node.invalid(fmt::format("it has no class labels: '{}' or 'classlabels_strings' is needed", integers));
  }
}

void ClassLabels::finish(Translation& node, ValueId classes) const {
  node.finish_output(0, OpKind::Gather, {values_, classes}, {{"axis", std::int64_t{0}}});
}

void ClassLabels::finish_binary(Translation& node, ValueId scores, double threshold) const {
  const ValueId score = node.add(OpKind::Reshape, {scores, node.integers({-1})});
  const ValueId above = node.add(OpKind::Greater, {score, node.scalar(node.dtype(scores), threshold)});
  const ValueId number = node.add(OpKind::Cast, {above}, to(DType::I64));
  if (count_ == 2) return finish(node, number);
  if (!strings_) return node.finish_output(0, OpKind::Identity, {number});
  finish(node, node.add(OpKind::Mul, {number, node.integers({0})}));
}

std::string take_post_transform(Translation& node) {
  const std::string transform = node.take_text("post_transform", "NONE");
  for (const std::string_view known : {"NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"}) {
    if (transform == known) return transform;
  }
  node.invalid(fmt::format("post_transform is '{}', expected NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO or PROBIT",
                           transform));
}

ValueId post_transformed(Translation& node, ValueId scores, const std::string& transform) {
  if (transform == "NONE") return scores;
  if (transform == "PROBIT") return probit(node, scores);
  const auto& shape = node.graph.value(scores).shape;
  if (shape && shape->back() == graph::Dim(1)) return scores;
  if (transform == "LOGISTIC") return node.add(OpKind::Sigmoid, {scores});
  if (transform == "SOFTMAX") return node.add(OpKind::Softmax, {scores}, along_last_axis());
  return softmax_zero(node, scores);
}

ValueId two_columns(Translation& node, ValueId score, const std::string& transform, bool probability) {
  const bool logistic = transform == "LOGISTIC";
  const ValueId other = probability && !logistic
                            ? node.add(OpKind::Sub, {node.scalar(node.dtype(score), 1), score})
                            : node.add(OpKind::Neg, {score});
  const ValueId both = node.add(OpKind::Concat, {other, score}, along_last_axis());
  return logistic || transform == "PROBIT" ? post_transformed(node, both, transform) : both;
}

void finish_as_float(Translation& node, std::size_t index, ValueId value) {
  node.finish_output(index, OpKind::Cast, {value}, to(DType::F32));
}

}  // namespace kiln::frontend
