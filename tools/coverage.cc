#include "tools/coverage.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <optional>

namespace kiln::tools {
namespace {

// The most specific first: a normalisation that is written with reductions and elementwise nodes is one.
constexpr std::array<std::string_view, 9> kClasses = {
    "convolution", "matmul",      "normalisation", "softmax", "pooling",
    "reduction",   "elementwise", "data movement", "shape",
};
constexpr std::string_view k32Bit = "f32 i32 i64 i1", k16Bit = "f16 bf16";

// The name of the test whose operator this one has in place of its function.
std::optional<std::string> expanded_from(const std::string& path) {
  constexpr std::string_view kSuffix = "_expanded";
  const std::size_t at = path.rfind(kSuffix);
  if (at == std::string::npos) return std::nullopt;
  std::string_view rest = std::string_view(path).substr(at + kSuffix.size());
  constexpr std::string_view kVersion = "_ver";
  if (rest.starts_with(kVersion)) rest.remove_prefix(kVersion.size());
  const bool is_suffix =
      std::all_of(rest.begin(), rest.end(), [](unsigned char c) { return std::isdigit(c); });
  return is_suffix ? std::optional(path.substr(0, at)) : std::nullopt;
}

}  // namespace

Category category_of(const Session& session) {
  Category category;
  auto best = kClasses.end();
  for (const NodeInfo& node : session.nodes()) {
    const auto found = std::find(kClasses.begin(), kClasses.end(), node.operator_class);
    if (found == kClasses.end()) {
      best = kClasses.end();
      break;
    }
    best = std::min(best, found);
  }
  if (best != kClasses.end()) category.operator_class = *best;
  bool counted = true, half = false;
  for (const auto* values : {&session.inputs(), &session.outputs()}) {
    for (const ValueInfo& value : *values) {
      switch (value.dtype) {
        case DType::F16:
        case DType::BF16:
          half = true;
          break;
        case DType::F32:
        case DType::I32:
        case DType::I64:
        case DType::I1:
          break;
        default:
          counted = false;
      }
    }
  }
  if (counted) category.element_types = half ? k16Bit : k32Bit;
  return category;
}

void Coverage::add(const std::string& path, Category category, bool without_fallback) {
  tests_[path] = {std::move(category), without_fallback};
}

Category Coverage::category(const std::string& path) const {
  Category category = tests_.at(path).category;
  if (const auto original = expanded_from(path)) {
    if (const auto found = tests_.find(*original); found != tests_.end())
      category.operator_class = found->second.category.operator_class;
  }
  return category;
}

nlohmann::ordered_json Coverage::json() const {
  nlohmann::ordered_json classes = nlohmann::ordered_json::object();
  for (const std::string_view name : kClasses) {
    for (const std::string_view types : {k32Bit, k16Bit}) {
      int tests = 0, without_fallback = 0;
      for (const auto& [path, test] : tests_) {
        const Category its = category(path);
        if (its.operator_class != name || its.element_types != types) continue;
        ++tests;
        without_fallback += test.without_fallback ? 1 : 0;
      }
      if (tests == 0) continue;
      classes[std::string(name)][std::string(types)] = {{"tests", tests},
                                                        {"without_fallback", without_fallback}};
    }
  }
  return classes;
}

}  // namespace kiln::tools
