// How elements of each dtype are held in LLVM values and in memory.
#pragma once

#include <kiln/dtype.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/LLVMContext.h>

namespace kiln::jit::cpu {

// In a register: i1 for booleans, half for f16, the bits as i16 for bf16.
llvm::Type* register_type(llvm::LLVMContext& context, DType dtype);
// In memory: as in registers, but booleans take a byte.
llvm::Type* memory_type(llvm::LLVMContext& context, DType dtype);
std::int64_t byte_width(DType dtype);

// `scalar`, or a vector of it if lanes > 1.
llvm::Type* with_lanes(llvm::Type* scalar, int lanes);
inline int lane_count(llvm::Type* type) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  return vector == nullptr ? 1 : static_cast<int>(vector->getNumElements());
}
// A constant of the register type of `dtype` with these bits, or a splat of it.
llvm::Constant* constant_of(llvm::Type* type, DType dtype, std::uint64_t bits);

}  // namespace kiln::jit::cpu
