// Operators that move elements: gathers, scatters, concatenation, padding, resizing.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/graph/infer.h"

namespace kiln::graph {
namespace {

// The axes that an optional list names, all in order if it is absent; nothing if it is not constant.
std::optional<std::vector<std::size_t>> listed_axes(Inference& op, std::size_t operand, std::size_t rank) {
  std::vector<std::size_t> axes(rank);
  std::iota(axes.begin(), axes.end(), std::size_t{0});
  if (!op.has_input(operand)) return axes;
  const std::optional<std::vector<std::int64_t>> given = op.constants(operand);
  if (!given) return std::nullopt;
  axes.clear();
  op.axis_set(*given, rank);
  for (const std::int64_t axis : *given) axes.push_back(op.normalized(axis, rank));
  return axes;
}

// floor(extent * scale) as f32 arithmetic gives it. A run-time extent needs the fraction that was meant by
// the f32: of those that round to it, the one of the smallest denominator.
std::optional<Dim> scaled_extent(const Dim& extent, float scale) {
  if (extent.is_constant()) {
    const float product = static_cast<float>(extent.constant()) * scale;
    if (!(product >= 0 && product < 9e18F)) return std::nullopt;
    return static_cast<std::int64_t>(product);
  }
  constexpr std::int64_t kMostParts = 4096;
  if (!(scale > 0 && scale < 65536)) return std::nullopt;
  for (std::int64_t parts = 1; parts <= kMostParts; ++parts) {
    const auto numerator =
        static_cast<std::int64_t>(std::llround(static_cast<double>(scale) * static_cast<double>(parts)));
    if (numerator > 0 &&
        static_cast<float>(static_cast<double>(numerator) / static_cast<double>(parts)) == scale) {
      return floordiv(extent * Dim(numerator), parts);
    }
  }
  return std::nullopt;
}

void check_reduction(const Inference& op, const Node& node) {
  const std::string& reduction = text(node, "reduction");
  for (const std::string_view known : {"none", "add", "mul", "min", "max"}) {
    if (reduction == known) return;
  }
  op.fail(ErrorCode::InvalidModel, "reduction is \"{}\", expected none, add, mul, min or max", reduction);
}

// Where the coordinates of an index are taken over, there are no more indices than data.
void check_indexed_extents(Inference& op, const Shape& data) {
  const std::size_t axis = op.normalize_axis(data.size());
  const std::optional<Shape>& indices = op.shape_of_rank(1, data.size(), data.size());
  for (std::size_t i = 0; indices && i < data.size(); ++i) {
    const Dim room = data[i] - (*indices)[i];
    if (i == axis || room.is_at_least(0)) continue;
    if (room.is_constant()) {
      op.fail(ErrorCode::ShapeMismatch, "indices have shape {}, data {}: expected at most {} along axis {}",
              op.text(*indices), op.text(data), op.text(data[i]), i);
    }
    op.same(min(room, 0), 0, "indices beyond the data");
  }
}

}  // namespace

void infer_concat(Graph& graph, Node& node) {
  Inference op(graph, node);
  std::optional<std::size_t> rank;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (op.shape(i)) rank = op.shape(i)->size();
  }
  if (!rank) return;
  const std::size_t axis = op.normalize_axis(*rank);
  std::optional<Shape> y;
  bool known = true;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const std::optional<Shape>& x = op.shape_of_rank(i, *rank, *rank);
    if (!x) {
      known = false;
    } else if (!y) {
      y = x;
    } else {
      for (std::size_t k = 0; k < *rank; ++k) {
        (*y)[k] =
            k == axis ? (*y)[k] + (*x)[k] : op.same((*y)[k], (*x)[k], "extents beside the concatenated axis");
      }
    }
  }
  if (!known) (*y)[axis] = op.fresh(0, axis);
  op.set_shape(0, y);
}

void infer_pad(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::string& mode = text(node, "mode");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap") {
    op.fail(ErrorCode::InvalidModel, "mode is \"{}\", expected constant, reflect, edge or wrap", mode);
  }
  const std::optional<Shape>& x = op.shape(0);
  if (!x) return;
  const std::optional<std::vector<Dim>> pads = op.elements(1);
  const std::optional<std::vector<std::size_t>> axes = listed_axes(op, 3, x->size());
  if (!pads || !axes) {
    op.set_shape(0, op.fresh_shape(0, x->size()));
    return;
  }
  if (pads->size() != 2 * axes->size()) {
    op.fail(ErrorCode::ShapeMismatch, "got {} pads for {} axes, expected two each", pads->size(),
            axes->size());
  }
  Shape y = *x;
  for (std::size_t i = 0; i < axes->size(); ++i) {
    Dim& extent = y[(*axes)[i]];
    const Dim& before = (*pads)[i];
    const Dim& after = (*pads)[axes->size() + i];
    const auto adds = [](const Dim& pad) { return pad.is_constant() && pad.constant() > 0; };
    if (mode != "constant" && (adds(before) || adds(after))) {
      op.same(min(extent, 1), 1, "elements to copy along a padded axis");
    }
    extent = extent + before + after;
  }
  op.set_shape(0, y);
}

void infer_tile(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape(0);
  op.shape_of_rank(1, 1, 1);
  if (!x) return;
  const std::optional<std::vector<Dim>> repeats = op.elements(1);
  if (!repeats) {
    op.set_shape(0, op.fresh_shape(0, x->size()));
    return;
  }
  if (repeats->size() != x->size()) {
    op.fail(ErrorCode::ShapeMismatch, "got {} repeats for rank {}", repeats->size(), x->size());
  }
  Shape y;
  for (std::size_t i = 0; i < x->size(); ++i) y.push_back((*x)[i] * (*repeats)[i]);
  op.set_shape(0, y);
}

void infer_gather(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& data = op.shape_of_rank(0, 1);
  const std::optional<Shape>& indices = op.shape(1);
  if (!data) return;
  const std::size_t axis = op.normalize_axis(data->size());
  if (!indices) return;
  Shape y(data->begin(), data->begin() + static_cast<std::ptrdiff_t>(axis));
  y.insert(y.end(), indices->begin(), indices->end());
  y.insert(y.end(), data->begin() + static_cast<std::ptrdiff_t>(axis) + 1, data->end());
  op.set_shape(0, y);
}

void infer_gather_elements(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& data = op.shape_of_rank(0, 1);
  if (data) check_indexed_extents(op, *data);
  op.set_shape(0, op.shape(1));
}

void infer_gather_nd(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& data = op.shape_of_rank(0, 1);
  const std::optional<Shape>& indices = op.shape_of_rank(1, 1);
  const std::int64_t batch = integer(node, "batch_dims");
  if (!data || !indices) return;
  const auto batch_axes = static_cast<std::size_t>(batch);
  if (batch < 0 || batch_axes >= std::min(data->size(), indices->size())) {
    op.fail(ErrorCode::InvalidModel, "batch_dims is {}, expected less than both ranks", batch);
  }
  for (std::size_t i = 0; i < batch_axes; ++i) op.same((*data)[i], (*indices)[i], "batch extents");
  if (!indices->back().is_constant()) return;
  const std::int64_t depth = indices->back().constant();
  if (depth < 1 || batch_axes + static_cast<std::size_t>(depth) > data->size()) {
    op.fail(ErrorCode::ShapeMismatch, "indices have shape {}: the last extent is beyond the axes of {}",
            op.text(*indices), op.text(*data));
  }
  Shape y(indices->begin(), indices->end() - 1);
  y.insert(y.end(), data->begin() + static_cast<std::ptrdiff_t>(batch_axes) + depth, data->end());
  op.set_shape(0, y);
}

void infer_scatter_elements(Graph& graph, Node& node) {
  Inference op(graph, node);
  check_reduction(op, node);
  const std::optional<Shape>& data = op.shape_of_rank(0, 1);
  if (data) {
    check_indexed_extents(op, *data);
    const std::optional<Shape>& indices = op.shape(1);
    const std::optional<Shape>& updates = op.shape_of_rank(2, data->size(), data->size());
    for (std::size_t i = 0; indices && updates && i < data->size(); ++i) {
      op.same((*indices)[i], (*updates)[i], "extents of indices and updates");
    }
  }
  op.set_shape(0, data);
}

void infer_scatter_nd(Graph& graph, Node& node) {
  Inference op(graph, node);
  check_reduction(op, node);
  const std::optional<Shape>& data = op.shape_of_rank(0, 1);
  const std::optional<Shape>& indices = op.shape_of_rank(1, 1);
  const std::optional<Shape>& updates = op.shape(2);
  op.set_shape(0, data);
  if (!data || !indices || !updates || !indices->back().is_constant()) return;
  const std::int64_t depth = indices->back().constant();
  if (depth < 0 || depth > static_cast<std::int64_t>(data->size())) {
    op.fail(ErrorCode::ShapeMismatch, "indices have shape {}: the last extent is beyond the axes of {}",
            op.text(*indices), op.text(*data));
  }
  Shape expected(indices->begin(), indices->end() - 1);
  expected.insert(expected.end(), data->begin() + depth, data->end());
  op.shape_of_rank(2, expected.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) op.same((*updates)[i], expected[i], "extents of updates");
}

void infer_resize(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape_of_rank(0, 1);
  if (op.has_input(2) == op.has_input(3)) {
    op.fail(ErrorCode::InvalidModel, "expected either scales or sizes, got {}",
            op.has_input(2) ? "both" : "neither");
  }
  if (!x) return;
  if (!has(node, "axes")) {
    std::vector<std::int64_t> all(x->size());
    std::iota(all.begin(), all.end(), 0);
    node.attributes.emplace("axes", std::move(all));
  }
  op.axis_set(integers(node, "axes"), x->size());
  std::vector<std::int64_t> axes;
  for (const std::int64_t axis : integers(node, "axes")) {
    axes.push_back(static_cast<std::int64_t>(op.normalized(axis, x->size())));
  }
  node.attributes["axes"] = axes;
  const std::optional<std::vector<Dim>> sizes = op.elements(3);
  std::vector<float> scales;
  if (op.has_input(2) && op.input(2).constant) {
    const std::span<const float> values = op.input(2).constant->as<float>();
    scales.assign(values.begin(), values.end());
  }
  const std::size_t given = sizes ? sizes->size() : scales.size();
  if ((sizes || !scales.empty()) && given != axes.size()) {
    op.fail(ErrorCode::ShapeMismatch, "got {} scales or sizes for {} axes", given, axes.size());
  }
  const std::string& policy = text(node, "keep_aspect_ratio_policy");
  std::optional<double> ratio;  // common to all axes, if the aspect ratio is kept
  if (policy != "stretch" && op.has_input(3)) {
    if (policy != "not_larger" && policy != "not_smaller") {
      op.fail(ErrorCode::InvalidModel,
              "keep_aspect_ratio_policy is \"{}\", expected stretch, not_larger or not_smaller", policy);
    }
    for (std::size_t i = 0; sizes && i < axes.size(); ++i) {
      const Dim &size = (*sizes)[i], &extent = (*x)[static_cast<std::size_t>(axes[i])];
      if (!size.is_constant() || !extent.is_constant() || extent.constant() == 0) {
        ratio.reset();
        break;
      }
      const double axis_ratio = static_cast<double>(size.constant()) / static_cast<double>(extent.constant());
      ratio = !ratio                   ? axis_ratio
              : policy == "not_larger" ? std::min(*ratio, axis_ratio)
                                       : std::max(*ratio, axis_ratio);
    }
  }
  Shape y = *x;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    std::optional<Dim> extent;
    if (op.has_input(2)) {
      if (!scales.empty()) extent = scaled_extent((*x)[axis], scales[i]);
    } else if (policy == "stretch") {
      if (sizes) extent = (*sizes)[i];
    } else if (ratio) {
      extent =
          static_cast<std::int64_t>(std::floor(*ratio * static_cast<double>((*x)[axis].constant()) + 0.5));
    }
    y[axis] = extent ? *extent : op.fresh(0, axis);
  }
  op.set_shape(0, y);
}

void infer_one_hot(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& indices = op.shape(0);
  if (!indices) return;
  const std::size_t axis = op.normalize_axis(indices->size() + 1);
  if (const std::optional<Shape>& values = op.shape_of_rank(2, 1, 1)) op.same((*values)[0], 2, "values");
  const std::optional<std::vector<Dim>> depth = op.elements(1);
  Shape y = *indices;
  y.insert(y.begin() + static_cast<std::ptrdiff_t>(axis),
           depth && depth->size() == 1 ? (*depth)[0] : op.fresh(0, axis));
  op.set_shape(0, y);
}

}  // namespace kiln::graph
