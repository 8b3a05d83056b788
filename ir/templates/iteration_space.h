// The loop nest that several strided operands share, with as few axes as possible.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/templates/program.h"
#include "ir/tile/type.h"

namespace kiln::templates {

struct IterationSpace {
  graph::Shape extents;                          // outermost first
  std::vector<std::vector<graph::Dim>> strides;  // [operand][axis], in elements; 0 repeats
  std::vector<std::vector<int>> axes;  // [axis] -> the original axes that it merges, outermost first

  std::size_t rank() const { return extents.size(); }
};

// Strides with which `value` (its Layout) is read over a space of shape `space`, aligned from the right; an
// axis of extent 1 repeats, one whose extent may be 1 at run time gets a stride that is 0 then.
std::vector<graph::Dim> broadcast_strides(const graph::Value& value, const graph::Shape& space);

// Drops axes of extent 1, orders the others as operand `order_by` lies in memory (outermost first), and
// merges neighbours that are contiguous in every operand. At least one axis remains.
IterationSpace collapse(const graph::Shape& space, std::span<const std::vector<graph::Dim>> strides,
                        std::size_t order_by);

// The same, but merges only within each of the given groups of axes (ascending, together all axes), and keeps
// at least one axis of each; axes of a group stay behind those of the groups before it.
IterationSpace collapse_groups(const graph::Shape& space, std::span<const std::vector<graph::Dim>> strides,
                               std::size_t order_by, std::span<const std::vector<int>> groups,
                               std::vector<int>& axes_per_group);

// The same as collapse(), but an axis for which `apart` is true stays by itself whatever its extent.
// apart_axis[axis of the result] is that axis, or -1.
IterationSpace collapse_around(const graph::Shape& space, std::span<const std::vector<graph::Dim>> strides,
                               std::size_t order_by, const std::vector<bool>& apart,
                               std::vector<int>& apart_axis);

// Elements of a program that does little more than to move them.
constexpr std::int64_t kCopiedElements = 4096;

// A tile of about kCopiedElements that copies well: the innermost axis as far as it goes, then rows of the
// next.
struct CopyBlock {
  std::int64_t inner = 1, rows = 1;
};
CopyBlock copy_block(const IterationSpace& space);

// The memory-view type that sees these extents and strides: what is constant becomes static.
tile::Type view_type(DType dtype, std::span<const graph::Dim> extents, std::span<const graph::Dim> strides);

// A static extent, or tile::kDynamic.
std::int64_t static_extent(const graph::Dim& dim);

}  // namespace kiln::templates
