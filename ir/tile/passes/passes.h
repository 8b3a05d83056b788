// Passes over Kernels. Each keeps the meaning exactly; the first two run before a Kernel is hashed.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ir/tile/kernel.h"

namespace kiln::tile {

// Replaces every Function that is not a primitive by its expansion (expansions.cc).
void expand_functions(Kernel& kernel);

// Removes Ops without effect whose results are unused, folds constants, merges equal pure Ops of a Block and
// those around it, and puts the Block of a branch or loop that is known to run once in its place.
void simplify(Kernel& kernel);

// Canonical bytes for hashing: Values by number in order of definition, no names, fixed order,
// length-prefixed. Equal bytes iff the Kernels are equal but for names.
std::vector<std::byte> canonical_bytes(const Kernel& kernel);

}  // namespace kiln::tile
