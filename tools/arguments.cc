#include "tools/arguments.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

namespace kiln::tools {
namespace {

// The number that is the whole word.
template <typename T>
std::optional<T> read(std::string_view word) {
  T value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

template <typename... Args>
[[noreturn]] void invalid(fmt::format_string<Args...> format, Args&&... args) {
  throw std::invalid_argument(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace

std::string parse_text(std::string_view word) {
  if (word.empty()) invalid("nothing is given");
  return std::string(word);
}

std::int64_t parse_whole(std::string_view word) {
  const auto value = read<std::int64_t>(word);
  if (!value) invalid("{} is no whole number of 64 bits", word);
  return *value;
}

std::int64_t parse_extent(std::string_view word) {
  const auto value = read<std::int64_t>(word);
  if (!value || *value < 0) invalid("{} is no extent, expected a whole number of 0 or more", word);
  return *value;
}

std::vector<std::int64_t> parse_extents(std::string_view word) {
  std::vector<std::int64_t> extents;
  for (std::size_t at = 0; at <= word.size();) {
    const std::size_t end = std::min(word.find('x', at), word.size());
    extents.push_back(parse_extent(word.substr(at, end - at)));
    at = end + 1;
  }
  return extents;
}

std::int64_t parse_bytes(std::string_view word) {
  constexpr std::string_view kUnits = "KMGT";
  const std::size_t unit = word.empty() ? std::string_view::npos : kUnits.find(word.back());
  const int shift = unit == std::string_view::npos ? 0 : 10 * (static_cast<int>(unit) + 1);
  const auto value = read<std::int64_t>(word.substr(0, word.size() - (shift > 0 ? 1 : 0)));
  if (!value || *value < 0 || *value > std::numeric_limits<std::int64_t>::max() >> shift)
    invalid("{} is no number of bytes, expected one such as 1000000, 64K, 1M or 2G", word);
  return *value << shift;
}

std::function<std::int64_t(std::string_view)> whole_from(std::int64_t low, std::int64_t high) {
  return [low, high](std::string_view word) {
    const auto value = read<std::int64_t>(word);
    if (!value || *value < low || *value > high)
      invalid("{} is no whole number from {} to {}", word, low, high);
    return *value;
  };
}

std::function<double(std::string_view)> number_from(double low, double high) {
  return [low, high](std::string_view word) {
    const auto value = read<double>(word);
    if (!value || !(*value >= low && *value <= high))
      invalid("{} is no number from {} to {}", word, low, high);
    return *value;
  };
}

void bad_argument(const std::string& flag, const std::string& message) {
  throw CLI::ValidationError(flag, message);
}

std::pair<std::string, std::string> split(const std::string& flag, const std::string& word, SplitAt where,
                                          const std::string& form) {
  const char separator = form[form.find_first_of("=:")];
  const std::size_t at = where == SplitAt::First ? word.find(separator) : word.rfind(separator);
  if (at == std::string::npos || at == 0 || at + 1 == word.size())
    bad_argument(flag, fmt::format("{} is not of the form {}", word, form));
  return {word.substr(0, at), word.substr(at + 1)};
}

}  // namespace kiln::tools
