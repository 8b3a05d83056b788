// Short ways to throw kiln::Error with a formatted message.
#pragma once

#include <string>
#include <utility>

#include <fmt/format.h>
#include <kiln/error.h>

namespace kiln {

template <typename... Args>
[[noreturn]] void throw_caller(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::Caller, code, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void throw_environment(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::Environment, code, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void throw_bug(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::Bug, ErrorCode::Internal, fmt::format(format, std::forward<Args>(args)...));
}

// An invariant of ours that does not depend on input; checked in every build.
template <typename... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) throw_bug(format, std::forward<Args>(args)...);
}

}  // namespace kiln
