// One thread's LLVM code generator: LLVM IR -> object file or text. The only place that configures LLVM.
//
// Output depends on the Module and the Target alone: the triple, CPU and features come from the Target's ISA
// level, never from the host. LLVM's ways of ending the process (fatal errors, error diagnostics) become
// Error (bug, compile_failed); a thread's compiler that failed is discarded and the next use makes a new one.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/base/result.h"
#include "ir/base/target.h"

namespace llvm {
class LLVMContext;
class Module;
}  // namespace llvm

namespace kiln::jit {

// Fills an empty Module that has the Target's triple and data layout. May throw Error.
using ModuleBuilder = std::function<void(llvm::Module&)>;

struct ObjectCode {
  std::vector<std::byte> bytes;  // a relocatable ELF object
  std::int64_t code_bytes = 0;   // of its text sections
  int spills = 0;                // register spills over all functions, as the register allocator reports them
};

Result<ObjectCode> emit_object(const Target& target, const ModuleBuilder& build);
Result<std::string> emit_llvm_ir(const Target& target, const ModuleBuilder& build);
Result<std::string> emit_assembly(const Target& target, const ModuleBuilder& build);

// Compiles a Module that the instruction selector cannot translate, to exercise the failure path. For tests.
Error provoke_codegen_failure();

}  // namespace kiln::jit
