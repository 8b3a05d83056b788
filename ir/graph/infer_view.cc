// The same elements under another index.
#include <algorithm>
#include <numeric>
#include <set>

#include "ir/graph/infer.h"
#include "ir/graph/slice.h"

namespace kiln::graph {
namespace {

// Length of a rank-1 input if it is constant: the number of axes, say, that it lists.
std::optional<std::size_t> list_length(Inference& op, std::size_t operand) {
  constexpr std::int64_t kMost = 64;  // no tensor of more axes can be addressed
  const std::optional<Shape>& shape = op.shape_of_rank(operand, 0, 1);
  if (!shape) return std::nullopt;
  if (shape->empty()) return 1;
  if (!(*shape)[0].is_constant()) return std::nullopt;
  const std::int64_t length = (*shape)[0].constant();
  if (length > kMost)
    op.fail(ErrorCode::LimitExceeded, "input {} has {} entries, expected at most {}", operand, length, kMost);
  return static_cast<std::size_t>(length);
}

}  // namespace

void infer_transpose(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape(0);
  const std::size_t rank = x ? x->size() : has(node, "perm") ? integers(node, "perm").size() : 0;
  if (!has(node, "perm")) {
    if (!x) return;
    std::vector<std::int64_t> reversed(rank);
    for (std::size_t i = 0; i < rank; ++i) reversed[i] = static_cast<std::int64_t>(rank - 1 - i);
    node.attributes.emplace("perm", std::move(reversed));
  }
  const std::span<const std::int64_t> perm = integers(node, "perm");
  if (perm.size() != rank) {
    op.fail(ErrorCode::InvalidModel, "perm has {} entries, expected {}", perm.size(), rank);
  }
  std::vector<std::int64_t> normal;
  for (const std::int64_t axis : perm)
    normal.push_back(static_cast<std::int64_t>(op.normalized(axis, rank, "perm")));
  op.axis_set(normal, rank);
  Shape y;
  for (const std::int64_t axis : normal) {
    const auto from = static_cast<std::size_t>(axis);
    y.push_back(x ? (*x)[from] : op.fresh(0, y.size()));
  }
  node.attributes["perm"] = std::move(normal);
  op.set_shape(0, y);
}

void infer_reshape(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape(0);
  const std::optional<std::vector<Dim>> wanted = op.elements(1);
  if (!wanted) {
    const std::optional<std::size_t> rank = list_length(op, 1);
    if (rank) op.set_shape(0, op.fresh_shape(0, *rank));
    return;
  }
  const bool zero_copies = integer(node, "allowzero") == 0;
  Shape y = *wanted;
  std::optional<std::size_t> open;
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (!y[i].is_constant()) continue;
    if (y[i].constant() == 0 && zero_copies) {
      if (x && i >= x->size()) {
        op.fail(ErrorCode::ShapeMismatch, "shape {} copies axis {} of {}, which has no such axis",
                op.text(*wanted), i, op.text(*x));
      }
      y[i] = x ? (*x)[i] : op.fresh(0, i);
    } else if (y[i].constant() == -1) {
      if (open) op.fail(ErrorCode::InvalidModel, "shape {} has -1 more than once", op.text(*wanted));
      open = i;
    } else if (y[i].constant() < -1) {
      op.fail(ErrorCode::InvalidModel, "shape {} has a negative extent, expected -1 or more",
              op.text(*wanted));
    }
  }
  if (!x) {
    if (open) y[*open] = op.fresh(0, *open);
    op.set_shape(0, y);
    return;
  }
  if (!open) {
    op.same(element_count(*x), element_count(y), "elements before and after");
    op.set_shape(0, y);
    return;
  }
  // What is copied is the same on both sides, so that -1 is known even where it is 0.
  Dim total = 1, known = 1;
  for (std::size_t i = 0; i < std::max(x->size(), y.size()); ++i) {
    const bool literal_zero = i < y.size() && (*wanted)[i] == Dim(0) && !zero_copies;
    if (i < x->size() && i < y.size() && i != *open && y[i] == (*x)[i] && !literal_zero) continue;
    if (i < x->size()) total = total * (*x)[i];
    if (i < y.size() && i != *open) known = known * y[i];
  }
  if (known == Dim(0)) {
    op.fail(ErrorCode::ShapeMismatch, "shape {} leaves -1 open beside an extent of 0", op.text(*wanted));
  }
  y[*open] = floordiv(total, known);
  op.same(total, known * y[*open], "elements before and after");
  op.set_shape(0, y);
}

void infer_flatten(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape(0);
  if (!x) {
    op.set_shape(0, op.fresh_shape(0, 2));
    return;
  }
  const std::int64_t axis = integer(node, "axis");
  const std::size_t split =
      axis == static_cast<std::int64_t>(x->size()) ? x->size() : op.normalized(axis, x->size());
  node.attributes["axis"] = static_cast<std::int64_t>(split);
  const std::span<const Dim> extents(*x);
  op.set_shape(0, Shape{element_count(extents.first(split)), element_count(extents.subspan(split))});
}

void infer_squeeze(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape(0);
  if (!x) return;
  std::set<std::size_t> axes;
  if (op.has_input(1)) {
    const std::optional<std::vector<std::int64_t>> given = op.constants(1);
    if (!given) {
      const std::optional<std::size_t> count = list_length(op, 1);
      if (count && *count <= x->size()) op.set_shape(0, op.fresh_shape(0, x->size() - *count));
      return;
    }
    axes = op.axis_set(*given, x->size());
    for (const std::size_t axis : axes) op.same((*x)[axis], 1, "squeezed extent");
  } else {
    // Which axes go is known only if no other can turn out to be 1.
    for (std::size_t i = 0; i < x->size(); ++i) {
      if ((*x)[i] == Dim(1)) {
        axes.insert(i);
      } else if (!(*x)[i].is_constant() && !(*x)[i].is_at_least(2)) {
        return;
      }
    }
  }
  Shape y;
  for (std::size_t i = 0; i < x->size(); ++i) {
    if (!axes.contains(i)) y.push_back((*x)[i]);
  }
  op.set_shape(0, y);
}

void infer_unsqueeze(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape(0);
  const std::optional<std::vector<std::int64_t>> given = op.constants(1);
  if (!x) return;
  if (!given) {
    const std::optional<std::size_t> count = list_length(op, 1);
    if (count) op.set_shape(0, op.fresh_shape(0, x->size() + *count));
    return;
  }
  const std::size_t rank = x->size() + given->size();
  const std::set<std::size_t> axes = op.axis_set(*given, rank);
  Shape y;
  for (std::size_t i = 0, next = 0; i < rank; ++i) y.push_back(axes.contains(i) ? Dim(1) : (*x)[next++]);
  op.set_shape(0, y);
}

void infer_expand(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape(0);
  const std::optional<std::vector<Dim>> wanted = op.elements(1);
  if (x && wanted) {
    op.set_shape(0, op.broadcast_shapes(*x, *wanted));
    return;
  }
  const std::optional<std::size_t> rank = list_length(op, 1);
  if (x && rank) op.set_shape(0, op.fresh_shape(0, std::max(x->size(), *rank)));
}

void infer_slice(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape_of_rank(0, 1);
  for (std::size_t i = 1; i < 5; ++i) {
    if (op.has_input(i)) op.shape_of_rank(i, 1, 1);
  }
  if (!x) return;
  const std::optional<std::vector<Dim>> starts = op.elements(1), ends = op.elements(2);
  std::optional<std::vector<std::int64_t>> axes = op.constants(3);
  const std::optional<std::size_t> count = starts ? starts->size() : list_length(op, 1);
  if (!op.has_input(3) && count) {
    axes.emplace(*count);
    std::iota(axes->begin(), axes->end(), 0);
  }
  if (!axes) {
    op.set_shape(0, op.fresh_shape(0, x->size()));
    return;
  }
  const std::vector<std::int64_t> unit_steps(axes->size(), 1);
  const std::optional<std::vector<std::int64_t>> steps = op.has_input(4) ? op.constants(4) : unit_steps;
  for (const std::optional<std::size_t> length : {starts ? std::optional(starts->size()) : std::nullopt,
                                                  ends ? std::optional(ends->size()) : std::nullopt,
                                                  steps ? std::optional(steps->size()) : std::nullopt}) {
    if (length && *length != axes->size()) {
      op.fail(ErrorCode::ShapeMismatch, "got {} starts, ends or steps for {} axes", *length, axes->size());
    }
  }
  op.axis_set(*axes, x->size());
  Shape y = *x;
  for (std::size_t i = 0; i < axes->size(); ++i) {
    const std::size_t axis = op.normalized((*axes)[i], x->size(), "an entry of axes");
    std::optional<Dim> extent;
    if (steps && (*steps)[i] == 0) op.fail(ErrorCode::InvalidModel, "a step is 0");
    if (starts && ends && steps) extent = slice_count((*starts)[i], (*ends)[i], (*x)[axis], (*steps)[i]);
    y[axis] = extent ? *extent : op.fresh(0, axis);
  }
  op.set_shape(0, y);
}

void infer_split(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape_of_rank(0, 1);
  const std::size_t count = node.outputs.size();
  if (has(node, "num_outputs") && integer(node, "num_outputs") != static_cast<std::int64_t>(count)) {
    op.fail(ErrorCode::InvalidModel, "num_outputs is {} with {} outputs", integer(node, "num_outputs"),
            count);
  }
  if (!x) return;
  const std::size_t axis = op.normalize_axis(x->size());
  const std::optional<std::vector<Dim>> sizes = op.elements(1);
  if (sizes && sizes->size() != count) {
    op.fail(ErrorCode::ShapeMismatch, "got {} sizes for {} outputs", sizes->size(), count);
  }
  if (sizes) op.same(std::accumulate(sizes->begin(), sizes->end(), Dim(0)), (*x)[axis], "sum of the sizes");
  // Equal parts, the last one smaller if they do not come out even.
  const Dim part = ceildiv((*x)[axis], static_cast<std::int64_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    Shape y = *x;
    if (sizes) {
      y[axis] = (*sizes)[i];
    } else if (op.has_input(1)) {
      y[axis] = op.fresh(i, axis);
    } else {
      const Dim before = part * Dim(static_cast<std::int64_t>(i));
      y[axis] = i + 1 < count ? part : (*x)[axis] - before;
    }
    op.set_shape(i, y);
  }
}

void infer_depth_to_space(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape_of_rank(0, 4, 4);
  const std::int64_t block = integer(node, "blocksize");
  const std::string& mode = text(node, "mode");
  if (block < 1 || block > INT16_MAX)
    op.fail(ErrorCode::InvalidModel, "blocksize is {}, expected 1 or more", block);
  if (mode != "DCR" && mode != "CRD")
    op.fail(ErrorCode::InvalidModel, "mode is \"{}\", expected DCR or CRD", mode);
  if (!x) {
    op.set_shape(0, op.fresh_shape(0, 4));
    return;
  }
  const Dim channels = floordiv((*x)[1], block * block);
  op.same(channels * Dim(block * block), (*x)[1], "channels as a multiple of blocksize squared");
  op.set_shape(0, Shape{(*x)[0], channels, (*x)[2] * Dim(block), (*x)[3] * Dim(block)});
}

void infer_space_to_depth(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape_of_rank(0, 4, 4);
  const std::int64_t block = integer(node, "blocksize");
  if (block < 1 || block > INT16_MAX)
    op.fail(ErrorCode::InvalidModel, "blocksize is {}, expected 1 or more", block);
  if (!x) {
    op.set_shape(0, op.fresh_shape(0, 4));
    return;
  }
  Shape y = {(*x)[0], (*x)[1] * Dim(block * block), floordiv((*x)[2], block), floordiv((*x)[3], block)};
  for (const std::size_t axis : {2, 3}) {
    op.same(y[axis] * Dim(block), (*x)[axis], "spatial extent as a multiple of blocksize");
  }
  op.set_shape(0, y);
}

}  // namespace kiln::graph
