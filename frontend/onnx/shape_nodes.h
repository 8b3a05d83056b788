// Nodes of shape arithmetic and the like, which translators add. Where shapes are known, also as symbols,
// inference sees through them and they never run.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "frontend/onnx/translation.h"

namespace kiln::frontend {

// The extent of an axis, the last ones from -1 down, as a vector of one.
ValueId extent(Translation& node, ValueId value, std::int64_t axis);
// The only element of a vector, as a scalar.
ValueId only_element(Translation& node, ValueId vector);
// Integers divided by one number.
ValueId quotient(Translation& node, ValueId a, std::int64_t divisor);
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
// The extents of the axes [begin, end), of which a negative one counts from the back, as a vector.
ValueId extents_between(Translation& node, ValueId value, std::int64_t begin, std::int64_t end);
// A value of any rank with its axes, taken as three groups of these extents, in another order.
ValueId with_groups_in_order(Translation& node, ValueId value, const std::array<ValueId, 3>& groups,
                             const std::array<std::int64_t, 3>& order);
// The axes of a value from one on, which a Softmax of old took as one.
struct TrailingAxes {
  std::int64_t first;
  bool single;  // those behind the first have one element each
};
TrailingAxes axes_from(const Translation& node, ValueId value, std::int64_t axis);
// The type to compute in: f32 for f16 and bf16.
DType wide_dtype(DType dtype);

}  // namespace kiln::frontend
