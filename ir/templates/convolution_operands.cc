#include "ir/templates/convolution_operands.h"

#include "ir/templates/program_builder.h"

namespace kiln::templates {
namespace {

bool has_bias(const graph::Node& node) { return node.inputs.size() > 2 && node.inputs[2]; }

}  // namespace

std::optional<std::string> why_no_convolution(const graph::Problem& problem) {
  const graph::Node& node = problem.graph.node(problem.root);
  if (node.op != graph::OpKind::Conv) return "its root is no convolution";
  const auto& shape = problem.graph.value(node.inputs[0]).shape;
  if (!shape || shape->size() < 3 || shape->size() > 5) return "1 to 3 spatial axes are supported";
  const auto w = input_number(problem, node.inputs[1]);
  if (!input_number(problem, node.inputs[0]) || !w || !problem.input_is_constant[*w])
    return "its weights are not constant";
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
