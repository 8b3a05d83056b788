// What the parts of one dot's lowering share: its operands, the indices that it is summed over, scratch.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "jit/cpu/block_product.h"
#include "jit/cpu/dot_problem.h"
#include "jit/cpu/lowering.h"
#include "jit/cpu/memory_matrix.h"

namespace kiln::jit::cpu {

// An operand as the emission sees it: in memory behind a view, or a tile.
struct Operand {
  std::optional<MemoryMatrix> memory;
  tile::ValueId tile;
  DType dtype = DType::F32;
};

class DotSite {
 public:
  // `op`: the dot itself or the contract round it.
  DotSite(Lowering& lowering, tile::OpId op, DotProblem problem);
  DotSite(const DotSite&) = delete;
  DotSite& operator=(const DotSite&) = delete;

  Lowering& lowering;
  Code& code;
  const tile::Kernel& kernel;
  DotProblem problem;
  Operand a, b;
  DType accumulator = DType::F32;  // also of the arithmetic
  std::int64_t width = 4;          // bytes of an element of the accumulator
  int lanes = 1;                   // of a native register of it
  MicroKernelShape shape;

  // --- indices of the contract. An index whose iterations follow one another along the depth of both
  // operands becomes part of the depth; the innermost others are segments of one product; the rest are loops
  // round it.
  void split_indices();
  // Iterations are joined: the Block of the contract is not lowered for each of them.
  bool is_joined() const { return joined_; }
  bool has_outer_loops() const { return !outer_.empty(); }
  std::int64_t segment_count() const { return segment_count_; }
  llvm::Value* b_segment_pitch() const { return b_segment_pitch_; }  // bytes
  // Steps of k if the index along the depth has a run-time extent, else null.
  llvm::Value* dynamic_depth();
  void loop_over_outer(const std::function<void()>& emit);
  // Binds the indices of all segments in turn; `number` counts them.
  void loop_over_segments(const std::function<void(llvm::Value* number)>& emit);
  // Binds the indices to the first segment, or the last, and to the start of the depth.
  void bind_indices(bool last_segment = false);

  // --- where the emission stands
  llvm::Value* batch = nullptr;
  llvm::Value* first_step = nullptr;  // of k that is live

  // The point of the current batch in the operand's view, `k` steps along the depth (null: none).
  Values at(const MemoryMatrix& memory, llvm::Value* k);
  // Whether liveness may change within the depth in a way that depends on the row or column.
  static bool is_compound(const MemoryMatrix& memory);

  // --- scratch
  llvm::Value* scratch(std::int64_t bytes);           // for as long as the tiles of this Block live
  void clear(llvm::Value* data, std::int64_t bytes);  // in units of 64
  void put(tile::ValueId value, const Buffer& target);
  // A tile in scratch, [rows of the matrix][inner], `pitch` elements from row to row, a panel readable behind
  // it.
  Buffer put_matrix(tile::ValueId value, std::int64_t inner, std::int64_t pitch);
  void store_widened(llvm::Value* value, DType from, DType to, llvm::Value* target);
  llvm::Value* bytes_behind(llvm::Value* pointer, llvm::Value* bytes);

  // Programs that follow one another often need the same pointers or copies of an operand: one row block
  // meets several column panels, or the other way round. Emits `prepare` so that it runs only if something
  // that it depends on has changed since it ran last in this call.
  void unless_unchanged(const Operand& operand, const ContractRange& range, llvm::Value* live,
                        const std::function<void()>& prepare);

 private:
  Operand operand(tile::ValueId value, bool depth_last);
  void choose_inner();
  bool lengthen_depth();
  bool fold_into_depth(std::size_t index);
  bool is_segment(std::size_t index);
  llvm::Value* b_index_pitch(std::size_t index);
  std::optional<std::int64_t> static_count(std::size_t index) const;
  std::optional<int> axis_of(const Operand& operand, std::size_t index) const;
  std::int64_t uses(const Operand& operand, std::size_t index) const;
  bool reads_only_from_outside(const Operand& operand) const;
  void lower_constants(const Operand& operand);
  bool is_index(tile::ValueId value) const;
  bool is_in_body(tile::OpId op) const;
  void spread(const MemoryMatrix& memory, const std::vector<int>& axes, llvm::Value* number,
              Values& position);
  bool add_key(const tile::Op& op, Values& key) const;

  bool top_level_;  // scratch keeps its content until the next program
  bool joined_ = false;
  std::optional<std::size_t> inner_;
  std::vector<std::size_t> segments_, outer_;
  std::vector<std::int64_t> segment_counts_;
  std::int64_t segment_count_ = 1;
  llvm::Value* b_segment_pitch_ = nullptr;
};

}  // namespace kiln::jit::cpu
