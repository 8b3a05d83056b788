// Expansions of the elementwise functions into primitives, written once for every target: fma, integer bit
// operations, ldexp and polynomials, no tables. elementwise.def states the f32 budgets, expansions_test.cc
// the f64 ones. Denormal arguments and results are exact members of the domain; NaN gives NaN.
#pragma once

#include <span>

#include "ir/tile/builder.h"

namespace kiln::tile {

// The expansion of a Function that is not a primitive, appended to the open Block. f16 and bf16 are computed
// in f32 and rounded once.
Expr expand(Function function, std::span<const Expr> operands);

}  // namespace kiln::tile
