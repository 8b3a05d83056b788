#include "ir/templates/window_geometry.h"

#include <algorithm>

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
                          .low = {},
                          .high = {},
                          .input = {input.begin() + 2, input.end()},
                          .output = {output.begin() + 2, output.end()}};
  const std::string& mode = text(node, "auto_pad");
  for (std::size_t i = 0; i < geometry.rank(); ++i) {
    const std::int64_t span = (geometry.kernel[i] - 1) * geometry.dilations[i] + 1;
    // What the last window reaches beyond the input.
    const Dim reach =
        (geometry.output[i] - Dim(1)) * Dim(geometry.strides[i]) + Dim(span) - geometry.input[i];
    if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      const Dim total = max(reach, 0);
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
    const std::int64_t span = (geometry.kernel[i] - 1) * geometry.dilations[i] + 1;
    const Dim reach =
        (geometry.output[i] - Dim(1)) * Dim(geometry.strides[i]) + Dim(span) - geometry.input[i];
    window.high.push_back(index("high", i, max(reach - geometry.low[i], 0)));
  }
  return view.window(window);
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
