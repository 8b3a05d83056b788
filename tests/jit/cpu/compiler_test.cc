#include "jit/llvm/compiler.h"

#include <gtest/gtest.h>
#include <kiln/error.h>

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

}  // namespace
}  // namespace kiln::jit
