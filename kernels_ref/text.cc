// Operators on strings, which are UTF-8.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <re2/re2.h>
#include <unicase.h>
#include <unictype.h>
#include <unistr.h>

#include "ir/base/pattern.h"
#include "kernels_ref/arguments.h"
#include "kernels_ref/broadcast.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"
#include "kernels_ref/utf8.h"

namespace kiln::reference {
namespace {

// Length in bytes of the white space that `text` starts with; malformed UTF-8 is none.
std::size_t white_space_prefix(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size()) {
    ucs4_t character = 0;
    const int size = u8_mbtouc(&character, bytes(text) + length, text.size() - length);
    if (!uc_is_property_white_space(character)) break;
    length += static_cast<std::size_t>(size);
  }
  return length;
}

// Length in bytes up to the next white space.
std::size_t word_length(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size() && white_space_prefix(text.substr(length, 4)) == 0) {
    ucs4_t character = 0;
    length += static_cast<std::size_t>(u8_mbtouc(&character, bytes(text) + length, text.size() - length));
  }
  return length;
}

// At most `limit` cuts; what is left after the last keeps its white space, but for that before it.
std::vector<std::string_view> split_at_white_space(std::string_view text, std::size_t limit) {
  std::vector<std::string_view> parts;
  for (text.remove_prefix(white_space_prefix(text)); !text.empty();
       text.remove_prefix(white_space_prefix(text))) {
    const std::size_t length = parts.size() < limit ? word_length(text) : text.size();
    parts.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return parts;
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view delimiter, std::size_t limit) {
  std::vector<std::string_view> parts;
  for (std::size_t end = 0; parts.size() < limit && (end = text.find(delimiter)) != std::string_view::npos;) {
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + delimiter.size());
  }
  parts.push_back(text);
  return parts;
}

using CaseMap = std::uint8_t* (*)(const std::uint8_t*, std::size_t, const char*, uninorm_t, std::uint8_t*,
                                  std::size_t*);

// `language`: the ISO 639 code that decides on special rules, or empty.
std::string mapped(const std::string& text, CaseMap map, const std::string& language) {
  if (text.empty()) return text;
  if (u8_check(bytes(text), text.size()) != nullptr)
    throw_caller(ErrorCode::InvalidArgument, "'{}' is not valid UTF-8", text);
  std::size_t length = 0;
  const std::unique_ptr<std::uint8_t, decltype(&std::free)> result(
      map(bytes(text), text.size(), language.empty() ? nullptr : language.c_str(), nullptr, nullptr, &length),
      &std::free);
  if (result == nullptr) throw_environment(ErrorCode::OutOfMemory, "cannot change the case of a string");
  return {reinterpret_cast<const char*>(result.get()), length};
}

}  // namespace

void string_concat(Call& call) {
  broadcast_binary<std::string, std::string, std::string>(
      call, call.input(0), call.input(1), 16,
      [](const std::string& a, const std::string& b) { return a + b; });
}

void string_split(Call& call) {
  const Tensor& x = call.input(0);
  const std::string delimiter = has(call.node, "delimiter") ? text(call.node, "delimiter") : "";
  const std::int64_t most = has(call.node, "maxsplit") ? integer(call.node, "maxsplit") : -1;
  const std::size_t limit = most < 0 ? SIZE_MAX : static_cast<std::size_t>(most);
  std::vector<std::vector<std::string_view>> parts;
  std::size_t width = 0;
  for (const std::string& item : x.as<std::string>()) {
    parts.push_back(delimiter.empty() ? split_at_white_space(item, limit) : split_at(item, delimiter, limit));
    width = std::max(width, parts.back().size());
  }
  Extents extents = x.extents();
  extents.push_back(static_cast<std::int64_t>(width));
  std::string* y = call.output(0, DType::String, extents).as_mutable<std::string>().data();
  std::int64_t* counts = call.output(1, DType::I64, x.extents()).as_mutable<std::int64_t>().data();
  for (const auto& list : parts) {
    *counts++ = static_cast<std::int64_t>(list.size());
    for (std::size_t i = 0; i < width; ++i) *y++ = i < list.size() ? std::string(list[i]) : std::string();
  }
}

void string_normalizer(Call& call) {
  const Tensor& x = call.input(0);
  if (x.rank() < 1 || x.rank() > 2 || (x.rank() == 2 && x.extents()[0] != 1)) {
    throw_caller(ErrorCode::ShapeMismatch, "expected strings of [C] or [1, C], got {}",
                 to_string(x.extents()));
  }
  const std::string& action = text(call.node, "case_change_action");
  const bool exact = integer(call.node, "is_case_sensitive") != 0;
  std::string language = has(call.node, "locale") ? text(call.node, "locale") : "";
  language.resize(std::min(language.find_first_of("_-."), language.size()));

  const auto comparable = [&](const std::string& item) {
    return exact ? item : mapped(item, u8_tolower, language);
  };
  std::unordered_set<std::string> stopwords;
  if (has(call.node, "stopwords")) {
    for (const std::string& word : texts(call.node, "stopwords")) stopwords.insert(comparable(word));
  }
  std::vector<std::string> kept;
  for (const std::string& item : x.as<std::string>()) {
    if (!stopwords.empty() && stopwords.contains(comparable(item))) continue;
    kept.push_back(action == "NONE" ? item
                                    : mapped(item, action == "LOWER" ? u8_tolower : u8_toupper, language));
  }
  if (kept.empty() && !stopwords.empty()) kept.emplace_back();
  Extents extents = {static_cast<std::int64_t>(kept.size())};
  if (x.rank() == 2) extents.insert(extents.begin(), 1);
  std::move(kept.begin(), kept.end(),
            call.output(0, DType::String, extents).as_mutable<std::string>().begin());
}

void regex_full_match(Call& call) {
  if (!has(call.node, "pattern")) throw_caller(ErrorCode::InvalidModel, "the attribute 'pattern' is missing");
  const Pattern pattern = compile_pattern(text(call.node, "pattern"));
  const Tensor& x = call.input(0);
  const std::string* items = x.as<std::string>().data();
  Boolean* y = call.output(0, DType::I1, x.extents()).as_mutable<Boolean>().data();
  for_range(call, x.elements(), 1024, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y[i] = re2::RE2::FullMatch(items[i], *pattern);
  });
}

}  // namespace kiln::reference
