// pad: an operand with a border round it, or cropped, with an elementwise epilogue. Constant, edge, reflected
// and wrapped borders are views of the language; interior tiles are plain copies.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "ir/base/errors.h"
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
using tile::PadMode;

PadMode mode_of(const Node& node) {
  const std::string& mode = text(node, "mode");
  if (mode == "constant") return PadMode::Constant;
  if (mode == "edge") return PadMode::Edge;
  if (mode == "reflect") return PadMode::Reflect;
  require(mode == "wrap", "Pad has mode {}", mode);
  return PadMode::Wrap;
}

struct Border {
  Dim low = 0, high = 0;  // negative crops
  bool is_none() const { return low == Dim(0) && high == Dim(0); }
};

// Per axis of the data; nothing if the pads or axes are known only while running.
std::optional<std::vector<Border>> borders(const Graph& graph, const Node& node) {
  const auto& pads = graph.value(node.inputs[1]).elements;
  const std::size_t rank = graph.value(node.inputs[0]).shape->size();
  if (!pads) return std::nullopt;
  std::vector<std::int64_t> axes;
  if (node.inputs.size() > 3 && node.inputs[3]) {
    const auto& constant = graph.value(node.inputs[3]).constant;
    if (!constant) return std::nullopt;
    axes = constant->to_integers();
  } else {
    for (std::size_t i = 0; i < rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  std::vector<Border> result(rank);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = axes[i] < 0 ? axes[i] + static_cast<std::int64_t>(rank) : axes[i];
    result[static_cast<std::size_t>(axis)] = {(*pads)[i], (*pads)[i + axes.size()]};
  }
  return result;
}

// What a constant border holds: a literal, or nothing if it is read from memory.
std::optional<double> literal_fill(const Graph& graph, const Node& node) {
  if (node.inputs.size() <= 2 || !node.inputs[2]) return 0;
  const auto& constant = graph.value(node.inputs[2]).constant;
  if (!constant || constant->elements() != 1) return std::nullopt;
  return scalar_number(*constant);
}

struct Nest {
  AxiswiseNest copy;
  std::vector<Border> borders;  // per axis of the space
};

Nest nest_of(const Problem& problem) {
  const std::vector<Border> border = *borders(problem.graph, problem.graph.node(problem.root));
  std::vector<bool> bordered;
  for (const Border& b : border) bordered.push_back(!b.is_none());
  Nest nest{.copy = axiswise_nest(problem, bordered), .borders = {}};
  for (const int axis : nest.copy.changed_axis) {
    nest.borders.push_back(axis >= 0 ? border[static_cast<std::size_t>(axis)] : Border{});
  }
  return nest;
}

std::optional<std::string> refuses(const Problem& problem, const Target&) {
  const Graph& graph = problem.graph;
  const Node& node = graph.node(problem.root);
  if (node.op != OpKind::Pad) return "its root is no Pad";
  const graph::Value& data = graph.value(node.inputs[0]);
  if (!data.shape) return "the rank is unknown before running";
  if (!input_number(problem, node.inputs[0])) return "its operand is not in memory";
  if (!is_computable(data.dtype)) return fmt::format("elements of {}", name(data.dtype));
  if (!borders(graph, node)) return "its pads are known only while running";
  if (mode_of(node) == PadMode::Constant && !literal_fill(graph, node)) {
    const graph::Value& value = graph.value(node.inputs[2]);
    if (!value.shape || graph::element_count(*value.shape) != Dim(1) ||
        !input_number(problem, node.inputs[2]))
      return "its value is neither a literal nor one element in memory";
  }
  if (auto reason = why_no_epilogue(problem)) return reason;
  if (nest_of(problem).copy.space.rank() > std::size_t{tile::kMaxGridRank})
    return "more axes than a grid has";
  return std::nullopt;
}

std::vector<VariantChoice> variants(const Problem& problem, const Target&) {
  return copy_variants(nest_of(problem).copy.space);
}

Program build(const Problem& problem, const Parameters& parameters, const Target&) {
  const Graph& graph = problem.graph;
  const Node& node = graph.node(problem.root);
  const Nest nest = nest_of(problem);
  const std::size_t rank = nest.copy.space.rank();

  ProgramBuilder program(problem);
  ProgramBuilder::Launch launch(program, "pad");
  tile::KernelBuilder& k = launch.builder();
  const tile::View data = launch.input("x", program.input(*input_number(problem, node.inputs[0])),
                                       nest.copy.extents, nest.copy.strides);
  Indices low, high;
  const auto index = [&](const char* what, std::size_t axis, const Dim& dim) -> tile::Index {
    if (dim.is_constant()) return dim.constant();
    return launch.scalar(fmt::format("{}{}", what, axis), dim);
  };
  for (std::size_t axis = 0; axis < rank; ++axis) {
    low.push_back(index("low", axis, nest.borders[axis].low));
    high.push_back(index("high", axis, nest.borders[axis].high));
  }
  const bool reads_value = mode_of(node) == PadMode::Constant && !literal_fill(graph, node);
  const std::vector<Dim> one{1};
  const tile::View value =
      reads_value ? launch.input("v", program.input(*input_number(problem, node.inputs[2])), one, one)
                  : tile::View();
  Epilogue epilogue(program, launch, problem, nest.copy.space, 1);
  const std::vector<std::int64_t> box = copy_box(rank, parameters);
  const Indices at = blocked_grid(k, epilogue.output(), box);
  const PadMode mode = mode_of(node);
  const auto padded = [&] {
    if (mode != PadMode::Constant) return data.pad(low, high, mode).load(at, box);
    if (const auto fill = literal_fill(graph, node)) return data.pad(low, high, mode, *fill).load(at, box);
    // A slice that begins outside: beyond the data a load has its own fill.
    Indices first, extents;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      first.push_back(low[axis].expr ? tile::Index(-low[axis].expr) : tile::Index(-low[axis].constant));
      extents.push_back(epilogue.output().dim(static_cast<int>(axis)));
    }
    return data.slice(first, extents).load_filled(at, box, value.load({0}));
  };
  epilogue.finish(padded(), at, box);
  const std::int64_t elements = parameters.at("rows") * parameters.at("inner");
  launch.cost(elements * (1 + epilogue_flops(problem)), elements * (8 + epilogue_bytes(problem)));
  program.add(launch);
  return program.finish();
}

}  // namespace

extern const Template pad_template;
const Template pad_template{.name = "pad",
                            .version = 1,
                            .refuses = refuses,
                            .variants = variants,
                            .build = build,
                            .samples = pad_samples};

}  // namespace kiln::templates
