// The operands of a convolution that both of its Templates take: an input and weights in memory.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "ir/graph/problem.h"

namespace kiln::templates {

// Numbers of the Problem's inputs.
struct ConvolutionOperands {
  std::size_t x = 0, w = 0;
  std::optional<std::size_t> bias;
};

// Why the root is no Conv or ConvTranspose of 1 to 3 spatial axes with such operands and weights of known
// extents; nothing if it is.
std::optional<std::string> why_no_convolution(const graph::Problem& problem);

// For a Problem that why_no_convolution() takes.
ConvolutionOperands convolution_operands(const graph::Problem& problem);

}  // namespace kiln::templates
