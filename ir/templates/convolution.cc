// convolution: the dot of a window view with weights packed into panels, groups included, with an elementwise
// epilogue. No im2col: the window is an index map, and each step of the contraction multiplies one run of
// contiguous input elements: channels where they lie innermost, else the window's last axis.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "ir/templates/convolution_operands.h"
#include "ir/templates/dot_tiling.h"
#include "ir/templates/epilogue.h"
#include "ir/templates/samples.h"
#include "ir/templates/template.h"
#include "ir/templates/window_geometry.h"

namespace kiln::templates {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::Problem;
using graph::Shape;
using graph::ValueId;
using tile::Expr;
using tile::Indices;

constexpr std::int64_t kPixels = 112;
constexpr std::int64_t kChannelBlock = 64;

struct Convolution {
  WindowGeometry window;
  ConvolutionOperands operands;
  std::int64_t groups = 1, group_inputs = 0, group_outputs = 0;
};

std::optional<std::string> refuses(const Problem& problem, const Target&) {
  const Graph& graph = problem.graph;
  const Node& node = graph.node(problem.root);
  if (auto reason = why_no_convolution(problem)) return reason;
  const graph::Value& x = graph.value(node.inputs[0]);
  if (!accumulator_dtype(x.dtype)) return fmt::format("no dot on {}", name(x.dtype));
  if (element_count(*graph.value(node.inputs[1]).shape) == Dim(0)) return "its weights are empty";
  return why_no_epilogue(problem);
}

Convolution convolution_of(const Problem& problem) {
  const Graph& graph = problem.graph;
  const Node& node = graph.node(problem.root);
  Convolution c{.window = window_geometry(graph, node), .operands = convolution_operands(problem)};
  const Shape& weights = *graph.value(node.inputs[1]).shape;
  c.groups = integer(node, "group");
  c.group_inputs = weights[1].constant();
  c.group_outputs = weights[0].constant() / c.groups;
  return c;
}

std::vector<VariantChoice> variants(const Problem& problem, const Target&) {
  const std::vector<std::int64_t> block = pixel_block(convolution_of(problem).window.output, kPixels);
  Parameters parameters;
  for (std::size_t i = 0; i < block.size(); ++i) parameters[fmt::format("pixels{}", i)] = block[i];
  return {{.name = "default", .guard = std::nullopt, .parameters = std::move(parameters)}};
}

// Strides over [N, C, spatial...] become strides over [n, group, spatial..., channel of the group].
std::vector<Dim> grouped(const std::vector<Dim>& strides, std::int64_t group_channels) {
  std::vector<Dim> result{strides[0], strides[1] * Dim(group_channels)};
  result.insert(result.end(), strides.begin() + 2, strides.end());
  result.push_back(strides[1]);
  return result;
}

IterationSpace output_space(const Problem& problem, const Convolution& c) {
  const Graph& graph = problem.graph;
  const Shape& shape = *graph.value(graph.node(problem.root).outputs[0]).shape;
  IterationSpace space;
  space.extents = {shape[0], c.groups};
  space.extents.insert(space.extents.end(), shape.begin() + 2, shape.end());
  space.extents.emplace_back(c.group_outputs);
  if (c.operands.bias) {
    std::vector<Dim> strides(shape.size(), Dim(0));
    strides[1] = graph.value(graph.inputs[*c.operands.bias]).layout->strides[0];
    space.strides.push_back(grouped(strides, c.group_outputs));
  }
  for (const std::size_t i : epilogue_inputs(problem)) {
    space.strides.push_back(grouped(broadcast_strides(graph.value(graph.inputs[i]), shape), c.group_outputs));
  }
  for (const ValueId id : graph.outputs) {
    space.strides.push_back(grouped(broadcast_strides(graph.value(id), shape), c.group_outputs));
  }
  return space;
}

Program build(const Problem& problem, const Parameters& parameters, const Target& target) {
  const Graph& graph = problem.graph;
  const Convolution c = convolution_of(problem);
  const std::size_t spatial = c.window.rank();
  const graph::Value& x = graph.value(graph.inputs[c.operands.x]);
  const graph::Value& w = graph.value(graph.inputs[c.operands.w]);
  const DType accumulator = *accumulator_dtype(x.dtype);
  const DotTiling tiling = dot_tiling(c.group_outputs, accumulator, target);
  const bool channels_innermost = x.layout->strides[1] == Dim(1) && c.group_inputs > 1;

  // Weights [M, C/group, window...] as [group, depth..., output channel], the depth axes in contraction
  // order.
  ProgramBuilder program(problem);
  PackedSource source{.value = program.input(c.operands.w),
                      .extents = {c.groups},
                      .strides = {w.layout->strides[0] * Dim(c.group_outputs)}};
  const auto add_depth = [&](std::size_t axis) {
    source.extents.push_back((*w.shape)[axis]);
    source.strides.push_back(w.layout->strides[axis]);
  };
  if (!channels_innermost) add_depth(1);
  for (std::size_t i = 0; i < spatial; ++i) add_depth(2 + i);
  if (channels_innermost) add_depth(1);
  source.extents.emplace_back(c.group_outputs);
  source.strides.push_back(w.layout->strides[0]);
  const int packed_value = add_packed(program, source, tiling, x.dtype);
  program.prepare_key(pack_key(tiling) + (channels_innermost ? ",channels_last" : ",channels_first"));

  ProgramBuilder::Launch launch(program, "convolution");
  tile::KernelBuilder& k = launch.builder();
  // The input as [n, group, spatial..., channel]; the window puts its axes after the spatial ones.
  Shape x_extents{(*x.shape)[0], c.groups};
  x_extents.insert(x_extents.end(), x.shape->begin() + 2, x.shape->end());
  x_extents.emplace_back(c.group_inputs);
  const tile::View input =
      launch.input("x", program.input(c.operands.x), x_extents, grouped(x.layout->strides, c.group_inputs));
  const Shape packed = packed_extents(source, tiling);
  const tile::View weights = launch.input("w", packed_value, packed, graph::dense_strides(packed));
  tile::View patches = window_view(launch, input, 2, c.window, 0.0);
  if (!channels_innermost) {
    // [n, group, outputs..., window..., channel] -> [n, group, outputs..., channel, window...]
    std::vector<std::int64_t> permutation;
    for (std::size_t i = 0; i < 2 + spatial; ++i) permutation.push_back(static_cast<std::int64_t>(i));
    permutation.push_back(static_cast<std::int64_t>(2 + 2 * spatial));
    for (std::size_t i = 0; i < spatial; ++i)
      permutation.push_back(static_cast<std::int64_t>(2 + spatial + i));
    patches = patches.transpose(permutation);
  }
  const IterationSpace space = output_space(problem, c);
  tile::View bias;
  if (c.operands.bias)
    bias = launch.input("bias", program.input(*c.operands.bias), space.extents, space.strides[0]);
  Epilogue epilogue(program, launch, problem, space, c.operands.bias ? 1 : 0);

  std::vector<std::int64_t> box{1, 1};
  for (std::size_t i = 0; i < spatial; ++i) box.push_back(parameters.at(fmt::format("pixels{}", i)));
  box.push_back(tiling.panel);
  const Indices at = blocked_grid(k, epilogue.output(), box);
  const Expr group = k.program_id(1), panel = k.program_id(static_cast<int>(box.size()) - 1);

  // One run of the innermost depth axis at a time; the axes outside it advance one by one.
  Indices depth;
  std::vector<std::int64_t> depth_blocks(spatial + 1, 1);
  for (std::size_t i = 0; i <= spatial; ++i) depth.emplace_back(source.extents[1 + i].constant());
  depth_blocks.back() = std::min(kChannelBlock, source.extents[1 + spatial].constant());
  const Expr sum = k.contract(
      depth, depth_blocks, {k.zeros(accumulator, box)},
      [&](const tile::Exprs& d, const tile::Exprs& carried) -> tile::Exprs {
        Indices patch_at(at.begin(), at.end() - 1);
        std::vector<std::int64_t> patch_box(box.begin(), box.end() - 1);
        Indices weight_at{group, panel};
        std::vector<std::int64_t> weight_box{1, 1};
        for (std::size_t i = 0; i < d.size(); ++i) {
          patch_at.emplace_back(d[i]);
          patch_box.push_back(depth_blocks[i]);
          weight_at.emplace_back(d[i]);
          weight_box.push_back(depth_blocks[i]);
        }
        weight_at.emplace_back(0);
        weight_box.push_back(tiling.panel);
        return {k.dot(carried[0], patches.load(patch_at, patch_box), weights.load(weight_at, weight_box))};
      })[0];
  Expr result = sum;
  if (bias) result = result + k.cast(bias.load(at, box), accumulator);
  epilogue.finish(result, at, box);
  launch.schedule().register_rows = tiling.register_rows;
  launch.schedule().register_vectors = tiling.register_vectors;
  std::int64_t pixels = 1;
  for (std::size_t i = 0; i < spatial; ++i) pixels *= box[2 + i];
  const std::int64_t elements = pixels * tiling.panel, products = c.window.taps() * c.group_inputs;
  launch.cost(elements * (2 * products + epilogue_flops(problem)),
              (pixels + tiling.panel) * products * (bits(x.dtype) / 8) + elements * epilogue_bytes(problem));
  program.add(launch);
  return program.finish();
}

}  // namespace

extern const Template convolution_template;
const Template convolution_template{.name = "convolution",
                                    .version = 1,
                                    .refuses = refuses,
                                    .variants = variants,
                                    .build = build,
                                    .samples = convolution_samples};

}  // namespace kiln::templates
