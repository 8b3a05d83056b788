// The sliding window of a convolution or pool node, with its padding worked out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/templates/program_builder.h"

namespace kiln::templates {

struct WindowGeometry {
  std::vector<std::int64_t> kernel, strides, dilations;  // per spatial axis
  // How far apart the window finds the input's elements, with padding between them: the strides of a
  // ConvTranspose, which is a convolution of that with its weights backwards; else 1.
  std::vector<std::int64_t> spread;
  // Padding before and after each spatial axis: what the node says, or SAME padding worked out from extents.
  std::vector<graph::Dim> low, high;
  std::vector<graph::Dim> input, output;  // spatial extents; those of the input as the window finds it

  std::size_t rank() const { return kernel.size(); }
  std::int64_t taps() const;
  bool meets_padding() const;  // or may
};

// `node` reads [N, C, spatial...] as input 0. Shapes are known, and the padding of a ConvTranspose.
WindowGeometry window_geometry(const graph::Graph& graph, const graph::Node& node);

// A window over spatial axes first_axis.. of `view`, with exactly the node's output extents: padding that is
// a constant stays one, any other becomes a scalar parameter of the launch.
tile::View window_view(ProgramBuilder::Launch& launch, const tile::View& view, int first_axis,
                       const WindowGeometry& geometry, double outside);

// Extents of a tile of output pixels: about `wanted` of them, whole rows of the image where they are short.
std::vector<std::int64_t> pixel_block(std::span<const graph::Dim> output, std::int64_t wanted);

}  // namespace kiln::templates
