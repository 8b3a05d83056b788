// Artifact -> callable code in this process. Does not initialise any LLVM target.
#pragma once

#include <memory>

#include "ir/base/result.h"
#include "jit/artifact.h"
#include "jit/kernel_abi.h"

namespace kiln::jit {

// A loaded Kernel. The code stays mapped while any copy of `code` lives.
struct LoadedKernel {
  KernelFunction run = nullptr;
  GridFunction grid = nullptr;
  ScratchFunction scratch = nullptr;
  std::shared_ptr<const void> code;
};

// Links an object into this process, read-only and executable. Thread safe. Error (environment or bug,
// compile_failed) if the object is malformed or names a symbol outside the allow-list.
Result<LoadedKernel> load(const Artifact& artifact);

}  // namespace kiln::jit
