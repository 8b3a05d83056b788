#include "ir/graph/einsum.h"

#include <algorithm>
#include <map>

#include "ir/base/errors.h"

namespace kiln::graph {
namespace {

constexpr std::string_view kDots = "...";

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// A term without spaces, its dots as one kEllipsis.
std::string parse_term(std::string_view text) {
  std::string term;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with(kDots) && term.find(EinsumEquation::kEllipsis) == std::string::npos) {
      term += EinsumEquation::kEllipsis;
      i += kDots.size() - 1;
    } else if (is_letter(text[i])) {
      term += text[i];
    } else {
      throw_caller(ErrorCode::InvalidModel,
                   "the term \"{}\" of an equation has \"{}\", expected letters and at most one \"...\"",
                   text, text[i]);
    }
  }
  return term;
}

}  // namespace

EinsumEquation parse_einsum(std::string_view equation, std::size_t operands) {
  std::string text;
  std::copy_if(equation.begin(), equation.end(), std::back_inserter(text), [](char c) { return c != ' '; });
  const std::size_t arrow = text.find("->");
  std::string_view left = std::string_view(text).substr(0, arrow);
  EinsumEquation result;
  while (true) {
    const std::size_t comma = left.find(',');
    result.inputs.push_back(parse_term(left.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    left.remove_prefix(comma + 1);
  }
  if (result.inputs.size() != operands) {
    throw_caller(ErrorCode::InvalidModel, "equation \"{}\" has {} terms for {} inputs", equation,
                 result.inputs.size(), operands);
  }
  std::map<char, int> uses;
  for (const std::string& term : result.inputs) {
    for (const char c : term) ++uses[c];
  }
  if (arrow == std::string::npos) {
    // The ellipsis sorts before all letters.
    for (const auto& [c, count] : uses) {
      if (count == 1 || c == EinsumEquation::kEllipsis) result.output += c;
    }
    return result;
  }
  result.output = parse_term(std::string_view(text).substr(arrow + 2));
  for (const char c : result.output) {
    if (std::count(result.output.begin(), result.output.end(), c) > 1) {
      throw_caller(ErrorCode::InvalidModel, "equation \"{}\" has \"{}\" twice in its result", equation, c);
    }
    if (!uses.contains(c)) {
      throw_caller(ErrorCode::InvalidModel, "equation \"{}\" has \"{}\" in its result, but in no input",
                   equation, c);
    }
  }
  return result;
}

std::size_t ellipsis_axes(std::string_view term, std::size_t rank) {
  const bool has_ellipsis = term.find(EinsumEquation::kEllipsis) != std::string_view::npos;
  const std::size_t letters = term.size() - (has_ellipsis ? 1 : 0);
  if (rank < letters || (rank > letters && !has_ellipsis)) {
    throw_caller(ErrorCode::ShapeMismatch,
                 "the term \"{}\" of an equation has {} letters for an input of rank {}", term, letters,
                 rank);
  }
  return rank - letters;
}

std::vector<int> einsum_labels(std::string_view term, std::size_t ellipsis) {
  constexpr int kFirst = 256;
  std::vector<int> labels;
  for (const char c : term) {
    if (c != EinsumEquation::kEllipsis) {
      labels.push_back(c);
      continue;
    }
    for (std::size_t i = ellipsis; i-- > 0;) labels.push_back(kFirst + static_cast<int>(i));
  }
  return labels;
}

}  // namespace kiln::graph
