#include "ir/tile/lexer.h"

#include <algorithm>
#include <charconv>

namespace kiln::tile {
namespace {

bool is_capital(char c) { return c >= 'A' && c <= 'Z'; }

}  // namespace

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_word_character(char c) { return is_digit(c) || is_capital(c) || (c >= 'a' && c <= 'z') || c == '_'; }

bool is_meta_name(std::string_view text) {
  return !text.empty() && is_capital(text[0]) && std::all_of(text.begin(), text.end(), [](char c) {
    return is_capital(c) || is_digit(c) || c == '_';
  });
}

std::string quoted(const Token& token) {
  constexpr std::size_t kLongest = 40;
  const std::string text(token.text.substr(0, kLongest));
  switch (token.kind) {
    case TokenKind::End:
      return "the end of the text";
    case TokenKind::Value:
      return fmt::format("'%{}'", text);
    case TokenKind::Symbol:
      return fmt::format("'@{}'", text);
    case TokenKind::String:
      return fmt::format("\"{}\"", text);
    case TokenKind::Word:
    case TokenKind::Integer:
    case TokenKind::Real:
    case TokenKind::Punctuation:
      break;
  }
  return fmt::format("'{}'", text);
}

Lexer::Lexer(std::string_view source, std::string_view file_name) : source_(source), file_name_(file_name) {
  if (source.size() > kMaxSourceBytes) {
    throw_caller(ErrorCode::LimitExceeded, "{}: {} bytes of text, expected at most {}", file_name,
                 source.size(), kMaxSourceBytes);
  }
}

std::int64_t Lexer::integer(const Token& token) const {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
  if (error != std::errc()) fail(token.offset, "{} is out of range", quoted(token));
  return value;
}

std::string Lexer::location(std::size_t offset) const {
  const std::string_view before = source_.substr(0, offset);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t line_start = before.rfind('\n') + 1;  // 0 where there is none
  return fmt::format("{}:{}:{}", file_name_, line, before.size() - line_start + 1);
}

void Lexer::skip_space() {
  while (position_ < source_.size()) {
    const char c = source_[position_];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      ++position_;
    } else if (source_.substr(position_, 2) == "//") {
      position_ = std::min(source_.find('\n', position_), source_.size());
    } else {
      return;
    }
  }
}

std::size_t Lexer::end_of_word(std::size_t from) const {
  while (from < source_.size() && is_word_character(source_[from])) ++from;
  return from;
}

Token Lexer::next() {
  skip_space();
  const std::size_t start = position_;
  if (start == source_.size()) return {TokenKind::End, {}, start};
  const char c = source_[start];
  if (is_digit(c)) return number();
  if (c == '"') return string();
  if (is_word_character(c)) {
    position_ = end_of_word(start);
    return {TokenKind::Word, source_.substr(start, position_ - start), start};
  }
  if (c == '%' || c == '@') {
    std::size_t end = end_of_word(start + 1);
    while (c == '@' && end < source_.size() && source_[end] == '.') end = end_of_word(end + 1);
    if (end == start + 1) fail(start, "got '{}', expected a name behind it", c);
    position_ = end;
    return {c == '%' ? TokenKind::Value : TokenKind::Symbol, source_.substr(start + 1, end - start - 1),
            start};
  }
  constexpr std::string_view kPunctuation = "()[]{}<>,:=+-*/?";
  if (kPunctuation.find(c) == std::string_view::npos) {
    if (c < ' ' || c > '~')
      fail(start, "got a byte of value {}, expected text", static_cast<unsigned char>(c));
    fail(start, "got '{}', which starts nothing", c);
  }
  ++position_;
  return {TokenKind::Punctuation, source_.substr(start, 1), start};
}

Token Lexer::number() {
  const std::size_t start = position_;
  const auto at = [&](std::size_t i) { return i < source_.size() ? source_[i] : '\0'; };
  const auto skip_digits = [&] {
    while (is_digit(at(position_))) ++position_;
  };
  skip_digits();
  bool real = false;
  if (at(position_) == '.' && is_digit(at(position_ + 1))) {
    real = true;
    ++position_;
    skip_digits();
  }
  if (at(position_) == 'e' || at(position_) == 'E') {
    const std::size_t sign = at(position_ + 1) == '+' || at(position_ + 1) == '-' ? 1 : 0;
    if (is_digit(at(position_ + 1 + sign))) {
      real = true;
      position_ += 1 + sign;
      skip_digits();
    }
  }
  return {real ? TokenKind::Real : TokenKind::Integer, source_.substr(start, position_ - start), start};
}

Token Lexer::string() {
  const std::size_t start = position_++;
  while (position_ < source_.size() && source_[position_] != '"' && source_[position_] != '\n') {
    position_ += source_[position_] == '\\' ? 2 : 1;
  }
  if (position_ >= source_.size() || source_[position_] != '"')
    fail(start, "this string has no closing quote");
  ++position_;
  return {TokenKind::String, source_.substr(start + 1, position_ - start - 2), start};
}

}  // namespace kiln::tile
