// Nodes of shape arithmetic and the like, which translators add. Where shapes are known, also as symbols,
// inference sees through them and they never run.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "frontend/onnx/translation.h"

namespace kiln::frontend {

// The extent of an axis >= 0, as a vector of one.
ValueId extent(Translation& node, ValueId value, std::int64_t axis);
// The only element of a vector, as a scalar.
ValueId only_element(Translation& node, ValueId vector);
// A value under the shape that vectors joined together say.
ValueId reshaped(Translation& node, ValueId value, std::vector<ValueId> parts);
ValueId joined(Translation& node, std::vector<ValueId> values, std::int64_t axis);
// Elements [begin, end) of an axis, `begin` and `end` vectors of one; without `end`, all from `begin` on.
ValueId sliced(Translation& node, ValueId value, ValueId begin, ValueId end, std::int64_t axis);
ValueId unsqueezed(Translation& node, ValueId value, std::initializer_list<std::int64_t> axes);
ValueId transposed(Translation& node, ValueId value, std::vector<std::int64_t> permutation);
ValueId sum(Translation& node, ValueId a, ValueId b);
ValueId cast(Translation& node, ValueId value, DType dtype);
// 0, 1, ... up to a length, which is a vector of one; i64.
ValueId positions(Translation& node, ValueId length);
// A value that has this rank: checked now, or when it runs.
ValueId with_rank(Translation& node, ValueId value, std::int64_t rank);
// The type to compute in: f32 for f16 and bf16.
DType wide_dtype(DType dtype);

}  // namespace kiln::frontend
