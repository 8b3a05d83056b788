// The innermost block product of a dot: C[rows x columns] (+)= sum over segments, k of A[rows x k] * B[k x
// columns], with all of C in registers.
//
// A is read one scalar at a time through a table of row pointers, so that a row may lie anywhere: a matrix
// row, a pixel of an image, a row of zeros for padding. The table has one entry per row for each segment (a
// tap of a convolution; a matrix product has one segment). B is read as full vectors from rows of `vectors *
// lanes` columns.
#pragma once

#include <string>

#include <kiln/dtype.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "ir/base/target.h"

namespace kiln::jit::cpu {

// What becomes of C's old content.
enum class Update : std::uint8_t { Replace, Add, AsTold };

struct MicroKernelShape {
  int rows = 1;
  int vectors = 1;                 // of C's columns
  int lanes = 16;                  // elements of one vector of C; a native register of the Target
  int unroll = 1;                  // steps of k per iteration
  DType accumulator = DType::F32;  // of A, of C and of the arithmetic: f32, f64, i32 or i64 (wrapping)
  DType b_element = DType::F32;    // widened to `accumulator` when read; see widens()
  bool many_segments = true;       // else there is one
  Update update = Update::AsTold;

  int columns() const { return vectors * lanes; }
  bool operator==(const MicroKernelShape&) const = default;
};

// The widest row of C that a register tile may have, and as many rows as then leave room for a row of B and
// one broadcast of A. Both in native registers.
int most_register_vectors(const Target& target);
int register_rows(const Target& target, int vectors);

// Arguments of one call, all values of the calling function. Pitches are in bytes.
struct MicroKernelCall {
  llvm::Value* a_rows = nullptr;        // ptr to the row pointers of the first segment
  llvm::Value* a_offset = nullptr;      // i64 bytes added to each row pointer
  llvm::Value* a_rows_pitch = nullptr;  // i64 from the row pointers of one segment to those of the next
  llvm::Value* segments = nullptr;      // i64 >= 1
  llvm::Value* k = nullptr;             // i64 >= 1 steps in each segment
  llvm::Value* b = nullptr;             // ptr to k = 0 of the first segment
  llvm::Value* b_pitch = nullptr;       // i64 from one k to the next
  llvm::Value* b_segment_pitch = nullptr;
  llvm::Value* c = nullptr;
  llvm::Value* c_pitch = nullptr;
  llvm::Value* accumulate = nullptr;  // i1: add to C, else replace it; where the shape leaves it open
};

// The function for this shape in the module, emitted at its first use. It reads nothing beyond the block that
// it is asked for.
llvm::Function* micro_kernel(llvm::Module& module, const MicroKernelShape& shape);
void call_micro_kernel(llvm::IRBuilderBase& builder, llvm::Function* function, const MicroKernelCall& call);

}  // namespace kiln::jit::cpu
