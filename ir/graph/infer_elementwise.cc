// Elementwise operators: shapes broadcast, dtypes follow the contract.
#include <algorithm>

#include "ir/graph/infer.h"

namespace kiln::graph {
namespace {

// Shape of an operand that is broadcast to `shape` without changing it, such as a scale along one axis.
void check_broadcasts_to(Inference& op, std::size_t operand, const Shape& shape, std::string_view what) {
  const std::optional<Shape>& got = op.shape(operand);
  if (!got) return;
  if (got->size() > shape.size()) {
    op.fail(ErrorCode::ShapeMismatch, "{} has shape {}, expected one that broadcasts to {}", what,
            op.text(*got), op.text(shape));
  }
  const std::size_t offset = shape.size() - got->size();
  for (std::size_t i = 0; i < got->size(); ++i) op.broadcasts_to((*got)[i], shape[offset + i], what);
}

// A scale or zero point: a scalar, one per index of `axis`, or one per block along it.
void check_scale(Inference& op, std::size_t operand, std::string_view what) {
  const Node& node = op.node();
  const std::optional<Shape>& x = op.shape(0);
  if (!op.has_input(operand) || !x || !op.shape(operand)) return;
  const Shape& scale = *op.shape(operand);
  const bool blocks = integer(node, "block_size") != 0;
  // One element is for the whole tensor, whatever the axis: which case a run-time length is only the kernel
  // sees.
  if (scale.empty() || (scale.size() == 1 && (scale[0] == Dim(1) || (!blocks && !scale[0].is_constant()))))
    return;
  const std::size_t axis = op.normalized(integer(node, "axis"), x->size());
  if (!blocks) {
    if (scale.size() != 1)
      op.fail(ErrorCode::ShapeMismatch, "{} has shape {}, expected rank 0 or 1", what, op.text(scale));
    op.same(scale[0], (*x)[axis], what);
    return;
  }
  if (scale.size() != x->size()) {
    op.fail(ErrorCode::ShapeMismatch, "{} has shape {}, expected rank {}", what, op.text(scale), x->size());
  }
}

}  // namespace

void infer_unary(Graph& graph, Node& node) {
  Inference op(graph, node);
  op.set_shape(0, op.shape(0));
}

void infer_broadcast(Graph& graph, Node& node) {
  Inference op(graph, node);
  std::optional<Shape> result = Shape();
  for (std::size_t i = 0; i < node.inputs.size() && result; ++i) {
    if (op.shape(i)) {
      result = op.broadcast_shapes(*result, *op.shape(i));
    } else {
      result.reset();
    }
  }
  op.set_shape(0, std::move(result));
}

void infer_mod(Graph& graph, Node& node) {
  const Inference op(graph, node);
  if (is_float(op.input(0).dtype) && integer(node, "fmod") == 0) {
    op.fail(ErrorCode::InvalidModel, "fmod is 0 with inputs of type {}, expected 1 for floats",
            name(op.input(0).dtype));
  }
  infer_broadcast(graph, node);
}

void infer_prelu(Graph& graph, Node& node) {
  Inference op(graph, node);
  if (op.shape(0)) check_broadcasts_to(op, 1, *op.shape(0), "slope");
  op.set_shape(0, op.shape(0));
}

void infer_clip(Graph& graph, Node& node) {
  Inference op(graph, node);
  for (const std::size_t bound : {1, 2}) {
    if (!op.has_input(bound) || !op.shape(bound)) continue;
    for (const Dim& extent : *op.shape(bound)) op.same(extent, 1, "elements of min and max");
  }
  op.set_shape(0, op.shape(0));
}

void infer_cast(Graph& graph, Node& node) {
  Inference op(graph, node);
  op.set_dtype(0, op.dtype_attribute("to"));
  op.set_shape(0, op.shape(0));
}

void infer_cast_like(Graph& graph, Node& node) { infer_unary(graph, node); }

void infer_dropout(Graph& graph, Node& node) {
  Inference op(graph, node);
  if (op.has_input(2)) {
    const std::optional<std::vector<std::int64_t>> training = op.constants(2);
    if (!training || training->empty() || (*training)[0] != 0) {
      op.fail(ErrorCode::Unsupported, "training_mode is not the constant false: only inference is supported");
    }
  }
  op.set_shape(0, op.shape(0));
  op.set_shape(1, op.shape(0));
}

void infer_batch_norm(Graph& graph, Node& node) {
  Inference op(graph, node);
  if (integer(node, "training_mode") != 0 || op.has_output(1) || op.has_output(2)) {
    op.fail(ErrorCode::Unsupported, "training_mode is set: only inference is supported");
  }
  const std::optional<Shape>& x = op.shape_of_rank(0, 1);
  for (std::size_t i = 1; i < 5; ++i) {
    const std::optional<Shape>& parameter = op.shape_of_rank(i, 1, 1);
    // Data of rank 1 has one channel.
    if (x && parameter) op.same((*parameter)[0], x->size() > 1 ? (*x)[1] : Dim(1), "channels");
  }
  op.set_shape(0, x);
}

void infer_quantize(Graph& graph, Node& node) {
  Inference op(graph, node);
  check_scale(op, 1, "y_scale");
  check_scale(op, 2, "y_zero_point");
  if (!op.has_input(2)) {
    op.set_dtype(0, integer(node, "output_dtype") < 0 ? DType::U8 : op.dtype_attribute("output_dtype"));
  }
  op.set_shape(0, op.shape(0));
}

void infer_dequantize(Graph& graph, Node& node) {
  Inference op(graph, node);
  check_scale(op, 1, "x_scale");
  check_scale(op, 2, "x_zero_point");
  op.set_dtype(0, integer(node, "output_dtype") < 0 ? op.input(1).dtype : op.dtype_attribute("output_dtype"));
  op.set_shape(0, op.shape(0));
}

void infer_dynamic_quantize(Graph& graph, Node& node) {
  Inference op(graph, node);
  op.set_shape(0, op.shape(0));
  op.set_shape(1, Shape());
  op.set_shape(2, Shape());
}

void infer_eye_like(Graph& graph, Node& node) {
  Inference op(graph, node);
  op.set_dtype(0, has(node, "dtype") ? op.dtype_attribute("dtype") : op.input(0).dtype);
  op.set_shape(0, op.shape_of_rank(0, 2, 2));
}

}  // namespace kiln::graph
