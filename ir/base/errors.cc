#include <string>
#include <utility>

#include <kiln/error.h>

namespace kiln {

std::string_view name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Caller:
      return "caller";
    case ErrorKind::Environment:
      return "environment";
    case ErrorKind::Bug:
      return "bug";
  }
  return "?";
}

std::string_view name(ErrorCode code) {
  switch (code) {
    case ErrorCode::InvalidArgument:
      return "invalid_argument";
    case ErrorCode::InvalidModel:
      return "invalid_model";
    case ErrorCode::Unsupported:
      return "unsupported";
    case ErrorCode::NotFound:
      return "not_found";
    case ErrorCode::ShapeMismatch:
      return "shape_mismatch";
    case ErrorCode::TypeMismatch:
      return "type_mismatch";
    case ErrorCode::IndexOutOfRange:
      return "index_out_of_range";
    case ErrorCode::DivisionByZero:
      return "division_by_zero";
    case ErrorCode::LimitExceeded:
      return "limit_exceeded";
    case ErrorCode::OutOfMemory:
      return "out_of_memory";
    case ErrorCode::Io:
      return "io";
    case ErrorCode::CompileFailed:
      return "compile_failed";
    case ErrorCode::Refused:
      return "refused";
    case ErrorCode::Internal:
      return "internal";
  }
  return "?";
}

Error::Error(ErrorKind kind, ErrorCode code, std::string message, Context context)
    : kind_(kind), code_(code), message_(std::move(message)), context_(std::move(context)) {
  compose();
}

Error& Error::with(std::string key, std::string value) {
  context_.emplace_back(std::move(key), std::move(value));
  compose();
  return *this;
}

void Error::compose() {
  text_ = message_;
  if (context_.empty()) return;
  text_ += " [";
  for (std::size_t i = 0; i < context_.size(); ++i) {
    if (i) text_ += ", ";
    text_ += context_[i].first + "=" + context_[i].second;
  }
  text_ += "]";
}

}  // namespace kiln
