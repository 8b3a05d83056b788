// Lowers a dot, or a contract that accumulates one dot, to block products.
#pragma once

#include "jit/cpu/lowering.h"

namespace kiln::jit::cpu {

// The result lies in a buffer afterwards.
void lower_dot(Lowering& lowering, tile::OpId dot);

// False, with nothing emitted, unless the contract's Block only accumulates one dot.
bool lower_dot_contract(Lowering& lowering, tile::OpId contract);

}  // namespace kiln::jit::cpu
