#include "jit/cpu/block_product.h"

#include <algorithm>

#include "ir/base/checked_math.h"

namespace kiln::jit::cpu {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return ceil_divide(value, multiple) * multiple;
}

class Emitter {
 public:
  Emitter(Code& code, const BlockProduct& product) : code_(code), product_(product) {}

  void emit() {
    llvm::Module& module = *code_.function()->getParent();
    llvm::Value* const length = balanced_length(code_.max(product_.k, code_.index(1)));
    const auto* const known = llvm::dyn_cast<llvm::ConstantInt>(product_.k);
    MicroKernelShape shape = product_.shape;
    shape.many_segments = !Code::is_constant(product_.segments, 1);
    shape.update = product_.accumulate                                          ? Update::Add
                   : known != nullptr && known->getSExtValue() <= product_.pass ? Update::Replace
                                                                                : Update::AsTold;
    // A panel of few rows is bound by reading B, so that one shape for up to half of the rows serves them
    // all.
    MicroKernelShape half = shape;
    half.rows = half_rows();
    if (needs_full()) full_ = micro_kernel(module, shape);
    if (needs_half()) half_ = micro_kernel(module, half);
    code_.loop(code_.index(0), product_.k, length, [&](llvm::Value* begin) {
      llvm::Value* const count = code_.min(length, code_.sub(product_.k, begin));
      emit_pass({begin, count}, code_.less(code_.index(0), begin));
    });
  }

 private:
  int half_rows() const { return (product_.shape.rows + 1) / 2; }
  bool needs_full() const { return code_.range_of(product_.live_rows).high > half_rows(); }
  // Whether the last panel may have few rows.
  bool needs_half() const {
    const auto* const live = llvm::dyn_cast<llvm::ConstantInt>(product_.live_rows);
    if (live == nullptr) return true;
    return floor_modulo(live->getSExtValue() - 1, product_.shape.rows) + 1 <= half_rows();
  }

  // Passes of nearly equal length, so that none is short.
  llvm::Value* balanced_length(llvm::Value* k) {
    const auto divide_up = [&](llvm::Value* a, llvm::Value* b) {
      llvm::Value* const sum = code_.add(a, code_.sub(b, code_.index(1)));
      const Code::Hoist hoist(code_, {sum, b});
      return code_.builder().CreateUDiv(sum, b);
    };
    llvm::Value* const units = divide_up(k, code_.index(product_.pass_multiple));
    llvm::Value* const passes = divide_up(units, code_.index(product_.pass / product_.pass_multiple));
    return code_.mul(divide_up(units, passes), code_.index(product_.pass_multiple));
  }

  void emit_pass(const ContractRange& range, llvm::Value* accumulate) {
    const PassOperands operands = product_.prepare(range);
    const std::int64_t width = product_.shape.columns();
    const std::int64_t element = bits(product_.shape.accumulator) / 8;
    code_.loop(code_.index(0), product_.live_columns, code_.index(width), [&](llvm::Value* column) {
      llvm::Value* const panel = code_.floor_divide(column, width);
      llvm::Value* const b = offset(operands.b, code_.mul(panel, operands.b_panel_pitch));
      llvm::Value* const c_panel = offset(product_.c, code_.mul(column, code_.index(element)));
      code_.loop(code_.index(0), product_.live_rows, code_.index(product_.shape.rows), [&](llvm::Value* row) {
        MicroKernelCall call;
        call.a_rows = offset(operands.rows, code_.mul(row, code_.index(8)));
        call.a_offset = operands.a_offset;
        call.a_rows_pitch = code_.index(product_.padded_rows() * 8);
        call.segments = product_.segments;
        call.k = range.count;
        call.b = b;
        call.b_pitch = operands.b_pitch;
        call.b_segment_pitch = operands.b_segment_pitch;
        call.c = offset(c_panel, code_.mul(row, product_.c_pitch));
        call.c_pitch = product_.c_pitch;
        call.accumulate = accumulate;
        const auto call_with = [&](llvm::Function* function) {
          call_micro_kernel(code_.builder(), function, call);
          return Values{};
        };
        if (full_ == nullptr || half_ == nullptr) {
          call_with(full_ == nullptr ? half_ : full_);
          return;
        }
        llvm::Value* const many = code_.less(code_.index(half_rows()), code_.sub(product_.live_rows, row));
        code_.branch(many, [&] { return call_with(full_); }, [&] { return call_with(half_); });
      });
    });
  }

  llvm::Value* offset(llvm::Value* pointer, llvm::Value* bytes) {
    const Code::Hoist hoist(code_, {pointer, bytes});
    return code_.builder().CreateGEP(code_.builder().getInt8Ty(), pointer, bytes);
  }

  Code& code_;
  const BlockProduct& product_;
  llvm::Function* full_ = nullptr;
  llvm::Function* half_ = nullptr;
};

}  // namespace

std::int64_t BlockProduct::padded_rows() const { return round_up(rows, shape.rows); }
std::int64_t BlockProduct::padded_columns() const { return round_up(columns, shape.columns()); }

std::int64_t default_pass(const Target& target, const MicroKernelShape& shape, std::int64_t rows,
                          std::int64_t columns, std::int64_t segments) {
  const std::int64_t bytes_per_step =
      rows * (bits(shape.accumulator) / 8) +
      columns * (bits(shape.b_element) / 8) * std::max<std::int64_t>(segments, 1);
  return std::max<std::int64_t>(64, target.l2_bytes / 2 / bytes_per_step);
}

void emit_block_product(Code& code, const BlockProduct& product) { Emitter(code, product).emit(); }

}  // namespace kiln::jit::cpu
