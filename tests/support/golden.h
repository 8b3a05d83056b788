// Golden tests: text compared with a file under tests/golden. KILN_UPDATE_GOLDEN=1 in the environment
// rewrites the file instead, and the change is reviewed as a diff.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace kiln::testing {

inline std::filesystem::path golden_path(std::string_view name) {
  return std::filesystem::path(KILN_SOURCE_DIR) / "tests/golden" / name;
}

// The whole file; the test fails, and gets nothing, if it cannot be read.
inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << "cannot read " << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// `name` is relative to tests/golden.
inline void expect_golden(std::string_view name, std::string_view text) {
  const std::filesystem::path path = golden_path(name);
  const char* const update = std::getenv("KILN_UPDATE_GOLDEN");
  if (update && std::string_view(update) == "1") {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  EXPECT_EQ(read_file(path), text) << "differs from " << path
                                   << "; if the change is meant, run the test again with "
                                   << "KILN_UPDATE_GOLDEN=1 and review the diff";
}

}  // namespace kiln::testing
