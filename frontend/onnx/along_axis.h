// Vectors that run along an axis of another value, where ranks may be known only at run time.
#pragma once

#include "frontend/onnx/translation.h"

namespace kiln::frontend {

// The rank of a value, as a vector of one i64.
ValueId rank_of(Translation& node, ValueId value);

// `value` with axes of extent 1 behind its own, as many as `count` says, a vector of one i64.
ValueId with_trailing_axes(Translation& node, ValueId value, ValueId count);

// `vector` seen so that it broadcasts along axis `axis` of `like`, from the last if negative. What is no
// vector stays as it is.
ValueId along_axis(Translation& node, ValueId vector, ValueId like, std::int64_t axis);

}  // namespace kiln::frontend
