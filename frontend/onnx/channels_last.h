// Operators whose channels come last: their spatial operators see channels second.
#pragma once

#include "frontend/onnx/translation.h"

namespace kiln::frontend {

// x [N, spatial ..., C] as [N, C, spatial ...], or back. Throws Error (caller, invalid_model) if
// it has no channels.
ValueId channels_second(Translation& node, ValueId x, bool back = false);

}  // namespace kiln::frontend
