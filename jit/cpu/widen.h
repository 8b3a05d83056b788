// Exact conversions of loaded operands to the type that a dot computes in.
#pragma once

#include <kiln/dtype.h>
#include <llvm/IR/IRBuilder.h>

namespace kiln::jit::cpu {

// Whether every value of `from` is one of `to`: the pairs that a dot may widen.
bool widens(DType from, DType to);

// `value` (a scalar or vector as it lies in memory; bf16 as i16 bits) as `to`. widens(from, to) must hold.
llvm::Value* widen(llvm::IRBuilderBase& builder, llvm::Value* value, DType from, DType to);

// How an element of `dtype` is loaded: bf16 as its bits.
llvm::Type* memory_element(llvm::LLVMContext& context, DType dtype);

}  // namespace kiln::jit::cpu
