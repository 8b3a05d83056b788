#include "frontend/onnx/opsets.h"

#include "frontend/onnx/operators.h"
#include "ir/base/errors.h"

namespace kiln::frontend {

std::string domain_name(const std::string& domain) { return domain.empty() ? "ai.onnx" : domain; }

Opsets read_opsets(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
  Opsets opsets;
  for (const auto& import : imports) {
    const auto [known, is_new] = opsets.emplace(domain_name(import.domain()), import.version());
    if (!is_new && known->second != import.version()) {
      throw_caller(ErrorCode::InvalidModel, "opsets {} and {} of {} are imported, expected one version",
                   known->second, import.version(), known->first);
    }
  }
  if (const auto found = opsets.find("ai.onnx"); found != opsets.end() && found->second > kNewestOpset) {
    throw_caller(ErrorCode::Unsupported, "the model uses opset {} of ai.onnx, the newest known is {}",
                 found->second, kNewestOpset);
  }
  return opsets;
}

std::int64_t opset_version(const Opsets& opsets, const std::string& domain) {
  if (const auto found = opsets.find(domain); found != opsets.end()) return found->second;
  if (domain == "com.microsoft") return 1;  // models often use it without importing it
  throw_caller(ErrorCode::InvalidModel, "the model imports no opset of the operator's domain '{}'", domain);
}

}  // namespace kiln::frontend
