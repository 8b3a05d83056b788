// Regular expressions as operators have them: in the syntax of RE2, matched in linear time.
#pragma once

#include <memory>
#include <string>

#include <re2/re2.h>

namespace kiln {

using Pattern = std::unique_ptr<const re2::RE2>;

// Throws Error (caller, invalid_model) that says what is wrong with it.
Pattern compile_pattern(const std::string& pattern);

}  // namespace kiln
