// Random numbers.
#include "ir/graph/infer.h"

namespace kiln::graph {

void infer_random(Graph& graph, Node& node) {
  Inference op(graph, node);
  op.set_dtype(0, op.dtype_attribute("dtype"));
  const std::optional<Shape>& shape = op.shape_of_rank(0, 1, 1);
  if (const std::optional<std::vector<Dim>> extents = op.elements(0)) {
    op.set_shape(0, *extents);
  } else if (shape && (*shape)[0].is_constant() &&
             (*shape)[0].constant() <= static_cast<std::int64_t>(kMaxKnownElements)) {
    op.set_shape(0, op.fresh_shape(0, static_cast<std::size_t>((*shape)[0].constant())));
  }
}

void infer_multinomial(Graph& graph, Node& node) {
  Inference op(graph, node);
  op.set_dtype(0, op.dtype_attribute("dtype"));
  const std::int64_t samples = integer(node, "sample_size");
  if (samples < 0) op.fail(ErrorCode::InvalidModel, "sample_size is {}, expected 0 or more", samples);
  const std::optional<Shape>& x = op.shape_of_rank(0, 2, 2);
  op.set_shape(0, Shape{x ? (*x)[0] : op.fresh(0, 0), samples});
}

}  // namespace kiln::graph
