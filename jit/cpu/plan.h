// What becomes of each tile of a Kernel on a CPU, decided before any code is emitted.
//
// A tile is an iteration space. Most tiles are *inlined*: computed strip by strip inside the loops of
// whatever consumes them, and never stored. *Roots* drive loops: a store, a reduction along the vector axis,
// and a tile that is *materialised* in scratch because it is costly and used by several loops, or because
// memory that it is loaded from is overwritten before it is used. Neighbouring roots over one iteration space
// share a loop nest: a Group.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ir/tile/kernel.h"

namespace kiln::jit::cpu {

// A reduction across strips over so few elements is unrolled in place.
constexpr std::int64_t kUnrolledReduce = 16;

struct Root {
  enum class Kind : std::uint8_t { Store, AtomicAdd, Materialize, ReduceLanes };
  Kind kind = Kind::Store;
  tile::OpId op;
  tile::ValueId value;  // what is computed strip by strip
};

struct Group {
  std::vector<Root> roots;
  std::vector<std::int64_t> extents;  // of the iteration space, without unit axes
  int lane_axis = -1;                 // of `extents`, laid along vectors; -1 if there is one element
  int work = 0;                       // operations for each element, roughly
};

class Plan {
 public:
  explicit Plan(const tile::Kernel& kernel);

  // One element: computed at once where it is defined, as a scalar.
  bool is_scalar(tile::ValueId value) const;
  // Computed inside its consumers' loops; else it has a buffer (or is a scalar or a view).
  bool is_inline(tile::ValueId value) const;
  // The buffer of `value` must be dense: it is read in row-major order by a reshape.
  bool is_dense(tile::ValueId value) const { return dense_[value.index]; }
  bool is_materialized(tile::ValueId value) const { return materialized_[value.index]; }
  // The Group to emit at this Op, or null.
  const Group* group_at(tile::OpId op) const;
  // Which Op defines `value`; none for parameters and block arguments.
  tile::OpId definer(tile::ValueId value) const { return definer_[value.index]; }
  const std::vector<tile::OpId>& definers() const { return definer_; }
  bool has_users(tile::ValueId value) const { return !users_[value.index].empty(); }
  // Whether some operand of the Group is loaded from the same place for all positions along an axis of its
  // space, while others move.
  bool has_invariant_load(const Group& group, int axis) const;
  // The axis of the Group's space, other than the vectors', along which most of its loads touch adjacent
  // elements; -1 if there is none.
  int crossing_axis(const Group& group) const;
  // A Group of one Root that is not an Op of its own: a carried or yielded tile put into a buffer.
  Group make_group(Root root) const;
  // `value` and everything that is computed in place for it, down to scalars, buffers and loads.
  std::vector<tile::ValueId> computed_for(tile::ValueId value) const;
  // Whether computing `value` reads `source` by way of inlined Ops.
  bool depends_on(tile::ValueId value, tile::ValueId source) const;
  // Whether each element of `value` depends on `source` through the element at the same position alone.
  bool is_elementwise_of(tile::ValueId value, tile::ValueId source) const;

 private:
  friend class Planner;
  bool is_pure_tile_op(const tile::Op& op) const;
  template <typename Visit>
  void walk(tile::ValueId value, const Visit& visit) const;
  int work(tile::ValueId value) const;
  int lane_axis(const std::vector<Root>& roots) const;
  // Visits the loads and buffers that a Root reads, with the axis of the space that each axis of the tile
  // runs along, or -1.
  template <typename Visit>
  void walk_sources(const Root& root, const Visit& visit) const;
  const std::vector<std::int64_t>& space(const Root& root) const;

  const tile::Kernel& kernel_;
  std::vector<tile::OpId> definer_;             // by value
  std::vector<std::vector<tile::OpId>> users_;  // by value
  std::vector<char> materialized_, dense_;      // by value
  std::vector<char> inline_reduce_;             // by op
  std::vector<Group> groups_;
  std::vector<int> group_at_;  // by op; -1: none
};

// Visits `value` and everything that is computed in place for it, down to scalars, buffers and loads.
template <typename Visit>
void Plan::walk(tile::ValueId value, const Visit& visit) const {
  std::vector<char> seen(kernel_.values.size(), 0);
  const auto go = [&](auto&& self, tile::ValueId id) -> void {
    if (seen[id.index]) return;
    seen[id.index] = 1;
    visit(id);
    if (id != value && !is_inline(id)) return;
    const tile::OpId definer = definer_[id.index];
    if (!definer) return;
    const tile::Op& op = kernel_.op(definer);
    if (!is_pure_tile_op(op) && op.code != tile::Opcode::Reduce) return;
    for (const tile::ValueId operand : op.operands) {
      if (!kernel_.type(operand).is_view()) self(self, operand);
    }
  };
  go(go, value);
}

// Extents without those equal to 1.
std::vector<std::int64_t> without_unit_axes(const std::vector<std::int64_t>& extents);

// The axis of `view` along which elements are adjacent in memory, or -1.
int contiguous_axis(const tile::Kernel& kernel, const std::vector<tile::OpId>& definer, tile::ValueId view);

// Carries something per axis of an Op's result (a coordinate, a number) over to the axes of one operand.
// For Elementwise, Broadcast, Transpose, Cast, Bitcast, Mask, Slice (without its offsets) and Reshape between
// shapes that differ by unit axes.
template <typename T>
std::vector<T> operand_axes(const tile::Kernel& kernel, const tile::Op& op, std::size_t operand,
                            const std::vector<T>& at, const T& zero) {
  const tile::Type& from = kernel.type(op.operands[operand]);
  const tile::Type& to = kernel.type(op.results[0]);
  std::vector<T> result(from.extents.size(), zero);
  if (op.code == tile::Opcode::Transpose) {
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      result[static_cast<std::size_t>(op.attributes.axes[axis])] = at[axis];
    }
  } else if (op.code == tile::Opcode::Reshape) {
    std::size_t source = 0;
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      if (to.extents[axis] == 1) continue;
      while (from.extents[source] == 1) ++source;
      result[source++] = at[axis];
    }
  } else {
    const std::size_t skipped = at.size() - result.size();
    for (std::size_t axis = 0; axis < result.size(); ++axis) {
      if (from.extents[axis] != 1) result[axis] = at[axis + skipped];
    }
  }
  return result;
}

}  // namespace kiln::jit::cpu
