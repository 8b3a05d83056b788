// Help, and what is said about a command line, a file or an input that is wrong.
#include <map>

#include <fmt/format.h>

#include "tests/tools/command_runner.h"

namespace kiln::tools {
namespace {

using CommandLine = CommandTest;

TEST_F(CommandLine, HelpTeachesEveryFlag) {
  const std::map<std::string, std::vector<std::string>> flags = {
      {"", {"--device", "--target", "--kernels", "--threads", "--cache", "--verbose", "explain", "verify"}},
      {"run", {"MODEL", "--input", "--random-seed", "--output-dir", "--dim", "--shape"}},
      {"bench", {"MODEL", "--warmup", "--iterations", "--json", "--dim", "--shape", "--input"}},
      {"verify", {"FOLDER", "--rtol", "--atol", "--dynamic", "--as-initializers", "--json", "--rules"}},
      {"explain", {"MODEL", "--stage", "graph", "regions", "plan", "tile", "llvm", "asm", "--filter"}},
      {"cache", {"ls", "stats", "verify", "gc"}},
      {"kernel", {"check", "run"}},
  };
  for (const auto& [command, expected] : flags) {
    std::vector<std::string> arguments = {"--help"};
    if (!command.empty()) arguments.insert(arguments.begin(), command);
    const std::string help = succeed(arguments);
    EXPECT_NE(help.find("Usage: kiln"), std::string::npos) << help;
    for (const std::string& flag : expected)
      EXPECT_NE(help.find(flag), std::string::npos) << command << ": " << flag;
  }
  for (const char* command : {"check", "run"})
    EXPECT_NE(succeed({"kernel", command, "--help"}).find("--set"), std::string::npos);
  EXPECT_NE(succeed({"cache", "gc", "--help"}).find("--max-bytes"), std::string::npos);
}

TEST_F(CommandLine, Version) { EXPECT_EQ(succeed({"--version"}), "0.1.0\n"); }

TEST_F(CommandLine, WrongCommandLinesGiveOneLineAndStatus2) {
  const std::string model = digits("digits_mlp.onnx");
  const std::string bound = "batch=1";
  fail({}, 2, "subcommand is required (see kiln --help)");
  fail({"nonsense"}, 2, "unknown argument nonsense (see kiln --help)");
  fail({"cache"}, 2, "see kiln cache --help");
  fail({"cache", "nonsense"}, 2, "unknown argument nonsense (see kiln cache --help)");
  fail({"kernel"}, 2, "see kiln kernel --help");
  fail({"run"}, 2, "model is required (see kiln run --help)");
  fail({"run", "--nonsense"}, 2, "unknown argument --nonsense");
  fail({"run", model, "--nonsense"}, 2, "unknown argument --nonsense");
  fail({"run", model, "another.onnx"}, 2, "unknown argument another.onnx");
  fail({"run", model, "--dim"}, 2, "--dim");
  fail({"--device", "gpu", "run", model}, 2, "--device: gpu not in {cpu}");
  fail({"run", model, "--target", "armv8"}, 2, "--target: armv8 not in");
  fail({"run", model, "--kernels", "magic"}, 2, "--kernels: magic not in");
  fail({"run", model, "--threads", "-1"}, 2, "--threads: Value -1 not in range");
  fail({"run", model, "--threads", "two"}, 2, "--threads: Value two not in range");
  fail({"bench", model, "--dim", bound, "--iterations", "0"}, 2, "--iterations: Value 0 not in range");
  fail({"bench", model, "--dim", bound, "--warmup", "-1"}, 2, "--warmup: Value -1 not in range");
  fail({"explain", model, "--stage", "magic"}, 2, "--stage: magic not in");
  fail({"verify", ".", "--rtol", "-1"}, 2, "--rtol: Value -1 not in range");
  fail({"cache", "gc", "--max-bytes", "-1"}, 2, "--max-bytes: Value -1 not in range");
}

TEST_F(CommandLine, WrongFilesGiveOneLineAndStatus1) {
  const std::string text = path("text.onnx");
  std::ofstream(text) << "no model\n";
  const std::string empty = path("empty.onnx");
  std::ofstream(empty).close();
  for (const char* command : {"run", "bench", "explain"}) {
    fail({command, path("missing.onnx")}, 1, "missing.onnx");
    fail({command, path("")}, 1, "not a regular file");
    fail({command, text, "--dim", "batch=1"}, 1, "text.onnx");
    fail({command, empty, "--dim", "batch=1"}, 1, "empty.onnx");
  }
  const std::string model = digits("digits_mlp.onnx");
  fail({"run", model, "--input", "image=" + path("missing.npy").string()}, 1, "missing.npy");
  fail({"run", model, "--input", "image=" + text}, 1, "text.onnx is neither .npy nor .pb");
  fail({"run", model, "--dim", "batch=1", "--output-dir", "/proc/none"}, 1,
       "cannot make the folder /proc/none");
  fail({"verify", path("missing")}, 1, "missing does not exist");
  fail({"verify"}, 1, "no folder");
  std::filesystem::create_directory(path("bare"));
  fail({"verify", path("bare")}, 1, "no folder with a model.onnx");
  fail({"kernel", "check", path("missing.tile")}, 1, "missing.tile");
  fail({"kernel", "check", text}, 1, "text.onnx:1:1: ");
}

TEST_F(CommandLine, WrongInputsGiveOneLineAndStatus1) {
  const std::string model = digits("digits_mlp.onnx");
  fail({"run", model}, 1, "dimension 0 of input image is open; give --dim batch=N or --shape image:AxBxC");
  fail({"run", model, "--dim", "batch"}, 1, "batch is not of the form NAME=EXTENT");
  fail({"run", model, "--dim", "batch=x"}, 1, "x is no extent");
  fail({"run", model, "--dim", "batch=-1"}, 1, "-1 is no extent");
  fail({"run", model, "--dim", "batch=99999999999999999999"}, 1, "99999999999999999999 is no extent");
  fail({"run", model, "--dim", "batch=9000000000000000000"}, 1, "overflows 64 bits");
  fail({"run", model, "--dim", "bacth=8"}, 1, "no dimension bacth; its open dimensions are: batch");
  fail({"run", model, "--shape", "image:2x1x8x8", "--dim", "bacth=8"}, 1, "no dimension bacth");
  fail({"run", model, "--shape", "image:2x1x8x8", "--dim", "batch=3"}, 1,
       "dimension batch is 3 elsewhere, but 2 in input image");
  fail({"run", model, "--shape", "image:2x1x8"}, 1, "input image is 2x1x8, the model declares batchx1x8x8");
  fail({"run", model, "--shape", "image:2x1x8x9"}, 1,
       "input image is 2x1x8x9, the model declares batchx1x8x8");
  fail({"run", model, "--shape", "image:2x1x8xy"}, 1, "y is no extent");
  fail({"run", model, "--shape", "picture:2x1x8x8"}, 1, "no input picture; its inputs are: image");
  fail({"run", model, "--input", "picture=a.npy"}, 1, "no input picture; its inputs are: image");
  fail({"run", model, "--input", "image"}, 1, "image is not of the form NAME=FILE");
  fail({"run", model, "--input", "image=" + digits("test_labels.npy")}, 1, "has dtype i64, expected f32");
  const std::string images = "image=" + digits("test_images.npy");
  fail({"run", model, "--input", images, "--input", images}, 1, "image is given twice");
  fail({"explain", model, "--stage", "plan"}, 1, "dimension 0 of input image is open");
  fail({"explain", model, "--stage", "regions", "--filter", "magic"}, 1, "nothing has magic in its name");
}

}  // namespace
}  // namespace kiln::tools
