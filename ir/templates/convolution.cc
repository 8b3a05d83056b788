// convolution: the dot of a window view with weights packed into panels, groups included, with an elementwise
// epilogue. No im2col: the window is an index map, and each step of the contraction multiplies one run of
// contiguous input elements: channels where they lie innermost, else the window's last axis. A ConvTranspose
// is the convolution of its input, spread out, with its weights backwards.
//
// A tap in the padding multiplies a weight by 0 and so adds nothing, unless the weight is an infinity or NaN.
// Constant weights are seen to be finite before; after those that each run brings a second Kernel does panels
// with such weights anew.
#include <algorithm>
#include <limits>
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
using tile::Exprs;
using tile::Indices;
using Box = std::vector<std::int64_t>;

constexpr std::int64_t kPixels = 112;
constexpr std::int64_t kChannelBlock = 64;

struct Convolution {
  WindowGeometry window;
  ConvolutionOperands operands;
  std::int64_t groups = 1, group_inputs = 0, group_outputs = 0;
  bool is_transposed = false;
  bool channels_innermost = false;  // of the contraction: after the window, where inputs lie so, else before
  bool mends = false;               // padding may meet weights that are not finite

  std::size_t spatial() const { return window.rank(); }
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
  const graph::Value& x = graph.value(node.inputs[0]);
  const Shape& weights = *graph.value(node.inputs[1]).shape;
  c.is_transposed = node.op == graph::OpKind::ConvTranspose;
  c.groups = integer(node, "group");
  c.group_inputs = c.is_transposed ? weights[0].constant() / c.groups : weights[1].constant();
  c.group_outputs = c.is_transposed ? weights[1].constant() : weights[0].constant() / c.groups;
  c.channels_innermost = x.layout->strides[1] == Dim(1) && c.group_inputs > 1;
  c.mends = !problem.input_is_constant[c.operands.w] && c.window.meets_padding();
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

// The weights as [group, depth..., output channel], the depth axes in contraction order.
PackedSource weights_source(const Problem& problem, const Convolution& c) {
  const graph::Value& w = problem.graph.value(problem.graph.inputs[c.operands.w]);
  const std::vector<Dim>& strides = w.layout->strides;
  const std::size_t output_axis = c.is_transposed ? 1 : 0, input_axis = 1 - output_axis;
  PackedSource source{.value = static_cast<int>(c.operands.w),
                      .extents = {c.groups},
                      .strides = {strides[0] * Dim(c.is_transposed ? c.group_inputs : c.group_outputs)},
                      .backwards = {false},
                      .constant = problem.input_is_constant[c.operands.w]};
  const auto add = [&](Dim extent, std::size_t axis, bool backwards = false) {
    source.extents.push_back(std::move(extent));
    source.strides.push_back(strides[axis]);
    source.backwards.push_back(backwards);
  };
  if (!c.channels_innermost) add(c.group_inputs, input_axis);
  for (std::size_t i = 0; i < c.spatial(); ++i) add(c.window.kernel[i], 2 + i, c.is_transposed);
  if (c.channels_innermost) add(c.group_inputs, input_axis);
  add(c.group_outputs, output_axis);
  if (!c.is_transposed) source.backwards.clear();
  return source;
}

// What both Kernels read and write.
struct Site {
  Site(const Problem& problem, const Convolution& c, ProgramBuilder& program, ProgramBuilder::Launch& launch,
       const IterationSpace& space, int packed_value, const Shape& packed)
      : launch(launch),
        input(bind_input(problem, c, program, launch)),
        weights(launch.input("w", packed_value, packed, graph::dense_strides(packed))),
        accumulator(*accumulator_dtype(input.type().element)) {
    if (c.operands.bias)
      bias = launch.input("bias", program.input(*c.operands.bias), space.extents, space.strides[0]);
  }

  // The input as [n, group, spatial..., channel].
  static tile::View bind_input(const Problem& problem, const Convolution& c, ProgramBuilder& program,
                               ProgramBuilder::Launch& launch) {
    const graph::Value& x = problem.graph.value(problem.graph.inputs[c.operands.x]);
    Shape extents{(*x.shape)[0], c.groups};
    extents.insert(extents.end(), x.shape->begin() + 2, x.shape->end());
    extents.emplace_back(c.group_inputs);
    return launch.input("x", program.input(c.operands.x), extents,
                        grouped(x.layout->strides, c.group_inputs));
  }

  // [n, group, outputs..., depth...], in which padding has the value `outside`.
  tile::View patches(const Convolution& c, double outside) const {
    const std::size_t spatial = c.spatial();
    const tile::View view = window_view(launch, input, 2, c.window, outside);
    if (c.channels_innermost) return view;
    // [n, group, outputs..., window..., channel] -> [n, group, outputs..., channel, window...]
    std::vector<std::int64_t> permutation;
    for (std::size_t i = 0; i < 2 + spatial; ++i) permutation.push_back(static_cast<std::int64_t>(i));
    permutation.push_back(static_cast<std::int64_t>(2 + 2 * spatial));
    for (std::size_t i = 0; i < spatial; ++i)
      permutation.push_back(static_cast<std::int64_t>(2 + spatial + i));
    return view.transpose(permutation);
  }

  Expr with_bias(Expr sum, const Indices& at, const Box& box) const {
    return bias ? sum + launch.builder().cast(bias.load(at, box), accumulator) : sum;
  }

  ProgramBuilder::Launch& launch;
  tile::View input, weights, bias;
  DType accumulator;
};

template <typename List, typename More>
List joined(List list, const More& more) {
  for (const auto& item : more) list.emplace_back(item);
  return list;
}

// For panels with a weight that is not finite: the sum of the taps that are not in the padding, one by one.
void add_mending(const Problem& problem, const Convolution& c, ProgramBuilder& program,
                 const IterationSpace& space, int packed_value, const Shape& packed, const Box& box) {
  ProgramBuilder::Launch launch(program, "convolution_of_infinities");
  tile::KernelBuilder& k = launch.builder();
  const Site site(problem, c, program, launch, space, packed_value, packed);
  // Padding is what is 0 in one of them and NaN in the other.
  const tile::View padded_with_0 = site.patches(c, 0);
  const tile::View padded_with_nan = site.patches(c, std::numeric_limits<double>::quiet_NaN());
  Epilogue epilogue(program, launch, problem, space, c.operands.bias ? 1 : 0);
  k.grid([&] { return Indices{packed[0].constant(), packed[1].constant()}; });
  const Expr group = k.program_id(0), panel = k.program_id(1);
  const std::int64_t width = packed.back().constant();
  const Box depth(packed.size() - 3, 1);

  // Calls `body` in loops over the extents `from` the given axis of `packed`, or of the output's axes.
  const auto weights_at = [&](const Exprs& d) {
    const Indices at = joined(Indices{group, panel}, d);
    const Box ones(d.size() + 2, 1);
    return k.cast(site.weights.load(joined(at, Indices{0}), joined(ones, Box{width})), site.accumulator);
  };
  const std::function<Exprs(Exprs, const Exprs&, const tile::KernelBuilder::ContractBody&)> over_depth =
      [&](Exprs d, const Exprs& carried, const tile::KernelBuilder::ContractBody& body) -> Exprs {
    if (d.size() == depth.size()) return body(d, carried);
    return k.loop(0, packed[2 + d.size()].constant(), 1, carried,
                  [&](Expr i, const Exprs& inner) { return over_depth(joined(d, Exprs{i}), inner, body); });
  };
  const std::function<void(Exprs, const std::function<void(const Exprs&)>&)> over_pixels =
      [&](Exprs at, const std::function<void(const Exprs&)>& body) {
        const std::size_t axis = at.empty() ? 0 : at.size() + 1;  // but for the group
        if (axis + 1 == box.size()) return body(at);
        k.loop(0, epilogue.output().dim(static_cast<int>(axis)), box[axis],
               [&](Expr i) { over_pixels(joined(at, Exprs{i}), body); });
      };

  // 0, or NaN if a weight is not finite.
  const Expr zeros = over_depth({}, {k.zeros(site.accumulator, {width})},
                                [&](const Exprs& d, const Exprs& carried) -> Exprs {
                                  return {carried[0] + k.reshape(weights_at(d), {width}) * 0};
                                })[0];
  const auto mend = [&](const Exprs& pixels) {
    Indices at{pixels[0], group};
    for (std::size_t i = 1; i < pixels.size(); ++i) at.emplace_back(pixels[i]);
    const Indices patch_at = at;
    const Box patch_box = joined(Box(box.begin(), box.end() - 1), depth);
    Box column = box;
    column.back() = 1;
    Box row(box.size(), 1);
    row.back() = width;
    at.emplace_back(panel * width);
    const Expr sum =
        over_depth({}, {k.zeros(site.accumulator, box)}, [&](const Exprs& d, const Exprs& carried) -> Exprs {
          const auto patch = [&](const tile::View& view) {
            return k.cast(k.reshape(view.load(joined(patch_at, d), patch_box), column), site.accumulator);
          };
          const Expr x = patch(padded_with_0);
          const Expr outside = isnan(patch(padded_with_nan)) & ~isnan(x);
          const Expr product = x * k.reshape(weights_at(d), row);
          return {carried[0] + select(outside, 0, product)};
        })[0];
    epilogue.finish(site.with_bias(sum, at, box), at, box);
  };
  k.branch(
      isnan(k.reduce(tile::Combiner::Sum, zeros, 0)),
      [&]() -> Exprs {
        over_pixels({}, mend);
        return {};
      },
      [&]() -> Exprs { return {}; });
  launch.cost(0, element_count(packed).constant() / packed[0].constant() / packed[1].constant() * 4);
  program.add(launch);
}

Program build(const Problem& problem, const Parameters& parameters, const Target& target) {
  const Convolution c = convolution_of(problem);
  const std::size_t spatial = c.spatial();
  const DType dtype = problem.graph.value(problem.graph.inputs[c.operands.x]).dtype;
  const DType accumulator = *accumulator_dtype(dtype);
  const DotTiling tiling = dot_tiling(c.group_outputs, accumulator, target);

  ProgramBuilder program(problem);
  const PackedSource source = weights_source(problem, c);
  const int packed_value = add_packed(program, source, tiling, dtype);
  program.prepare_key(pack_key(tiling) + (c.channels_innermost ? ",channels_last" : ",channels_first") +
                      (c.is_transposed ? ",transposed" : ""));

  ProgramBuilder::Launch launch(program, "convolution");
  tile::KernelBuilder& k = launch.builder();
  const Shape packed = packed_extents(source, tiling);
  const IterationSpace space = output_space(problem, c);
  const Site site(problem, c, program, launch, space, packed_value, packed);
  const tile::View patches = site.patches(c, 0);
  Epilogue epilogue(program, launch, problem, space, c.operands.bias ? 1 : 0);

  Box box{1, 1};
  for (std::size_t i = 0; i < spatial; ++i) box.push_back(parameters.at(fmt::format("pixels{}", i)));
  box.push_back(tiling.panel);
  const Indices at = blocked_grid(k, epilogue.output(), box);
  const Expr group = k.program_id(1), panel = k.program_id(static_cast<int>(box.size()) - 1);

  // One run of the innermost depth axis at a time; the axes outside it advance one by one.
  Indices depth;
  Box depth_blocks(spatial + 1, 1);
  for (std::size_t i = 0; i <= spatial; ++i) depth.emplace_back(source.extents[1 + i].constant());
  depth_blocks.back() = std::min(kChannelBlock, source.extents[1 + spatial].constant());
  const Expr sum = k.contract(
      depth, depth_blocks, {k.zeros(accumulator, box)}, [&](const Exprs& d, const Exprs& carried) -> Exprs {
        const Indices patch_at = joined(Indices(at.begin(), at.end() - 1), d);
        const Box patch_box = joined(Box(box.begin(), box.end() - 1), depth_blocks);
        const Indices weight_at = joined(joined(Indices{group, panel}, d), Indices{0});
        const Box weight_box = joined(joined(Box{1, 1}, depth_blocks), Box{tiling.panel});
        return {
            k.dot(carried[0], patches.load(patch_at, patch_box), site.weights.load(weight_at, weight_box))};
      })[0];
  epilogue.finish(site.with_bias(sum, at, box), at, box);
  launch.schedule().register_rows = tiling.register_rows;
  launch.schedule().register_vectors = tiling.register_vectors;
  std::int64_t pixels = 1;
  for (std::size_t i = 0; i < spatial; ++i) pixels *= box[2 + i];
  const std::int64_t elements = pixels * tiling.panel, products = c.window.taps() * c.group_inputs;
  launch.cost(elements * (2 * products + epilogue_flops(problem)),
              (pixels + tiling.panel) * products * (bits(dtype) / 8) + elements * epilogue_bytes(problem));
  program.add(launch);
  if (c.mends) add_mending(problem, c, program, space, packed_value, packed, box);
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
