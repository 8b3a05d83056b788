// Kernel + Schedule + Target -> Artifact: the compiler, without cache or loading.
#pragma once

#include <string>

#include "ir/base/result.h"
#include "ir/base/target.h"
#include "ir/tile/kernel.h"
#include "ir/tile/schedule.h"
#include "jit/artifact.h"

namespace kiln::jit {

// Compiles for x86. Thread safe: each thread has its own LLVM context and target machine, made at its first
// compile. Never aborts: a refusal (illegal Schedule, heavy spilling) is Error (caller, refused), a failure
// of the code generator Error (bug, compile_failed), after which that thread's compiler is made anew.
Result<Artifact> compile(const tile::Kernel& kernel, const tile::Schedule& schedule, const Target& target,
                         const std::string& symbol);

// What `kiln explain` prints: the LLVM IR after our passes, or the assembly.
enum class Listing { LlvmIr, Assembly };
Result<std::string> listing(const tile::Kernel& kernel, const tile::Schedule& schedule, const Target& target,
                            Listing what);

// The machine this process runs on. Queried once.
const Target& host_target();

// `target` restricted to an ISA level; throws Error (caller) if the host lacks it.
Target target_for_isa(Isa isa);

}  // namespace kiln::jit
