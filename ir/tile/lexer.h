// Tokens of the text form. Line ends are white space; `//` starts a comment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ir/base/errors.h"

namespace kiln::tile {

enum class TokenKind : std::uint8_t {
  End,
  Word,         // a letter or _, then letters, digits and _
  Value,        // %name or %12; text is without the %
  Symbol,       // @name; text is without the @
  Integer,      // digits
  Real,         // digits with a fraction, an exponent or both
  String,       // text is between the quotes, escapes kept
  Punctuation,  // one character
};

struct Token {
  TokenKind kind = TokenKind::End;
  std::string_view text;
  std::size_t offset = 0;  // of the first character, in the source

  bool is(char punctuation) const { return kind == TokenKind::Punctuation && text[0] == punctuation; }
  bool is(std::string_view word) const { return kind == TokenKind::Word && text == word; }
};

class Lexer {
 public:
  // Both outlive the Lexer. Throws Error (caller, limit_exceeded) for a source larger than kMaxSourceBytes.
  static constexpr std::size_t kMaxSourceBytes = std::size_t{4} << 20;
  Lexer(std::string_view source, std::string_view file_name);

  // The token at the current position, which moves behind it.
  Token next();

  // For shapes, which are read by character: `64xBNxf32` is no sequence of tokens.
  std::string_view source() const { return source_; }
  std::size_t position() const { return position_; }
  void seek(std::size_t position) { position_ = position; }

  // The value of a token of digits.
  std::int64_t integer(const Token& token) const;

  // "file:line:column" of an offset.
  std::string location(std::size_t offset) const;
  template <typename... Args>
  [[noreturn]] void fail(std::size_t offset, fmt::format_string<Args...> format, Args&&... args) const {
    throw_caller(ErrorCode::InvalidArgument, "{}: {}", location(offset),
                 fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  void skip_space();
  std::size_t end_of_word(std::size_t from) const;
  Token number();
  Token string();

  std::string_view source_;
  std::string_view file_name_;
  std::size_t position_ = 0;
};

bool is_digit(char c);
bool is_word_character(char c);  // letters, digits and _
// Capitals, digits and _, starting with a capital: the names that meta parameters have.
bool is_meta_name(std::string_view text);

// How a token reads in a message.
std::string quoted(const Token& token);

}  // namespace kiln::tile
