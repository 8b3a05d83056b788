// Copies a matrix that is contiguous the other way into the rows that a micro-kernel reads: an operand given
// as its transpose, such as the keys of attention. Written for B; for A, k and columns change their parts.
#pragma once

#include <kiln/dtype.h>

#include "jit/cpu/code.h"

namespace kiln::jit::cpu {

// Turns a square: as many vectors as each has lanes, a power of two.
void transpose_registers(llvm::IRBuilderBase& builder, std::vector<llvm::Value*>& rows);

struct TransposedCopy {
  DType from = DType::F32;
  DType to = DType::F32;  // 32 or 64 bits
  int lanes = 16;         // of a native register of `to`

  llvm::Value* source = nullptr;          // element k = 0 of column 0; elements of one column are adjacent
  llvm::Value* column_pitch = nullptr;    // i64 bytes from one column to the next, of any sign
  llvm::Value* k = nullptr;               // i64 elements of a column
  llvm::Value* columns = nullptr;         // i64 live columns; the others become zero
  llvm::Value* target = nullptr;          // rows of k; rows up to the next multiple of `lanes` are written
  llvm::Value* target_pitch = nullptr;    // i64 bytes
  llvm::Value* padded_columns = nullptr;  // i64, a multiple of `lanes`: columns that are written
};

void emit_transposed_copy(Code& code, const TransposedCopy& copy);

}  // namespace kiln::jit::cpu
