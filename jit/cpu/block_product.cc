#include "jit/cpu/block_product.h"

#include <algorithm>

#include "ir/base/checked_math.h"
#include "jit/cpu/loop.h"

namespace kiln::jit::cpu {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return ceil_divide(value, multiple) * multiple;
}

class Emitter {
 public:
  Emitter(llvm::IRBuilder<>& builder, const Target& target, const BlockProduct& product)
      : builder_(builder),
        product_(product),
        pass_(product.pass > 0 ? product.pass : default_pass(target, product)) {}

  void emit() {
    llvm::Module& module = *builder_.GetInsertBlock()->getModule();
    full_ = micro_kernel(module, product_.shape);
    // A panel of few rows is bound by reading B, so that one shape for up to half of the rows serves them
    // all.
    MicroKernelShape half = product_.shape;
    half.rows = half_rows();
    half_ = micro_kernel(module, half);

    // Passes of equal length, so that none is short.
    llvm::Value* const passes =
        builder_.CreateUDiv(builder_.CreateAdd(product_.k, constant(pass_ - 1)), constant(pass_));
    llvm::Value* const at_least_one =
        builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, passes, constant(1));
    llvm::Value* const length = builder_.CreateUDiv(
        builder_.CreateAdd(product_.k, builder_.CreateSub(at_least_one, constant(1))), at_least_one);
    emit_pass({constant(0), length}, builder_.getInt1(product_.accumulate));
    emit_loop(builder_, length, product_.k, length, [&](llvm::Value* begin) {
      llvm::Value* const rest = builder_.CreateSub(product_.k, begin);
      llvm::Value* const count = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, length, rest);
      emit_pass({begin, count}, builder_.getTrue());
    });
  }

 private:
  int half_rows() const { return (product_.shape.rows + 1) / 2; }

  void emit_pass(const ContractRange& range, llvm::Value* accumulate) {
    const RowOperand a = product_.a(builder_, range);
    const std::int64_t width = product_.shape.columns();
    emit_loop(builder_, constant(0), product_.live_columns, constant(width), [&](llvm::Value* column) {
      const PanelOperand b = product_.b(builder_, range, column);
      emit_loop(builder_, constant(0), product_.live_rows, constant(product_.shape.rows),
                [&](llvm::Value* row) {
                  const std::uint64_t element = to_unsigned(bits(product_.shape.accumulator) / 8);
                  llvm::Value* const c_row = offset(product_.c, builder_.CreateMul(row, product_.c_pitch));
                  MicroKernelCall call;
                  call.a_rows = builder_.CreateGEP(builder_.getPtrTy(), a.rows, row);
                  call.a_offset = a.offset;
                  call.a_rows_pitch = constant(product_.padded_rows() * 8);
                  call.segments = product_.segments;
                  call.k = range.count;
                  call.b = b.data;
                  call.b_pitch = b.pitch;
                  call.b_segment_pitch = b.segment_pitch;
                  call.c = offset(c_row, builder_.CreateMul(column, builder_.getInt64(element)));
                  call.c_pitch = product_.c_pitch;
                  call.accumulate = accumulate;
                  llvm::Value* const rest = builder_.CreateSub(product_.live_rows, row);
                  emit_if(
                      builder_, builder_.CreateICmpSGT(rest, constant(half_rows())),
                      [&] { call_micro_kernel(builder_, full_, call); },
                      [&] { call_micro_kernel(builder_, half_, call); });
                });
    });
  }

  static std::uint64_t to_unsigned(std::int64_t value) { return static_cast<std::uint64_t>(value); }
  llvm::Value* constant(std::int64_t value) { return builder_.getInt64(to_unsigned(value)); }
  llvm::Value* offset(llvm::Value* pointer, llvm::Value* bytes) {
    return builder_.CreateGEP(builder_.getInt8Ty(), pointer, bytes);
  }

  llvm::IRBuilder<>& builder_;
  const BlockProduct& product_;
  const std::int64_t pass_;
  llvm::Function* full_ = nullptr;
  llvm::Function* half_ = nullptr;
};

}  // namespace

std::int64_t BlockProduct::padded_rows() const { return round_up(rows, shape.rows); }
std::int64_t BlockProduct::padded_columns() const { return round_up(columns, shape.columns()); }

std::int64_t default_pass(const Target& target, const BlockProduct& product) {
  const std::int64_t bytes_per_step = product.rows * (bits(product.shape.accumulator) / 8) +
                                      product.shape.columns() * (bits(product.shape.b_element) / 8) *
                                          std::max<std::int64_t>(product.segments_at_most, 1);
  return std::max<std::int64_t>(64, target.l2_bytes / 2 / bytes_per_step);
}

void emit_block_product(llvm::IRBuilder<>& builder, const Target& target, const BlockProduct& product) {
  Emitter(builder, target, product).emit();
}

}  // namespace kiln::jit::cpu
