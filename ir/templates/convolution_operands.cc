#include "ir/templates/convolution_operands.h"

#include <algorithm>

#include "ir/templates/program_builder.h"

namespace kiln::templates {
namespace {

bool has_bias(const graph::Node& node) { return node.inputs.size() > 2 && node.inputs[2]; }

}  // namespace

std::optional<std::string> why_no_convolution(const graph::Problem& problem) {
  const graph::Node& node = problem.graph.node(problem.root);
  if (node.op != graph::OpKind::Conv && node.op != graph::OpKind::ConvTranspose)
    return "its root is no convolution";
  const auto& shape = problem.graph.value(node.inputs[0]).shape;
  if (!shape || shape->size() < 3 || shape->size() > 5) return "1 to 3 spatial axes are supported";
  const auto& weights = problem.graph.value(node.inputs[1]).shape;
  const auto is_constant = [](const graph::Dim& dim) { return dim.is_constant(); };
  if (!weights || !std::all_of(weights->begin(), weights->end(), is_constant))
    return "the extents of its weights are not known";
  if (!input_number(problem, node.inputs[0]) || !input_number(problem, node.inputs[1]))
    return "an operand is not in memory";
  if (node.op == graph::OpKind::ConvTranspose &&
      (text(node, "auto_pad") != "NOTSET" || has(node, "output_shape")))
    return "its padding depends on sizes that only running tells";
  if (has_bias(node) && !input_number(problem, node.inputs[2])) return "its bias is a literal";
  return std::nullopt;
}

ConvolutionOperands convolution_operands(const graph::Problem& problem) {
  const graph::Node& node = problem.graph.node(problem.root);
  return {.x = *input_number(problem, node.inputs[0]),
          .w = *input_number(problem, node.inputs[1]),
          .bias = has_bias(node) ? input_number(problem, node.inputs[2]) : std::nullopt};
}

}  // namespace kiln::templates
