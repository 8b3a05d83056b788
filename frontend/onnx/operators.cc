#include "frontend/onnx/operators.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <unordered_map>
#include <vector>

#include "frontend/onnx/translators.h"
#include "ir/base/errors.h"

namespace kiln::frontend {
namespace {

namespace domain {
constexpr std::string_view Onnx = "ai.onnx";
constexpr std::string_view MachineLearning = "ai.onnx.ml";
constexpr std::string_view Microsoft = "com.microsoft";
constexpr std::string_view Preview = "ai.onnx.preview";
}  // namespace domain

// Open ends of version ranges.
constexpr std::int64_t Newest = std::numeric_limits<std::int64_t>::max();

constexpr Operator kOperators[] = {
#define KILN_ONNX_OP(of, op, since, until, translator) {domain::of, #op, since, until, translate::translator},
#include "frontend/onnx/ops.def"
#undef KILN_ONNX_OP
};

using Index = std::unordered_map<std::string_view, std::vector<const Operator*>>;

const Index& index() {
  static const Index built = [] {
    Index by_name;
    for (const Operator& row : kOperators) by_name[row.name].push_back(&row);
    return by_name;
  }();
  return built;
}

}  // namespace

std::span<const Operator> operators() { return kOperators; }

const Operator& find_operator(std::string_view domain, std::string_view name, std::int64_t opset) {
  const Operator* later = nullptr;
  if (const auto found = index().find(name); found != index().end()) {
    for (const Operator* row : found->second) {
      if (row->domain != domain) continue;
      if (row->since <= opset && opset <= row->until) return *row;
      if (row->since > opset && (later == nullptr || row->since < later->since)) later = row;
    }
  }
  if (later != nullptr) {
    throw_caller(ErrorCode::Unsupported,
                 "operator {} of domain {} exists from version {}, the model uses version {}", name, domain,
                 later->since, opset);
  }
  throw_caller(ErrorCode::Unsupported, "operator {} of domain {} version {} is not supported", name, domain,
               opset);
}

}  // namespace kiln::frontend
