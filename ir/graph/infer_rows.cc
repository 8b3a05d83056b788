// Reductions, softmax, norms and scans.
#include <algorithm>
#include <set>

#include "ir/graph/infer.h"

namespace kiln::graph {
namespace {

Shape reduced(const Shape& shape, const std::set<std::size_t>& axes, bool keep) {
  Shape result;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!axes.contains(i)) {
      result.push_back(shape[i]);
    } else if (keep) {
      result.push_back(1);
    }
  }
  return result;
}

std::set<std::size_t> all_axes(std::size_t rank) {
  std::set<std::size_t> axes;
  for (std::size_t i = 0; i < rank; ++i) axes.insert(i);
  return axes;
}

// Scale and bias of a norm broadcast to the axes that it normalises.
void check_norm_operand(Inference& op, std::size_t operand, const Shape& x, std::string_view what) {
  if (!op.has_input(operand) || !op.shape(operand)) return;
  const Shape& got = *op.shape(operand);
  if (got.size() > x.size()) {
    op.fail(ErrorCode::ShapeMismatch, "{} has shape {}, expected one that broadcasts to {}", what,
            op.text(got), op.text(x));
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    op.broadcasts_to(got[i], x[x.size() - got.size() + i], what);
  }
}

// stash_type is ONNX's number of f32 or bf16.
DType stash_dtype(const Inference& op, const Node& node) {
  constexpr std::int64_t kF32 = 1, kBF16 = 16;
  const std::int64_t stash = integer(node, "stash_type");
  if (stash != kF32 && stash != kBF16) {
    op.fail(ErrorCode::InvalidModel, "stash_type is {}, expected {} (f32) or {} (bf16)", stash, kF32, kBF16);
  }
  return stash == kF32 ? DType::F32 : DType::BF16;
}

}  // namespace

void infer_reduce(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape(0);
  const bool keep = integer(node, "keepdims") != 0;
  if (!x) {
    // Without axes every axis goes, whatever the rank.
    if (!op.has_input(1) && integer(node, "noop_with_empty_axes") == 0 && !keep) op.set_shape(0, Shape());
    return;
  }
  std::set<std::size_t> axes;
  if (op.has_input(1)) {
    const std::optional<std::vector<std::int64_t>> given = op.constants(1);
    if (!given) {
      if (keep) op.set_shape(0, op.fresh_shape(0, x->size()));
      return;
    }
    axes = op.axis_set(*given, x->size());
  }
  if (axes.empty() && integer(node, "noop_with_empty_axes") == 0) axes = all_axes(x->size());
  op.set_shape(0, reduced(*x, axes, keep));
}

void infer_arg_reduce(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape_of_rank(0, 1);
  if (!x) return;
  const std::size_t axis = op.normalize_axis(x->size());
  const Shape y = reduced(*x, {axis}, integer(node, "keepdims") != 0);
  // Each result is the index of an element.
  if (!(*x)[axis].is_at_least(1))
    op.at_least((*x)[axis], min(element_count(y), 1), "elements along the axis");
  op.set_shape(0, y);
}

void infer_along_axis(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape(0);
  // A scalar has one axis in the sense of softmax.
  if (x && !x->empty()) op.normalize_axis(x->size());
  op.set_shape(0, x);
}

void infer_layer_norm(Graph& graph, Node& node) {
  Inference op(graph, node);
  const DType stash = stash_dtype(op, node);
  op.set_dtype(1, stash);
  op.set_dtype(2, stash);
  const std::optional<Shape>& x = op.shape_of_rank(0, 1);
  if (!x) return;
  const std::size_t axis = op.normalize_axis(x->size());
  check_norm_operand(op, 1, *x, "Scale");
  check_norm_operand(op, 2, *x, "B");
  std::set<std::size_t> axes = all_axes(x->size());
  axes.erase(axes.begin(), axes.find(axis));
  op.set_shape(0, x);
  op.set_shape(1, reduced(*x, axes, true));
  op.set_shape(2, reduced(*x, axes, true));
}

void infer_rms_norm(Graph& graph, Node& node) {
  Inference op(graph, node);
  stash_dtype(op, node);
  const std::optional<Shape>& x = op.shape_of_rank(0, 1);
  if (!x) return;
  op.normalize_axis(x->size());
  check_norm_operand(op, 1, *x, "scale");
  op.set_shape(0, x);
}

void infer_channel_norm(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape_of_rank(0, 2);
  for (const std::size_t i : {1, 2}) {
    const std::optional<Shape>& parameter = op.shape_of_rank(i, 1, 1);
    if (x && parameter) op.same((*parameter)[0], (*x)[1], "channels");
  }
  if (has(node, "num_groups")) {
    const std::int64_t groups = integer(node, "num_groups");
    if (groups <= 0 || (x && (*x)[1].is_constant() && (*x)[1].constant() % groups != 0)) {
      op.fail(ErrorCode::InvalidModel, "num_groups is {}, expected a positive divisor of the channels",
              groups);
    }
  }
  op.set_shape(0, x);
}

void infer_scan(Graph& graph, Node& node) {
  Inference op(graph, node);
  op.shape_of_rank(1, 0, 1);
  op.set_shape(0, op.shape_of_rank(0, 1));
}

void infer_top_k(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape_of_rank(0, 1);
  if (!x) return;
  const std::size_t axis = op.normalize_axis(x->size());
  Shape result = *x;
  const std::optional<std::vector<Dim>> k = op.elements(1);
  if (k && k->size() == 1) {
    if (!(*x)[axis].is_constant() || !(*k)[0].is_constant() || (*k)[0].constant() <= (*x)[axis].constant()) {
      result[axis] = (*k)[0];
    } else {
      op.fail(ErrorCode::InvalidModel, "K is {}, expected at most the extent {}", op.text((*k)[0]),
              op.text((*x)[axis]));
    }
  } else {
    result[axis] = op.fresh(0, axis);
  }
  op.set_shape(0, result);
  op.set_shape(1, result);
}

}  // namespace kiln::graph
