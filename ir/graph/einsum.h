// Equations of Einsum, such as "bij, bjk -> bik" or "...ii -> ...i".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::graph {

// One term for each operand, of letters and at most one kEllipsis.
struct EinsumEquation {
  static constexpr char kEllipsis = '.';
  std::vector<std::string> inputs;
  std::string output;  // where the equation has none: the ellipsis, then the letters used once, sorted
};

// Throws Error (caller, invalid_model) on a malformed equation, or one for another number of operands.
EinsumEquation parse_einsum(std::string_view equation, std::size_t operands);

// Axes that the ellipsis of `term` stands for in an operand of `rank`. Throws Error (caller, shape_mismatch)
// if the term has another rank.
std::size_t ellipsis_axes(std::string_view term, std::size_t rank);

// One label for each axis: the letter's code, or for axis i of an ellipsis, counted from its last one, 256 +
// i. Equal labels run together.
std::vector<int> einsum_labels(std::string_view term, std::size_t ellipsis);

}  // namespace kiln::graph
