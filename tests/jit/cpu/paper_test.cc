// The paper test in generated code, for every instruction set that this machine runs.
#include <gtest/gtest.h>

#include "tests/support/kernel_runner.h"
#include "tests/support/paper_programs.h"

namespace kiln::tile {

// GoogleTest finds it by this name.
// NOLINTNEXTLINE(readability-identifier-naming)
void PrintTo(const PaperCase& paper, std::ostream* out) { *out << paper.name; }

}  // namespace kiln::tile

namespace kiln::jit {
namespace {

// A status as the Error that the interpreter throws.
void check(const KernelStatus& status) {
  switch (static_cast<StatusCode>(status.code)) {
    case StatusCode::Ok:
      return;
    case StatusCode::IndexOutOfRange:
      throw Error(ErrorKind::Caller, ErrorCode::IndexOutOfRange, "index out of range");
    case StatusCode::DivisionByZero:
      throw Error(ErrorKind::Caller, ErrorCode::DivisionByZero, "division by zero");
    case StatusCode::LocalTooLarge:
      throw Error(ErrorKind::Caller, ErrorCode::LimitExceeded, "local too large");
  }
}

class CompiledPaper : public testing::TestWithParam<std::tuple<Isa, tile::PaperCase>> {};

TEST_P(CompiledPaper, EqualsPlainLoops) {
  const auto& [isa, paper] = GetParam();
  const Target target = target_for_isa(isa);
  EXPECT_EQ(paper.run([&](const tile::Kernel& kernel, std::span<const tile::Argument> arguments) {
    check(compile_and_run(kernel, target, arguments));
  }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Programs, CompiledPaper,
                         testing::Combine(testing::ValuesIn(runnable_isas()),
                                          testing::ValuesIn(tile::paper_cases())),
                         [](const auto& test) {
                           return std::get<1>(test.param).name +
                                  (std::get<0>(test.param) == Isa::X86_64_V4 ? "_avx512" : "_avx2");
                         });

}  // namespace
}  // namespace kiln::jit
