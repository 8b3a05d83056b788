// The table of ONNX operators that can be loaded (ops.def).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "frontend/onnx/translation.h"

namespace kiln::frontend {

// The newest ai.onnx opset whose operators are known.
constexpr std::int64_t kNewestOpset = 28;

using Translator = void (*)(Translation& node);

// One meaning of an operator, in force from version `since` to version `until` of its domain's opset.
struct Operator {
  std::string_view domain, name;
  std::int64_t since, until;
  Translator translate;
};

std::span<const Operator> operators();

// The meaning in force; throws Error (caller, unsupported) that names operator, domain and version if there
// is none. Thread safe.
const Operator& find_operator(std::string_view domain, std::string_view name, std::int64_t opset);

}  // namespace kiln::frontend
