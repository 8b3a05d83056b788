// `kiln verify` on the ONNX project's own tests: whatever is not refused by name at load must be right, with
// generated kernels where there are any.
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/tools/command_runner.h"

namespace kiln::tools {
namespace {

constexpr const char* kData = "/usr/share/libonnx-testdata/data";

// Reasons to fail that are refusals: what Kiln does not have, said when the model is loaded.
bool is_refusal(const std::string& reason) {
  constexpr std::array kRefusals = {
      "is not supported",
      "only tensors are supported",
      "only inference is supported",
      "tf_half_pixel_for_nn is supported with modes nearest and floor only",
  };
  return std::any_of(kRefusals.begin(), kRefusals.end(),
                     [&](const char* text) { return reason.find(text) != std::string::npos; });
}

struct Mode {
  const char* name;
  std::vector<std::string> flags;
};
const std::array<Mode, 4> kModes = {{
    {"AsDeclared", {}},
    {"Dynamic", {"--dynamic"}},
    {"AsInitializers", {"--as-initializers"}},
    {"Avx2", {"--target", "x86-64-v3"}},
}};

class OnnxTests : public CommandTest, public testing::WithParamInterface<Mode> {};

TEST_P(OnnxTests, AreRightOrRefusedByName) {
  if (!std::filesystem::is_directory(kData)) GTEST_SKIP() << "no folder " << kData;
  std::vector<std::string> arguments = {"verify", kData, "--json", path("report.json")};
  arguments.insert(arguments.end(), GetParam().flags.begin(), GetParam().flags.end());
  const CommandResult result = kiln(arguments);
  ASSERT_GE(result.status, 0) << "killed by a signal";
  std::int64_t passed = 0;
  const nlohmann::json report = nlohmann::json::parse(read_file(path("report.json")));
  for (const nlohmann::json& test : report.at("tests")) {
    passed += test.at("verdict") == "passed";
    EXPECT_TRUE(test.at("verdict") != "failed" || is_refusal(test.at("reason"))) << test;
  }
  EXPECT_GE(passed, 850);
}

INSTANTIATE_TEST_SUITE_P(Conformance, OnnxTests, testing::ValuesIn(kModes),
                         [](const auto& mode) { return mode.param.name; });

}  // namespace
}  // namespace kiln::tools
