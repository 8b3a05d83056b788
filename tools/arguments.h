// Words of the command line and what they mean. What is malformed, given twice or contradicts itself is an
// error of the command line, found before any file is read: exit status 2.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace kiln::tools {

// What a word means. Each throws std::invalid_argument that says what the word is not.
std::string parse_text(std::string_view word);                   // not empty
std::int64_t parse_whole(std::string_view word);                 // any whole number
std::int64_t parse_extent(std::string_view word);                // of 0 or more
std::vector<std::int64_t> parse_extents(std::string_view word);  // "8x3x224x224"
std::int64_t parse_bytes(std::string_view word);                 // "100", "64K", "1M", "2G": powers of 1024
std::function<std::int64_t(std::string_view)> whole_from(std::int64_t low, std::int64_t high);
std::function<double(std::string_view)> number_from(double low, double high);

// The error of a command line whose `flag` says something wrong.
[[noreturn]] void bad_argument(const std::string& flag, const std::string& message);

// Calls parse(word), with its error as that of `flag`.
template <typename Parse>
auto parse_as(const std::string& flag, const Parse& parse, std::string_view word) {
  try {
    return parse(word);
  } catch (const std::invalid_argument& error) {
    bad_argument(flag, error.what());
  }
}

// An option, or a word without a flag, that is given at most once.
template <typename T, typename Parse>
CLI::Option* add_value(CLI::App& command, const std::string& flag, T& value, Parse parse,
                       const std::string& description) {
  const auto read = [flag, parse, &value](const std::string& word) {
    value = static_cast<T>(parse_as(flag, parse, word));
  };
  CLI::Option* option = command.add_option_function<std::string>(flag, read, description);
  if constexpr (fmt::is_formattable<T>::value) {
    if (const std::string standard = fmt::format("{}", value); !standard.empty())
      option->default_str(standard);
  }
  return option;
}

// Name and value of "NAME=VALUE", as `form` says, at the first or the last separator.
enum class SplitAt : std::uint8_t { First, Last };
std::pair<std::string, std::string> split(const std::string& flag, const std::string& word, SplitAt where,
                                          const std::string& form);

// An option that is given any number of times, once for each name: `form` is "NAME=VALUE" or "NAME:VALUE".
template <typename T>
void add_named(CLI::App& command, const std::string& flag, const std::string& form, SplitAt where,
               std::map<std::string, T>& values, T (*parse)(std::string_view),
               const std::string& description) {
  const auto read = [flag, form, where, parse, &values](const std::vector<std::string>& words) {
    for (const std::string& word : words) {
      const auto [name, value] = split(flag, word, where, form);
      if (!values.emplace(name, parse_as(flag, parse, value)).second)
        bad_argument(flag, name + " is given twice");
    }
  };
  command.add_option_function<std::vector<std::string>>(flag, read, description)
      ->type_name(form)
      ->allow_extra_args(false);
}

// Throws the error of a command line that says with both flags what something is.
template <typename A, typename B>
void check_apart(const std::string& flag, const std::map<std::string, A>& values,
                 const std::string& other_flag, const std::map<std::string, B>& others) {
  for (const auto& [name, value] : values) {
    if (others.contains(name))
      bad_argument(flag, fmt::format("{} has its extents from {}", name, other_flag));
  }
}

}  // namespace kiln::tools
