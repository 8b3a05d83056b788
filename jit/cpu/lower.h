// Tile IR -> LLVM IR for x86.
#pragma once

#include <string>

#include "ir/base/target.h"
#include "ir/tile/kernel.h"
#include "ir/tile/schedule.h"

namespace llvm {
class Module;
}

namespace kiln::jit::cpu {

// Defines the three functions of the kernel ABI in `module`. The Kernel holds primitives only. Throws Error
// (caller, refused or unsupported) for what the lowering does not take.
void lower(const tile::Kernel& kernel, const tile::Schedule& schedule, const Target& target,
           const std::string& symbol, llvm::Module& module);

}  // namespace kiln::jit::cpu
