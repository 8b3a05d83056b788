// `kiln verify` on the ONNX project's own tests: whatever is not refused by name at load must be right, and
// of each class of operators that is counted, nine tests in ten need no reference kernel.
#include <array>
#include <cstdlib>

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

void expect_generated_kernels(const nlohmann::json& report) {
  EXPECT_EQ(report.at("classes").size(), 9U) << "a class without tests";
  for (const auto& [name, counts] : report.at("classes").items()) {
    for (const auto& [types, count] : counts.items()) {
      const int tests = count.at("tests"), without_fallback = count.at("without_fallback");
      EXPECT_GE(10 * without_fallback, 9 * tests) << name << " of " << types << ": " << count;
      if (10 * without_fallback >= 9 * tests) continue;
      for (const nlohmann::json& test : report.at("tests")) {
        if (test.at("class") == name && test.at("types") == types && test.at("fallback_nodes") > 0)
          ADD_FAILURE() << test;
      }
    }
  }
}

struct Mode {
  const char* name;
  std::vector<std::string> flags;
  bool is_counted = false;  // how many tests need no reference kernel
};
const std::array<Mode, 4> kModes = {{
    {"AsDeclared", {}, true},
    {"Dynamic", {"--dynamic"}},
    {"AsInitializers", {"--as-initializers"}},
    {"Avx2", {"--target", "x86-64-v3"}, true},
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
  if (GetParam().is_counted) expect_generated_kernels(report);
}

INSTANTIATE_TEST_SUITE_P(Conformance, OnnxTests, testing::ValuesIn(kModes),
                         [](const auto& mode) { return mode.param.name; });

class NewestOnnxTests : public CommandTest {};

TEST_F(NewestOnnxTests, NeedFewReferenceKernels) {
  const char* shared = std::getenv("KILN_SHARED");
  const std::filesystem::path archive =
      std::filesystem::path(shared != nullptr ? shared : KILN_SOURCE_DIR "/../shared") /
      "onnx-backend-tests" / "node.tar.xz";
  if (!std::filesystem::exists(archive)) GTEST_SKIP() << "no archive " << archive;
  const std::string unpack = fmt::format("tar -xJf '{}' -C '{}'", archive.string(), path("").string());
  ASSERT_EQ(std::system(unpack.c_str()), 0) << unpack;  // NOLINT(bugprone-command-processor): our own words
  const CommandResult result = kiln({"verify", path("node"), "--json", path("report.json")});
  EXPECT_EQ(result.status, 0) << result.out;
  expect_generated_kernels(nlohmann::json::parse(read_file(path("report.json"))));
}

}  // namespace
}  // namespace kiln::tools
