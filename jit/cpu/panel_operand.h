// Operand B of a dot: column panels whose rows the micro-kernels read as vectors. Read in place where whole
// panels of adjacent elements lie at equal distances and all are live; else copied for each pass.
#pragma once

#include <utility>
#include <vector>

#include "jit/cpu/dot_site.h"

namespace kiln::jit::cpu {

class PanelOperand {
 public:
  explicit PanelOperand(DotSite& site) : site_(site), code_(site.code) {}

  // A tile, if B is no view, put into scratch once for all batches.
  void put_tile(const BlockProduct& product);
  // How it will be read; `depth` (steps of k) becomes 0 at run time where nothing of B is live.
  void choose(const BlockProduct& product, llvm::Value*& depth);
  bool may_copy() const { return site_.b.memory && read_ != Read::InPlace; }
  // The dtype in which micro-kernels find it.
  DType element() const { return read_ == Read::Copied ? site_.accumulator : site_.b.dtype; }
  void allocate(const BlockProduct& product);
  void prepare(const BlockProduct& product, const ContractRange& range, PassOperands& operands);

 private:
  enum class Read { Copied, InPlaceIfLive, InPlace };

  bool find_depth_pitch();
  bool find_panel_pitch();
  void decide_liveness(const BlockProduct& product, llvm::Value*& depth);
  bool copies_transposed(const Run& columns) const;
  void copy(const BlockProduct& product, const ContractRange& range);
  void copy_transposed(const BlockProduct& product, const ContractRange& range, const Run& columns,
                       llvm::Value* target);
  void copy_row(const BlockProduct& product, llvm::Value* k, llvm::Value* target);
  // The end of the last panel that is computed.
  llvm::Value* panel_end(const BlockProduct& product);
  int column_axis() const;

  DotSite& site_;
  Code& code_;
  Read read_ = Read::Copied;
  Buffer tile_;
  llvm::Value* pitch_ = nullptr;        // bytes
  llvm::Value* panel_pitch_ = nullptr;  // bytes
  llvm::Value* live_ = nullptr;
  llvm::Value* copy_ = nullptr;
};

}  // namespace kiln::jit::cpu
