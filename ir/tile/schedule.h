// How a Kernel is executed on a Target: plain data beside the Kernel, hashed with it. A Kernel that is right
// in the interpreter is right under every legal Schedule; an illegal one is refused by the lowering.
#pragma once

#include <cstdint>
#include <vector>

namespace kiln::tile {

struct Schedule {
  // Vectors of an elementwise loop emitted together (instruction-level parallelism).
  int vector_unroll = 4;
  // Register tile of a dot: rows of A by vectors of B. 0: the Target's default for the shape.
  int register_rows = 0;
  int register_vectors = 0;
  // Steps of the contracted axis unrolled in the micro-kernel.
  int contract_unroll = 1;
  // Elements of the innermost contracted axis per pass over a block of A and B. 0: all of it.
  std::int64_t contract_block = 0;
  // Copy operand A / B of a dot into dense scratch even where it could be read in place.
  bool pack_a = false;
  bool pack_b = false;
  // Order of grid dimensions from outermost to innermost within a box; empty: as declared.
  std::vector<int> grid_order;

  bool operator==(const Schedule&) const = default;
};

}  // namespace kiln::tile
