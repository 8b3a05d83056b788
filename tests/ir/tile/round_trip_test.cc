// Every program under tests/golden/tile parses, verifies, prints in normal form (compared with NAME.normal),
// and comes back equal from its print.
#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ir/tile/passes/passes.h"
#include "ir/tile/text.h"
#include "tests/support/golden.h"

namespace kiln::tile {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> programs() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(testing::golden_path("tile"))) {
    if (entry.path().extension() == ".tile") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class RoundTrip : public ::testing::TestWithParam<std::string> {};

TEST_P(RoundTrip, PrintsTheNormalFormAndReadsItBack) {
  const std::string file = GetParam() + ".tile";
  const std::string source = testing::read_file(testing::golden_path("tile/" + file));
  const std::vector<Kernel> kernels = parse_kernels(source, file);
  ASSERT_FALSE(kernels.empty());
  std::string printed;
  for (const Kernel& kernel : kernels) printed += print(kernel);
  testing::expect_golden("tile/" + GetParam() + ".normal", printed);

  const std::vector<Kernel> again = parse_kernels(printed, GetParam() + ".normal");
  ASSERT_EQ(again.size(), kernels.size());
  std::string printed_again;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    EXPECT_EQ(canonical_bytes(again[i]), canonical_bytes(kernels[i]));
    EXPECT_EQ(again[i].name, kernels[i].name);
    printed_again += print(again[i]);
  }
  EXPECT_EQ(printed_again, printed);
}

// The indented kernels of docs/tile-ir.md are programs of the language.
TEST(Documentation, ExamplesParse) {
  std::istringstream page(testing::read_file(fs::path(KILN_SOURCE_DIR) / "docs/tile-ir.md"));
  std::string line, program;
  int kernels = 0;
  while (std::getline(page, line)) {
    if (!program.empty() || line.starts_with("    kernel @")) program += line + "\n";
    if (line != "    }" || program.empty()) continue;
    EXPECT_EQ(parse_kernels(program, "tile-ir.md").size(), 1u);
    program.clear();
    ++kernels;
  }
  EXPECT_GE(kernels, 1);
  EXPECT_EQ(program, "");
}

INSTANTIATE_TEST_SUITE_P(Programs, RoundTrip, ::testing::ValuesIn(programs()),
                         [](const auto& name) { return name.param; });

}  // namespace
}  // namespace kiln::tile
