// Fourier transforms and filter banks.
#include "ir/graph/infer.h"

namespace kiln::graph {
namespace {

// The known value of an input of one element.
std::optional<Dim> scalar(const Inference& op, std::size_t operand) {
  const std::optional<std::vector<Dim>> elements = op.elements(operand);
  if (!elements || elements->size() != 1) return std::nullopt;
  return (*elements)[0];
}

// The same; throws if it is known to be below `least`.
std::optional<Dim> scalar_from(const Inference& op, std::size_t operand, std::int64_t least,
                               std::string_view what) {
  const std::optional<Dim> value = scalar(op, operand);
  if (value && value->is_constant() && value->constant() < least) {
    op.fail(ErrorCode::InvalidModel, "{} is {}, expected at least {}", what, value->constant(), least);
  }
  return value;
}

Dim half_spectrum(const Dim& length) { return floordiv(length, 2) + 1; }

}  // namespace

void infer_dft(Graph& graph, Node& node) {
  Inference op(graph, node);
  const bool inverse = integer(node, "inverse") != 0, onesided = integer(node, "onesided") != 0;
  const std::optional<Shape>& x = op.shape_of_rank(0, 2);
  const std::optional<Dim> length = scalar_from(op, 1, 1, "dft_length");
  if (!x) return;
  const std::size_t rank = x->size();
  const Dim& parts = x->back();
  if (parts.is_constant() && parts.constant() != 1 && parts.constant() != 2) {
    op.fail(ErrorCode::ShapeMismatch, "the last extent is {}, expected 1 (real) or 2 (complex)",
            op.text(parts));
  }
  if (onesided && !inverse && parts == Dim(2)) {
    op.fail(ErrorCode::ShapeMismatch, "onesided is set for complex input, expected real input");
  }
  Shape y = *x;
  y[rank - 1] = onesided && inverse ? 1 : 2;
  const std::optional<Dim> given = op.has_input(2) ? scalar(op, 2) : Dim(-2);
  if (!given || !given->is_constant()) {
    for (std::size_t i = 0; i + 1 < rank; ++i) y[i] = op.fresh(0, i);
    op.set_shape(0, y);
    return;
  }
  const std::size_t axis = op.normalized(given->constant(), rank);
  if (axis + 1 == rank) {
    op.fail(ErrorCode::InvalidModel, "axis is the last one, which has the real and imaginary parts");
  }
  if (op.has_input(1) && !length) {
    y[axis] = op.fresh(0, axis);
  } else {
    const Dim spectrum = onesided && inverse ? ((*x)[axis] - 1) * Dim(2) : (*x)[axis];
    const Dim transformed = length.value_or(spectrum);
    y[axis] = onesided && !inverse ? half_spectrum(transformed) : transformed;
  }
  op.set_shape(0, y);
}

void infer_stft(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& signal = op.shape_of_rank(0, 2, 3);
  const bool onesided = integer(node, "onesided") != 0;
  const std::optional<Dim> step = scalar_from(op, 1, 1, "frame_step");
  std::optional<Dim> length = scalar_from(op, 3, 1, "frame_length");
  if (!op.has_input(2) && !op.has_input(3) && signal) length = (*signal)[1];
  if (op.has_input(2)) {
    const std::optional<Shape>& window = op.shape_of_rank(2, 1, 1);
    if (window) length = length ? op.same((*window)[0], *length, "window and frame_length") : (*window)[0];
  }
  if (signal && signal->size() == 3) {
    const Dim& parts = signal->back();
    if (parts.is_constant() && parts.constant() != 1 && (parts.constant() != 2 || onesided)) {
      op.fail(ErrorCode::ShapeMismatch, "the last extent of the signal is {}, expected 1 (real){}",
              op.text(parts), onesided ? " as onesided is set" : " or 2 (complex)");
    }
  }
  const bool frames_known = signal && length && step;
  op.set_shape(0, Shape{signal ? (*signal)[0] : op.fresh(0, 0),
                        frames_known ? max(floordiv((*signal)[1] - *length, *step) + 1, 0) : op.fresh(0, 1),
                        !length    ? op.fresh(0, 2)
                        : onesided ? half_spectrum(*length)
                                   : *length,
                        2});
}

void infer_mel_weight_matrix(Graph& graph, Node& node) {
  Inference op(graph, node);
  op.set_dtype(0, op.dtype_attribute("dtype"));
  const std::optional<Dim> bins = scalar_from(op, 0, 0, "num_mel_bins");
  const std::optional<Dim> length = scalar_from(op, 1, 0, "dft_length");
  op.set_shape(0, Shape{length ? half_spectrum(*length) : op.fresh(0, 0), bins ? *bins : op.fresh(0, 1)});
}

}  // namespace kiln::graph
