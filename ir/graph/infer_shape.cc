// Shapes as data, makers of Values, and operators whose result size depends on the data.
#include <algorithm>
#include <cmath>

#include "ir/base/checked_math.h"
#include "ir/base/float_types.h"
#include "ir/graph/infer.h"

namespace kiln::graph {
namespace {

// The element of a constant of one float.
std::optional<double> scalar(const Inference& op, std::size_t operand) {
  const std::optional<Tensor>& constant = op.input(operand).constant;
  if (!constant || constant->elements() != 1) return std::nullopt;
  if (constant->dtype() == DType::F32) return static_cast<double>(constant->as<float>()[0]);
  if (constant->dtype() == DType::F64) return constant->as<double>()[0];
  if (constant->dtype() == DType::F16) return static_cast<double>(constant->as<Float16>()[0]);
  if (constant->dtype() == DType::BF16) return static_cast<double>(constant->as<BFloat16>()[0]);
  return std::nullopt;
}

// How many numbers a Range has; nothing if a tensor cannot have as many. In unsigned arithmetic the distance
// of any two i64 fits.
std::optional<std::int64_t> range_length(std::int64_t start, std::int64_t limit, std::int64_t delta) {
  if (delta > 0 ? start >= limit : start <= limit) return 0;
  const auto from = static_cast<std::uint64_t>(start), to = static_cast<std::uint64_t>(limit),
             step = static_cast<std::uint64_t>(delta);
  const std::uint64_t length = delta > 0 ? (to - from - 1) / step + 1 : (from - to - 1) / (0 - step) + 1;
  if (length > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
  return static_cast<std::int64_t>(length);
}

}  // namespace

void infer_shape(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape(0);
  if (!x) {
    op.set_shape(0, op.fresh_shape(0, 1));
    return;
  }
  const auto rank = static_cast<std::int64_t>(x->size());
  const auto clamp = [rank](std::int64_t axis) {
    return std::clamp<std::int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  const std::int64_t start = clamp(integer(node, "start"));
  const std::int64_t end = std::max(start, has(node, "end") ? clamp(integer(node, "end")) : rank);
  op.set_shape(0, Shape{end - start});
  if (end - start <= static_cast<std::int64_t>(kMaxKnownElements)) {
    op.output(0).elements.emplace(x->begin() + start, x->begin() + end);
  }
}

void infer_size(Graph& graph, Node& node) {
  Inference op(graph, node);
  op.set_shape(0, Shape());
  if (op.shape(0)) op.output(0).elements = {element_count(*op.shape(0))};
}

void infer_constant(Graph& graph, Node& node) {
  Inference op(graph, node);
  const Tensor& value = std::get<Tensor>(node.attributes.find("value")->second);
  // The same as an initializer.
  Graph scratch;
  Value constant = scratch.value(scratch.add_constant(value));
  constant.name = op.output(0).name;
  constant.producer = op.output(0).producer;
  op.output(0) = std::move(constant);
}

void infer_constant_of_shape(Graph& graph, Node& node) {
  Inference op(graph, node);
  const auto value = node.attributes.find("value");
  if (value != node.attributes.end()) {
    const Tensor& tensor = std::get<Tensor>(value->second);
    if (tensor.elements() != 1) {
      op.fail(ErrorCode::InvalidModel, "value has {} elements, expected 1", tensor.elements());
    }
    op.set_dtype(0, tensor.dtype());
  }
  const std::optional<Shape>& input = op.shape_of_rank(0, 1, 1);
  const std::optional<std::vector<Dim>> extents = op.elements(0);
  if (extents) {
    op.set_shape(0, *extents);
  } else if (input && (*input)[0].is_constant() &&
             (*input)[0].constant() <= static_cast<std::int64_t>(kMaxKnownElements)) {
    op.set_shape(0, op.fresh_shape(0, static_cast<std::size_t>((*input)[0].constant())));
  }
}

void infer_range(Graph& graph, Node& node) {
  Inference op(graph, node);
  for (std::size_t i = 0; i < 3; ++i) {
    const std::optional<Shape>& shape = op.shape(i);
    for (std::size_t k = 0; shape && k < shape->size(); ++k) op.same((*shape)[k], 1, "elements of a bound");
  }
  const std::optional<std::vector<Dim>> start = op.elements(0), limit = op.elements(1),
                                        delta = op.elements(2);
  if (start && limit && delta) {
    const Dim& step = (*delta)[0];
    if (step == Dim(0)) op.fail(ErrorCode::InvalidModel, "delta is 0");
    const Dim &from = (*start)[0], &to = (*limit)[0];
    if (from.is_constant() && to.is_constant() && step.is_constant()) {
      const auto length = range_length(from.constant(), to.constant(), step.constant());
      if (!length) {
        op.fail(ErrorCode::LimitExceeded, "the range from {} to {} by {} is too long", op.text(from),
                op.text(to), op.text(step));
      }
      op.set_shape(0, Shape{*length});
      return;
    }
    op.set_shape(0, Shape{max(ceildiv(to - from, step), 0)});
    return;
  }
  const std::optional<double> from = scalar(op, 0), to = scalar(op, 1), by = scalar(op, 2);
  if (from && to && by) {
    const double count = std::ceil((*to - *from) / *by);
    constexpr double kMost = 9e15;
    if (!(count < kMost))
      op.fail(ErrorCode::LimitExceeded, "the range from {} to {} by {} is too long", *from, *to, *by);
    op.set_shape(0, Shape{static_cast<std::int64_t>(std::max(count, 0.0))});
    return;
  }
  op.set_shape(0, op.fresh_shape(0, 1));
}

void infer_non_zero(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape(0);
  op.set_shape(0, Shape{x ? Dim(static_cast<std::int64_t>(x->size())) : op.fresh(0, 0), op.fresh(0, 1)});
}

void infer_non_max_suppression(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& boxes = op.shape_of_rank(0, 3, 3);
  const std::optional<Shape>& scores = op.shape_of_rank(1, 3, 3);
  if (boxes) op.same((*boxes)[2], 4, "coordinates of a box");
  if (boxes && scores) {
    op.same((*boxes)[0], (*scores)[0], "batches of boxes and scores");
    op.same((*boxes)[1], (*scores)[2], "boxes and their scores");
  }
  op.set_shape(0, Shape{op.fresh(0, 0), 3});
}

void infer_compress(Graph& graph, Node& node) {
  Inference op(graph, node);
  op.shape_of_rank(1, 1, 1);
  if (!has(node, "axis")) {
    op.set_shape(0, op.fresh_shape(0, 1));
    return;
  }
  const std::optional<Shape>& x = op.shape_of_rank(0, 1);
  if (!x) return;
  Shape y = *x;
  const std::size_t axis = op.normalize_axis(x->size());
  y[axis] = op.fresh(0, axis);
  op.set_shape(0, y);
}

}  // namespace kiln::graph
