// Lowers one Group to its loop nest.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "jit/cpu/lowering.h"

namespace kiln::jit::cpu {

class Nest {
 public:
  // `target`: where the one Root, a tile to materialise, goes; null: to buffers of the results' own.
  Nest(Lowering& lowering, const Group& group, const Buffer* target)
      : l_(lowering),
        code_(lowering.code_),
        kernel_(lowering.kernel_),
        plan_(lowering.plan_),
        group_(group),
        target_(target) {}

  void run();

 private:
  struct Span {
    llvm::Value* low;
    llvm::Value* high;
  };

  const tile::Op& op(const Root& root) const { return kernel_.op(root.op); }
  static bool is_zero(llvm::Value* value) { return Code::is_constant(value, 0); }
  // Whether something moves from lane to lane.
  static bool varies(const Coordinates& at) {
    return std::any_of(at.begin(), at.end(), [](const Coordinate& c) { return c.step != 0; });
  }
  bool single_lane() const { return group_.roots[0].kind == Root::Kind::AtomicAdd; }
  std::size_t lane_axis() const { return static_cast<std::size_t>(group_.lane_axis); }
  std::int64_t extent() const { return group_.extents[lane_axis()]; }

  // --- nest.cc: loops and strips
  void prepare(const Root& root);
  Coordinates tile_axes(const tile::Type& type) const;
  void loop_over(std::size_t axis);
  void choose_rows();
  void set_row(std::int64_t row);
  bool rows_are_whole() const;
  void set_lane(llvm::Value* base);
  void run_single();
  void finish_root(const Root& root, const Coordinates& at);
  void run_lanes();
  Values run_edges(const Span& span, const Span& inside, llvm::Value* main_end, llvm::Value* live_everywhere,
                   const std::vector<const Root*>& open_ended, int unroll, const Values& initial);
  void run_strip(Values& state, int k, int unroll);
  void finish_reductions(const Values& state, int unroll);

  // --- nest_bounds.cc
  bool reports(tile::ValueId value) const;
  // The first index along the axis of a view that is stored to, and the view's extent there.
  struct Stored {
    llvm::Value* first;
    llvm::Value* size;
  };
  std::optional<Stored> stored(const Root& root, int axis) const;
  Span live(const Root& root, int axis) const;
  void bound_index(const Root& root, int axis, llvm::Value* i);
  Span interior(Span span);
  void visit_root(const Root& root, const std::function<void(const Condition&)>& visit);
  void visit_conditions(tile::ValueId value, const Coordinates& at,
                        const std::function<void(const Condition&)>& visit);
  llvm::Value* live_end(tile::ValueId value, const Coordinates& at);
  llvm::Value* find_live_end(tile::ValueId value, const Coordinates& at);
  llvm::Constant* dead_element(tile::ValueId value, const Coordinates& at);
  llvm::Constant* find_dead_element(tile::ValueId value, const Coordinates& at);
  llvm::Value* is_identity(const Root& root, llvm::Value* element);

  Lowering& l_;
  Code& code_;
  const tile::Kernel& kernel_;
  const Plan& plan_;
  const Group& group_;
  const Buffer* target_;
  int lanes_ = 1;
  bool whole_ = false;
  // Rows computed together along `row_axis_`, and those of the current iteration.
  int row_axis_ = -1;
  std::int64_t rows_ = 1;
  Span row_span_{nullptr, nullptr};
  Coordinates at_;  // along the axes of the space
  tile::ValueId materialized_;
  std::set<Lowering::MemoKey> visited_;
  // What live_end() and dead_element() found: an operand with two readers is looked at once.
  std::map<Lowering::MemoKey, llvm::Value*> live_ends_;
  std::map<Lowering::MemoKey, llvm::Constant*> dead_elements_;
  std::map<const Root*, llvm::Value*> last_elements_;
};

}  // namespace kiln::jit::cpu
