// A dot's operand that lies in memory: where its elements are and which of them are live, as values of the
// function being emitted.
#pragma once

#include <utility>
#include <vector>

#include "jit/cpu/dot_problem.h"
#include "jit/cpu/lowering.h"

namespace kiln::jit::cpu {

// Elements along one axis of a view, from a point on.
struct Run {
  llvm::Value* pointer = nullptr;
  llvm::Value* stride = nullptr;  // i64 elements from one to the next
  // What holds for all of them or for none: 0 <= first < second.
  std::vector<std::pair<llvm::Value*, llvm::Value*>> conditions;
  // Positions low <= i < high are live as far as that depends on i; null: no bound.
  llvm::Value* low = nullptr;
  llvm::Value* high = nullptr;
};

class MemoryMatrix {
 public:
  // `operand` must be plain: every element outside is zero, and nothing is read from two memories.
  MemoryMatrix(Lowering& lowering, LoadedOperand operand)
      : lowering_(lowering), operand_(std::move(operand)) {}
  static bool is_plain(const tile::Kernel& kernel, const Plan& plan, const LoadedOperand& operand);

  // Whether these axes run through memory in equal steps, which run() needs of the axis that it follows.
  bool is_affine(const std::vector<int>& axes) const;

  // Whether the elements along an axis are live independently of the position on all other axes.
  bool is_separable(int axis) const;

  // Makes the box longer along an axis of the depth, or adds one outside of the others.
  void extend_depth(int axis, std::int64_t extent);

  // Positions in the box by view axis; null: 0.
  Values origin() const { return Values(operand_.box.size(), nullptr); }
  Run run(const Values& at, int axis);
  llvm::Value* holds(const Run& run);  // i1: all its conditions
  // The elements of the run as a strip, zero where not live.
  llvm::Value* load_strip(const Values& at, int axis, int lanes);
  // How far the box reaches into the view along an axis: between 0 and its extent.
  llvm::Value* reach(int axis);

  const LoadedOperand& operand() const { return operand_; }
  std::int64_t extent(int axis) const { return operand_.box[static_cast<std::size_t>(axis)]; }
  DType dtype() const { return lowering_.kernel().type(operand_.view).element; }

 private:
  Coordinates coordinates(const Values& at, int axis);

  Lowering& lowering_;
  LoadedOperand operand_;
};

}  // namespace kiln::jit::cpu
