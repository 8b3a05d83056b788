#include "ir/templates/window_geometry.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ir/base/checked_math.h"

namespace kiln::templates {

using graph::Dim;
using graph::Graph;
using graph::Node;

std::int64_t WindowGeometry::taps() const {
  std::int64_t product = 1;
  for (const std::int64_t k : kernel) product *= k;
  return product;
}

bool WindowGeometry::meets_padding() const {
  const auto none = [](const Dim& dim) { return dim == Dim(0); };
  return !std::all_of(low.begin(), low.end(), none) || !std::all_of(high.begin(), high.end(), none) ||
         std::any_of(spread.begin(), spread.end(), [](std::int64_t step) { return step > 1; });
}

namespace {

// What the last window reaches beyond the input.
Dim reach_behind(const WindowGeometry& geometry, std::size_t i) {
  const std::int64_t span = (geometry.kernel[i] - 1) * geometry.dilations[i] + 1;
  return (geometry.output[i] - Dim(1)) * Dim(geometry.strides[i]) + Dim(span) - geometry.input[i];
}

// As the convolution that gives the same: element i of the input lies at i * stride.
void transpose(WindowGeometry& geometry, std::span<const std::int64_t> pads) {
  geometry.spread = std::exchange(geometry.strides, std::vector<std::int64_t>(geometry.rank(), 1));
  for (std::size_t i = 0; i < geometry.rank(); ++i) {
    geometry.input[i] = geometry.input[i] * Dim(geometry.spread[i]);
    geometry.low.emplace_back((geometry.kernel[i] - 1) * geometry.dilations[i] - pads[i]);
    geometry.high.push_back(reach_behind(geometry, i) - geometry.low.back());
  }
}

}  // namespace

WindowGeometry window_geometry(const Graph& graph, const Node& node) {
  const graph::Shape& input = *graph.value(node.inputs[0]).shape;
  const graph::Shape& output = *graph.value(node.outputs[0]).shape;
  const auto list = [&](const char* attribute) {
    const auto values = integers(node, attribute);
    return std::vector<std::int64_t>(values.begin(), values.end());
  };
  WindowGeometry geometry{.kernel = list("kernel_shape"),
                          .strides = list("strides"),
                          .dilations = list("dilations"),
                          .spread = {},
                          .low = {},
                          .high = {},
                          .input = {input.begin() + 2, input.end()},
                          .output = {output.begin() + 2, output.end()}};
  const std::string& mode = text(node, "auto_pad");
  if (node.op == graph::OpKind::ConvTranspose) {
    transpose(geometry, integers(node, "pads"));
    return geometry;
  }
  geometry.spread.assign(geometry.rank(), 1);
  for (std::size_t i = 0; i < geometry.rank(); ++i) {
    if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      const Dim total = max(reach_behind(geometry, i), 0);
      geometry.low.push_back(mode == "SAME_UPPER" ? floordiv(total, 2) : ceildiv(total, 2));
      geometry.high.push_back(total - geometry.low.back());
    } else {
      const auto pads = integers(node, "pads");
      geometry.low.emplace_back(mode == "VALID" ? 0 : pads[i]);
      geometry.high.emplace_back(mode == "VALID" ? 0 : pads[i + geometry.rank()]);
    }
  }
  return geometry;
}

namespace {

// Axes first_axis.. with `spread - 1` elements of value `between` behind each of their own.
tile::View spread_out(tile::View view, int first_axis, std::span<const std::int64_t> spread, double between) {
  for (std::size_t i = 0; i < spread.size(); ++i) {
    if (spread[i] == 1) continue;
    const std::int64_t axis = first_axis + static_cast<std::int64_t>(i);
    view = view.broadcast({axis + 1}, {1});
    tile::Indices low(static_cast<std::size_t>(view.type().rank()), 0), high = low;
    high[static_cast<std::size_t>(axis) + 1] = spread[i] - 1;
    view = view.pad(low, high, tile::PadMode::Constant, between).merge({axis, axis + 1});
  }
  return view;
}

}  // namespace

tile::View window_view(ProgramBuilder::Launch& launch, const tile::View& view, int first_axis,
                       const WindowGeometry& geometry, double outside) {
  tile::View::Window window{.kernel = geometry.kernel,
                            .strides = geometry.strides,
                            .dilations = geometry.dilations,
                            .value = outside};
  const auto index = [&](const char* what, std::size_t axis, const Dim& dim) -> tile::Index {
    if (dim.is_constant()) return dim.constant();
    return launch.scalar(fmt::format("{}{}", what, axis), dim);
  };
  for (std::size_t i = 0; i < geometry.rank(); ++i) {
    window.axes.push_back(first_axis + static_cast<std::int64_t>(i));
    window.low.push_back(index("low", i, geometry.low[i]));
    // As much as the last window needs: more than the node's own padding under ceil_mode.
    window.high.push_back(index("high", i, max(reach_behind(geometry, i) - geometry.low[i], 0)));
  }
  return spread_out(view, first_axis, geometry.spread, outside).window(window);
}

std::vector<std::int64_t> pixel_block(std::span<const Dim> output, std::int64_t wanted) {
  std::vector<std::int64_t> block(output.size(), 1);
  std::int64_t left = wanted;
  for (std::size_t i = output.size(); i-- > 0;) {
    if (output[i].is_constant()) {
      const std::int64_t extent = std::max<std::int64_t>(output[i].constant(), 1);
      // Long rows are cut into equal parts.
      block[i] = extent <= left ? extent : ceil_divide(extent, ceil_divide(extent, left));
    } else {
      block[i] = std::min<std::int64_t>(left, 32);
    }
    left = std::max<std::int64_t>(1, left / block[i]);
  }
  return block;
}

}  // namespace kiln::templates
