// Sampling of images and of regions in them.
#include <algorithm>
#include <numeric>

#include "ir/graph/infer.h"

namespace kiln::graph {
namespace {

void expect_text(Inference& op, std::string_view attribute, std::initializer_list<std::string_view> allowed) {
  const std::string& value = text(op.node(), attribute);
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
  op.fail(ErrorCode::InvalidModel, "{} is \"{}\", expected one of {}", attribute, value,
          fmt::join(allowed, ", "));
}

// [regions, channels, height, width] of pooled regions, which are rows of `columns` numbers.
void set_regions(Inference& op, std::int64_t columns, const Dim& height, const Dim& width) {
  const std::optional<Shape>& x = op.shape_of_rank(0, 4, 4);
  const std::optional<Shape>& rois = op.shape_of_rank(1, 2, 2);
  if (rois) op.same((*rois)[1], columns, "numbers of a region");
  op.set_shape(0, Shape{rois ? (*rois)[0] : op.fresh(0, 0), x ? (*x)[1] : op.fresh(0, 1), height, width});
}

void check_batch_indices(Inference& op) {
  const std::optional<Shape>& rois = op.shape(1);
  const std::optional<Shape>& indices = op.shape_of_rank(2, 1, 1);
  if (rois && indices) op.same((*indices)[0], (*rois)[0], "regions and their batch_indices");
}

}  // namespace

void infer_affine_grid(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& theta = op.shape_of_rank(0, 3, 3);
  const std::optional<Shape>& list = op.shape_of_rank(1, 1, 1);
  const std::optional<std::vector<Dim>> size = op.elements(1);
  std::optional<std::size_t> rank;  // of the space
  if (theta && (*theta)[1].is_constant()) {
    const std::int64_t rows = (*theta)[1].constant();
    if (rows != 2 && rows != 3) {
      op.fail(ErrorCode::ShapeMismatch, "theta has shape {}, expected [N, 2, 3] or [N, 3, 4]",
              op.text(*theta));
    }
    rank = static_cast<std::size_t>(rows);
  }
  if (theta && rank) op.same((*theta)[2], static_cast<std::int64_t>(*rank) + 1, "columns of theta");
  if (list && (*list)[0].is_constant()) {
    const std::int64_t count = (*list)[0].constant();
    if ((count != 4 && count != 5) || (rank && static_cast<std::size_t>(count) != *rank + 2)) {
      op.fail(ErrorCode::ShapeMismatch, "size has {} elements, expected {}", count,
              !rank        ? "4 or 5"
              : *rank == 2 ? "4"
                           : "5");
    }
    rank = static_cast<std::size_t>(count) - 2;
  }
  if (!rank) return;
  Shape y;
  if (size) {
    y = *size;
    y.erase(y.begin() + 1);
    if (theta) y[0] = op.same((*theta)[0], y[0], "batches of theta and size");
  } else {
    y = op.fresh_shape(0, *rank + 1);
    if (theta) y[0] = (*theta)[0];
  }
  y.push_back(static_cast<std::int64_t>(*rank));
  op.set_shape(0, y);
}

void infer_grid_sample(Graph& graph, Node& node) {
  Inference op(graph, node);
  expect_text(op, "mode", {"linear", "nearest", "cubic"});
  expect_text(op, "padding_mode", {"zeros", "border", "reflection"});
  const std::optional<Shape>& x = op.shape_of_rank(0, 3);
  const std::optional<Shape>& grid = op.shape_of_rank(1, 3);
  if (x && grid && x->size() != grid->size()) {
    op.fail(ErrorCode::ShapeMismatch, "X has shape {} and the grid has {}, expected the same rank",
            op.text(*x), op.text(*grid));
  }
  const std::size_t rank = x ? x->size() : grid ? grid->size() : 0;
  if (rank == 0) return;
  if (grid) op.same(grid->back(), static_cast<std::int64_t>(rank) - 2, "coordinates of a point of the grid");
  Shape y = {x ? (*x)[0] : (*grid)[0], x ? (*x)[1] : op.fresh(0, 1)};
  if (x && grid) y[0] = op.same((*x)[0], (*grid)[0], "batches of X and grid");
  for (std::size_t i = 2; i < rank; ++i) y.push_back(grid ? (*grid)[i - 1] : op.fresh(0, i));
  op.set_shape(0, y);
}

void infer_roi_align(Graph& graph, Node& node) {
  Inference op(graph, node);
  expect_text(op, "mode", {"avg", "max"});
  expect_text(op, "coordinate_transformation_mode", {"half_pixel", "output_half_pixel"});
  for (const std::string_view attribute : {"output_height", "output_width"}) {
    if (integer(node, attribute) >= 1 && integer(node, attribute) <= INT32_MAX) continue;
    op.fail(ErrorCode::InvalidModel, "{} is {}, expected at least 1", attribute, integer(node, attribute));
  }
  if (integer(node, "sampling_ratio") < 0) {
    op.fail(ErrorCode::InvalidModel, "sampling_ratio is {}, expected 0 or more",
            integer(node, "sampling_ratio"));
  }
  set_regions(op, 4, integer(node, "output_height"), integer(node, "output_width"));
  check_batch_indices(op);
}

void infer_max_roi_pool(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::span<const std::int64_t> pooled = integers(node, "pooled_shape");
  if (pooled.size() != 2 || std::min(pooled[0], pooled[1]) < 1 ||
      std::max(pooled[0], pooled[1]) > INT32_MAX) {
    op.fail(ErrorCode::InvalidModel, "pooled_shape is [{}], expected two positive extents",
            fmt::join(pooled, ", "));
  }
  set_regions(op, 5, pooled[0], pooled[1]);
}

void infer_crop_and_resize(Graph& graph, Node& node) {
  Inference op(graph, node);
  expect_text(op, "mode", {"bilinear", "nearest"});
  const std::optional<Shape>& list = op.shape_of_rank(3, 1, 1);
  if (list) op.same((*list)[0], 2, "elements of crop_size");
  const std::optional<std::vector<Dim>> size = op.elements(3);
  set_regions(op, 4, size ? (*size)[0] : op.fresh(0, 2), size ? (*size)[1] : op.fresh(0, 3));
  check_batch_indices(op);
}

void infer_center_crop_pad(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape(0);
  const std::optional<Shape>& list = op.shape_of_rank(1, 1, 1);
  const std::optional<std::vector<Dim>> wanted = op.elements(1);
  if (!x) return;
  std::vector<std::size_t> axes(x->size());
  std::iota(axes.begin(), axes.end(), std::size_t{0});
  if (has(node, "axes")) {
    axes.clear();
    op.axis_set(integers(node, "axes"), x->size());
    for (const std::int64_t axis : integers(node, "axes")) axes.push_back(op.normalized(axis, x->size()));
  }
  if (list) op.same((*list)[0], static_cast<std::int64_t>(axes.size()), "elements of shape");
  Shape y = *x;
  for (std::size_t i = 0; i < axes.size(); ++i) y[axes[i]] = wanted ? (*wanted)[i] : op.fresh(0, axes[i]);
  op.set_shape(0, y);
}

}  // namespace kiln::graph
