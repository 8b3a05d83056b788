// Operand A of a dot: a table of row pointers, one for each row of each segment. A row is read in place if
// its elements follow one another in memory and all of it is live; a row outside of the view is a row of
// zeros; other rows are copied.
#pragma once

#include "jit/cpu/dot_site.h"

namespace kiln::jit::cpu {

class RowOperand {
 public:
  explicit RowOperand(DotSite& site) : site_(site), code_(site.code) {}

  // A tile, if A is no view, put into scratch once for all batches.
  void put_tile();
  // Whether rows can be read in place. Emits no code that has an effect.
  void choose();
  bool may_copy() const { return may_copy_; }
  void allocate(const BlockProduct& product);
  void prepare(const BlockProduct& product, const ContractRange& range, PassOperands& operands);

 private:
  void prepare_tile(const BlockProduct& product, const ContractRange& range);
  void prepare_segment(const BlockProduct& product, const ContractRange& range, llvm::Value* segment);
  void prepare_rows(const ContractRange& range, llvm::Value* table, llvm::Value* first_row, llvm::Value* slot,
                    Values position, llvm::Value* end);
  void copy_transposed(const ContractRange& range, llvm::Value* segment, llvm::Value* table);
  llvm::Value* row_pointer(const ContractRange& range, llvm::Value* slot, const Values& position);
  void copy_row(Values position, const ContractRange& range, llvm::Value* target);
  llvm::Value* copy(const ContractRange& range, llvm::Value* slot, const Values& position);
  // The elements of a row at its beginning, and at its end: all are live iff these are.
  std::vector<Values> ends(const Values& position, llvm::Value* k) const;
  llvm::Value* segment_table(const BlockProduct& product, llvm::Value* segment);
  void store_pointer(llvm::Value* table, llvm::Value* row, llvm::Value* pointer);
  void fill_table(llvm::Value* table, llvm::Value* live);
  std::int64_t rows_of_panel() const { return site_.shape.rows; }

  DotSite& site_;
  Code& code_;
  bool in_place_ = false;
  bool may_copy_ = false;
  bool transposed_ = false;  // rows are contiguous across, not along
  std::int64_t padded_rows_ = 0;
  std::int64_t copy_pitch_ = 0;  // elements
  std::int64_t pass_ = 0;
  Buffer tile_;
  llvm::Value* table_ = nullptr;
  llvm::Value* zeros_ = nullptr;
  llvm::Value* copies_ = nullptr;
};

}  // namespace kiln::jit::cpu
