// The paper test in the interpreter, as the programs are written and after the passes.
#include <gtest/gtest.h>

#include "ir/tile/interpreter.h"
#include "ir/tile/passes/passes.h"
#include "tests/support/paper_programs.h"

namespace kiln::tile {

// NOLINTNEXTLINE(readability-identifier-naming): the name that GoogleTest looks for
void PrintTo(const PaperCase& paper, std::ostream* out) { *out << paper.name; }

namespace {

class Paper : public testing::TestWithParam<PaperCase> {};

TEST_P(Paper, EqualsPlainLoops) {
  EXPECT_EQ(GetParam().run([](const Kernel& kernel, std::span<const Argument> arguments) {
    interpret(kernel, arguments);
  }),
            "");
}

TEST_P(Paper, EqualsPlainLoopsAfterThePasses) {
  EXPECT_EQ(GetParam().run([](Kernel kernel, std::span<const Argument> arguments) {
    expand_functions(kernel);
    simplify(kernel);
    interpret(kernel, arguments);
  }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Programs, Paper, testing::ValuesIn(paper_cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace kiln::tile
