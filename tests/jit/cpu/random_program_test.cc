// Random tile programs: compiled code against the interpreter, bit for bit where no order of evaluation
// enters.
#include "ir/tile/text.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/random_tile_program.h"

namespace kiln::jit {
namespace {

using tile::RandomProgram;

void compare(std::uint64_t seed, const tile::RandomProgramOptions& options) {
  RandomProgram program(seed, options);
  std::vector<RandomProgram::Buffer> expected = program.buffers;
  tile::interpret(program.kernel, RandomProgram::arguments(expected));
  for (const Isa isa : runnable_isas()) {
    std::vector<RandomProgram::Buffer> got = program.buffers;
    const KernelStatus status =
        compile_and_run(program.kernel, target_for_isa(isa), RandomProgram::arguments(got));
    EXPECT_EQ(status.code, 0) << "seed " << seed;
    const std::string difference = tile::difference(expected, got);
    ASSERT_EQ(difference, "") << "seed " << seed << " on " << name(isa) << "\n"
                              << tile::print(program.kernel);
  }
}

class RandomPrograms : public ::testing::TestWithParam<int> {};

TEST_P(RandomPrograms, AgreeWithTheInterpreter) {
  for (int k = 0; k < 10; ++k) compare(static_cast<std::uint64_t>(GetParam() * 10 + k), {});
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPrograms, ::testing::Range(0, 20));

}  // namespace
}  // namespace kiln::jit
