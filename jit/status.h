// What a Kernel reports, as an Error.
#pragma once

#include "jit/kernel_abi.h"

namespace kiln::jit {

// Throws Error (caller) with the code and the program coordinate of a status that is not Ok.
[[noreturn]] void throw_status(const KernelStatus& status, int grid_rank);

}  // namespace kiln::jit
