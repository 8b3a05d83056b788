// Convolution and pooling, and what undoes them: operators with a window that slides over the spatial axes.
#include <algorithm>

#include "ir/graph/infer.h"

namespace kiln::graph {
namespace {

enum class AutoPad : std::uint8_t { None, Valid, SameUpper, SameLower };

AutoPad auto_pad(const Inference& op, const Node& node) {
  const std::string& mode = text(node, "auto_pad");
  if (mode == "NOTSET") return AutoPad::None;
  if (mode == "VALID") return AutoPad::Valid;
  if (mode == "SAME_UPPER") return AutoPad::SameUpper;
  if (mode == "SAME_LOWER") return AutoPad::SameLower;
  op.fail(ErrorCode::InvalidModel, "auto_pad is \"{}\", expected NOTSET, VALID, SAME_UPPER or SAME_LOWER",
          mode);
}

// The attribute, or `count` times `missing`, which is then written into the node. Values in [low, 2^31).
std::vector<std::int64_t> complete(Inference& op, std::string_view attribute, std::size_t count,
                                   std::int64_t missing, std::int64_t low) {
  Node& node = op.node();
  if (!has(node, attribute)) {
    node.attributes.emplace(attribute, std::vector<std::int64_t>(count, missing));
  }
  const std::span<const std::int64_t> values = integers(node, attribute);
  if (values.size() != count) {
    op.fail(ErrorCode::InvalidModel, "{} has {} entries, expected {}", attribute, values.size(), count);
  }
  for (const std::int64_t value : values) {
    if (value < low || value > INT32_MAX) {
      op.fail(ErrorCode::InvalidModel, "{} has the entry {}, expected {} to {}", attribute, value, low,
              INT32_MAX);
    }
  }
  return {values.begin(), values.end()};
}

// What a window needs, one entry per spatial axis; the node's attributes are completed alike.
struct Window {
  std::vector<std::int64_t> kernel, strides, dilations, pads;  // pads: all begins, then all ends
  AutoPad mode = AutoPad::None;

  std::size_t rank() const { return kernel.size(); }
  // Elements from the first to the last that the window touches.
  std::int64_t span(std::size_t axis) const { return (kernel[axis] - 1) * dilations[axis] + 1; }
};

Window complete_window(Inference& op, std::vector<std::int64_t> kernel) {
  Window window;
  const std::size_t rank = kernel.size();
  window.kernel = std::move(kernel);
  for (const std::int64_t extent : window.kernel) {
    if (extent > INT32_MAX) op.fail(ErrorCode::LimitExceeded, "the window has the extent {}", extent);
  }
  window.strides = complete(op, "strides", rank, 1, 1);
  window.dilations = complete(op, "dilations", rank, 1, 1);
  window.mode = auto_pad(op, op.node());
  if (window.mode == AutoPad::Valid) {
    op.node().attributes["pads"] = std::vector<std::int64_t>(2 * rank, 0);
    op.node().attributes["auto_pad"] = std::string("NOTSET");
    window.mode = AutoPad::None;
  }
  if (window.mode == AutoPad::None) window.pads = complete(op, "pads", 2 * rank, 0, 0);
  return window;
}

// Replaces SAME padding by explicit pads if they are the same for every size of the input.
void resolve_same_padding(Inference& op, Window& window, const Shape& x) {
  if (window.mode == AutoPad::None) return;
  std::vector<std::int64_t> pads(2 * window.rank());
  for (std::size_t i = 0; i < window.rank(); ++i) {
    const Dim& extent = x[2 + i];
    const std::int64_t stride = window.strides[i];
    // Stride 1 keeps the extent, so the padding does not depend on it.
    if (!extent.is_constant() && stride != 1) return;
    const Dim outputs = ceildiv(extent, stride);
    const Dim total = max((outputs - 1) * Dim(stride) + window.span(i) - extent, 0);
    if (!total.is_constant()) return;
    const std::int64_t less = total.constant() / 2, more = total.constant() - less;
    pads[i] = window.mode == AutoPad::SameUpper ? less : more;
    pads[window.rank() + i] = window.mode == AutoPad::SameUpper ? more : less;
  }
  window.mode = AutoPad::None;
  window.pads = pads;
  op.node().attributes["pads"] = std::move(pads);
  op.node().attributes["auto_pad"] = std::string("NOTSET");
}

// A window must fit in at least once.
Dim output_extent(Inference& op, const Window& window, std::size_t axis, const Dim& extent, bool ceil_mode) {
  const std::int64_t stride = window.strides[axis];
  Dim positions = ceildiv(extent, stride);
  if (window.mode == AutoPad::None) {
    const std::int64_t begin = window.pads[axis], end = window.pads[window.rank() + axis];
    const Dim room = extent + begin + end - window.span(axis);
    positions = floordiv(room, stride) + 1;
    // A window that would start in the padding at the end is left out.
    if (ceil_mode) positions = min(ceildiv(room, stride) + 1, floordiv(extent + begin - 1, stride) + 1);
  }
  op.at_least(positions, 1,
              fmt::format("positions of a window of {} elements on axis {}", window.span(axis), 2 + axis));
  return positions;
}

// The kernel's extents from the attribute, or those of the weights where they are known.
std::optional<std::vector<std::int64_t>> kernel_of_weights(Inference& op) {
  const std::optional<Shape>& w = op.shape(1);
  if (has(op.node(), "kernel_shape")) {
    const std::span<const std::int64_t> given = integers(op.node(), "kernel_shape");
    std::vector<std::int64_t> kernel = complete(op, "kernel_shape", w ? w->size() - 2 : given.size(), 1, 1);
    for (std::size_t i = 0; w && i < kernel.size(); ++i) op.same((*w)[2 + i], kernel[i], "kernel_shape");
    return kernel;
  }
  if (!w) return std::nullopt;
  std::vector<std::int64_t> kernel;
  for (std::size_t i = 2; i < w->size(); ++i) {
    if (!(*w)[i].is_constant() || (*w)[i].constant() < 1) return std::nullopt;
    kernel.push_back((*w)[i].constant());
  }
  op.node().attributes["kernel_shape"] = kernel;
  return kernel;
}

std::int64_t group_count(Inference& op) {
  const std::int64_t group = integer(op.node(), "group");
  if (group < 1) op.fail(ErrorCode::InvalidModel, "group is {}, expected at least 1", group);
  return group;
}

void check_bias(Inference& op, std::size_t operand, const Dim& channels) {
  if (!op.has_input(operand)) return;
  const std::optional<Shape>& bias = op.shape_of_rank(operand, 1, 1);
  if (bias) op.same((*bias)[0], channels, "channels of the bias");
}

void check_divides(const Inference& op, std::int64_t group, const Dim& channels) {
  if (channels.is_constant() && channels.constant() % group != 0) {
    op.fail(ErrorCode::ShapeMismatch, "group is {}, expected a divisor of the {} channels", group,
            channels.constant());
  }
}

// X and the weights, of which a convolution and its kin need the ranks to agree.
struct ConvolutionOperands {
  const std::optional<Shape>&x, &w;

  explicit ConvolutionOperands(const Inference& op) : x(op.shape_of_rank(0, 3)), w(op.shape_of_rank(1, 3)) {
    if (x && w && x->size() != w->size()) {
      op.fail(ErrorCode::ShapeMismatch, "input has shape {} and weights have {}, expected the same rank",
              op.text(*x), op.text(*w));
    }
  }
  // Throws unless X has the rank that the kernel asks for.
  void expect_rank(const Inference& op, std::size_t spatial) const {
    if (x && x->size() != 2 + spatial) {
      op.fail(ErrorCode::ShapeMismatch, "input has shape {}, expected rank {}", op.text(*x), 2 + spatial);
    }
  }
  // The shape of the output while the window is not known.
  std::optional<Shape> without_window(Inference& op) const {
    if (!x) return std::nullopt;
    Shape y = op.fresh_shape(0, x->size());
    y[0] = (*x)[0];
    if (w) y[1] = (*w)[0];
    return y;
  }
};

// Explicit padding for a transposed convolution that is to give `wanted` of the `full` extents, where it is
// the same for every size: pads for what is too much, output_padding for what is missing.
void resolve_wanted_extents(Inference& op, const Window& window, const Shape& full, const Shape& wanted) {
  Node& node = op.node();
  std::vector<std::int64_t> pads(2 * window.rank());
  const std::span<const std::int64_t> given = integers(node, "output_padding");
  std::vector<std::int64_t> extra(given.begin(), given.end());
  for (std::size_t i = 0; i < window.rank(); ++i) {
    const Dim excess = full[i] - wanted[i];
    if (!excess.is_constant() || excess.constant() > INT32_MAX || excess.constant() < -INT32_MAX) return;
    const std::int64_t total = std::max<std::int64_t>(excess.constant(), 0);
    const std::int64_t less = total / 2, more = total - less;
    pads[i] = window.mode == AutoPad::SameUpper ? less : more;
    pads[window.rank() + i] = window.mode == AutoPad::SameUpper ? more : less;
    extra[i] += total - excess.constant();
  }
  node.attributes["pads"] = std::move(pads);
  node.attributes["output_padding"] = std::move(extra);
  node.attributes["auto_pad"] = std::string("NOTSET");
  node.attributes.erase("output_shape");
}

}  // namespace

void infer_conv(Graph& graph, Node& node) {
  Inference op(graph, node);
  const ConvolutionOperands operands(op);
  const auto& [x, w] = operands;
  const std::int64_t group = group_count(op);
  if (w) check_divides(op, group, (*w)[0]);
  if (x && w) op.same((*x)[1], (*w)[1] * Dim(group), "input channels");
  // ConvInteger has a zero point where Conv has the bias.
  if (w && node.op == OpKind::Conv) check_bias(op, 2, (*w)[0]);
  const std::optional<std::vector<std::int64_t>> kernel = kernel_of_weights(op);
  if (!kernel) return op.set_shape(0, operands.without_window(op));
  Window window = complete_window(op, *kernel);
  if (!x) {
    op.set_shape(0, op.fresh_shape(0, 2 + kernel->size()));
    return;
  }
  operands.expect_rank(op, kernel->size());
  resolve_same_padding(op, window, *x);
  Shape y = {(*x)[0], w ? (*w)[0] : op.fresh(0, 1)};
  for (std::size_t i = 0; i < window.rank(); ++i)
    y.push_back(output_extent(op, window, i, (*x)[2 + i], false));
  op.set_shape(0, y);
}

void infer_conv_transpose(Graph& graph, Node& node) {
  Inference op(graph, node);
  const ConvolutionOperands operands(op);
  const auto& [x, w] = operands;
  const std::int64_t group = group_count(op);
  if (x && w) {
    check_divides(op, group, (*w)[0]);
    op.same((*x)[1], (*w)[0], "input channels");
  }
  if (w) check_bias(op, 2, (*w)[1] * Dim(group));
  const std::optional<std::vector<std::int64_t>> kernel = kernel_of_weights(op);
  if (!kernel) {
    if (x) op.set_shape(0, op.fresh_shape(0, x->size()));
    return;
  }
  Window window = complete_window(op, *kernel);
  const std::vector<std::int64_t> extra = complete(op, "output_padding", window.rank(), 0, 0);
  if (!x) {
    op.set_shape(0, op.fresh_shape(0, 2 + window.rank()));
    return;
  }
  operands.expect_rank(op, window.rank());
  Shape full, y;  // spatial extents before and after padding is taken away
  for (std::size_t i = 0; i < window.rank(); ++i) {
    full.push_back(((*x)[2 + i] - 1) * Dim(window.strides[i]) + window.span(i) + extra[i]);
  }
  if (has(node, "output_shape") && integers(node, "output_shape").empty())
    node.attributes.erase("output_shape");
  if (has(node, "output_shape")) {
    for (const std::int64_t extent : complete(op, "output_shape", window.rank(), 0, 0)) y.push_back(extent);
    resolve_wanted_extents(op, window, full, y);
  } else if (window.mode != AutoPad::None) {
    for (std::size_t i = 0; i < window.rank(); ++i) y.push_back((*x)[2 + i] * Dim(window.strides[i]));
    resolve_wanted_extents(op, window, full, y);
  } else {
    for (std::size_t i = 0; i < window.rank(); ++i) {
      y.push_back(full[i] - window.pads[i] - window.pads[window.rank() + i]);
    }
  }
  y.insert(y.begin(), {(*x)[0], w ? (*w)[1] * Dim(group) : op.fresh(0, 1)});
  op.set_shape(0, y);
}

void infer_pool(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape_of_rank(0, 3);
  const std::size_t rank = x ? x->size() - 2 : integers(node, "kernel_shape").size();
  Window window = complete_window(op, complete(op, "kernel_shape", rank, 1, 1));
  Shape y;
  if (x) {
    resolve_same_padding(op, window, *x);
    y = {(*x)[0], (*x)[1]};
    const bool ceil_mode = integer(node, "ceil_mode") != 0;
    for (std::size_t i = 0; i < rank; ++i) y.push_back(output_extent(op, window, i, (*x)[2 + i], ceil_mode));
  } else {
    y = op.fresh_shape(0, 2 + rank);
  }
  op.set_shape(0, y);
  op.set_shape(1, y);
}

void infer_global_pool(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape_of_rank(0, 2);
  if (!x) return;
  Shape y(x->size(), 1);
  y[0] = (*x)[0];
  y[1] = (*x)[1];
  op.set_shape(0, y);
}

void infer_max_unpool(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape_of_rank(0, 3);
  const std::optional<Shape>& indices = op.shape_of_rank(1, 3);
  const std::size_t rank = x ? x->size() - 2 : integers(node, "kernel_shape").size();
  const std::vector<std::int64_t> kernel = complete(op, "kernel_shape", rank, 1, 1);
  const std::vector<std::int64_t> strides = complete(op, "strides", rank, 1, 1);
  const std::vector<std::int64_t> pads = complete(op, "pads", 2 * rank, 0, 0);
  if (x && indices) {
    op.shape_of_rank(1, rank + 2, rank + 2);
    for (std::size_t i = 0; i < rank + 2; ++i) op.same((*x)[i], (*indices)[i], "extents of X and I");
  }
  if (op.has_input(2)) {
    const std::optional<std::vector<Dim>> wanted = op.elements(2);
    if (wanted && wanted->size() != rank + 2) {
      op.fail(ErrorCode::ShapeMismatch, "output_shape has {} elements, expected {}", wanted->size(),
              rank + 2);
    }
    op.set_shape(0, wanted ? *wanted : op.fresh_shape(0, rank + 2));
    return;
  }
  if (!x) {
    op.set_shape(0, op.fresh_shape(0, rank + 2));
    return;
  }
  Shape y = {(*x)[0], (*x)[1]};
  for (std::size_t i = 0; i < rank; ++i) {
    y.push_back(((*x)[2 + i] - 1) * Dim(strides[i]) + kernel[i] - pads[i] - pads[rank + i]);
  }
  op.set_shape(0, y);
}

void infer_col2im(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::optional<Shape>& x = op.shape_of_rank(0, 3, 3);
  const std::optional<std::vector<Dim>> image = op.elements(1), block = op.elements(2);
  std::optional<std::size_t> rank;
  for (const std::size_t operand : {1U, 2U}) {
    const std::optional<Shape>& list = op.shape_of_rank(operand, 1, 1);
    if (!list || !(*list)[0].is_constant()) continue;
    const auto length = static_cast<std::size_t>((*list)[0].constant());
    if (length > kMaxKnownElements) op.fail(ErrorCode::LimitExceeded, "image_shape has {} extents", length);
    if (rank && *rank != length) {
      op.fail(ErrorCode::ShapeMismatch,
              "image_shape and block_shape have {} and {} elements, expected the same", *rank, length);
    }
    rank = length;
  }
  if (!rank) return;
  complete(op, "strides", *rank, 1, 1);
  complete(op, "dilations", *rank, 1, 1);
  complete(op, "pads", 2 * *rank, 0, 0);
  Shape y = {x ? (*x)[0] : op.fresh(0, 0)};
  y.push_back(x && block ? floordiv((*x)[1], element_count(*block)) : op.fresh(0, 1));
  for (std::size_t i = 0; i < *rank; ++i) y.push_back(image ? (*image)[i] : op.fresh(0, 2 + i));
  op.set_shape(0, y);
}

void infer_deform_conv(Graph& graph, Node& node) {
  Inference op(graph, node);
  const ConvolutionOperands operands(op);
  const auto& [x, w] = operands;
  const std::int64_t group = group_count(op), offset_group = integer(node, "offset_group");
  if (offset_group < 1)
    op.fail(ErrorCode::InvalidModel, "offset_group is {}, expected at least 1", offset_group);
  if (w) check_divides(op, group, (*w)[0]);
  if (x) check_divides(op, offset_group, (*x)[1]);
  if (x && w) op.same((*x)[1], (*w)[1] * Dim(group), "input channels");
  if (w) check_bias(op, 3, (*w)[0]);
  const std::optional<std::vector<std::int64_t>> kernel = kernel_of_weights(op);
  if (!kernel) return op.set_shape(0, operands.without_window(op));
  const std::size_t rank = kernel->size();
  operands.expect_rank(op, rank);
  Window window;
  window.kernel = *kernel;
  window.strides = complete(op, "strides", rank, 1, 1);
  window.dilations = complete(op, "dilations", rank, 1, 1);
  window.pads = complete(op, "pads", 2 * rank, 0, 0);
  Shape y = {x ? (*x)[0] : op.fresh(0, 0), w ? (*w)[0] : op.fresh(0, 1)};
  for (std::size_t i = 0; i < rank; ++i) {
    y.push_back(x ? output_extent(op, window, i, (*x)[2 + i], false) : op.fresh(0, 2 + i));
  }
  for (const std::size_t operand : {2U, 4U}) {
    if (!op.has_input(operand)) continue;
    const std::optional<Shape>& field = op.shape_of_rank(operand, rank + 2, rank + 2);
    Dim channels = Dim(offset_group) * (operand == 2 ? Dim(static_cast<std::int64_t>(rank)) : Dim(1));
    for (const std::int64_t extent : *kernel) channels = channels * Dim(extent);
    if (!field) continue;
    op.same((*field)[1], channels, operand == 2 ? "channels of the offsets" : "channels of the mask");
    if (!x) continue;
    op.same((*field)[0], y[0], "batches of X and of offset or mask");
    for (std::size_t i = 0; i < rank; ++i) op.same((*field)[2 + i], y[2 + i], "extents of offset or mask");
  }
  op.set_shape(0, y);
}

}  // namespace kiln::graph
