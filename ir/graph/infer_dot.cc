// Matrix products.
#include "ir/graph/infer.h"

namespace kiln::graph {

void infer_gemm(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& a = op.shape_of_rank(0, 2, 2);
  const std::optional<Shape>& b = op.shape_of_rank(1, 2, 2);
  const std::size_t m = integer(node, "transA") != 0 ? 1 : 0, n = integer(node, "transB") != 0 ? 0 : 1;
  if (a && b) op.same((*a)[1 - m], (*b)[1 - n], "inner extents of A and B");
  const Shape y = {a ? (*a)[m] : op.fresh(0, 0), b ? (*b)[n] : op.fresh(0, 1)};
  if (op.has_input(2)) {
    const std::optional<Shape>& c = op.shape_of_rank(2, 0, 2);
    for (std::size_t i = 0; c && i < c->size(); ++i) {
      op.broadcasts_to((*c)[i], y[y.size() - c->size() + i], "C broadcast to Y");
    }
  }
  op.set_shape(0, y);
}

void infer_matmul(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& a = op.shape_of_rank(0, 1);
  const std::optional<Shape>& b = op.shape_of_rank(1, 1);
  if (!a || !b) return;
  op.same(a->back(), (*b)[b->size() == 1 ? 0 : b->size() - 2], "inner extents of A and B");
  const auto batch = [](const Shape& shape) {
    return Shape(shape.begin(), shape.end() - (shape.size() == 1 ? 1 : 2));
  };
  Shape y = op.broadcast_shapes(batch(*a), batch(*b));
  if (a->size() > 1) y.push_back((*a)[a->size() - 2]);
  if (b->size() > 1) y.push_back(b->back());
  op.set_shape(0, y);
}

void infer_matmul_integer(Graph& graph, Node& node) { infer_matmul(graph, node); }

}  // namespace kiln::graph
