// resize: nearest-neighbour upsampling by whole factors, with an elementwise epilogue. Result element i shows
// source element i / factor: each axis is repeated beside itself and merged.
#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "ir/templates/axiswise_copy.h"
#include "ir/templates/epilogue.h"
#include "ir/templates/samples.h"
#include "ir/templates/template.h"

namespace kiln::templates {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::OpKind;
using graph::Problem;
using graph::Shape;
using graph::ValueId;
using tile::Indices;

// True if nearest under these rules is floor(i / factor) for every whole factor.
bool repeats_each_element(const Node& node) {
  const std::string& coordinates = text(node, "coordinate_transformation_mode");
  const std::string& rounding = text(node, "nearest_mode");
  if (coordinates == "asymmetric") return rounding == "floor";
  // Under a whole factor the centre of a pixel never falls on a tie.
  const bool centred = coordinates == "half_pixel" || coordinates == "half_pixel_symmetric" ||
                       coordinates == "pytorch_half_pixel";
  return centred && (rounding == "round_prefer_floor" || rounding == "round_prefer_ceil");
}

// The whole factor per axis of the data; nothing if there are none.
std::optional<std::vector<std::int64_t>> factors(const Graph& graph, const Node& node) {
  const Shape& from = *graph.value(node.inputs[0]).shape;
  const Shape& to = *graph.value(node.outputs[0]).shape;
  const std::size_t rank = from.size();
  std::vector<std::int64_t> result(rank, 1);
  const bool by_scales = node.inputs.size() > 2 && node.inputs[2];
  if (!by_scales) {
    if (text(node, "keep_aspect_ratio_policy") != "stretch") return std::nullopt;
    for (std::size_t i = 0; i < rank; ++i) {
      if (from[i] == to[i]) continue;
      if (!from[i].is_constant() || !to[i].is_constant() || from[i].constant() == 0 ||
          to[i].constant() % from[i].constant() != 0) {
        return std::nullopt;
      }
      result[i] = to[i].constant() / from[i].constant();
    }
    return result;
  }
  const auto& scales = graph.value(node.inputs[2]).constant;
  if (!scales) return std::nullopt;
  std::vector<std::int64_t> axes(rank);
  for (std::size_t i = 0; i < rank; ++i) axes[i] = static_cast<std::int64_t>(i);
  if (has(node, "axes")) axes.assign(integers(node, "axes").begin(), integers(node, "axes").end());
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const double scale = static_cast<double>(scales->as<float>()[k]);
    if (!(scale >= 1 && scale <= 4096) || scale != std::floor(scale)) return std::nullopt;
    const auto i =
        static_cast<std::size_t>(axes[k] < 0 ? axes[k] + static_cast<std::int64_t>(rank) : axes[k]);
    result[i] = static_cast<std::int64_t>(scale);
  }
  for (std::size_t i = 0; i < rank; ++i) {
    if (to[i] != from[i] * Dim(result[i])) return std::nullopt;
  }
  return result;
}

struct Nest {
  AxiswiseNest copy;
  std::vector<std::int64_t> factor;  // per axis of the space
};

Nest nest_of(const Problem& problem) {
  const std::vector<std::int64_t> factor = *factors(problem.graph, problem.graph.node(problem.root));
  std::vector<bool> resized;
  for (const std::int64_t f : factor) resized.push_back(f != 1);
  Nest nest{.copy = axiswise_nest(problem, resized), .factor = {}};
  for (const int axis : nest.copy.changed_axis) {
    nest.factor.push_back(axis >= 0 ? factor[static_cast<std::size_t>(axis)] : 1);
  }
  return nest;
}

std::optional<std::string> refuses(const Problem& problem, const Target&) {
  const Graph& graph = problem.graph;
  const Node& node = graph.node(problem.root);
  if (node.op != OpKind::Resize) return "its root is no Resize";
  const graph::Value& data = graph.value(node.inputs[0]);
  if (!data.shape || !graph.value(node.outputs[0]).shape) return "the rank is unknown before running";
  if (!input_number(problem, node.inputs[0])) return "its operand is not in memory";
  if (!is_computable(data.dtype)) return fmt::format("elements of {}", name(data.dtype));
  if (text(node, "mode") != "nearest" || !repeats_each_element(node))
    return "it does more than to repeat elements";
  if (!factors(graph, node)) return "it does not enlarge by whole factors";
  if (auto reason = why_no_epilogue(problem)) return reason;
  const Nest nest = nest_of(problem);
  const auto resized = static_cast<std::size_t>(
      std::count_if(nest.factor.begin(), nest.factor.end(), [](std::int64_t f) { return f != 1; }));
  if (nest.copy.space.rank() > std::size_t{tile::kMaxGridRank} ||
      nest.copy.space.rank() + resized > std::size_t{tile::kMaxViewRank})
    return "more axes than a grid or view has";
  return std::nullopt;
}

std::vector<VariantChoice> variants(const Problem& problem, const Target&) {
  return copy_variants(nest_of(problem).copy.space);
}

// The view whose axis i shows element i / factor.
tile::View repeated(const tile::View& data, const std::vector<std::int64_t>& factor) {
  std::vector<std::int64_t> repeats;  // axes of the broadcast view
  Indices extents;
  for (std::size_t axis = 0; axis < factor.size(); ++axis) {
    if (factor[axis] == 1) continue;
    repeats.push_back(static_cast<std::int64_t>(axis + repeats.size()) + 1);
    extents.emplace_back(factor[axis]);
  }
  if (repeats.empty()) return data;
  tile::View view = data.broadcast(repeats, extents);
  for (std::size_t k = repeats.size(); k-- > 0;) view = view.merge({repeats[k] - 1, repeats[k]});
  return view;
}

Program build(const Problem& problem, const Parameters& parameters, const Target&) {
  const Graph& graph = problem.graph;
  const Node& node = graph.node(problem.root);
  const Nest nest = nest_of(problem);
  const std::size_t rank = nest.copy.space.rank();

  ProgramBuilder program(problem);
  ProgramBuilder::Launch launch(program, "resize");
  tile::KernelBuilder& k = launch.builder();
  const tile::View data = launch.input("x", program.input(*input_number(problem, node.inputs[0])),
                                       nest.copy.extents, nest.copy.strides);
  Epilogue epilogue(program, launch, problem, nest.copy.space, 1);
  const std::vector<std::int64_t> box = copy_box(rank, parameters);
  const Indices at = blocked_grid(k, epilogue.output(), box);
  epilogue.finish(repeated(data, nest.factor).load(at, box), at, box);
  const std::int64_t elements = parameters.at("rows") * parameters.at("inner");
  launch.cost(elements * (1 + epilogue_flops(problem)), elements * (8 + epilogue_bytes(problem)));
  program.add(launch);
  return program.finish();
}

}  // namespace

extern const Template resize_template;
const Template resize_template{.name = "resize",
                               .version = 1,
                               .refuses = refuses,
                               .variants = variants,
                               .build = build,
                               .samples = resize_samples};

}  // namespace kiln::templates
