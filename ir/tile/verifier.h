// The rules of the language: one per Opcode, each deriving result types from operands and checking the rest.
// docs/tile-ir.md states them in words.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/tile/kernel.h"

namespace kiln::tile {

// Result types of an Op with these operand types; throws Error (caller, type_mismatch) saying got, expected
// and the op. Where operands do not determine the result (Constant, Iota, Reshape, Broadcast, Slice, Cast,
// Bitcast, Load, Local, If) `wanted` gives it and is checked; elsewhere `wanted` may be empty, or is checked
// too.
//
// Nothing converts by itself: operands of an elementwise function have one dtype, an index is an i64 scalar,
// and a scalar is not a one-element tile (Reshape makes one of the other; the parser and the builder put it
// in where an operand, a fill, a condition or a carried value must be a scalar). Extents of a derived view
// that come from operands are run-time in its type even if the operand is a constant.
std::vector<Type> infer_types(Opcode code, std::span<const Type> operands, const Attributes& attributes,
                              std::span<const Type> wanted);

// Checks a whole Kernel: types, dominance, blocks, limits, stores only to injective out views, grid scalar.
// Throws Error naming kernel, op and value.
void verify(const Kernel& kernel);

// The extents that a loaded, stored or added value has along each axis of a view of rank `view_rank`. They
// align from the right: a missing axis has extent 1, and axes beyond the view's must have extent 1
// themselves. Throws Error (caller, shape_mismatch).
std::vector<std::int64_t> box_extents(const Type& value, int view_rank);

// Every dot is a batch of matrix products over row-major elements: acc[batch][rows][columns] +=
// a[batch][rows][depth] · b[batch][depth][columns]. The leading `count` axes are batch axes as they are
// written; unit axes of the rest are dropped; then the last axis of a and the first of b are contracted,
// unless the rank of acc shows that these were dropped themselves (depth 1). Throws Error (caller,
// shape_mismatch).
struct DotShape {
  std::int64_t batch = 1;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t depth = 1;
};
DotShape dot_shape(const Type& accumulator, const Type& a, const Type& b, std::int64_t batch_axes);

// Shape of elementwise operands together: aligned from the right, extents equal or 1. A scalar for no tile.
// Throws Error (caller, shape_mismatch).
std::vector<std::int64_t> broadcast_extents(std::span<const Type> operands);

}  // namespace kiln::tile
