// The one error type of Kiln. Thrown at API boundaries; carried as a value where a failure is an
// ordinary result (a refused compile). Text starts in lower case, has no final period, and says what
// was got, what was expected and what to do.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln {

// Who has to act: the caller (bad input), the environment (disk, memory, driver), or us.
enum class ErrorKind : std::uint8_t { Caller, Environment, Bug };

enum class ErrorCode : std::uint8_t {
  InvalidArgument,
  InvalidModel,
  Unsupported,
  NotFound,
  ShapeMismatch,
  TypeMismatch,
  IndexOutOfRange,
  DivisionByZero,
  LimitExceeded,
  OutOfMemory,
  Io,
  CompileFailed,
  Refused,
  Internal,
};

std::string_view name(ErrorKind kind);
std::string_view name(ErrorCode code);

// `text` on one line and harmless to a terminal: control characters, and bytes that are no UTF-8, become
// \xHH. What an Error says is so already; names that a model gives are not.
std::string printable(std::string_view text);

class Error : public std::exception {
 public:
  // Context entries name the place: {"node", "conv_3"}, {"op", "Conv"}, {"shape", "2x3x?"} ...
  using Context = std::vector<std::pair<std::string, std::string>>;

  Error(ErrorKind kind, ErrorCode code, std::string message, Context context = {});

  ErrorKind kind() const { return kind_; }
  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const Context& context() const { return context_; }

  // Adds where the error happened; inner places come first. Returns itself, so that a handler can
  // `throw error.with("node", name)`.
  Error& with(std::string key, std::string value);

  // message, then " [key=value, ...]" if there is context.
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  void compose();

  ErrorKind kind_;
  ErrorCode code_;
  std::string message_;
  Context context_;
  std::string text_;
};

}  // namespace kiln
