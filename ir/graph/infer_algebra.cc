// Linear algebra, sets, losses and the like: sizes that follow from an equation or from single axes.
#include <algorithm>
#include <map>

#include "ir/graph/einsum.h"
#include "ir/graph/infer.h"

namespace kiln::graph {

void infer_einsum(Graph& graph, Node& node) {
  Inference op(graph, node);
  const EinsumEquation equation = parse_einsum(text(node, "equation"), node.inputs.size());
  std::map<int, Dim> extents;
  std::size_t widest = 0;
  bool ellipsis_known = true;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const std::string& term = equation.inputs[i];
    const std::optional<Shape>& shape = op.shape(i);
    if (!shape) {
      ellipsis_known = ellipsis_known && term.find(EinsumEquation::kEllipsis) == std::string::npos;
      continue;
    }
    const std::size_t ellipsis = ellipsis_axes(term, shape->size());
    widest = std::max(widest, ellipsis);
    const std::vector<int> labels = einsum_labels(term, ellipsis);
    std::map<int, Dim> own;
    for (std::size_t axis = 0; axis < labels.size(); ++axis) {
      const auto [at, inserted] = own.emplace(labels[axis], (*shape)[axis]);
      if (!inserted) at->second = op.same(at->second, (*shape)[axis], "axes of one letter in one input");
    }
    for (const auto& [label, extent] : own) {
      const auto [at, inserted] = extents.emplace(label, extent);
      if (!inserted) at->second = op.broadcast_extents(at->second, extent);
    }
  }
  if (!ellipsis_known && equation.output.find(EinsumEquation::kEllipsis) != std::string::npos) return;
  Shape y;
  for (const int label : einsum_labels(equation.output, widest)) {
    const auto found = extents.find(label);
    y.push_back(found == extents.end() ? op.fresh(0, y.size()) : found->second);
  }
  // An input of unknown rank may widen an extent of 1.
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (op.shape(i)) continue;
    for (std::size_t axis = 0; axis < y.size(); ++axis) {
      if (y[axis] == Dim(1) || !y[axis].is_constant()) y[axis] = op.fresh(0, axis);
    }
    break;
  }
  op.set_shape(0, y);
}

void infer_det(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape_of_rank(0, 2);
  if (!x) return;
  op.same((*x)[x->size() - 2], x->back(), "sides of the matrices");
  op.set_shape(0, Shape(x->begin(), x->end() - 2));
}

void infer_inverse(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape_of_rank(0, 2);
  if (x) op.same((*x)[x->size() - 2], x->back(), "sides of the matrices");
  op.set_shape(0, x);
}

void infer_unique(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape(0);
  if (!has(node, "axis")) {
    const Dim count = op.fresh(0, 0);
    op.set_shape(0, Shape{count});
    op.set_shape(1, Shape{count});
    op.set_shape(2, Shape{x ? element_count(*x) : op.fresh(2, 0)});
    op.set_shape(3, Shape{count});
    return;
  }
  if (!x) {
    for (const std::size_t operand : {1U, 2U, 3U}) op.set_shape(operand, op.fresh_shape(operand, 1));
    return;
  }
  const std::size_t axis = op.normalize_axis(x->size());
  const Dim count = op.fresh(0, axis);
  Shape y = *x;
  y[axis] = count;
  op.set_shape(0, y);
  op.set_shape(1, Shape{count});
  op.set_shape(2, Shape{(*x)[axis]});
  op.set_shape(3, Shape{count});
}

void infer_nll_loss(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::string& reduction = text(node, "reduction");
  if (reduction != "none" && reduction != "mean" && reduction != "sum") {
    op.fail(ErrorCode::InvalidModel, "reduction is \"{}\", expected none, mean or sum", reduction);
  }
  const std::optional<Shape>& input = op.shape_of_rank(0, 2);
  const std::optional<Shape>& target = op.shape_of_rank(1, 1);
  if (input && target) {
    if (input->size() != target->size() + 1) {
      op.fail(ErrorCode::ShapeMismatch, "target has shape {}, expected that of the input, {}, without axis 1",
              op.text(*target), op.text(*input));
    }
    for (std::size_t i = 0; i < target->size(); ++i) {
      op.same((*input)[i == 0 ? 0 : i + 1], (*target)[i], "extents of input and target");
    }
  }
  if (op.has_input(2)) {
    const std::optional<Shape>& weight = op.shape_of_rank(2, 1, 1);
    if (input && weight) op.same((*weight)[0], (*input)[1], "classes of weight and input");
  }
  if (reduction != "none") {
    op.set_shape(0, Shape());
  } else if (target) {
    op.set_shape(0, target);
  } else if (input) {
    Shape loss = *input;
    loss.erase(loss.begin() + 1);
    op.set_shape(0, loss);
  }
}

void infer_tensor_scatter(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::string& mode = text(node, "mode");
  if (mode != "linear" && mode != "circular") {
    op.fail(ErrorCode::InvalidModel, "mode is \"{}\", expected linear or circular", mode);
  }
  const std::optional<Shape>& cache = op.shape_of_rank(0, 2);
  const std::optional<Shape>& update = op.shape_of_rank(1, 2);
  const std::optional<std::size_t> rank = cache    ? std::optional(cache->size())
                                          : update ? std::optional(update->size())
                                                   : std::nullopt;
  if (rank && op.normalize_axis(*rank) == 0) {
    op.fail(ErrorCode::InvalidModel, "axis is that of the batch, expected another");
  }
  if (cache && update) {
    op.shape_of_rank(1, *rank, *rank);
    const auto axis = static_cast<std::size_t>(integer(node, "axis"));
    for (std::size_t i = 0; i < *rank; ++i) {
      if (i != axis) op.same((*cache)[i], (*update)[i], "extents of past_cache and update");
    }
  }
  if (op.has_input(2)) {
    const std::optional<Shape>& indices = op.shape_of_rank(2, 1, 1);
    if (cache && indices) op.same((*indices)[0], (*cache)[0], "batches of write_indices and past_cache");
  }
  op.set_shape(0, cache);
}

void infer_bit_cast(Graph& graph, Node& node) {
  Inference op(graph, node);
  const auto to = op.dtype_attribute("to");
  const DType from = op.input(0).dtype;
  if (from == DType::String || to == DType::String || bits(from) != bits(to)) {
    op.fail(ErrorCode::TypeMismatch,
            "the bits of {} cannot be those of {}: expected a type as wide, no string", name(from), name(to));
  }
  node.attributes["from"] = static_cast<std::int64_t>(from);
  op.set_dtype(0, to);
  op.set_shape(0, op.shape(0));
}

}  // namespace kiln::graph
