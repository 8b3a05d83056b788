// The texts of `kiln explain`.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <kiln/tensor.h>

#include "runtime/session_core.h"

namespace kiln::api {

// Stages: graph, regions, plan, tile, llvm, asm. Throws Error (caller) for another one.
std::string explain(runtime::SessionCore& core, std::string_view stage, std::string_view filter,
                    std::span<const Extents> input_extents);

}  // namespace kiln::api
