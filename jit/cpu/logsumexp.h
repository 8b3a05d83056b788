// Reductions that the lowering composes of others.
#pragma once

#include "ir/tile/kernel.h"

namespace kiln::jit::cpu {

// Replaces `reduce logsumexp t` by its meaning: the maximum, and the sum of exp(t - maximum), where equal
// values differ by 0 even if they are infinite. Runs before functions are expanded.
void expand_logsumexp(tile::Kernel& kernel);

}  // namespace kiln::jit::cpu
