#include "jit/cpu/micro_kernel.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <llvm/IR/Intrinsics.h>

#include "jit/cpu/widen.h"
#include "jit/llvm/shared_functions.h"

namespace kiln::jit::cpu {
namespace {

// Emits one micro-kernel function. The accumulators travel as phis through the loops over segments and k.
class Emitter {
 public:
  Emitter(llvm::Module& module, const MicroKernelShape& shape, llvm::Function* function)
      : shape_(shape),
        function_(function),
        builder_(module.getContext()),
        scalar_(memory_element(module.getContext(), shape.accumulator)),
        b_scalar_(memory_element(module.getContext(), shape.b_element)),
        vector_(llvm::FixedVectorType::get(scalar_, static_cast<unsigned>(shape.lanes))),
        index_(builder_.getInt64Ty()) {}

  void emit() {
    llvm::Value* const a_rows = argument(0);
    llvm::Value* const a_offset = argument(1);
    llvm::Value* const a_rows_pitch = argument(2);
    llvm::Value* const segments = argument(3);
    llvm::Value* const k = argument(4);
    llvm::Value* const b = argument(5);
    b_pitch_ = argument(6);
    llvm::Value* const b_segment_pitch = argument(7);
    c_ = argument(8);
    c_pitch_ = argument(9);
    llvm::Value* const accumulate = argument(10);

    llvm::BasicBlock* const entry = block("entry");
    builder_.SetInsertPoint(entry);
    Accumulators sums(to_unsigned(shape_.rows * shape_.vectors), llvm::Constant::getNullValue(vector_));
    if (!shape_.many_segments) {
      sums = emit_segment(sums, row_pointers(a_rows, a_offset), b, k);
    } else {
      llvm::BasicBlock* const segment = block("segment");
      llvm::BasicBlock* const after = block("after_segments");
      builder_.CreateBr(segment);
      builder_.SetInsertPoint(segment);
      llvm::PHINode* const remaining = builder_.CreatePHI(index_, 2, "segments");
      llvm::PHINode* const rows = builder_.CreatePHI(builder_.getPtrTy(), 2, "rows");
      llvm::PHINode* const b_segment = builder_.CreatePHI(builder_.getPtrTy(), 2, "b");
      Phis carried = phis();
      add_incoming(carried, sums, entry);
      remaining->addIncoming(segments, entry);
      rows->addIncoming(a_rows, entry);
      b_segment->addIncoming(b, entry);
      sums = emit_segment(values(carried), row_pointers(rows, a_offset), b_segment, k);
      llvm::BasicBlock* const end = builder_.GetInsertBlock();
      llvm::Value* const next = builder_.CreateSub(remaining, constant(1));
      remaining->addIncoming(next, end);
      rows->addIncoming(offset(rows, a_rows_pitch), end);
      b_segment->addIncoming(offset(b_segment, b_segment_pitch), end);
      add_incoming(carried, sums, end);
      builder_.CreateCondBr(builder_.CreateICmpSGT(next, constant(0)), segment, after);
      builder_.SetInsertPoint(after);
    }
    switch (shape_.update) {
      case Update::Replace:
        emit_end(sums, false);
        break;
      case Update::Add:
        emit_end(sums, true);
        break;
      case Update::AsTold: {
        llvm::BasicBlock* const add = block("add");
        llvm::BasicBlock* const replace = block("replace");
        builder_.CreateCondBr(accumulate, add, replace);
        builder_.SetInsertPoint(add);
        emit_end(sums, true);
        builder_.SetInsertPoint(replace);
        emit_end(sums, false);
        break;
      }
    }
  }

 private:
  using Accumulators = std::vector<llvm::Value*>;
  using Phis = std::vector<llvm::PHINode*>;

  std::vector<llvm::Value*> row_pointers(llvm::Value* table, llvm::Value* a_offset) {
    std::vector<llvm::Value*> pointers;
    for (int row = 0; row < shape_.rows; ++row) {
      llvm::Value* const entry = builder_.CreateConstGEP1_64(builder_.getPtrTy(), table, to_unsigned(row));
      pointers.push_back(offset(builder_.CreateLoad(builder_.getPtrTy(), entry), a_offset));
    }
    return pointers;
  }

  void emit_end(const Accumulators& sums, bool add) {
    for (int row = 0; row < shape_.rows; ++row) {
      llvm::Value* const c_row = offset(c_, builder_.CreateMul(c_pitch_, constant(row)));
      for (int vector = 0; vector < shape_.vectors; ++vector) {
        llvm::Value* const address =
            builder_.CreateConstInBoundsGEP1_64(scalar_, c_row, to_unsigned(vector * shape_.lanes));
        llvm::Value* sum = sums[position(row, vector)];
        if (add) {
          llvm::Value* const old = builder_.CreateAlignedLoad(vector_, address, element_alignment());
          sum = is_float(shape_.accumulator) ? builder_.CreateFAdd(old, sum) : builder_.CreateAdd(old, sum);
        }
        builder_.CreateAlignedStore(sum, address, element_alignment());
      }
    }
    builder_.CreateRetVoid();
  }

  // The loop over k of one segment, k >= 1: `unroll` steps at a time, then the rest one by one.
  Accumulators emit_segment(const Accumulators& sums, const std::vector<llvm::Value*>& rows, llvm::Value* b,
                            llvm::Value* k) {
    if (shape_.unroll == 1) return emit_loop(sums, rows, b, constant(0), k, 1).sums;
    llvm::Value* const whole = builder_.CreateSub(k, builder_.CreateURem(k, constant(shape_.unroll)));
    LoopResult first = emit_guarded_loop(sums, rows, b, constant(0), whole, shape_.unroll);
    return emit_guarded_loop(first.sums, rows, first.b, whole, k, 1).sums;
  }

  struct LoopResult {
    Accumulators sums;
    llvm::Value* b;
  };

  LoopResult emit_guarded_loop(const Accumulators& sums, const std::vector<llvm::Value*>& rows,
                               llvm::Value* b, llvm::Value* from, llvm::Value* to, int unroll) {
    llvm::BasicBlock* const before = builder_.GetInsertBlock();
    llvm::BasicBlock* const body = block("steps");
    llvm::BasicBlock* const after = block("after_steps");
    builder_.CreateCondBr(builder_.CreateICmpSLT(from, to), body, after);
    builder_.SetInsertPoint(body);
    const LoopResult inner = emit_loop(sums, rows, b, from, to, unroll);
    llvm::BasicBlock* const body_end = builder_.GetInsertBlock();
    builder_.CreateBr(after);
    builder_.SetInsertPoint(after);
    Phis merged = phis();
    add_incoming(merged, sums, before);
    add_incoming(merged, inner.sums, body_end);
    llvm::PHINode* const b_end = builder_.CreatePHI(builder_.getPtrTy(), 2);
    b_end->addIncoming(b, before);
    b_end->addIncoming(inner.b, body_end);
    return {values(merged), b_end};
  }

  // Steps from < to, at least one iteration.
  LoopResult emit_loop(const Accumulators& sums, const std::vector<llvm::Value*>& rows, llvm::Value* b,
                       llvm::Value* from, llvm::Value* to, int unroll) {
    llvm::BasicBlock* const before = builder_.GetInsertBlock();
    llvm::BasicBlock* const body = block("k");
    llvm::BasicBlock* const after = block("after_k");
    builder_.CreateBr(body);
    builder_.SetInsertPoint(body);
    llvm::PHINode* const step = builder_.CreatePHI(index_, 2, "k");
    llvm::PHINode* const b_row = builder_.CreatePHI(builder_.getPtrTy(), 2, "b_row");
    Phis carried = phis();
    step->addIncoming(from, before);
    b_row->addIncoming(b, before);
    add_incoming(carried, sums, before);

    Accumulators next = values(carried);
    llvm::Value* b_next = b_row;
    for (int unrolled = 0; unrolled < unroll; ++unrolled) {
      std::vector<llvm::Value*> b_vectors;
      for (int vector = 0; vector < shape_.vectors; ++vector) b_vectors.push_back(load_b(b_next, vector));
      for (int row = 0; row < shape_.rows; ++row) {
        llvm::Value* const address = builder_.CreateConstInBoundsGEP1_64(
            scalar_, builder_.CreateInBoundsGEP(scalar_, rows[to_unsigned(row)], step),
            to_unsigned(unrolled));
        llvm::Value* const a =
            builder_.CreateVectorSplat(static_cast<unsigned>(shape_.lanes),
                                       builder_.CreateAlignedLoad(scalar_, address, element_alignment()));
        for (int vector = 0; vector < shape_.vectors; ++vector) {
          llvm::Value*& sum = next[position(row, vector)];
          sum = multiply_add(a, b_vectors[to_unsigned(vector)], sum);
        }
      }
      b_next = offset(b_next, b_pitch_);
    }
    llvm::Value* const step_next = builder_.CreateAdd(step, constant(unroll));
    step->addIncoming(step_next, body);
    b_row->addIncoming(b_next, body);
    add_incoming(carried, next, body);
    builder_.CreateCondBr(builder_.CreateICmpSLT(step_next, to), body, after);
    builder_.SetInsertPoint(after);
    return {next, b_next};
  }

  llvm::Value* load_b(llvm::Value* row, int vector) {
    llvm::Type* const stored = llvm::FixedVectorType::get(b_scalar_, static_cast<unsigned>(shape_.lanes));
    llvm::Value* const address =
        builder_.CreateConstInBoundsGEP1_64(b_scalar_, row, to_unsigned(vector * shape_.lanes));
    llvm::Value* const value =
        builder_.CreateAlignedLoad(stored, address, llvm::Align(to_unsigned(bits(shape_.b_element) / 8)));
    return widen(builder_, value, shape_.b_element, shape_.accumulator);
  }

  llvm::Value* multiply_add(llvm::Value* a, llvm::Value* b, llvm::Value* sum) {
    if (is_float(shape_.accumulator))
      return builder_.CreateIntrinsic(llvm::Intrinsic::fma, {vector_}, {a, b, sum});
    return builder_.CreateAdd(builder_.CreateMul(a, b), sum);
  }

  Phis phis() {
    Phis result;
    for (int i = 0; i < shape_.rows * shape_.vectors; ++i) result.push_back(builder_.CreatePHI(vector_, 2));
    return result;
  }
  static void add_incoming(Phis& phis, const Accumulators& values, llvm::BasicBlock* from) {
    for (std::size_t i = 0; i < phis.size(); ++i) phis[i]->addIncoming(values[i], from);
  }
  static Accumulators values(const Phis& phis) { return {phis.begin(), phis.end()}; }

  static std::size_t to_unsigned(int value) { return static_cast<std::size_t>(value); }
  std::size_t position(int row, int vector) const { return to_unsigned(row * shape_.vectors + vector); }
  llvm::Align element_alignment() const { return llvm::Align(to_unsigned(bits(shape_.accumulator) / 8)); }
  llvm::Value* argument(unsigned number) { return function_->getArg(number); }
  llvm::Value* constant(std::int64_t value) { return builder_.getInt64(static_cast<std::uint64_t>(value)); }
  llvm::Value* offset(llvm::Value* pointer, llvm::Value* bytes) {
    return builder_.CreateGEP(builder_.getInt8Ty(), pointer, bytes);
  }
  llvm::BasicBlock* block(const char* label) {
    return llvm::BasicBlock::Create(builder_.getContext(), label, function_);
  }

  const MicroKernelShape& shape_;
  llvm::Function* const function_;
  llvm::IRBuilder<> builder_;
  llvm::Type* const scalar_;
  llvm::Type* const b_scalar_;
  llvm::Type* const vector_;
  llvm::Type* const index_;
  llvm::Value* b_pitch_ = nullptr;
  llvm::Value* c_ = nullptr;
  llvm::Value* c_pitch_ = nullptr;
};

}  // namespace

int most_register_vectors(const Target& target) { return target.vector_registers() >= 32 ? 4 : 2; }

int register_rows(const Target& target, int vectors) {
  // Each row is a pointer in a general register; beyond these numbers of rows they spill, or nothing is
  // gained.
  const int most = vectors == 1 ? 12 : 8;
  return std::clamp((target.vector_registers() - vectors - 1) / vectors, 1, most);
}

llvm::Function* micro_kernel(llvm::Module& module, const MicroKernelShape& shape) {
  const std::string symbol =
      fmt::format("dot_{}x{}_{}_{}_u{}{}{}", shape.rows, shape.columns(), name(shape.accumulator),
                  name(shape.b_element), shape.unroll, shape.many_segments ? "_segments" : "",
                  shape.update == Update::Replace ? "_replace"
                  : shape.update == Update::Add   ? "_add"
                                                  : "");
  if (llvm::Function* const existing = module.getFunction(symbol)) return existing;
  llvm::LLVMContext& context = module.getContext();
  llvm::Type* const pointer = llvm::PointerType::getUnqual(context);
  llvm::Type* const index = llvm::Type::getInt64Ty(context);
  llvm::Type* const parameters[] = {pointer,
                                    index,
                                    index,
                                    index,
                                    index,
                                    pointer,
                                    index,
                                    index,
                                    pointer,
                                    index,
                                    llvm::Type::getInt1Ty(context)};
  llvm::Function* const function =
      llvm::Function::Create(llvm::FunctionType::get(llvm::Type::getVoidTy(context), parameters, false),
                             llvm::GlobalValue::InternalLinkage, symbol, module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->addFnAttr(llvm::Attribute::NoInline);
  function->addFnAttr(kSharedFunction);
  Emitter(module, shape, function).emit();
  return function;
}

void call_micro_kernel(llvm::IRBuilderBase& builder, llvm::Function* function, const MicroKernelCall& call) {
  builder.CreateCall(function, {call.a_rows, call.a_offset, call.a_rows_pitch, call.segments, call.k, call.b,
                                call.b_pitch, call.b_segment_pitch, call.c, call.c_pitch, call.accumulate});
}

}  // namespace kiln::jit::cpu
