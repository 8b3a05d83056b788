// The rules of the language: one per Opcode, each deriving result types from operands and checking the rest.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/tile/kernel.h"

namespace kiln::tile {

// Result types of an Op with these operand types; throws Error (caller, type_mismatch) saying got, expected
// and the op. For Opcodes whose result is not determined (Load, Reshape, Cast ...) `wanted` gives it and is
// checked.
std::vector<Type> infer_types(Opcode code, std::span<const Type> operands, const Attributes& attributes,
                              std::span<const Type> wanted);

// Checks a whole Kernel: types, dominance, blocks, limits, stores only to injective out views, grid scalar.
// Throws Error naming kernel, op and value.
void verify(const Kernel& kernel);

}  // namespace kiln::tile
