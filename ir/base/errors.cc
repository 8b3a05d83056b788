#include <string>
#include <utility>

#include <fmt/format.h>
#include <kiln/error.h>

namespace kiln {
namespace {

// Bytes of the well-formed UTF-8 character that `text` begins with; 0 if there is none.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t bytes = lead >= 0xc2 && lead < 0xe0 ? 2 : lead >= 0xe0 && lead < 0xf0 ? 3 : 4;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xf0 && byte(1) < 0x90);
  const bool beyond = (lead == 0xed && byte(1) >= 0xa0) || (lead == 0xf4 && byte(1) >= 0x90);
  return overlong || beyond ? 0 : bytes;
}

// U+0000 to U+001F and U+007F to U+009F.
bool is_control(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character[0]);
  return lead < 0x20 || lead == 0x7f || (lead == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    const std::string_view character = text.substr(0, bytes == 0 ? 1 : bytes);
    if (bytes > 0 && !is_control(character)) {
      result += character;
    } else {
      for (const char c : character) result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    text.remove_prefix(character.size());
  }
  return result;
}

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
  message_ = printable(message_);
  for (auto& [key, value] : context_) value = printable(value);
  compose();
}

Error& Error::with(std::string key, std::string value) {
  value = printable(value);
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
