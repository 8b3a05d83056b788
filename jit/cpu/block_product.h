// The loops of a dot round its micro-kernels: C[rows x columns] (+)= sum over segments, k of A * B for one
// program instance's block. Passes over k so that a pass of A and B stays in the L2 cache; in a pass, column
// panels; in a column panel, row panels.
#pragma once

#include <cstdint>
#include <functional>

#include <llvm/IR/IRBuilder.h>

#include "ir/base/target.h"
#include "jit/cpu/micro_kernel.h"

namespace kiln::jit::cpu {

// A range of k, values of the function being emitted.
struct ContractRange {
  llvm::Value* begin = nullptr;  // i64
  llvm::Value* count = nullptr;  // i64, of each segment
};

// Where a pass finds A: see MicroKernelCall.
struct RowOperand {
  llvm::Value* rows = nullptr;    // ptr to one pointer per row; block.padded_rows() of them per segment
  llvm::Value* offset = nullptr;  // i64 bytes
};

// Where a column panel finds B.
struct PanelOperand {
  llvm::Value* data = nullptr;
  llvm::Value* pitch = nullptr;          // i64 bytes from one k to the next
  llvm::Value* segment_pitch = nullptr;  // i64 bytes
};

struct BlockProduct {
  MicroKernelShape shape;  // rows: of a full row panel
  std::int64_t rows = 0;   // static extents of C
  std::int64_t columns = 0;
  llvm::Value* live_rows = nullptr;     // i64 <= rows: rows that are computed; C keeps the others
  llvm::Value* live_columns = nullptr;  // i64 <= columns: panels that begin below it are computed
  llvm::Value* segments = nullptr;      // i64
  llvm::Value* k = nullptr;             // i64 steps of each segment
  std::int64_t segments_at_most = 1;    // an estimate for the size of a pass
  std::int64_t pass = 0;                // steps of k in a pass; 0: chosen by the Target's L2
  llvm::Value* c = nullptr;  // padded_rows() rows of c_pitch bytes; padded_columns() columns are written
  llvm::Value* c_pitch = nullptr;
  bool accumulate = false;  // C holds the initial accumulator; else it starts from zero

  // Emit what makes the operands of a pass (or panel) readable: pointers alone, or a copy into scratch.
  std::function<RowOperand(llvm::IRBuilder<>&, const ContractRange&)> a;
  std::function<PanelOperand(llvm::IRBuilder<>&, const ContractRange&, llvm::Value* column)> b;

  // Rows that C and the table of row pointers must hold: a row panel may compute beyond the live rows.
  std::int64_t padded_rows() const;
  std::int64_t padded_columns() const;
};

// Steps of k in one pass: A's rows, B's panel and what else flows through leave half of L2 free.
std::int64_t default_pass(const Target& target, const BlockProduct& product);

void emit_block_product(llvm::IRBuilder<>& builder, const Target& target, const BlockProduct& product);

}  // namespace kiln::jit::cpu
