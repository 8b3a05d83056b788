// The loops of a dot round its micro-kernels: C[rows x columns] (+)= sum over segments, k of A * B for one
// program instance's block. Passes over k so that a pass of A and B stays in the L2 cache; in a pass, column
// panels; in a column panel, row panels.
#pragma once

#include <cstdint>
#include <functional>

#include "ir/base/target.h"
#include "jit/cpu/code.h"
#include "jit/cpu/micro_kernel.h"

namespace kiln::jit::cpu {

// The steps of k of one pass, values of the function being emitted.
struct ContractRange {
  llvm::Value* begin = nullptr;  // i64
  llvm::Value* count = nullptr;  // i64
};

// Where the micro-kernels of one pass find A and B. Pitches are i64 bytes.
struct PassOperands {
  llvm::Value* rows = nullptr;      // ptr to one pointer per row, padded_rows() of them for each segment
  llvm::Value* a_offset = nullptr;  // added to each row pointer
  llvm::Value* b = nullptr;         // k = begin of the first segment in the first column panel
  llvm::Value* b_pitch = nullptr;   // from one k to the next
  llvm::Value* b_segment_pitch = nullptr;
  llvm::Value* b_panel_pitch = nullptr;
};

struct BlockProduct {
  MicroKernelShape
      shape;  // `rows`: of a full row panel; `many_segments` and `update` are set from what follows
  std::int64_t rows = 0;  // static extents of C
  std::int64_t columns = 0;
  llvm::Value* live_rows = nullptr;     // i64 <= rows: rows that are computed; C keeps the others
  llvm::Value* live_columns = nullptr;  // i64 <= columns: panels that begin below it are computed
  llvm::Value* segments = nullptr;      // i64
  llvm::Value* k = nullptr;             // i64 steps of each segment; for 0, C stays as it is
  std::int64_t pass = 1;                // greatest number of steps of k in a pass
  std::int64_t pass_multiple = 1;       // passes but the last are a multiple of it, which divides `pass`
  llvm::Value* c = nullptr;             // padded_rows() rows of at least padded_columns() elements
  llvm::Value* c_pitch = nullptr;       // i64 bytes
  bool accumulate = false;              // C holds the initial accumulator; else it is replaced

  // Emits what makes the operands of a pass readable: pointers alone, or copies into scratch.
  std::function<PassOperands(const ContractRange&)> prepare;

  // A row panel may compute beyond the live rows, so that C and the table of row pointers must hold full
  // panels.
  std::int64_t padded_rows() const;
  std::int64_t padded_columns() const;
};

// Steps of k in one pass: A's rows and B's columns that are in use together leave half of L2 free. `segments`
// is an estimate.
std::int64_t default_pass(const Target& target, const MicroKernelShape& shape, std::int64_t rows,
                          std::int64_t columns, std::int64_t segments);

void emit_block_product(Code& code, const BlockProduct& product);

}  // namespace kiln::jit::cpu
