// Counted loops and branches at the builder's insertion point.
#pragma once

#include <functional>

#include <llvm/IR/IRBuilder.h>

namespace kiln::jit::cpu {

// for (i = low; i < high; i += step) body(i), signed i64, step > 0. The builder ends behind the loop.
void emit_loop(llvm::IRBuilder<>& builder, llvm::Value* low, llvm::Value* high, llvm::Value* step,
               const std::function<void(llvm::Value* i)>& body);

void emit_if(llvm::IRBuilder<>& builder, llvm::Value* condition, const std::function<void()>& then,
             const std::function<void()>& otherwise);

}  // namespace kiln::jit::cpu
