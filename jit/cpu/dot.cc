#include "jit/cpu/dot.h"

#include <algorithm>
#include <optional>

#include "ir/base/checked_math.h"
#include "ir/base/errors.h"
#include "jit/cpu/block_product.h"
#include "jit/cpu/dot_site.h"
#include "jit/cpu/panel_operand.h"
#include "jit/cpu/row_operand.h"
#include "jit/cpu/types.h"
#include "jit/cpu/widen.h"

namespace kiln::jit::cpu {

using tile::Kernel;
using tile::Op;
using tile::Opcode;
using tile::OpId;
using tile::Type;
using tile::ValueId;

namespace {

class DotLowering {
 public:
  DotLowering(Lowering& lowering, OpId op, DotProblem problem)
      : l_(lowering), code_(lowering.code()), site_(lowering, op, std::move(problem)), a_(site_), b_(site_) {
    require(widens(site_.b.dtype, site_.accumulator), "a dot of {} into {}", name(site_.b.dtype),
            name(site_.accumulator));
    choose_register_tile();
  }

  // `body`: emits what an iteration computes before its dot; used where iterations cannot be joined.
  void lower(ValueId result, const std::function<void()>& body) {
    site_.split_indices();
    allocate_result(result);
    const bool loops = site_.has_outer_loops();
    const bool starts_from_zero = is_zero(site_.problem.initial);
    if (!starts_from_zero) {
      site_.put(site_.problem.initial, result_);
    } else if (loops) {
      site_.clear(result_.data, site_.problem.shape.batch * batch_bytes());
    }
    site_.loop_over_outer([&] {
      if (!site_.is_joined()) body();
      a_.put_tile();
      b_.put_tile(product_);
      code_.loop(code_.index(0), code_.index(site_.problem.shape.batch), code_.index(1),
                 [&](llvm::Value* batch) {
                   site_.batch = batch;
                   emit_product(loops || !starts_from_zero);
                 });
    });
    if (l_.plan().is_scalar(result)) {
      l_.set_scalar(result, load(result_.data, memory_type(code_.context(), site_.accumulator)));
    } else {
      l_.set_buffer(result, dense_result(result));
    }
  }

 private:
  void choose_register_tile() {
    const tile::Schedule& schedule = l_.schedule();
    MicroKernelShape& shape = site_.shape;
    const std::int64_t vectors = ceil_divide(site_.problem.shape.columns, site_.lanes);
    // As many panels as needed, of equal width.
    shape.vectors =
        static_cast<int>(ceil_divide(vectors, ceil_divide(vectors, most_register_vectors(l_.target()))));
    if (site_.b.memory && site_.b.memory->operand().free.size() > 1) {
      // Columns that lie in pieces, such as prepared panels: a panel must not cross from one to the next.
      const std::int64_t piece = site_.b.memory->extent(site_.b.memory->operand().free.back());
      while (shape.vectors > 1 && piece % (shape.vectors * site_.lanes) != 0) --shape.vectors;
    }
    if (schedule.register_vectors > 0) shape.vectors = schedule.register_vectors;
    shape.rows =
        schedule.register_rows > 0 ? schedule.register_rows : register_rows(l_.target(), shape.vectors);
    const int registers = shape.rows * shape.vectors + shape.vectors + 1;
    if (registers > l_.target().vector_registers()) {
      throw_caller(ErrorCode::Refused,
                   "a register tile of {} rows by {} vectors needs {} registers, the target has {}",
                   shape.rows, shape.vectors, registers, l_.target().vector_registers());
    }
    shape.rows = static_cast<int>(std::min<std::int64_t>(shape.rows, site_.problem.shape.rows));
    shape.lanes = site_.lanes;
    shape.unroll = std::clamp(schedule.contract_unroll, 1, 8);
    shape.accumulator = site_.accumulator;
    product_.shape = shape;
    product_.rows = site_.problem.shape.rows;
    product_.columns = site_.problem.shape.columns;
  }

  // --- C, with whole register tiles

  std::int64_t batch_bytes() const { return product_.padded_rows() * pitch_ * site_.width; }

  void allocate_result(ValueId result) {
    pitch_ = product_.padded_columns();
    // Rows at a multiple of 4 KiB would all lie in one set of the L1 cache.
    if (pitch_ * site_.width % 4096 == 0) pitch_ += site_.lanes;
    product_.c_pitch = code_.index(pitch_ * site_.width);
    const Type& type = l_.kernel().type(result);
    result_.data = site_.scratch(site_.problem.shape.batch * batch_bytes());
    result_.dtype = type.element;
    result_.strides.assign(type.extents.size(), 0);
    // From the innermost axis: columns, then rows, then batches.
    std::int64_t columns = 1, rows = 1, batches = 1;
    for (std::size_t axis = type.extents.size(); axis-- > 0;) {
      const std::int64_t extent = type.extents[axis];
      if (columns < site_.problem.shape.columns) {
        result_.strides[axis] = columns;
        columns *= extent;
      } else if (rows < site_.problem.shape.rows) {
        result_.strides[axis] = rows * pitch_;
        rows *= extent;
      } else {
        result_.strides[axis] = batches * product_.padded_rows() * pitch_;
        batches *= extent;
      }
    }
  }

  bool is_zero(ValueId value) const {
    for (;;) {
      const OpId definer = l_.plan().definer(value);
      if (!definer) return false;
      const Op& op = l_.kernel().op(definer);
      if (op.code == Opcode::Constant) return op.attributes.literal->bits == 0;
      if (op.code != Opcode::Broadcast && op.code != Opcode::Reshape) return false;
      value = op.operands[0];
    }
  }

  llvm::Value* load(llvm::Value* pointer, llvm::Type* type) {
    return code_.builder().CreateAlignedLoad(type, pointer,
                                             llvm::Align(static_cast<std::uint64_t>(site_.width)));
  }

  // The result where a reader needs it without gaps.
  Buffer dense_result(ValueId result) {
    const std::int64_t rows = product_.rows, columns = product_.columns, batch = site_.problem.shape.batch;
    const std::int64_t width = site_.width;
    if (!l_.plan().is_dense(result) ||
        (pitch_ == columns && (batch == 1 || product_.padded_rows() == rows))) {
      return result_;
    }
    Buffer dense = l_.new_buffer(l_.kernel().type(result), true);
    llvm::Type* const element = memory_type(code_.context(), site_.accumulator);
    code_.loop(code_.index(0), code_.index(batch * rows), code_.index(1), [&](llvm::Value* row) {
      llvm::Value* const skipped =
          code_.mul(code_.floor_divide(row, rows), code_.index(product_.padded_rows() - rows));
      llvm::Value* const from =
          site_.bytes_behind(result_.data, code_.mul(code_.add(row, skipped), product_.c_pitch));
      llvm::Value* const to = site_.bytes_behind(dense.data, code_.mul(row, code_.index(columns * width)));
      const auto copy = [&](std::int64_t first, std::int64_t last, int lanes) {
        code_.loop(code_.index(first), code_.index(last), code_.index(lanes), [&](llvm::Value* i) {
          llvm::Value* const at = code_.mul(i, code_.index(width));
          code_.builder().CreateAlignedStore(load(site_.bytes_behind(from, at), with_lanes(element, lanes)),
                                             site_.bytes_behind(to, at),
                                             llvm::Align(static_cast<std::uint64_t>(width)));
        });
      };
      copy(0, columns / site_.lanes * site_.lanes, site_.lanes);
      copy(columns / site_.lanes * site_.lanes, columns, 1);
    });
    return dense;
  }

  // --- one product

  void emit_product(bool accumulate) {
    site_.bind_indices();
    BlockProduct product = product_;
    product.accumulate = accumulate;
    product.segments = code_.index(site_.segment_count());
    product.c = site_.bytes_behind(result_.data, code_.mul(site_.batch, code_.index(batch_bytes())));
    product.live_rows = live(site_.a, product.rows);
    product.live_columns = live(site_.b, product.columns);
    product.k = clipped_depth();
    a_.choose();
    b_.choose(product, product.k);
    product.shape.b_element = b_.element();
    choose_pass(product);
    a_.allocate(product);
    b_.allocate(product);
    product.prepare = [&](const ContractRange& range) {
      PassOperands operands;
      a_.prepare(product, range, operands);
      b_.prepare(product, range, operands);
      return operands;
    };
    if (!accumulate) clear_dead(product);
    emit_block_product(code_, product);
  }

  // Rows (columns) that are computed: those before the end of the view.
  llvm::Value* live(Operand& operand, std::int64_t extent) {
    if (!operand.memory || operand.memory->operand().free.empty()) return code_.index(extent);
    const int axis = operand.memory->operand().free.front();
    return code_.mul(operand.memory->reach(axis), code_.index(extent / operand.memory->extent(axis)));
  }

  // Steps of k, leaving out what is not live in an operand: it adds zeros. Sets the first of them.
  llvm::Value* clipped_depth() {
    llvm::Value* low = code_.index(0);
    llvm::Value* high = site_.dynamic_depth();
    if (high == nullptr) high = code_.index(site_.problem.shape.depth);
    for (Operand* operand : {&site_.a, &site_.b}) {
      if (!operand->memory) continue;
      MemoryMatrix& memory = *operand->memory;
      const std::vector<int>& depth = memory.operand().depth;
      if (depth.size() != 1 || !memory.is_affine(depth) || DotSite::is_compound(memory)) continue;
      const Run run = memory.run(site_.at(memory, nullptr), depth[0]);
      if (run.low != nullptr) low = code_.max(low, run.low);
      if (run.high != nullptr) high = code_.min(high, run.high);
    }
    site_.first_step = low;
    return code_.max(code_.sub(high, low), code_.index(0));
  }

  void choose_pass(BlockProduct& product) {
    constexpr std::int64_t kLongestPass = 1 << 16;
    const std::int64_t wanted = l_.schedule().contract_block;
    if (wanted < 0 || wanted > kLongestPass) {
      throw_caller(ErrorCode::Refused, "a pass over {} steps of a contraction, expected at most {}", wanted,
                   kLongestPass);
    }
    const std::int64_t segments = site_.segment_count();
    const std::int64_t rows = product.rows * (a_.may_copy() ? segments : 1);
    const std::int64_t columns = b_.may_copy() ? product.padded_columns() : product.shape.columns();
    product.pass = wanted > 0 ? wanted : default_pass(l_.target(), product.shape, rows, columns, segments);
    if (site_.dynamic_depth() == nullptr) product.pass = std::min(product.pass, site_.problem.shape.depth);
    // Where liveness changes within the depth it is copied as a whole.
    for (const Operand* operand : {&site_.a, &site_.b}) {
      if (operand->memory && DotSite::is_compound(*operand->memory)) product.pass = site_.problem.shape.depth;
    }
  }

  // What is not computed is zero.
  void clear_dead(const BlockProduct& product) {
    llvm::Value* missing = nullptr;
    const auto needs = [&](llvm::Value* value, std::int64_t least) {
      llvm::Value* const less = code_.less(value, code_.index(least));
      if (missing == nullptr) {
        missing = less;
        return;
      }
      const Code::Hoist hoist(code_, {missing, less});
      missing = code_.builder().CreateOr(missing, less);
    };
    needs(product.live_rows, product.rows);
    needs(product.live_columns, product.columns);
    needs(product.k, 1);
    code_.branch(
        missing,
        [&] {
          site_.clear(product.c, batch_bytes());
          return Values{};
        },
        [] { return Values{}; });
  }

  Lowering& l_;
  Code& code_;
  DotSite site_;
  RowOperand a_;
  PanelOperand b_;
  BlockProduct product_;
  std::int64_t pitch_ = 0;  // of C, in elements
  Buffer result_;
};

}  // namespace

void lower_dot(Lowering& lowering, OpId dot) {
  const Kernel& kernel = lowering.kernel();
  DotLowering(lowering, dot, dot_problem(kernel, dot)).lower(kernel.op(dot).results[0], [] {});
}

bool lower_dot_contract(Lowering& lowering, OpId contract) {
  const Kernel& kernel = lowering.kernel();
  std::optional<DotProblem> problem = contract_problem(kernel, contract, lowering.plan().definers());
  if (!problem) return false;
  const OpId dot = problem->dot;
  const Op& op = kernel.op(contract);
  DotLowering(lowering, contract, std::move(*problem)).lower(op.results[0], [&] {
    for (const OpId inner : kernel.block(op.blocks[0]).ops) {
      if (inner != dot && kernel.op(inner).code != Opcode::Yield) lowering.lower_op(inner);
    }
  });
  return true;
}

}  // namespace kiln::jit::cpu
