// How a Value lies in memory: where each element is, relative to the storage that holds it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/id.h"
#include "ir/graph/dim.h"

namespace kiln::graph {

using ValueId = Id<struct ValueTag>;

// Element (i0, i1, ...) of a Value lies at offset + sum of i_k * strides[k] elements from the start of the
// storage of `storage`. A Value that owns its memory names itself; a view (Transpose, Slice, Reshape,
// an input of a Concat, ...) names the owner and has its own offset and strides. A stride of 0 repeats
// (broadcast) and is for reading only. Axis order, padded pitch and sub-buffers are all strides and offset;
// `halo` is how many elements outside [0, extent) along each axis are readable and hold `halo_value` of the
// operator that wants them (empty: none).
struct Layout {
  ValueId storage;
  Dim offset = 0;
  std::vector<Dim> strides;
  std::vector<std::int64_t> halo;

  bool operator==(const Layout&) const = default;
};

// Axes from outermost to innermost in memory: {0, 2, 3, 1} is NHWC for an NCHW Value.
using AxisOrder = std::vector<int>;

// Strides of a dense tensor whose axes lie in memory in `order`.
std::vector<Dim> strides_in_order(const Shape& shape, const AxisOrder& order);

// The order of which `strides` are provably those, if any; axes of extent 1 do not count and come first.
std::optional<AxisOrder> order_of_strides(const Shape& shape, const std::vector<Dim>& strides);

// True if `strides` are provably those of a dense row-major tensor; axes of extent 1 do not count.
bool is_dense(const Shape& shape, const std::vector<Dim>& strides);

}  // namespace kiln::graph
