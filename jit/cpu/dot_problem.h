// What a dot multiplies and over which indices it sums, read off a Kernel: the part of its lowering that
// needs no code generator.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/tile/kernel.h"
#include "ir/tile/verifier.h"

namespace kiln::jit::cpu {

// One index of the contract round a dot.
struct ContractIndex {
  tile::ValueId argument;  // of the contract's Block: the first position of an iteration
  tile::ValueId extent;
  std::int64_t block = 1;
};

// A dot by itself, or all iterations of a contract whose Block only accumulates one dot.
struct DotProblem {
  tile::OpId dot;
  tile::ValueId initial;  // the accumulator before the first product
  tile::ValueId a, b;
  tile::DotShape shape;
  std::vector<ContractIndex> indices;  // none: the dot alone
};

DotProblem dot_problem(const tile::Kernel& kernel, tile::OpId dot);
std::optional<DotProblem> contract_problem(const tile::Kernel& kernel, tile::OpId contract,
                                           const std::vector<tile::OpId>& definers);

// An operand that is a box of a view, seen as the matrix that the dot takes it for. Axes are those of the
// view with an extent other than 1 in the box, from outermost to innermost.
struct LoadedOperand {
  tile::OpId load;
  tile::ValueId view;
  std::vector<std::int64_t> box;  // extents by view axis
  std::vector<int> batch, free, depth;
};

// The operand `value` of the problem as such a box, looking through reshapes and a transpose. `depth_last`:
// the matrix is [batch][free][depth] (a), else [batch][depth][free] (b).
std::optional<LoadedOperand> loaded_operand(const tile::Kernel& kernel,
                                            const std::vector<tile::OpId>& definers,
                                            const DotProblem& problem, tile::ValueId value, bool depth_last);

// The number of the index whose iterations lie end to end along the one depth axis of the operand, or
// nothing.
std::optional<int> depth_index(const tile::Kernel& kernel, const DotProblem& problem,
                               const LoadedOperand& operand);

}  // namespace kiln::jit::cpu
