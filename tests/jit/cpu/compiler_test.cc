#include "jit/llvm/compiler.h"

#include <gtest/gtest.h>
#include <kiln/error.h>

#include "ir/tile/text.h"
#include "jit/compile.h"
#include "tests/support/kernel_runner.h"

namespace kiln::jit {
namespace {

TEST(Compiler, FailureIsAnErrorAndTheNextCompileWorks) {
  for (int i = 0; i < 20; ++i) {
    const Error error = provoke_codegen_failure();
    EXPECT_EQ(error.kind(), ErrorKind::Bug);
    EXPECT_EQ(error.code(), ErrorCode::CompileFailed);
    EXPECT_NE(error.message().find("the code generator failed"), std::string::npos) << error.message();
    EXPECT_TRUE(emit_object(Target{}, [](llvm::Module&) {}));
  }
}

TEST(Compiler, ErrorsOfTheBuilderPassThrough) {
  const auto result = emit_object(
      Target{}, [](llvm::Module&) { throw Error(ErrorKind::Caller, ErrorCode::Refused, "too wide"); });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), ErrorCode::Refused);
}

// Micro-kernels are generated once in a process and their code is copied: that is to be seen nowhere.
TEST(Compiler, ObjectsDoNotDependOnWhatWasCompiledBefore) {
  const auto kernel = [](int depth) {
    const std::string k = std::to_string(depth);
    return tile::parse_kernels("kernel @dot(%a: view<?x" + k + "xf32>, %b: view<" + k +
                                   "x64xf32>, %c: out view<?x64xf32>) grid [ceildiv(dim(%a, 0), 24)] {\n"
                                   "  %i = program_id 0 * 24\n"
                                   "  %ab = contract (%k : 32) in (" +
                                   k +
                                   ") carry (%acc = 0.0 : tile<24x64xf32>) {\n"
                                   "    yield dot %acc, (load %a[%i, %k] : tile<24x32xf32>), "
                                   "(load %b[%k, 0] : tile<32x64xf32>)\n  }\n"
                                   "  store %c[%i, 0], %ab\n}\n",
                               "dot.tile")
        .at(0);
  };
  for (const Isa isa : runnable_isas()) {
    const Artifact first = compile(kernel(64), {}, target_for_isa(isa), "first").value();
    ASSERT_TRUE(compile(kernel(96), {}, target_for_isa(isa), "other"));
    const Artifact again = compile(kernel(64), {}, target_for_isa(isa), "first").value();
    EXPECT_EQ(again.object, first.object) << name(isa);
    EXPECT_EQ(again.facts.code_bytes, first.facts.code_bytes);
    EXPECT_EQ(again.facts.spills, first.facts.spills);
  }
}

}  // namespace
}  // namespace kiln::jit
