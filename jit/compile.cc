#include "jit/compile.h"

#include <chrono>
#include <utility>

#include "ir/tile/passes/passes.h"
#include "jit/cpu/logsumexp.h"
#include "jit/cpu/lower.h"
#include "jit/llvm/compiler.h"

namespace kiln::jit {
namespace {

// What the lowering takes: primitives only, without dead or repeated Ops.
tile::Kernel prepared(const tile::Kernel& kernel) {
  tile::Kernel copy = kernel;
  cpu::expand_logsumexp(copy);
  tile::expand_functions(copy);
  tile::simplify(copy);
  return copy;
}

template <typename T>
Result<T> emit_with(Result<T> (*emit)(const Target&, const ModuleBuilder&), const tile::Kernel& kernel,
                    const tile::Schedule& schedule, const Target& target, const std::string& symbol) {
  return emit(target,
              [&](llvm::Module& module) { cpu::lower(prepared(kernel), schedule, target, symbol, module); });
}

}  // namespace

Result<Artifact> compile(const tile::Kernel& kernel, const tile::Schedule& schedule, const Target& target,
                         const std::string& symbol) {
  const auto start = std::chrono::steady_clock::now();
  Result<ObjectCode> code = emit_with(emit_object, kernel, schedule, target, symbol);
  if (!code) return Error(code.error()).with("kernel", kernel.name);
  Artifact artifact;
  artifact.symbol = symbol;
  artifact.object = std::move(code->bytes);
  artifact.facts.code_bytes = code->code_bytes;
  artifact.facts.spills = code->spills;
  artifact.facts.compile_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return artifact;
}

Result<std::string> listing(const tile::Kernel& kernel, const tile::Schedule& schedule, const Target& target,
                            Listing what) {
  switch (what) {
    case Listing::LlvmIr:
      return emit_with(emit_llvm_ir, kernel, schedule, target, kernel.name);
    case Listing::Assembly:
      return emit_with(emit_assembly, kernel, schedule, target, kernel.name);
  }
  return Error(ErrorKind::Bug, ErrorCode::Internal, "unknown listing");
}

}  // namespace kiln::jit
