// run, bench, explain and verify on the digit models.
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <kiln/kiln.h>
#include <kiln/tensor_file.h>
#include <nlohmann/json.hpp>

#include "tests/tools/command_runner.h"

namespace kiln::tools {
namespace {

class ModelCommands : public CommandTest {
 protected:
  const std::string model_ = digits("digits_cnn.onnx");
  const std::string images_ = "image=" + digits("test_images.npy");

  // The probabilities that `kiln run` writes, with further arguments.
  Tensor run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"run", model_, "--output-dir", path("out")});
    succeed(arguments);
    return read_tensor(path("out/probabilities.npy"));
  }

  // A folder in the ONNX test layout; `error` is added to what is expected of one element.
  void make_test(const std::string& name, float error) const {
    const std::filesystem::path folder = path(name);
    std::filesystem::create_directories(folder / "test_data_set_0");
    std::filesystem::copy_file(model_, folder / "model.onnx");
    const Tensor images = read_tensor(digits("test_images.npy"));
    const Tensor three = Tensor::from<float>(DType::F32, {3, 1, 8, 8}, images.as<float>().first(3 * 64));
    Options options;
    options.kernels = KernelChoice::Reference64;
    const Tensor truth = Session::load(model_, options).run({{"image", three}}).at(0);
    Tensor expected(DType::F32, {3, 10});
    std::transform(truth.as<double>().begin(), truth.as<double>().end(), expected.as_mutable<float>().begin(),
                   [](double value) { return static_cast<float>(value); });
    expected.as_mutable<float>()[7] += error;
    write_tensor(folder / "test_data_set_0/input_0.pb", three, "image");
    write_tensor(folder / "test_data_set_0/output_0.pb", expected, "probabilities");
  }
};

std::string last_line(const std::string& text) {
  const std::size_t before = text.rfind('\n', text.size() - 2);
  return text.substr(before == std::string::npos ? 0 : before + 1);
}

TEST_F(ModelCommands, RunReadsDigits) {
  const Tensor labels = read_tensor(digits("test_labels.npy"));
  for (const char* kernels : {"generated", "reference"}) {
    const Tensor probabilities = run({"--input", images_, "--kernels", kernels});
    ASSERT_EQ(probabilities.extents(), (Extents{labels.elements(), 10}));
    std::int64_t right = 0;
    for (std::int64_t i = 0; i < labels.elements(); ++i) {
      const auto row = probabilities.as<float>().subspan(static_cast<std::size_t>(10 * i), 10);
      right += std::max_element(row.begin(), row.end()) - row.begin() ==
               labels.as<std::int64_t>()[static_cast<std::size_t>(i)];
    }
    EXPECT_GE(right, labels.elements() * 97 / 100) << kernels;
  }
}

TEST_F(ModelCommands, RandomInputsFollowTheSeed) {
  const Tensor first = run({"--dim", "batch=5", "--random-seed", "1"});
  EXPECT_EQ(first.extents(), (Extents{5, 10}));
  EXPECT_EQ(run({"--shape", "image:5x1x8x8", "--random-seed", "1"}), first);
  EXPECT_FALSE(run({"--dim", "batch=5", "--random-seed", "2"}) == first);
  EXPECT_EQ(run({"--dim", "batch=0"}).extents(), (Extents{0, 10}));
}

TEST_F(ModelCommands, RunSaysWhatBecameOfTheKernels) {
  EXPECT_NE(last_line(succeed({"run", model_, "--dim", "batch=2"})).find(" 0 from the cache"),
            std::string::npos);
  EXPECT_TRUE(last_line(succeed({"run", model_, "--dim", "batch=9"})).starts_with("0 kernels compiled"));
  const CommandResult verbose = kiln({"run", model_, "--dim", "batch=2", "--cache", "off", "--verbose"});
  EXPECT_EQ(verbose.status, 0);
  EXPECT_GT(count_lines(verbose.err), 3) << verbose.err;
}

TEST_F(ModelCommands, BenchReportsAsJson) {
  const std::vector<std::string> arguments = {"bench", model_,     "--dim", "batch=4", "--iterations",
                                              "7",     "--warmup", "1",     "--json"};
  std::int64_t compiled = 0;
  for (const bool warm : {false, true}) {
    const std::string out = succeed(arguments);
    EXPECT_EQ(count_lines(out), 1) << out;
    const nlohmann::json report = nlohmann::json::parse(out);
    EXPECT_EQ(report.at("model"), "digits_cnn.onnx");
    EXPECT_EQ(report.at("device"), "cpu");
    EXPECT_EQ(report.at("iterations"), 7);
    EXPECT_EQ(report.at("fallback_nodes"), 0);
    EXPECT_GE(report.at("threads"), 1);
    for (const char* key : {"load_ms", "first_run_ms", "min_ms", "planned_bytes", "peak_rss_bytes"})
      EXPECT_GT(report.at(key), 0) << key;
    EXPECT_LE(report.at("min_ms"), report.at("median_ms"));
    EXPECT_LE(report.at("median_ms"), report.at("p90_ms"));
    EXPECT_LE(report.at("p90_ms"), report.at("p99_ms"));
    if (warm) {
      EXPECT_EQ(report.at("kernels_compiled"), 0);
      EXPECT_EQ(report.at("kernels_from_cache"), compiled);
    } else {
      compiled = report.at("kernels_compiled");
      EXPECT_GT(compiled, 0);
    }
  }
  const std::string plain = succeed({"bench", model_, "--dim", "batch=4", "--iterations", "3"});
  EXPECT_NE(plain.find("median_ms"), std::string::npos);
}

TEST_F(ModelCommands, ExplainShowsEveryStage) {
  const std::vector<std::pair<std::string, std::string>> stages = {
      {"graph", "Conv"},
      {"regions", "template convolution"},
      {"plan", "symbol batch = 8"},
      {"tile", "kernel @"},
      {"llvm", "define "},
      {"asm", "vfmadd"},
  };
  for (const auto& [stage, expected] : stages) {
    std::vector<std::string> arguments = {"explain", model_, "--stage", stage, "--target", "x86-64-v3"};
    if (stage == "plan") arguments.insert(arguments.end(), {"--dim", "batch=8"});
    EXPECT_NE(succeed(arguments).find(expected), std::string::npos) << stage;
  }
  const std::string all = succeed({"explain", model_, "--stage", "tile"});
  const std::string some = succeed({"explain", model_, "--stage", "tile", "--filter", "softmax"});
  EXPECT_LT(some.size(), all.size());
  EXPECT_NE(all.find(some), std::string::npos);
}

TEST_F(ModelCommands, VerifyCountsWhatPassed) {
  make_test("tests/good", 0);
  EXPECT_EQ(last_line(succeed({"verify", path("tests")})), "1 passed, 0 failed, 0 skipped\n");
  EXPECT_EQ(last_line(succeed({"verify", path("tests"), "--dynamic"})), "1 passed, 0 failed, 0 skipped\n");
  EXPECT_EQ(last_line(succeed({"verify", path("tests"), "--as-initializers"})),
            "1 passed, 0 failed, 0 skipped\n");

  make_test("tests/deep/bad", 0.25F);
  std::filesystem::create_directories(path("tests/bare"));
  std::filesystem::copy_file(model_, path("tests/bare/model.onnx"));
  const CommandResult result = kiln({"verify", path("tests"), "--json", path("report.json")});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(last_line(result.out), "1 passed, 1 failed, 1 skipped\n");
  EXPECT_NE(result.out.find("output probabilities: element 7 is"), std::string::npos) << result.out;
  const nlohmann::json whole = nlohmann::json::parse(read_file(path("report.json")));
  const nlohmann::json& report = whole.at("tests");
  ASSERT_EQ(report.size(), 3U);
  EXPECT_EQ(report[0].at("verdict"), "skipped");
  EXPECT_EQ(report[1].at("verdict"), "failed");
  EXPECT_EQ(report[2].at("verdict"), "passed");
  EXPECT_EQ(report[2].at("fallback_nodes"), 0);
  EXPECT_EQ(report[2].at("class"), "convolution");
  EXPECT_EQ(whole.at("classes").dump(),
            R"({"convolution":{"f32 i32 i64 i1":{"tests":2,"without_fallback":1}}})");
  EXPECT_EQ(kiln({"verify", path("tests/deep"), "--atol", "0.3"}).status, 0);
  make_test("infinite", std::numeric_limits<float>::infinity());  // which no tolerance reaches
  EXPECT_EQ(last_line(kiln({"verify", path("infinite")}).out), "0 passed, 1 failed, 0 skipped\n");
}

TEST_F(ModelCommands, VerifyPrintsItsRules) {
  const std::string rules = succeed({"verify", "--rules"});
  EXPECT_NE(rules.find("test_bernoulli"), std::string::npos);
  EXPECT_EQ(rules.find(": \n"), std::string::npos) << "a rule without a reason";
}

}  // namespace
}  // namespace kiln::tools
