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
  for (const char* threads : {"-1", "4097", "two", "1.5", "0x1", "", "99999999999999999999"})
    fail({"run", model, "--threads", threads}, 2, "is no whole number from 0 to 4096");
  fail({"bench", model, "--dim", bound, "--iterations", "0"}, 2, "--iterations: 0 is no whole number from 1");
  fail({"bench", model, "--dim", bound, "--warmup", "-1"}, 2, "--warmup: -1 is no whole number from 0");
  for (const char* seed : {"-1", "99999999999999999999", "1e3"})
    fail({"run", model, "--dim", bound, "--random-seed", seed}, 2, "--random-seed: ");
  fail({"explain", model, "--stage", "magic"}, 2, "--stage: magic not in");
  for (const char* number : {"-1", "nan", "inf", "1e10", "1e-3x", ""}) {
    fail({"verify", ".", "--rtol", number}, 2, "--rtol: ");
    fail({"verify", ".", "--atol", number}, 2, "is no number from 0 to ");
  }
  for (const char* bytes : {"-1", "M", "1MB", "1.5M", "99999999999999999999", "99999999999T", ""})
    fail({"cache", "gc", "--max-bytes", bytes}, 2,
         "is no number of bytes, expected one such as 1000000, 64K");
  fail({"verify"}, 2, "FOLDER is required");
  fail({"cache", "ls", "--cache", "off"}, 2, "--cache: off leaves no cache to look at");
  fail({"run", model, "--threads", "1", "--threads", "2"}, 2, "--threads");
}

TEST_F(CommandLine, EmptyWordsAreNoFiles) {
  const std::string model = digits("digits_mlp.onnx");
  const std::string bound = "batch=1";
  fail({"run", ""}, 2, "model: nothing is given");
  fail({"run", model, "--dim", bound, "--output-dir", ""}, 2, "--output-dir: nothing is given");
  fail({"run", model, "--dim", bound, "--cache", ""}, 2, "--cache: nothing is given");
  fail({"run", model, "--input", "image="}, 2, "--input: image= is not of the form INPUT=FILE");
  fail({"verify", ".", "--json", ""}, 2, "--json: nothing is given");
  fail({"explain", model, "--filter", ""}, 2, "--filter: nothing is given");
  fail({"kernel", "check", ""}, 2, "file: nothing is given");
  fail({"kernel", "run", golden("softmax.tile"), "--name", ""}, 2, "--name: nothing is given");
  fail({"kernel", "run", golden("softmax.tile"), "--output-dir", ""}, 2, "--output-dir: nothing is given");
}

TEST_F(CommandLine, MalformedAndContradictingWordsGiveStatus2) {
  const std::string model = digits("digits_mlp.onnx");
  const std::string images = "image=" + digits("test_images.npy");
  for (const char* command : {"run", "bench", "explain"}) {
    fail({command, model, "--dim", "batch"}, 2, "--dim: batch is not of the form SYMBOL=N");
    fail({command, model, "--dim", "=2"}, 2, "--dim: =2 is not of the form SYMBOL=N");
    fail({command, model, "--dim", "batch=x"}, 2, "--dim: x is no extent");
    fail({command, model, "--dim", "batch=-1"}, 2, "--dim: -1 is no extent");
    fail({command, model, "--dim", "batch=99999999999999999999"}, 2, "99999999999999999999 is no extent");
    fail({command, model, "--dim", "batch=1", "--dim", "batch=2"}, 2, "--dim: batch is given twice");
    fail({command, model, "--shape", "image"}, 2, "--shape: image is not of the form INPUT:AxBxC");
    fail({command, model, "--shape", "image:2x1x8xy"}, 2, "--shape: y is no extent");
    fail({command, model, "--shape", "image:2xx8"}, 2, "is no extent");
    fail({command, model, "--shape", "image:2x1x8x8", "--shape", "image:2x1x8x8"}, 2, "image is given twice");
  }
  fail({"run", model, "--input", "image"}, 2, "--input: image is not of the form INPUT=FILE");
  fail({"run", model, "--input", images, "--input", images}, 2, "--input: image is given twice");
  fail({"run", model, "--input", images, "--shape", "image:2x1x8x8"}, 2,
       "--shape: image has its extents from --input");
  fail({"explain", model, "--stage", "graph", "--filter", "x"}, 2, "--filter: stage graph is shown whole");
  fail({"kernel", "check", golden("softmax.tile"), "--set", "BLOCK=128", "--set", "BLOCK=512"}, 2,
       "--set: BLOCK is given twice");
  fail({"kernel", "check", golden("softmax.tile"), "--set", "BLOCK"}, 2,
       "--set: BLOCK is not of the form NAME=NUMBER");
  fail({"kernel", "check", golden("softmax.tile"), "--set", "BLOCK=99999999999999999999"}, 2,
       "is no whole number of 64 bits");
  const auto run_kernel = [&](std::vector<std::string> arguments, const std::string& message) {
    arguments.insert(arguments.begin(), {"kernel", "run", golden("softmax.tile")});
    fail(arguments, 2, message);
  };
  run_kernel({"--extents", "y"}, "--extents: y is not of the form NAME:AxB");
  run_kernel({"--extents", "y:"}, "--extents: y: is not of the form NAME:AxB");
  run_kernel({"--extents", "x:5xq"}, "--extents: q is no extent");
  run_kernel({"--extents", "x:5x5", "--extents", "x:6x6"}, "--extents: x is given twice");
  run_kernel({"--arg", "x=a.npy", "--arg", "x=b.npy"}, "--arg: x is given twice");
  run_kernel({"--arg", "x=a.npy", "--extents", "x:5x5"}, "--arg: x has its extents from --extents");
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
    fail({command, empty, "--dim", "batch=1"}, 1, "empty.onnx' is empty");
  }
  const std::string model = digits("digits_mlp.onnx");
  fail({"run", model, "--input", "image=" + path("missing.npy").string()}, 1, "missing.npy");
  fail({"run", model, "--input", "image=" + text}, 1, "text.onnx is neither .npy nor .pb");
  fail({"run", model, "--dim", "batch=1", "--output-dir", "/proc/none"}, 1,
       "cannot make the folder /proc/none");
  fail({"verify", path("missing")}, 1, "missing does not exist");
  std::filesystem::create_directory(path("bare"));
  fail({"verify", path("bare")}, 1, "no folder with a model.onnx");
  fail({"verify", text}, 1, "text.onnx is not a folder");
  for (const char* name : {"empty.npy", "empty.pb"}) {
    std::ofstream(path(name)).close();
    fail({"run", model, "--input", "image=" + path(name).string()}, 1, "is empty");
  }
  std::filesystem::create_directory(path("folder.npy"));
  fail({"run", model, "--input", "image=" + path("folder.npy").string()}, 1, "not a regular file");
  std::ofstream(path("complex.npy"), std::ios::binary)
      << std::string("\x93NUMPY\x01\0\x3c\0", 10)
      << "{'descr': '<c16', 'fortran_order': False, 'shape': (1,), } \n" + std::string(16, '\0');
  fail({"run", model, "--input", "image=" + path("complex.npy").string()}, 1,
       "its elements are of NumPy type <c16, expected one of |b1, |i1,");
  fail({"kernel", "check", path("missing.tile")}, 1, "missing.tile");
  fail({"kernel", "check", path("bare")}, 1, "bare is not a regular file");
  std::ofstream(path("empty.tile")).close();
  for (const char* command : {"check", "run"})
    fail({"kernel", command, path("empty.tile")}, 1, "empty.tile has no kernel");
  fail({"kernel", "check", text}, 1, "text.onnx:1:1: ");
}

TEST_F(CommandLine, WrongInputsGiveOneLineAndStatus1) {
  const std::string model = digits("digits_mlp.onnx");
  fail({"run", model}, 1, "dimension 0 of input image is open; give --dim batch=N or --shape image:AxBxC");
  fail({"run", model, "--dim", "batch=9000000000000000000"}, 1, "overflows 64 bits");
  fail({"run", model, "--dim", "bacth=8"}, 1, "no dimension bacth; its open dimensions are: batch");
  fail({"run", model, "--shape", "image:2x1x8x8", "--dim", "bacth=8"}, 1, "no dimension bacth");
  fail({"run", model, "--shape", "image:2x1x8x8", "--dim", "batch=3"}, 1,
       "dimension batch is 3 elsewhere, but 2 in input image");
  for (const char* shape : {"2x1x8", "2x1x8x9"}) {
    const CommandResult result = kiln({"run", model, "--shape", fmt::format("image:{}", shape)});
    EXPECT_EQ(result.status, 1);
    EXPECT_NE(result.err.find(fmt::format("input image is {}, the model declares [batch, 1, 8, 8]", shape)),
              std::string::npos)
        << result.err;
  }
  fail({"run", model, "--shape", "picture:2x1x8x8"}, 1, "no input picture; its inputs are: image");
  fail({"run", model, "--input", "picture=a.npy"}, 1, "no input picture; its inputs are: image");
  fail({"run", model, "--input", "image=" + digits("test_labels.npy")}, 1, "has dtype i64, expected f32");
  fail({"explain", model, "--stage", "plan"}, 1, "dimension 0 of input image is open");
  for (const char* stage : {"graph", "regions", "plan", "tile", "llvm", "asm"}) {
    fail({"explain", model, "--stage", stage, "--dim", "bacth=8"}, 1, "no dimension bacth");
    fail({"explain", model, "--stage", stage, "--shape", "picture:8"}, 1, "no input picture");
  }
  fail({"explain", model, "--stage", "regions", "--filter", "magic"}, 1, "nothing has magic in its name");
}

}  // namespace
}  // namespace kiln::tools
