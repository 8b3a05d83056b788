// The state of lowering one Kernel into one LLVM function, shared by the files of this folder: each
// implements one concept of it, as the sections below are named.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <llvm/IR/Module.h>

#include "ir/base/target.h"
#include "ir/tile/kernel.h"
#include "ir/tile/schedule.h"
#include "jit/cpu/code.h"
#include "jit/cpu/plan.h"
#include "jit/kernel_abi.h"

namespace kiln::jit::cpu {

// The index of an element along one axis, for all lanes of a strip: base + step * lane, or `lanes` if it is
// not affine.
struct Coordinate {
  llvm::Value* base = nullptr;  // i64
  std::int64_t step = 0;
  llvm::Value* lanes = nullptr;  // vector of i64
  // What a load gives for lanes that are out of range, a scalar of the view's register type; null if all are
  // known to be in range. It belongs to the level of the view, counted from outside, that the index left.
  llvm::Value* fill = nullptr;
  int depth = 0;
  bool residual = false;  // see Condition
  // How the index moves from one of the rows that a strip computes together to the next.
  std::int64_t row_step = 0;
  static constexpr std::int64_t kIrregular = INT64_MIN;

  bool is_uniform() const { return step == 0 && lanes == nullptr; }
};
using Coordinates = std::vector<Coordinate>;

// A memory view: parameter or local.
struct Memory {
  llvm::Value* data = nullptr;
  Values strides;  // in elements
};

// Lanes of `at` in [0, extent). A condition that is not affine in the vector axis, or whose coordinate comes
// from memory, cannot be decided for a whole interior at once: it stays in every body.
struct Condition {
  Coordinate at;
  llvm::Value* extent = nullptr;
  bool residual = false;
};

// One strip of elements of a memory view.
struct Access {
  Memory memory;
  DType dtype = DType::F32;
  Coordinates at;
  std::vector<Condition> conditions;  // outermost level first
};

// A tile in scratch: dense but for the padding of rows to whole vectors.
struct Buffer {
  llvm::Value* data = nullptr;
  DType dtype = DType::F32;
  std::vector<std::int64_t> strides;  // in elements, per axis of the tile
};

// The mode of the strip being emitted.
struct Strip {
  int lanes = 1;
  std::int64_t row = 0, rows = 1;  // of the rows that are computed together
  bool interior = false;           // affine conditions hold and need no test
  llvm::Value* active = nullptr;   // mask of lanes inside the tile; null: all
  int load_floor = 0;              // loads move out no further than this level
  int value_floor = 0;             // nor do vectors
};

class Lowering {
 public:
  // Lowers into `function`, which is empty.
  Lowering(const tile::Kernel& kernel, const Plan& plan, const tile::Schedule& schedule, const Target& target,
           llvm::Function* function);
  Lowering(const Lowering&) = delete;
  Lowering& operator=(const Lowering&) = delete;

  // --- entry.cc: the three functions of the kernel ABI
  void lower_run();
  void lower_grid();
  void lower_scratch(std::int64_t buffer_bytes);
  std::int64_t buffer_bytes() const { return buffer_high_; }

  // --- lower.cc: Ops in order
  void lower_block(tile::BlockId block);
  void lower_op(tile::OpId id);

  // --- scalars.cc
  llvm::Value* scalar(tile::ValueId value) const;
  void set_scalar(tile::ValueId value, llvm::Value* emitted) { scalars_[value.index] = emitted; }
  void lower_scalar(const tile::Op& op);

  // --- views.cc: chains of combinators into addresses and conditions
  void lower_view(tile::OpId id);
  llvm::Value* extent(tile::ValueId view, int axis) const {
    return extents_.at(view.index)[static_cast<std::size_t>(axis)];
  }
  // Coordinates in `view` of the elements at `at` of a box whose first element is at `indices`.
  Coordinates box(tile::ValueId view, std::span<const tile::ValueId> indices, const tile::Type& type,
                  const Coordinates& at, llvm::Value* fill);
  // Follows the chain to memory and gives what `leaf` gives there; a concat gives a choice of two.
  using Leaf = std::function<llvm::Value*(Access&)>;
  llvm::Value* resolve(tile::ValueId view, const Coordinates& at, llvm::Value* outside, const Leaf& leaf);
  // Whether lanes are provably in range on either side.
  bool low_is_known(const Coordinate& at, int lanes) const;
  bool high_is_known(const Coordinate& at, llvm::Value* extent, int lanes) const;

  // --- memory.cc: strips of memory
  llvm::Value* load(const Access& access);
  void store(const Access& access, llvm::Value* value);
  void atomic_add(const Access& access, llvm::Value* value);
  llvm::Value* load_buffer(const Buffer& buffer, const Coordinates& at);
  void store_buffer(const Buffer& buffer, const Coordinates& at, llvm::Value* value);
  // Whether an interior strip must test the condition: it is residual, or a run-time fact about a padding
  // level that is the same for all lanes, which a choice of address decides at no cost to the loop.
  static bool stays_in_interior(const Condition& condition) {
    return condition.residual || (condition.at.is_uniform() && condition.at.depth > 0);
  }
  // The condition for the current strip: i1 if it is the same in all lanes, else a mask.
  llvm::Value* holds(const Condition& condition);
  llvm::Value* test(const Condition& condition);
  // The lanes first <= lane < last in which a condition with a step holds; null where it is known to on that
  // side.
  std::pair<llvm::Value*, llvm::Value*> live_lanes(const Condition& condition, bool low_known,
                                                   bool high_known);
  // Lanes first <= lane < last, as a mask; null stands for no bound.
  llvm::Value* lanes_between(llvm::Value* first, llvm::Value* last);

  // --- strips.cc: the elements of a tile for one strip
  // A vector, or a scalar if all lanes are the same. compute() does not look for a buffer of the value
  // itself.
  llvm::Value* emit(tile::ValueId value, const Coordinates& at);
  llvm::Value* compute(tile::ValueId value, const Coordinates& at);
  llvm::Value* emit_op(tile::ValueId value, const tile::Op& op, const Coordinates& at);
  Values emit_reduce(const tile::Op& op, const Coordinates& at);
  llvm::Value* load_fill(const tile::Op& load) const;
  llvm::Value* vector_of(llvm::Value* value, int lanes);
  llvm::Value* coordinate_lanes(const Coordinate& at);  // as values, i64

  // --- elementwise.cc, casts.cc: one line for each primitive; vectors and scalars alike
  llvm::Value* elementwise(tile::Function function, DType dtype, std::span<llvm::Value* const> operands);
  llvm::Value* cast(llvm::Value* value, DType from, DType to);
  llvm::Value* widen(llvm::Value* value, DType dtype);   // f16, bf16 -> f32; others as they are
  llvm::Value* narrow(llvm::Value* value, DType dtype);  // back, rounded to nearest even
  llvm::Value* narrow_from_double(llvm::Value* value, DType dtype);

  // --- combine.cc: the state of a reduction, one value (vector or scalar) for each result
  DType state_dtype(tile::Combiner combiner, DType dtype, int result) const;
  Values identity(tile::Combiner combiner, DType dtype, int lanes);
  Values lift(tile::Combiner combiner, DType dtype, llvm::Value* element, llvm::Value* position);
  Values combine(tile::Combiner combiner, DType dtype, const Values& a, const Values& b);
  Values across_lanes(tile::Combiner combiner, DType dtype, Values state);
  Values finish(tile::Combiner combiner, DType dtype, const Values& state);

  // --- nest.cc: loops over the iteration space of a Group
  void lower_group(const Group& group);
  // Computes a tile into `target`.
  void materialize(tile::ValueId value, const Buffer& target);
  int lanes_for(const Group& group) const;

  // --- control.cc, scan.cc
  void lower_for(const tile::Op& op);
  void lower_contract(const tile::Op& op);
  void lower_if(const tile::Op& op);
  void lower_scan(const tile::Op& op);
  void lower_concat(const tile::Op& op);
  // Puts tiles into buffers as if at once: none is overwritten while another is computed from it.
  void assign(std::span<const tile::ValueId> values, std::span<const Buffer> targets,
              std::span<const tile::ValueId> held_by_targets);

  void copy_buffer(const tile::Type& type, const Buffer& from, const Buffer& to);

  // --- buffers.cc: scratch for tiles, and local memory
  Buffer new_buffer(const tile::Type& type, bool dense);
  const Buffer& buffer(tile::ValueId value) const;
  Buffer result_buffer(tile::ValueId value);
  void set_buffer(tile::ValueId value, Buffer buffer) { buffers_[value.index] = std::move(buffer); }
  void prepare_locals();
  void lower_local(tile::OpId id);
  llvm::Value* local_bytes(const tile::Op& op);
  llvm::Value* from_arguments(tile::ValueId value);  // null if it depends on anything else

  // --- status.cc
  // Sets the kernel's status once if `bad`, an i1 or a mask of lanes, holds anywhere; to the first such lane
  // of `detail`, which may be null.
  void report(llvm::Value* bad, StatusCode code, llvm::Value* detail);
  llvm::Value* any_lane(llvm::Value* mask);

  const tile::Kernel& kernel() const { return kernel_; }
  const Plan& plan() const { return plan_; }
  const tile::Schedule& schedule() const { return schedule_; }
  const Target& target() const { return target_; }
  Code& code() { return code_; }
  Builder& builder() { return code_.builder(); }
  Strip& strip() { return strip_; }

 private:
  struct MemoKey {
    std::uint32_t value;
    int lanes;
    std::vector<std::pair<llvm::Value*, std::int64_t>> at;
    auto operator<=>(const MemoKey&) const = default;
  };

  MemoKey memo_key(tile::ValueId value, const Coordinates& at) const;
  llvm::Value* remembered(tile::ValueId value, const Coordinates& at) const;
  void read_arguments(llvm::Value* arguments);
  void bound_program_id(std::size_t axis, llvm::Value* id);
  llvm::Value* extent_read_before(tile::ValueId view, int axis) const;
  Values grid_extents();
  void for_each_local(tile::BlockId block, const std::function<void(const tile::Op&)>& visit) const;
  // Where a chain of views has led so far.
  struct Path {
    Coordinates at;
    std::vector<Condition> conditions;
    llvm::Value* outside = nullptr;  // what a load gives beyond this level
    int depth = 0;
  };
  llvm::Value* follow(tile::ValueId view, Path path, const Leaf& leaf);
  Coordinate gathered(const tile::Op& op, Path& path, const Leaf& leaf);
  Coordinate plus(Coordinate a, const Coordinate& b);
  Coordinate plus(Coordinate a, llvm::Value* b);
  Coordinate times(Coordinate a, llvm::Value* b);
  Coordinate mapped(Coordinate a, const std::function<llvm::Value*(Builder&, llvm::Value*)>& map);
  // Address of lane 0, and the distance of lanes in elements: a constant or run-time i64, or a vector of
  // offsets in `offsets`.
  struct Address {
    llvm::Value* pointer = nullptr;
    llvm::Value* lane_stride = nullptr;
    llvm::Value* offsets = nullptr;
    llvm::Value* row_stride = nullptr;  // null if rows are not evenly apart
  };
  llvm::Value* advance(llvm::Value* pointer, llvm::Type* element, llvm::Value* offset);
  llvm::Value* readable(llvm::Value* pointer, llvm::Value* live, llvm::Value* fill, DType dtype);
  Address address(llvm::Value* data, const Values& strides, const Coordinates& at, DType dtype);
  llvm::Value* load_transposed(const Access& access, const Address& address);
  llvm::Value* load_lanes(const Address& address, DType dtype, llvm::Value* mask, llvm::Value* fallback);
  void store_lanes(const Address& address, DType dtype, llvm::Value* mask, llvm::Value* value);

  const tile::Kernel& kernel_;
  const Plan& plan_;
  const tile::Schedule& schedule_;
  const Target& target_;
  Code code_;
  Strip strip_;

  std::vector<llvm::Value*> scalars_;         // by value
  std::map<std::uint32_t, Values> extents_;   // of views, by value
  std::map<std::uint32_t, Memory> memories_;  // of memory views, by value
  std::map<std::uint32_t, Buffer> buffers_;   // of tiles, by value
  std::map<MemoKey, llvm::Value*> memo_;
  std::map<std::vector<llvm::Value*>, llvm::Value*> known_addresses_;
  std::map<std::vector<llvm::Value*>, llvm::Value*> known_conditions_;
  std::map<std::vector<llvm::Value*>, llvm::Value*> known_loads_;  // of the Group being lowered
  std::map<std::vector<llvm::Value*>, Values> known_blocks_;       // transposed, likewise

  llvm::Value* scratch_ = nullptr;
  llvm::Value* status_ = nullptr;
  llvm::Value* buffer_base_ = nullptr;  // behind the locals
  llvm::Value* anywhere_ = nullptr;     // 64 readable bytes, for loads whose result is not used
  std::map<std::uint32_t, llvm::Value*> local_offsets_;  // by value
  std::int64_t buffer_top_ = 0, buffer_high_ = 0;
  std::int64_t stack_bytes_ = 0;
  Values program_ids_, program_counts_;
  bool analysing_ = false;  // resolve() without side effects, for lane ranges
  friend class Nest;
};

}  // namespace kiln::jit::cpu
