// Operators with regular expressions in attributes: a wrong one is refused before anything runs.
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "frontend/onnx/translators.h"
#include "ir/base/pattern.h"

namespace kiln::frontend::translate {
namespace {

// Null if the attribute is absent, or of another type, which the contract refuses.
template <typename T>
const T* attribute(const Translation& node, std::string_view name) {
  const auto found = node.attributes.find(name);
  return found == node.attributes.end() ? nullptr : std::get_if<T>(&found->second);
}

}  // namespace

void regex_full_match(Translation& node) {
  if (!node.attributes.contains("pattern")) node.invalid("the attribute 'pattern' is missing");
  if (const auto* pattern = attribute<std::string>(node, "pattern")) compile_pattern(*pattern);
  same(node);
}

void tokenizer(Translation& node) {
  if (const auto* expression = attribute<std::string>(node, "tokenexp")) compile_pattern(*expression);
  if (const auto* separators = attribute<std::vector<std::string>>(node, "separators")) {
    for (const std::string& separator : *separators) compile_pattern(separator);
  }
  same(node);
}

}  // namespace kiln::frontend::translate
