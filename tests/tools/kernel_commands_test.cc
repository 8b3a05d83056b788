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
  fail({"kernel", "run", file, "--extents", "x:1x70000", "--extents", "y:1x70000"}, 1,
       "a local of the kernel needs 65537 elements or more, beyond the max that it declares; raise the max");
  fail({"kernel", "run", file, "--extents", "x:5x5", "--extents", "y:5x5", "--extents", "z:1"}, 1,
       "no parameter z; its parameters are: x, y");
}

TEST_F(CacheCommands, LookingMakesNoFile) {
  fail({"cache", "ls"}, 1, "no kernel cache at");
  fail({"cache", "stats", "--cache", path("none.sqlite")}, 1, "none.sqlite");
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
  EXPECT_EQ(succeed({"cache", "gc", "--cache", file}), "0 kernels removed\n");
  EXPECT_EQ(succeed({"cache", "gc", "--max-bytes", "1M", "--cache", file}), "0 kernels removed\n");
  EXPECT_EQ(succeed({"cache", "gc", "--max-bytes", "0", "--cache", file}),
            std::to_string(count) + " kernels removed\n");
  EXPECT_EQ(succeed({"cache", "ls", "--cache", file}), "");
}

// One run of a digits model with this cache.
class CacheProblems : public CommandTest {
 protected:
  CommandResult run(const std::string& cache) const {
    return kiln({"run", digits("digits_mlp.onnx"), "--dim", "batch=2", "--threads", "1", "--cache", cache});
  }

  // The run succeeds, and says one thing on standard error.
  std::string warning_of(const CommandResult& result) const {
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(count_lines(result.err), 1) << result.err;
    EXPECT_TRUE(result.err.starts_with("kiln: warning: kernel cache: ")) << result.err;
    return result.err;
  }

  static bool compiles_nothing(const CommandResult& result) {
    return result.out.find("\n0 kernels compiled") != std::string::npos;
  }
};

TEST_F(CacheProblems, AnUnusableFileIsWarnedOfOnce) {
  std::filesystem::create_directory(path("folder"));
  std::ofstream(path("foreign")) << std::string(10'000, 'x');
  std::filesystem::create_symlink(path("nowhere"), path("link"));
  EXPECT_NE(warning_of(run(path("folder"))).find("folder is not a plain file; it is not used"),
            std::string::npos);
  EXPECT_NE(warning_of(run(path("foreign"))).find("foreign is not a kernel cache"), std::string::npos);
  EXPECT_NE(warning_of(run(path("link"))).find("link is not a plain file"), std::string::npos);
  EXPECT_NE(warning_of(run("/proc/none/kernels.sqlite")).find("it is not used"), std::string::npos);
  // A thousand Sessions say it once too.
  std::filesystem::create_directories(path("tests/a"));
  std::filesystem::create_directories(path("tests/b"));
  for (const char* test : {"tests/a/model.onnx", "tests/b/model.onnx"})
    std::filesystem::copy_file(digits("digits_mlp.onnx"), path(test));
  for (const char* set : {"tests/a/test_data_set_0", "tests/b/test_data_set_0"}) {
    std::filesystem::create_directory(path(set));
    write_tensor(path(std::string(set) + "/input_0.pb"), Tensor(DType::F32, {1, 1, 8, 8}));
    write_tensor(path(std::string(set) + "/output_0.pb"), Tensor(DType::F32, {1, 10}));
  }
  EXPECT_EQ(count_lines(kiln({"verify", path("tests"), "--cache", path("folder")}).err), 1);
}

TEST_F(CacheProblems, ADamagedFileHealsInOneRun) {
  const std::string sound = path("sound.sqlite");
  EXPECT_EQ(run(sound).err, "");
  const std::string bytes = read_file(sound);
  ASSERT_GT(bytes.size(), 8 * 4096U);
  // Pages behind the first are overwritten, or the file cut off there.
  const std::size_t pages = bytes.size() / 4096;
  for (std::size_t page = 1; page < pages; page += std::max<std::size_t>(1, pages / 7)) {
    SCOPED_TRACE(page);
    for (const bool cut : {false, true}) {
      std::string damaged = bytes;
      if (cut) {
        damaged.resize(page * 4096 + 100);
      } else {
        std::fill_n(damaged.begin() + static_cast<std::ptrdiff_t>(page * 4096), 4096, '\xa5');
      }
      const std::string file = path("damaged.sqlite");
      std::filesystem::remove(file + "-wal");
      std::filesystem::remove(file + "-shm");
      std::ofstream(file, std::ios::binary | std::ios::trunc) << damaged;
      std::filesystem::permissions(file, std::filesystem::perms(0600));
      const CommandResult first = run(file);
      EXPECT_EQ(first.status, 0);
      if (!first.err.empty()) warning_of(first);
      EXPECT_TRUE(first.err.empty() || !compiles_nothing(first) ||
                  first.err.find("is damaged") != std::string::npos);
      const CommandResult second = run(file);
      EXPECT_EQ(second.err, "");
      EXPECT_TRUE(compiles_nothing(second)) << first.out << first.err << second.out;
      // Damage may lie where no lookup comes: looking for it finds it once at most.
      kiln({"cache", "verify", "--cache", file});
      EXPECT_EQ(kiln({"cache", "verify", "--cache", file}).status, 0);
    }
  }
}

TEST_F(CacheProblems, VerifySaysWhatItDid) {
  const std::string file = path("kernels.sqlite");
  EXPECT_EQ(run(file).err, "");
  std::string bytes = read_file(file);
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 2 / 4096 * 4096), 4096, '\xa5');
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  const CommandResult verify = kiln({"cache", "verify", "--cache", file});
  EXPECT_EQ(verify.status, 1);
  EXPECT_NE(verify.out.find(" kernels checked, "), std::string::npos);
  const bool told = verify.err.find("is damaged") != std::string::npos ||
                    verify.out.find(" 0 damaged") == std::string::npos;
  EXPECT_TRUE(told) << verify.out << verify.err;
  const CommandResult again = kiln({"cache", "verify", "--cache", file});
  EXPECT_EQ(again.status, 0);
  EXPECT_NE(again.out.find(" 0 damaged and removed"), std::string::npos);
}

}  // namespace
}  // namespace kiln::tools
