// Operators whose channels come last: their spatial operators see channels second.
#pragma once

#include "frontend/onnx/translation.h"

namespace kiln::frontend {

// x [N, spatial ..., C] as [N, C, spatial ...], or back. Throws Error (caller) unless the rank is known.
ValueId channels_second(Translation& node, ValueId x, bool back = false);

}  // namespace kiln::frontend
