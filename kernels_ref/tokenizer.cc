// com.microsoft.Tokenizer: strings cut into tokens, by characters, at separators, or by what tokens look
// like.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <re2/re2.h>
#include <unistr.h>

#include "ir/base/errors.h"
#include "ir/base/pattern.h"
#include "kernels_ref/arguments.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/utf8.h"

namespace kiln::reference {
namespace {

using Tokens = std::vector<std::string_view>;

std::int64_t characters(std::string_view text) {
  return static_cast<std::int64_t>(u8_mbsnlen(bytes(text), text.size()));
}

// Bytes of the first character of a text that is not empty.
std::size_t first_character(std::string_view text) {
  return static_cast<std::size_t>(std::max(1, u8_mblen(bytes(text), text.size())));
}

class Cutter {
 public:
  explicit Cutter(const graph::Node& node) : least_(integer(node, "mincharnum")) {
    if (has(node, "tokenexp")) {
      if (has(node, "separators"))
        throw_caller(ErrorCode::InvalidModel, "both separators and tokenexp are given");
      add_pattern(text(node, "tokenexp"));
      return;
    }
    by_separators_ = true;
    if (!has(node, "separators"))
      throw_caller(ErrorCode::InvalidModel, "neither separators nor tokenexp is given");
    const auto separators = texts(node, "separators");
    by_characters_ = separators.size() == 1 && separators[0].empty();
    if (by_characters_) return;
    for (const std::string& separator : separators) add_pattern(separator);
  }

  Tokens cut(std::string_view text) const {
    if (by_characters_) return characters_of(text);
    if (!by_separators_) return matches_in(text);
    Tokens tokens = {text};
    for (const Pattern& separator : patterns_) {
      Tokens parts;
      for (const std::string_view token : tokens) split(token, *separator, parts);
      tokens = std::move(parts);
    }
    return tokens;
  }

 private:
  void add_pattern(const std::string& pattern) {
    if (pattern.empty()) throw_caller(ErrorCode::InvalidModel, "a pattern is empty");
    patterns_.push_back(compile_pattern(pattern));
  }

  // The first match from `start` on; nothing if there is none.
  static bool find(std::string_view text, std::size_t start, const re2::RE2& pattern,
                   std::string_view& match) {
    re2::StringPiece found;
    const re2::StringPiece whole(text.data(), text.size());
    if (!pattern.Match(whole, start, text.size(), re2::RE2::UNANCHORED, &found, 1)) return false;
    match = {found.data(), found.size()};
    return true;
  }

  static Tokens characters_of(std::string_view text) {
    Tokens tokens;
    for (; !text.empty(); text.remove_prefix(tokens.back().size()))
      tokens.push_back(text.substr(0, first_character(text)));
    return tokens;
  }

  bool long_enough(std::string_view token) const { return !token.empty() && characters(token) >= least_; }

  Tokens matches_in(std::string_view text) const {
    Tokens tokens;
    std::string_view match;
    for (std::size_t start = 0; start < text.size() && find(text, start, *patterns_[0], match);) {
      if (long_enough(match)) tokens.push_back(match);
      start = static_cast<std::size_t>(match.data() - text.data()) + match.size();
      if (match.empty() && start < text.size()) start += first_character(text.substr(start));
    }
    return tokens;
  }

  void split(std::string_view text, const re2::RE2& separator, Tokens& parts) const {
    std::size_t token = 0, start = 0;
    std::string_view match;
    while (start < text.size() && find(text, start, separator, match)) {
      const auto place = static_cast<std::size_t>(match.data() - text.data());
      if (match.empty()) {
        if (place == text.size()) break;
        start = place + first_character(text.substr(place));
        continue;
      }
      if (long_enough(text.substr(token, place - token))) parts.push_back(text.substr(token, place - token));
      token = start = place + match.size();
    }
    if (long_enough(text.substr(token))) parts.push_back(text.substr(token));
  }

  std::int64_t least_;
  bool by_separators_ = false, by_characters_ = false;
  std::vector<Pattern> patterns_;
};

}  // namespace

void tokenizer(Call& call) {
  const Tensor& x = call.input(0);
  const Cutter cutter(call.node);
  const bool mark = integer(call.node, "mark") != 0;
  const std::string start(1, '\x02'), end(1, '\x03');
  std::vector<Tokens> rows;
  std::size_t width = 0;
  for (const std::string& item : x.as<std::string>()) {
    if (u8_check(bytes(item), item.size()) != nullptr)
      throw_caller(ErrorCode::InvalidArgument, "'{}' is not valid UTF-8", item);
    rows.push_back(cutter.cut(item));
    width = std::max(width, rows.back().size());
  }
  // Without any token there is nothing to mark.
  const std::size_t marks = mark && width > 0 ? 2 : 0;
  Extents extents = x.extents();
  extents.push_back(static_cast<std::int64_t>(width + marks));
  std::string* y = call.output(0, DType::String, extents).as_mutable<std::string>().data();
  for (const Tokens& row : rows) {
    std::string* const next = y + width + marks;
    if (marks > 0) *y++ = start;
    for (const std::string_view token : row) *y++ = token;
    if (marks > 0) *y++ = end;
    std::fill(y, next, text(call.node, "pad_value"));
    y = next;
  }
}

}  // namespace kiln::reference
