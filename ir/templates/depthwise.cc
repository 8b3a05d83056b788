// depthwise: a convolution in which every channel has a window of its own. Vectors run along channels; the
// taps are unrolled, each one fma on the accumulators.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "ir/templates/convolution_operands.h"
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

constexpr std::int64_t kMaxTaps = 49;
constexpr std::int64_t kPixels = 8, kChannels = 256;

// Strides over [N, C, spatial...] become strides over [n, spatial..., c].
std::vector<Dim> channels_last(const std::vector<Dim>& strides) {
  std::vector<Dim> result{strides[0]};
  result.insert(result.end(), strides.begin() + 2, strides.end());
  result.push_back(strides[1]);
  return result;
}

std::optional<std::string> refuses(const Problem& problem, const Target&) {
  const Graph& graph = problem.graph;
  const Node& node = graph.node(problem.root);
  if (auto reason = why_no_convolution(problem)) return reason;
  if (node.op != graph::OpKind::Conv || !problem.input_is_constant[convolution_operands(problem).w])
    return "its weights are not constant";
  const graph::Value& x = graph.value(node.inputs[0]);
  const Shape& weights = *graph.value(node.inputs[1]).shape;
  if (weights[1] != Dim(1) || weights[0] != Dim(integer(node, "group")))
    return "its channels are not separate";
  if (x.dtype != DType::F32 && x.dtype != DType::F64)
    return fmt::format("no accumulation in {}", name(x.dtype));
  if (window_geometry(graph, node).taps() > kMaxTaps) return "its window is too large to unroll";
  return why_no_epilogue(problem);
}

std::vector<VariantChoice> variants(const Problem& problem, const Target&) {
  const Graph& graph = problem.graph;
  const Node& node = graph.node(problem.root);
  const WindowGeometry window = window_geometry(graph, node);
  const std::int64_t channels = (*graph.value(node.inputs[1]).shape)[0].constant();
  const std::int64_t pixels = window.output.back().is_constant()
                                  ? std::clamp<std::int64_t>(window.output.back().constant(), 1, 4 * kPixels)
                                  : kPixels;
  return {
      {.name = "default",
       .guard = std::nullopt,
       .parameters = {{"pixels", pixels}, {"channels", std::clamp<std::int64_t>(channels, 1, kChannels)}}}};
}

// Weights [C, 1, taps...] copied to [taps][C], so that a tap of neighbouring channels is one vector.
int add_tap_major_weights(ProgramBuilder& program, std::size_t input, const graph::Value& w,
                          std::int64_t taps) {
  const Dim channels = (*w.shape)[0];
  const int value = program.prepared(w.dtype, Dim(taps) * channels);
  ProgramBuilder::Launch launch(program, "tap_major");
  tile::KernelBuilder& k = launch.builder();
  const Shape extents{taps, channels};
  const tile::View from = launch.input("w", program.input(input), extents, std::vector<Dim>{1, taps});
  const tile::View to = launch.output("taps", value, extents, graph::dense_strides(extents));
  k.grid([&] { return Indices{taps}; });
  const Expr tap = k.program_id(0);
  const std::int64_t all = channels.constant();
  to.store({tap, 0}, from.load({tap, 0}, {1, all}));
  program.add_prepare(launch);
  program.prepare_key("tap_major");
  return value;
}

Program build(const Problem& problem, const Parameters& parameters, const Target&) {
  const Graph& graph = problem.graph;
  const Node& node = graph.node(problem.root);
  const WindowGeometry window = window_geometry(graph, node);
  const std::size_t spatial = window.rank();
  const ConvolutionOperands operands = convolution_operands(problem);
  const graph::Value& x = graph.value(node.inputs[0]);
  const graph::Value& w = graph.value(node.inputs[1]);
  const Shape& shape = *graph.value(node.outputs[0]).shape;

  ProgramBuilder program(problem);
  const int taps_value = add_tap_major_weights(program, operands.w, w, window.taps());
  ProgramBuilder::Launch launch(program, "depthwise");
  tile::KernelBuilder& k = launch.builder();
  const tile::View input =
      launch.input("x", program.input(operands.x), channels_last(*x.shape), channels_last(x.layout->strides));
  const Shape taps_extents{window.taps(), (*w.shape)[0]};
  const tile::View weights = launch.input("w", taps_value, taps_extents, graph::dense_strides(taps_extents));
  const tile::View patches = window_view(launch, input, 1, window, 0.0);

  IterationSpace space{.extents = channels_last(shape), .strides = {}, .axes = {}};
  if (operands.bias) {
    std::vector<Dim> strides(space.extents.size(), Dim(0));
    strides.back() = graph.value(node.inputs[2]).layout->strides[0];
    space.strides.push_back(std::move(strides));
  }
  for (const std::size_t i : epilogue_inputs(problem)) {
    space.strides.push_back(channels_last(broadcast_strides(graph.value(graph.inputs[i]), shape)));
  }
  for (const ValueId id : graph.outputs) {
    space.strides.push_back(channels_last(broadcast_strides(graph.value(id), shape)));
  }
  tile::View bias;
  if (operands.bias) {
    bias = launch.input("bias", program.input(*operands.bias), space.extents, space.strides[0]);
  }
  Epilogue epilogue(program, launch, problem, space, bias ? 1 : 0);

  std::vector<std::int64_t> box(space.extents.size(), 1);
  box[spatial] = parameters.at("pixels");
  box.back() = parameters.at("channels");
  const Indices at = blocked_grid(k, epilogue.output(), box);
  Expr sum = bias ? bias.load(at, box) : k.zeros(x.dtype, box);
  for (std::int64_t tap = 0; tap < window.taps(); ++tap) {
    // Patches are [n, outputs..., window..., c].
    Indices patch_at(at.begin(), at.end() - 1);
    std::vector<std::int64_t> patch_box(box.begin(), box.end() - 1);
    std::int64_t rest = tap;
    std::vector<std::int64_t> offsets(spatial);
    for (std::size_t i = spatial; i-- > 0; rest /= window.kernel[i]) offsets[i] = rest % window.kernel[i];
    for (const std::int64_t offset : offsets) {
      patch_at.emplace_back(offset);
      patch_box.push_back(1);
    }
    patch_at.push_back(at.back());
    patch_box.push_back(box.back());
    const Expr patch = k.reshape(patches.load(patch_at, patch_box), box);
    sum = fma(patch, weights.load({tap, at.back()}, {1, box.back()}), sum);
  }
  epilogue.finish(sum, at, box);
  const std::int64_t elements = box[spatial] * box.back();
  launch.cost(elements * (2 * window.taps() + epilogue_flops(problem)),
              elements * (bits(x.dtype) / 8 + epilogue_bytes(problem)));
  program.add(launch);
  return program.finish();
}

}  // namespace

extern const Template depthwise_template;
const Template depthwise_template{.name = "depthwise",
                                  .version = 1,
                                  .refuses = refuses,
                                  .variants = variants,
                                  .build = build,
                                  .samples = depthwise_samples};

}  // namespace kiln::templates
