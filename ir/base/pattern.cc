#include "ir/base/pattern.h"

#include <utility>

#include "ir/base/errors.h"

namespace kiln {

Pattern compile_pattern(const std::string& pattern) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  auto compiled = std::make_unique<const re2::RE2>(pattern, options);
  if (!compiled->ok()) {
    throw_caller(ErrorCode::InvalidModel, "the pattern '{}' is not in RE2's syntax: {}", pattern,
                 compiled->error());
  }
  return compiled;
}

}  // namespace kiln
