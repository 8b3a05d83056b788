// kernel and cache: tile text on its own, and the file that compiled kernels live in.
#include <cmath>
#include <numeric>

#include <kiln/tensor_file.h>

#include "tests/tools/command_runner.h"

namespace kiln::tools {
namespace {

using KernelCommands = CommandTest;
using CacheCommands = CommandTest;

TEST_F(KernelCommands, CheckPrintsTheNormalForm) {
  for (const char* file : {"softmax.tile", "bias_gelu.tile", "gemm_gelu.tile"}) {
    const std::string normal = succeed({"kernel", "check", golden(file)});
    EXPECT_TRUE(normal.starts_with("kernel @")) << normal;
    std::ofstream(path("normal.tile")) << normal;
    EXPECT_EQ(succeed({"kernel", "check", path("normal.tile")}), normal);
  }
  EXPECT_NE(succeed({"kernel", "check", golden("softmax.tile"), "--set", "BLOCK=512"}).find("1x512xf32"),
            std::string::npos);
  fail({"kernel", "check", golden("softmax.tile"), "--set", "BLOCK"}, 1,
       "BLOCK is not of the form NAME=NUMBER");
  fail({"kernel", "check", golden("softmax.tile"), "--set", "WIDTH=4"}, 1, "WIDTH");
}

TEST_F(KernelCommands, RunComputesSoftmax) {
  constexpr std::int64_t kRows = 5, kColumns = 131;
  Tensor x(DType::F32, {kRows, kColumns});
  for (std::size_t i = 0; i < x.as<float>().size(); ++i)
    x.as_mutable<float>()[i] = static_cast<float>(i * 37 % 101) / 10 - 5;
  write_tensor(path("x.npy"), x);
  for (const char* target : {"native", "x86-64-v3"}) {
    const std::string out =
        succeed({"kernel", "run", golden("softmax.tile"), "--arg", "x=" + path("x.npy").string(), "--extents",
                 "y:5x131", "--interpret", "--output-dir", path(""), "--target", target});
    EXPECT_TRUE(out.starts_with("y: f32 5x131  largest difference from the interpreter: ")) << out;
    const Tensor y = read_tensor(path("y.npy"));
    ASSERT_EQ(y.extents(), x.extents());
    for (std::int64_t r = 0; r < kRows; ++r) {
      double sum = 0;
      for (std::int64_t c = 0; c < kColumns; ++c)
        sum += std::exp(static_cast<double>(x.as<float>()[static_cast<std::size_t>(r * kColumns + c)]));
      for (std::int64_t c = 0; c < kColumns; ++c) {
        const auto i = static_cast<std::size_t>(r * kColumns + c);
        const double expected = std::exp(static_cast<double>(x.as<float>()[i])) / sum;
        EXPECT_NEAR(static_cast<double>(y.as<float>()[i]), expected, 1e-6 * expected) << i;
      }
    }
  }
}

TEST_F(KernelCommands, RunAgreesWithTheInterpreter) {
  succeed(
      {"kernel", "run", golden("softmax.tile"), "--extents", "x:3x1", "--extents", "y:3x1", "--interpret"});
  succeed(
      {"kernel", "run", golden("softmax.tile"), "--extents", "x:0x7", "--extents", "y:0x7", "--interpret"});
  succeed({"kernel", "run", golden("bias_gelu.tile"), "--extents", "x:7x65", "--extents", "b:65", "--extents",
           "y:7x65", "--interpret"});
}

TEST_F(KernelCommands, ListingsShowGeneratedCode) {
  EXPECT_NE(succeed({"kernel", "run", golden("softmax.tile"), "--listing", "llvm"}).find("define "),
            std::string::npos);
  EXPECT_NE(succeed({"kernel", "run", golden("softmax.tile"), "--listing", "asm"}).find("ret"),
            std::string::npos);
}

TEST_F(KernelCommands, WrongArgumentsGiveOneLine) {
  const std::string file = golden("softmax.tile");
  fail({"kernel", "run", file}, 1, "give parameter x (view<?x?xf32>)");
  fail({"kernel", "run", file, "--name", "magic"}, 1, "no kernel magic");
  fail({"kernel", "run", file, "--extents", "x:5", "--extents", "y:5"}, 1, "expected view<?x?xf32>");
  fail({"kernel", "run", file, "--extents", "x:5xq", "--extents", "y:5x5"}, 1, "q is no extent");
  fail({"kernel", "run", file, "--extents", "x:5x5", "--extents", "y:5x5", "--extents", "z:1"}, 1,
       "no parameter z; its parameters are: x, y");
}

TEST_F(CacheCommands, LookingMakesNoFile) {
  fail({"cache", "ls"}, 1, "no kernel cache at");
  fail({"cache", "stats", "--cache", path("none.sqlite")}, 1, "none.sqlite");
  fail({"cache", "ls", "--cache", "off"}, 1, "--cache off");
  EXPECT_FALSE(std::filesystem::exists(path("none.sqlite")));
  std::ofstream(path("text")) << std::string(5000, 'x');
  fail({"cache", "ls", "--cache", path("text")}, 1, "text");
}

TEST_F(CacheCommands, KernelsAreListedCheckedAndCollected) {
  const std::string file = path("kernels.sqlite");
  succeed({"run", digits("digits_mlp.onnx"), "--dim", "batch=2", "--cache", file});
  const std::string kernels = succeed({"cache", "ls", "--cache", file});
  const auto count = count_lines(kernels);
  EXPECT_GT(count, 3);
  EXPECT_EQ(kernels.find("another build"), std::string::npos);
  const std::string stats = succeed({"cache", "stats", "--cache", file});
  EXPECT_NE(stats.find("kernels    " + std::to_string(count) + "\n"), std::string::npos) << stats;
  EXPECT_NE(stats.find(file), std::string::npos);
  EXPECT_EQ(succeed({"cache", "verify", "--cache", file}),
            std::to_string(count) + " kernels checked, 0 damaged and removed\n");
  EXPECT_EQ(succeed({"cache", "gc", "--max-bytes", "100000000", "--cache", file}), "0 kernels removed\n");
  EXPECT_EQ(succeed({"cache", "gc", "--cache", file}), std::to_string(count) + " kernels removed\n");
  EXPECT_EQ(succeed({"cache", "ls", "--cache", file}), "");
}

}  // namespace
}  // namespace kiln::tools
