#include "jit/cpu/loop.h"

namespace kiln::jit::cpu {
namespace {

llvm::BasicBlock* new_block(llvm::IRBuilder<>& builder, const char* label) {
  return llvm::BasicBlock::Create(builder.getContext(), label, builder.GetInsertBlock()->getParent());
}

}  // namespace

void emit_loop(llvm::IRBuilder<>& builder, llvm::Value* low, llvm::Value* high, llvm::Value* step,
               const std::function<void(llvm::Value* i)>& body) {
  llvm::BasicBlock* const before = builder.GetInsertBlock();
  llvm::BasicBlock* const inside = new_block(builder, "loop");
  llvm::BasicBlock* const after = new_block(builder, "after_loop");
  builder.CreateCondBr(builder.CreateICmpSLT(low, high), inside, after);
  builder.SetInsertPoint(inside);
  llvm::PHINode* const i = builder.CreatePHI(low->getType(), 2, "i");
  i->addIncoming(low, before);
  body(i);
  llvm::Value* const next = builder.CreateAdd(i, step);
  i->addIncoming(next, builder.GetInsertBlock());
  builder.CreateCondBr(builder.CreateICmpSLT(next, high), inside, after);
  builder.SetInsertPoint(after);
}

void emit_if(llvm::IRBuilder<>& builder, llvm::Value* condition, const std::function<void()>& then,
             const std::function<void()>& otherwise) {
  llvm::BasicBlock* const taken = new_block(builder, "then");
  llvm::BasicBlock* const other = new_block(builder, "else");
  llvm::BasicBlock* const after = new_block(builder, "after_if");
  builder.CreateCondBr(condition, taken, other);
  builder.SetInsertPoint(taken);
  then();
  builder.CreateBr(after);
  builder.SetInsertPoint(other);
  otherwise();
  builder.CreateBr(after);
  builder.SetInsertPoint(after);
}

}  // namespace kiln::jit::cpu
