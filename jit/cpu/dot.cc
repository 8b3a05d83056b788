#include "jit/cpu/dot.h"

#include <algorithm>
#include <optional>

#include "ir/base/checked_math.h"
#include "ir/base/errors.h"
#include "jit/cpu/block_product.h"
#include "jit/cpu/dot_problem.h"
#include "jit/cpu/memory_matrix.h"
#include "jit/cpu/transpose.h"
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

// Row pointers of one pass: more segments than this become loops round the product.
constexpr std::int64_t kMaxSegments = 256;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return ceil_divide(value, multiple) * multiple;
}

// Signedness does not matter to a product that wraps.
DType computed_in(DType accumulator) {
  switch (accumulator) {
    case DType::U32:
      return DType::I32;
    case DType::U64:
      return DType::I64;
    default:
      return accumulator;
  }
}

// An operand of a product as the emission sees it: in memory behind a view, or a tile in scratch.
struct Operand {
  std::optional<MemoryMatrix> memory;
  ValueId tile;
  DType dtype = DType::F32;
};

class DotLowering {
 public:
  DotLowering(Lowering& lowering, DotProblem problem)
      : l_(lowering),
        code_(lowering.code()),
        kernel_(lowering.kernel()),
        problem_(std::move(problem)),
        a_(operand(problem_.a, true)),
        b_(operand(problem_.b, false)) {
    const Type& type = kernel_.type(problem_.initial);
    accumulator_ = computed_in(type.element);
    width_ = byte_width(accumulator_);
    lanes_ = static_cast<int>(l_.target().vector_bytes() / width_);
    choose_register_tile();
  }

  // `body`: emits what an iteration computes before its dot; used where iterations cannot be joined. `site`:
  // the dot's or the contract's Op.
  void lower(OpId site, ValueId result, const std::function<void()>& body) {
    split_indices();
    const std::vector<OpId>& top = kernel_.block(kernel_.body).ops;
    packs_last_ = outer_.empty() && std::find(top.begin(), top.end(), site) != top.end();
    allocate_result(result);
    const bool loops = !outer_.empty();
    const bool starts_from_zero = is_zero(problem_.initial);
    if (!starts_from_zero) {
      put(problem_.initial, result_);
    } else if (loops) {
      clear_result();
    }
    loop_over_outer(0, [&] {
      if (!joined_) body();
      prepare_tiles();
      code_.loop(code_.index(0), code_.index(problem_.shape.batch), code_.index(1),
                 [&](llvm::Value* batch) { emit_product(batch, loops || !starts_from_zero); });
    });
    if (l_.plan().is_scalar(result)) {
      l_.set_scalar(result,
                    code_.builder().CreateAlignedLoad(memory_type(code_.context(), accumulator_), c_,
                                                      llvm::Align(static_cast<std::uint64_t>(width_))));
    } else {
      l_.set_buffer(result, dense_result(result));
    }
  }

 private:
  Operand operand(ValueId value, bool depth_last) {
    Operand result;
    result.tile = value;
    result.dtype = kernel_.type(value).element;
    std::optional<LoadedOperand> loaded =
        loaded_operand(kernel_, l_.plan().definers(), problem_, value, depth_last);
    // A load that the plan keeps in a buffer may be out of date in memory by now.
    const bool in_memory = loaded && !l_.plan().is_materialized(kernel_.op(loaded->load).results[0]);
    if (in_memory && MemoryMatrix::is_plain(kernel_, l_.plan(), *loaded))
      result.memory.emplace(l_, std::move(*loaded));
    return result;
  }

  void choose_register_tile() {
    const tile::Schedule& schedule = l_.schedule();
    const std::int64_t vectors = ceil_divide(problem_.shape.columns, lanes_);
    // As many panels as needed, of equal width.
    shape_.vectors =
        static_cast<int>(ceil_divide(vectors, ceil_divide(vectors, most_register_vectors(l_.target()))));
    if (b_.memory && b_.memory->operand().free.size() > 1) {
      // Columns that lie in pieces, such as prepared panels: a panel must not cross from one to the next.
      const std::int64_t piece = b_.memory->extent(b_.memory->operand().free.back());
      while (shape_.vectors > 1 && piece % (shape_.vectors * lanes_) != 0) --shape_.vectors;
    }
    if (schedule.register_vectors > 0) shape_.vectors = schedule.register_vectors;
    shape_.rows =
        schedule.register_rows > 0 ? schedule.register_rows : register_rows(l_.target(), shape_.vectors);
    const int registers = shape_.rows * shape_.vectors + shape_.vectors + 1;
    if (registers > l_.target().vector_registers()) {
      throw_caller(ErrorCode::Refused,
                   "a register tile of {} rows by {} vectors needs {} registers, the target has {}",
                   shape_.rows, shape_.vectors, registers, l_.target().vector_registers());
    }
    shape_.rows = static_cast<int>(std::min<std::int64_t>(shape_.rows, problem_.shape.rows));
    shape_.lanes = lanes_;
    shape_.unroll = std::clamp(l_.schedule().contract_unroll, 1, 8);
    shape_.accumulator = accumulator_;
    product_.shape = shape_;
    product_.rows = problem_.shape.rows;
    product_.columns = problem_.shape.columns;
  }

  // --- indices of the contract

  // An index whose iterations follow one another along the depth of both operands joins them into one
  // product; the innermost others are its segments; the rest are loops round it.
  void split_indices() {
    joined_ = problem_.indices.empty() || (reads_only_from_outside(a_) && reads_only_from_outside(b_));
    if (!joined_) {
      for (std::size_t i = 0; i < problem_.indices.size(); ++i) outer_.push_back(i);
      return;
    }
    for (const ContractIndex& index : problem_.indices) l_.set_scalar(index.argument, code_.index(0));
    if (!problem_.indices.empty()) {
      lower_constants(a_);
      lower_constants(b_);
    }
    if (a_.memory && b_.memory) choose_inner();
    std::vector<std::size_t> rest;
    for (std::size_t i = 0; i < problem_.indices.size(); ++i) {
      if (inner_ != i) rest.push_back(i);
    }
    // A static inner index is part of the depth from here on.
    if (inner_ && lengthen_depth()) inner_.reset();
    if (!inner_) {
      while (!rest.empty() && fold_into_depth(rest.back())) rest.pop_back();
    }
    while (!rest.empty() && is_segment(rest.back())) {
      segments_.insert(segments_.begin(), rest.back());
      rest.pop_back();
    }
    outer_ = std::move(rest);
  }

  void choose_inner() {
    const std::optional<int> inner = depth_index(kernel_, problem_, a_.memory->operand());
    if (!inner || inner != depth_index(kernel_, problem_, b_.memory->operand())) return;
    const auto number = static_cast<std::size_t>(*inner);
    if (uses(a_, number) != 1 || uses(b_, number) != 1) return;
    const bool is_static = static_count(number).has_value();
    for (const Operand* operand : {&a_, &b_}) {
      const std::vector<int>& depth = operand->memory->operand().depth;
      if (!operand->memory->is_affine(depth) || (!is_static && !operand->memory->is_separable(depth[0])))
        return;
    }
    inner_ = number;
  }

  // Iterations of an index if that is static and small.
  std::optional<std::int64_t> static_count(std::size_t index) const {
    const auto* const extent = llvm::dyn_cast<llvm::ConstantInt>(l_.scalar(problem_.indices[index].extent));
    if (extent == nullptr) return std::nullopt;
    return ceil_divide(std::max<std::int64_t>(extent->getSExtValue(), 0), problem_.indices[index].block);
  }

  bool lengthen_depth() {
    const std::optional<std::int64_t> count = static_count(*inner_);
    if (!count || *count == 0) return false;
    problem_.shape.depth = *count * problem_.indices[*inner_].block;
    for (Operand* operand : {&a_, &b_}) {
      operand->memory->extend_depth(operand->memory->operand().depth[0], problem_.shape.depth);
    }
    return true;
  }

  // An index along which both operands go on where the depth ends: the columns of a window over few channels.
  bool fold_into_depth(std::size_t index) {
    constexpr std::int64_t kShort = 32;
    const std::optional<std::int64_t> count = static_count(index);
    if (!a_.memory || !b_.memory || problem_.shape.depth >= kShort || !count || *count == 0 ||
        problem_.indices[index].block != 1) {
      return false;
    }
    std::vector<int> axes;
    for (Operand* operand : {&a_, &b_}) {
      MemoryMatrix& memory = *operand->memory;
      const std::vector<int>& depth = memory.operand().depth;
      const std::optional<int> axis = axis_of(*operand, index);
      if (!axis || memory.extent(*axis) != 1 || depth.empty() || !memory.is_affine(depth) ||
          !memory.is_affine({*axis})) {
        return false;
      }
      llvm::Value* const step = memory.run(memory.origin(), depth.back()).stride;
      const Run run = memory.run(memory.origin(), *axis);
      if (run.stride != code_.mul(step, code_.index(problem_.shape.depth))) return false;
      axes.push_back(*axis);
    }
    a_.memory->extend_depth(axes[0], *count);
    b_.memory->extend_depth(axes[1], *count);
    problem_.shape.depth *= *count;
    return true;
  }

  // The axis of the view whose index is this index of the contract and no other is.
  std::optional<int> axis_of(const Operand& operand, std::size_t index) const {
    if (uses(operand, index) != 1) return std::nullopt;
    const Op& load = kernel_.op(operand.memory->operand().load);
    const auto found =
        std::find(load.operands.begin() + 1, load.operands.end(), problem_.indices[index].argument);
    return static_cast<int>(found - load.operands.begin()) - 1;
  }

  // How many indices of the load are this index of the contract.
  std::int64_t uses(const Operand& operand, std::size_t index) const {
    const Op& load = kernel_.op(operand.memory->operand().load);
    return std::count(load.operands.begin() + 1, load.operands.end(), problem_.indices[index].argument);
  }

  // Nothing that the load needs is computed in the contract's Block, but for constants and the indices.
  bool reads_only_from_outside(const Operand& operand) const {
    if (!operand.memory) return false;
    const Op& load = kernel_.op(operand.memory->operand().load);
    return std::all_of(load.operands.begin(), load.operands.end(), [&](ValueId value) {
      if (is_index(value)) return true;
      const OpId definer = l_.plan().definer(value);
      return !definer || !is_in_body(definer) || kernel_.op(definer).code == Opcode::Constant;
    });
  }
  void lower_constants(const Operand& operand) {
    for (const ValueId value : kernel_.op(operand.memory->operand().load).operands) {
      const OpId definer = l_.plan().definer(value);
      if (definer && kernel_.op(definer).code == Opcode::Constant) l_.lower_op(definer);
    }
  }
  bool is_index(ValueId value) const {
    return std::any_of(problem_.indices.begin(), problem_.indices.end(),
                       [&](const ContractIndex& index) { return index.argument == value; });
  }
  bool is_in_body(OpId op) const {
    for (const tile::Block& block : kernel_.blocks) {
      const bool has_dot = std::find(block.ops.begin(), block.ops.end(), problem_.dot) != block.ops.end();
      if (has_dot) return std::find(block.ops.begin(), block.ops.end(), op) != block.ops.end();
    }
    return false;
  }

  // A segment has a static number of iterations, and B's segments lie at equal distances.
  bool is_segment(std::size_t index) {
    const std::optional<std::int64_t> count = static_count(index);
    if (!a_.memory || !b_.memory || !count || *count == 0 || *count * segment_count_ > kMaxSegments) {
      return false;
    }
    if (*count != 1) {
      llvm::Value* const pitch = b_index_pitch(index);
      if (pitch == nullptr) return false;
      if (segment_count_ == 1) {
        b_segment_pitch_ = pitch;
      } else if (pitch != code_.mul(b_segment_pitch_, code_.index(segment_count_))) {
        return false;
      }
    }
    segment_count_ *= *count;
    segment_counts_.insert(segment_counts_.begin(), *count);
    return true;
  }

  // Bytes between B at one iteration of the index and the next; null if they differ.
  llvm::Value* b_index_pitch(std::size_t index) {
    if (uses(b_, index) == 0) return code_.index(0);
    const std::optional<int> axis = axis_of(b_, index);
    if (!axis || !b_.memory->is_affine({*axis})) return nullptr;
    const Run run = b_.memory->run(b_.memory->origin(), *axis);
    return code_.mul(run.stride, code_.index(problem_.indices[index].block * byte_width(b_.dtype)));
  }

  void loop_over_outer(std::size_t number, const std::function<void()>& emit) {
    if (number == outer_.size()) return emit();
    const ContractIndex& index = problem_.indices[outer_[number]];
    llvm::Value* const end = l_.scalar(index.extent);
    code_.loop(code_.index(0), end, code_.index(index.block), [&](llvm::Value* i) {
      l_.set_range(i, {0, std::max<std::int64_t>(0, l_.range_of(end).high - 1)});
      l_.set_scalar(index.argument, i);
      loop_over_outer(number + 1, emit);
    });
  }

  // Binds the indices of all segments in turn; `number` counts segments.
  void loop_over_segments(const std::function<void(llvm::Value* number)>& emit) {
    const auto level = [&](const auto& self, std::size_t k, llvm::Value* number) -> void {
      if (k == segments_.size()) return emit(number);
      const ContractIndex& index = problem_.indices[segments_[k]];
      code_.loop(code_.index(0), code_.index(segment_counts_[k]), code_.index(1), [&](llvm::Value* i) {
        l_.set_range(i, {0, segment_counts_[k] - 1});
        llvm::Value* const at = code_.mul(i, code_.index(index.block));
        l_.set_scalar(index.argument, at);
        self(self, k + 1, code_.add(code_.mul(number, code_.index(segment_counts_[k])), i));
      });
    };
    level(level, 0, code_.index(0));
  }
  void bind_segments(bool last) {
    for (std::size_t k = 0; k < segments_.size(); ++k) {
      const ContractIndex& index = problem_.indices[segments_[k]];
      l_.set_scalar(index.argument, code_.index(last ? (segment_counts_[k] - 1) * index.block : 0));
    }
  }

  // --- memory

  // Bytes in scratch, for as long as the tiles of this Block live.
  llvm::Value* scratch(std::int64_t bytes) {
    return l_.new_buffer(Type::tile(DType::I8, {round_up(bytes, 64)}), true).data;
  }

  bool is_zero(ValueId value) const {
    for (;;) {
      const OpId definer = l_.plan().definer(value);
      if (!definer) return false;
      const Op& op = kernel_.op(definer);
      if (op.code == Opcode::Constant) return op.attributes.literal->bits == 0;
      if (op.code != Opcode::Broadcast && op.code != Opcode::Reshape) return false;
      value = op.operands[0];
    }
  }

  // C, with whole register tiles.
  void allocate_result(ValueId result) {
    pitch_ = product_.padded_columns();
    // Rows at a multiple of 4 KiB would all lie in one set of the L1 cache.
    if (pitch_ * width_ % 4096 == 0) pitch_ += lanes_;
    c_ = scratch(problem_.shape.batch * product_.padded_rows() * pitch_ * width_);
    product_.c_pitch = code_.index(pitch_ * width_);
    const Type& type = kernel_.type(result);
    result_.data = c_;
    result_.dtype = type.element;
    result_.strides.assign(type.extents.size(), 0);
    // From the innermost axis: columns, then rows, then batches.
    std::int64_t columns = 1, rows = 1, batches = 1;
    for (std::size_t axis = type.extents.size(); axis-- > 0;) {
      const std::int64_t extent = type.extents[axis];
      if (columns < problem_.shape.columns) {
        result_.strides[axis] = columns;
        columns *= extent;
      } else if (rows < problem_.shape.rows) {
        result_.strides[axis] = rows * pitch_;
        rows *= extent;
      } else {
        result_.strides[axis] = batches * product_.padded_rows() * pitch_;
        batches *= extent;
      }
    }
  }

  void clear(llvm::Value* data, std::int64_t bytes) {
    // In whole vectors; scratch is a multiple of them.
    llvm::Type* const vector = with_lanes(code_.builder().getInt8Ty(), 64);
    code_.loop(code_.index(0), code_.index(bytes), code_.index(64), [&](llvm::Value* i) {
      code_.builder().CreateAlignedStore(llvm::Constant::getNullValue(vector), bytes_behind(data, i),
                                         llvm::Align(16));
    });
  }
  void clear_result() {
    clear(c_, round_up(problem_.shape.batch * product_.padded_rows() * pitch_ * width_, 64));
  }

  llvm::Value* bytes_behind(llvm::Value* pointer, llvm::Value* bytes) {
    const Code::Hoist hoist(code_, {pointer, bytes});
    return code_.builder().CreateGEP(code_.builder().getInt8Ty(), pointer, bytes);
  }

  // The result where a reader needs it without gaps.
  Buffer dense_result(ValueId result) {
    const std::int64_t rows = problem_.shape.rows, columns = problem_.shape.columns,
                       batch = problem_.shape.batch;
    if (!l_.plan().is_dense(result) ||
        (pitch_ == columns && (batch == 1 || product_.padded_rows() == rows))) {
      return result_;
    }
    Buffer dense = l_.new_buffer(kernel_.type(result), true);
    llvm::Type* const element = memory_type(code_.context(), accumulator_);
    const llvm::Align align(static_cast<std::uint64_t>(width_));
    code_.loop(code_.index(0), code_.index(batch * rows), code_.index(1), [&](llvm::Value* row) {
      llvm::Value* const number = batch == 1 ? row : code_.floor_divide(row, rows);
      llvm::Value* const from_row =
          batch == 1 ? row : code_.add(code_.mul(number, code_.index(product_.padded_rows() - rows)), row);
      llvm::Value* const from = bytes_behind(c_, code_.mul(from_row, code_.index(pitch_ * width_)));
      llvm::Value* const to = bytes_behind(dense.data, code_.mul(row, code_.index(columns * width_)));
      const auto copy = [&](std::int64_t first, std::int64_t last, int lanes) {
        llvm::Type* const type = with_lanes(element, lanes);
        code_.loop(code_.index(first), code_.index(last), code_.index(lanes), [&](llvm::Value* i) {
          llvm::Value* const at = code_.mul(i, code_.index(width_));
          llvm::Value* const value = code_.builder().CreateAlignedLoad(type, bytes_behind(from, at), align);
          code_.builder().CreateAlignedStore(value, bytes_behind(to, at), align);
        });
      };
      copy(0, columns / lanes_ * lanes_, lanes_);
      copy(columns / lanes_ * lanes_, columns, 1);
    });
    return dense;
  }

  // Operands that are no views are put into scratch once, in their own type and in row-major order.
  void prepare_tiles() {
    if (!a_.memory) a_tile_ = tile_in_scratch(problem_.a, problem_.shape.depth);
    if (!b_.memory) b_tile_ = tile_in_scratch(problem_.b, product_.padded_columns());
  }
  // `inner`: elements from one row of the matrix to the next.
  Buffer tile_in_scratch(ValueId value, std::int64_t pitch) {
    const Type& type = kernel_.type(value);
    const bool is_a = value == problem_.a;
    const std::int64_t inner = is_a ? problem_.shape.depth : problem_.shape.columns;
    Buffer buffer;
    buffer.dtype = type.element;
    buffer.strides.assign(type.extents.size(), 0);
    std::int64_t within = 1, rows = 1;
    for (std::size_t axis = type.extents.size(); axis-- > 0;) {
      const std::int64_t extent = type.extents[axis];
      if (within < inner) {
        buffer.strides[axis] = within;
        within *= extent;
      } else {
        buffer.strides[axis] = rows * pitch;
        rows *= extent;
      }
    }
    // The last panel of B is read as whole vectors.
    buffer.data = scratch((rows * pitch + shape_.columns()) * byte_width(type.element));
    put(value, buffer);
    return buffer;
  }
  // A tile of one element is a scalar to the plan.
  void put(ValueId value, const Buffer& target) {
    if (!l_.plan().is_scalar(value)) return l_.materialize(value, target);
    code_.builder().CreateAlignedStore(l_.scalar(value), target.data,
                                       llvm::Align(static_cast<std::uint64_t>(byte_width(target.dtype))));
  }

  // --- one product

  void emit_product(llvm::Value* batch, bool accumulate) {
    batch_ = batch;
    bind_segments(false);
    if (inner_) l_.set_scalar(problem_.indices[*inner_].argument, code_.index(0));
    BlockProduct product = product_;
    product.accumulate = accumulate;
    product.segments = code_.index(segment_count_);
    product.c = bytes_behind(c_, code_.mul(batch, code_.index(product.padded_rows() * pitch_ * width_)));
    product.live_rows = live(a_, problem_.shape.rows);
    product.live_columns = live(b_, problem_.shape.columns);

    choose_depth();
    choose_a();
    choose_b();
    product.shape.b_element = b_direct_ == Direct::Never ? accumulator_ : b_.dtype;
    choose_pass(product);
    allocate_packs(product);
    product.k = depth_;
    product.prepare = [&](const ContractRange& range) {
      PassOperands operands;
      prepare_a(product, range, operands);
      prepare_b(product, range, operands);
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
          clear(product.c, product.padded_rows() * pitch_ * width_);
          return Values{};
        },
        [] { return Values{}; });
  }

  // Steps of k, and the first of them, leaving out what is not live in an operand: it adds zeros.
  void choose_depth() {
    llvm::Value* low = code_.index(0);
    llvm::Value* high = code_.index(problem_.shape.depth);
    if (inner_) {
      const ContractIndex& index = problem_.indices[*inner_];
      llvm::Value* const rounded = code_.add(l_.scalar(index.extent), code_.index(index.block - 1));
      high = code_.mul(code_.floor_divide(rounded, index.block), code_.index(index.block));
    }
    for (Operand* operand : {&a_, &b_}) {
      if (!operand->memory) continue;
      MemoryMatrix& memory = *operand->memory;
      const std::vector<int>& depth = memory.operand().depth;
      if (depth.size() != 1 || !memory.is_affine(depth) || !memory.is_separable(depth[0])) continue;
      const Run run = memory.run(at(memory, nullptr), depth[0]);
      if (run.low != nullptr) low = code_.max(low, run.low);
      if (run.high != nullptr) high = code_.min(high, run.high);
    }
    first_ = low;
    depth_ = code_.max(code_.sub(high, low), code_.index(0));
  }

  // The point of the current batch with `k` steps along the depth (null: none).
  Values at(const MemoryMatrix& memory, llvm::Value* k) {
    Values position = memory.origin();
    spread(memory, memory.operand().batch, batch_, position);
    if (k != nullptr) spread(memory, memory.operand().depth, k, position);
    return position;
  }
  // Splits a position in row-major order over axes.
  void spread(const MemoryMatrix& memory, const std::vector<int>& axes, llvm::Value* number,
              Values& position) {
    llvm::Value* rest = number;
    for (std::size_t k = axes.size(); k-- > 0;) {
      const auto axis = static_cast<std::size_t>(axes[k]);
      if (k == 0) {
        position[axis] = rest;
        return;
      }
      const std::int64_t extent = memory.extent(axes[k]);
      llvm::Value* const outer = code_.floor_divide(rest, extent);
      position[axis] = code_.sub(rest, code_.mul(outer, code_.index(extent)));
      rest = outer;
    }
  }

  // --- A

  // Read in place if the elements of a row follow one another in memory.
  void choose_a() {
    a_direct_ = false;
    if (!a_.memory || a_.dtype != accumulator_ || l_.schedule().pack_a) return;
    MemoryMatrix& memory = *a_.memory;
    const std::vector<int>& depth = memory.operand().depth;
    if (!memory.is_affine(depth)) return;
    std::int64_t length = 1;
    for (std::size_t k = depth.size(); k-- > 0;) {
      const Run run = memory.run(at(memory, nullptr), depth[k]);
      if (!Code::is_constant(run.stride, length)) return;
      length *= memory.extent(depth[k]);
    }
    a_direct_ = true;
  }

  // Liveness may change within a row of A.
  bool a_rows_may_be_partial() const { return is_compound(*a_.memory); }
  static bool is_compound(const MemoryMatrix& memory) {
    const std::vector<int>& depth = memory.operand().depth;
    return depth.size() > 1 || (depth.size() == 1 && !memory.is_separable(depth[0]));
  }

  void prepare_a(const BlockProduct& product, const ContractRange& range, PassOperands& operands) {
    operands.rows = a_rows_;
    operands.a_offset = code_.index(0);
    if (a_.memory) {
      bind_inner_to_start();
      unless_unchanged(a_, range, product.live_rows, [&] {
        clear_zeros(product);
        loop_over_segments([&](llvm::Value* segment) { a_segment(product, range, segment); });
        bind_segments(false);
      });
      return;
    }
    clear_zeros(product);
    // A tile in scratch, [batch][row][depth].
    llvm::Value* const elements = code_.mul(batch_, code_.index(problem_.shape.rows * problem_.shape.depth));
    llvm::Value* const base =
        bytes_behind(a_tile_.data, code_.mul(elements, code_.index(byte_width(a_.dtype))));
    loop_over_padded_rows(product, code_.index(product.rows), code_.index(0), [&](llvm::Value* row) {
      llvm::Value* const start = code_.add(code_.mul(row, code_.index(problem_.shape.depth)), range.begin);
      llvm::Value* const source = bytes_behind(base, code_.mul(start, code_.index(byte_width(a_.dtype))));
      if (a_.dtype == accumulator_) return source;
      llvm::Value* const target = bytes_behind(a_pack_, code_.mul(row, code_.index(a_pack_pitch_ * width_)));
      widen_row(source, target, range.count);
      return target;
    });
  }

  // Converts `count` adjacent elements.
  void widen_row(llvm::Value* source, llvm::Value* target, llvm::Value* count) {
    const std::int64_t from = byte_width(a_.dtype);
    code_.loop(code_.index(0), count, code_.index(lanes_), [&](llvm::Value* k) {
      llvm::Value* const address = bytes_behind(source, code_.mul(k, code_.index(from)));
      llvm::Value* const value =
          code_.builder().CreateAlignedLoad(with_lanes(memory_element(code_.context(), a_.dtype), lanes_),
                                            address, llvm::Align(static_cast<std::uint64_t>(from)));
      store_widened(value, a_.dtype, bytes_behind(target, code_.mul(k, code_.index(width_))));
    });
  }
  void store_widened(llvm::Value* value, DType from, llvm::Value* target) {
    code_.builder().CreateAlignedStore(cpu::widen(code_.builder(), value, from, accumulator_), target,
                                       llvm::Align(static_cast<std::uint64_t>(width_)));
  }

  // Stores the pointer that `pointer_of(row)` gives for each row below `live`; a register tile may reach
  // beyond, and finds zeros there.
  void loop_over_padded_rows(const BlockProduct& product, llvm::Value* live, llvm::Value* segment,
                             const std::function<llvm::Value*(llvm::Value* row)>& pointer_of) {
    llvm::Value* const table = segment_table(product, segment);
    code_.loop(code_.index(0), live, code_.index(1),
               [&](llvm::Value* row) { store_pointer(table, row, pointer_of(row)); });
    fill_table(product, table, live);
  }
  llvm::Value* segment_table(const BlockProduct& product, llvm::Value* segment) {
    return bytes_behind(a_rows_, code_.mul(segment, code_.index(product.padded_rows() * 8)));
  }
  void store_pointer(llvm::Value* table, llvm::Value* row, llvm::Value* pointer) {
    code_.builder().CreateAlignedStore(pointer, bytes_behind(table, code_.mul(row, code_.index(8))),
                                       llvm::Align(8));
  }
  void fill_table(const BlockProduct& product, llvm::Value* table, llvm::Value* live) {
    llvm::Value* const panels =
        code_.floor_divide(code_.add(live, code_.index(shape_.rows - 1)), shape_.rows);
    code_.loop(live, code_.mul(panels, code_.index(product.shape.rows)), code_.index(1),
               [&](llvm::Value* row) { store_pointer(table, row, zeros_); });
  }

  // Row pointers of one segment, with copies of the rows where they cannot be read in place.
  void a_segment(const BlockProduct& product, const ContractRange& range, llvm::Value* segment) {
    MemoryMatrix& memory = *a_.memory;
    const LoadedOperand& operand = memory.operand();
    llvm::Value* const table = segment_table(product, segment);
    llvm::Value* const k = code_.add(first_, range.begin);
    Values position = memory.origin();
    spread(memory, operand.batch, batch_, position);
    const auto rows = [&](const auto& self, std::size_t number, llvm::Value* row) -> void {
      if (number == operand.free.size()) {
        store_pointer(table, row, a_row(range, segment, row, position, k));
        return;
      }
      const int axis = operand.free[number];
      llvm::Value* const end = number == 0 ? memory.reach(axis) : code_.index(memory.extent(axis));
      code_.loop(code_.index(0), end, code_.index(1), [&](llvm::Value* i) {
        l_.set_range(i, {0, memory.extent(axis) - 1});
        position[static_cast<std::size_t>(axis)] = i;
        self(self, number + 1, code_.add(code_.mul(row, code_.index(memory.extent(axis))), i));
      });
    };
    rows(rows, 0, code_.index(0));
    fill_table(product, table, product.live_rows);
  }

  llvm::Value* a_row(const ContractRange& range, llvm::Value* segment, llvm::Value* row, Values position,
                     llvm::Value* k) {
    MemoryMatrix& memory = *a_.memory;
    const std::vector<int>& depth = memory.operand().depth;
    const auto slot = [&] {
      llvm::Value* const number = code_.add(code_.mul(segment, code_.index(product_.padded_rows())), row);
      return bytes_behind(a_pack_, code_.mul(number, code_.index(a_pack_pitch_ * width_)));
    };
    if (!a_direct_) {
      llvm::Value* const target = slot();
      copy_row(position, k, range.count, target);
      return target;
    }
    const int axis = depth.empty() ? -1 : depth.back();
    if (!a_rows_may_be_partial()) {
      if (!depth.empty()) position[static_cast<std::size_t>(depth[0])] = k;
      const Run run = memory.run(position, axis);
      return code_.select(memory.holds(run), run.pointer, zeros_);
    }
    // All of a row is live iff both ends of it are.
    llvm::Value* live = nullptr;
    Run first;
    for (const bool end : {false, true}) {
      for (std::size_t d = 0; d + 1 < depth.size(); ++d) {
        position[static_cast<std::size_t>(depth[d])] = code_.index(end ? memory.extent(depth[d]) - 1 : 0);
      }
      const Run run = memory.run(position, axis);
      live = code_.both(live, memory.holds(run));
      if (run.low != nullptr) live = code_.both(live, code_.less(run.low, code_.index(1)));
      if (run.high != nullptr)
        live = code_.both(live, code_.less(code_.index(memory.extent(axis) - 1), run.high));
      if (!end) first = run;
    }
    // Static depth: a pass is all of it or a part of a row that may be read in place or has been copied.
    llvm::Value* const in_place = bytes_behind(first.pointer, code_.mul(k, code_.index(width_)));
    return code_.branch(
        live, [&] { return Values{in_place}; },
        [&] {
          llvm::Value* const target = slot();
          copy_row(position, k, range.count, target);
          return Values{target};
        })[0];
  }

  // Elements k <= i < k + count of a row of A, in the accumulator's type. The last strip may write beyond.
  void copy_row(Values position, llvm::Value* k, llvm::Value* count, llvm::Value* target) {
    MemoryMatrix& memory = *a_.memory;
    const std::vector<int>& depth = memory.operand().depth;
    const auto store = [&](const Values& from, int axis, llvm::Value* i) {
      store_widened(memory.load_strip(from, axis, lanes_), a_.dtype,
                    bytes_behind(target, code_.mul(i, code_.index(width_))));
    };
    if (depth.size() <= 1) {
      code_.loop(code_.index(0), count, code_.index(lanes_), [&](llvm::Value* i) {
        if (!depth.empty()) position[static_cast<std::size_t>(depth[0])] = code_.add(k, i);
        store(position, depth.empty() ? -1 : depth[0], i);
      });
      return;
    }
    // All of the depth: passes do not split it.
    const auto axes = [&](const auto& self, std::size_t number, llvm::Value* i) -> void {
      const int axis = depth[number];
      const bool last = number + 1 == depth.size();
      code_.loop(code_.index(0), code_.index(memory.extent(axis)), code_.index(last ? lanes_ : 1),
                 [&](llvm::Value* step) {
                   position[static_cast<std::size_t>(axis)] = step;
                   llvm::Value* const element =
                       code_.add(code_.mul(i, code_.index(memory.extent(axis))), step);
                   if (last) {
                     store(position, axis, element);
                   } else {
                     self(self, number + 1, element);
                   }
                 });
    };
    axes(axes, 0, code_.index(0));
  }

  // --- B

  enum class Direct { Never, IfLive, Always };

  // Read in place if its columns are whole panels of adjacent elements and its rows lie at equal distances.
  void choose_b() {
    b_direct_ = Direct::Never;
    if (!widens(b_.dtype, accumulator_)) throw_bug("a dot of {} into {}", name(b_.dtype), name(accumulator_));
    if (!b_.memory) {
      b_direct_ = Direct::Always;
      return;
    }
    MemoryMatrix& memory = *b_.memory;
    const LoadedOperand& operand = memory.operand();
    if (!memory.is_affine(operand.depth) || !memory.is_affine(operand.free)) return;
    // The pitch of k: axes of depth must lie end to end.
    b_pitch_ = code_.index(0);
    std::int64_t steps = 1;
    for (std::size_t d = operand.depth.size(); d-- > 0;) {
      const Run run = memory.run(at(memory, nullptr), operand.depth[d]);
      if (d + 1 == operand.depth.size()) {
        b_pitch_ = run.stride;
      } else if (run.stride != code_.mul(b_pitch_, code_.index(steps))) {
        return;
      }
      steps *= memory.extent(operand.depth[d]);
    }
    const std::int64_t element = byte_width(b_.dtype);
    transposes_ = false;
    if (operand.free.size() == 1 && operand.depth.size() == 1 && Code::is_constant(b_pitch_, 1)) {
      column_pitch_ = memory.run(at(memory, nullptr), operand.free[0]).stride;
      transposes_ = !Code::is_constant(column_pitch_, 1);
    }
    b_pitch_ = code_.mul(b_pitch_, code_.index(element));
    if (l_.schedule().pack_b) return;
    // The pitch of panels: pieces of columns must lie at equal distances.
    b_panel_pitch_ = code_.index(shape_.columns() * element);
    if (!operand.free.empty()) {
      const Run run = memory.run(at(memory, nullptr), operand.free.back());
      if (!Code::is_constant(run.stride, 1)) return;
      std::int64_t columns = memory.extent(operand.free.back());
      for (std::size_t f = operand.free.size() - 1; f-- > 0;) {
        const Run piece = memory.run(at(memory, nullptr), operand.free[f]);
        if (columns % shape_.columns() != 0) return;
        if (columns == shape_.columns()) {
          b_panel_pitch_ = code_.mul(piece.stride, code_.index(element));
        } else if (code_.mul(piece.stride, code_.index(element)) !=
                   code_.mul(b_panel_pitch_, code_.index(columns / shape_.columns()))) {
          return;
        }
        columns *= memory.extent(operand.free[f]);
      }
    } else if (shape_.columns() != 1) {
      return;
    }
    b_direct_ = Direct::IfLive;
    decide_b_liveness();
  }

  // Whether all that whole panels read is live: at both ends of every axis but the depth, which is clipped.
  void decide_b_liveness() {
    MemoryMatrix& memory = *b_.memory;
    const LoadedOperand& operand = memory.operand();
    b_live_ = nullptr;
    b_conditions_.clear();
    bool same = true;
    for (const bool last : {false, true}) {
      bind_segments(last);
      Values position = at(memory, nullptr);
      std::vector<int> ends = operand.free;
      if (is_compound(memory)) ends.insert(ends.end(), operand.depth.begin(), operand.depth.end());
      if (operand.depth.size() == 1 && !is_compound(memory)) {
        position[static_cast<std::size_t>(operand.depth[0])] = first_;
      }
      const int column_axis = operand.free.empty() ? -1 : operand.free.back();
      for (const int axis : ends) {
        if (axis == column_axis || !last) continue;
        position[static_cast<std::size_t>(axis)] = code_.index(memory.extent(axis) - 1);
      }
      const Run run = memory.run(position, column_axis);
      b_live_ = code_.both(b_live_, memory.holds(run));
      if (column_axis >= 0) {
        // A panel reads whole vectors, also beyond the columns of the tile.
        const std::int64_t reach =
            operand.free.size() > 1 ? memory.extent(column_axis) : product_.padded_columns();
        if (run.low != nullptr) b_live_ = code_.both(b_live_, code_.less(run.low, code_.index(1)));
        if (run.high != nullptr) {
          llvm::Value* const enough = code_.less(code_.index(reach - 1), run.high);
          b_live_ = code_.both(b_live_, enough);
          same = same && llvm::isa<llvm::ConstantInt>(enough);
        }
      }
      if (!last) {
        b_conditions_ = run.conditions;
      } else {
        same = same && b_conditions_ == run.conditions;
      }
    }
    bind_segments(false);
    if (const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(b_live_)) {
      b_direct_ = constant->isZero() ? Direct::Never : Direct::Always;
      return;
    }
    // What is tested is the same for all of B: then there is nothing to multiply with, or all is live.
    if (same && !is_compound(memory)) {
      b_direct_ = Direct::Always;
      depth_ = code_.select(b_live_, depth_, code_.index(0));
    }
  }

  void prepare_b(const BlockProduct& product, const ContractRange& range, PassOperands& operands) {
    if (!b_.memory) {
      const std::int64_t element = byte_width(b_.dtype);
      llvm::Value* const row = code_.add(code_.mul(batch_, code_.index(problem_.shape.depth)), range.begin);
      operands.b =
          bytes_behind(b_tile_.data, code_.mul(row, code_.index(product.padded_columns() * element)));
      operands.b_pitch = code_.index(product.padded_columns() * element);
      operands.b_segment_pitch = code_.index(0);
      operands.b_panel_pitch = code_.index(shape_.columns() * element);
      return;
    }
    bind_inner_to_start();
    const auto direct = [&]() -> Values {
      llvm::Value* const steps = code_.add(first_, range.begin);
      MemoryMatrix& memory = *b_.memory;
      const Run run = memory.run(at(memory, nullptr), -1);
      llvm::Value* const b = bytes_behind(run.pointer, code_.mul(steps, b_pitch_));
      llvm::Value* const segment_pitch = b_segment_pitch_ != nullptr ? b_segment_pitch_ : code_.index(0);
      return {b, b_pitch_, segment_pitch, b_panel_pitch_};
    };
    const auto packed = [&]() -> Values {
      unless_unchanged(b_, range, product.live_columns, [&] { pack_b(product, range); });
      const std::int64_t pitch = product.padded_columns() * byte_width(b_packed_type(product));
      return {b_pack_, code_.index(pitch), code_.index(product.pass * pitch),
              code_.index(shape_.columns() * byte_width(b_packed_type(product)))};
    };
    Values found;
    switch (b_direct_) {
      case Direct::Always:
        found = direct();
        break;
      case Direct::Never:
        found = packed();
        break;
      case Direct::IfLive:
        found = code_.branch(b_live_, direct, packed);
        break;
    }
    operands.b = found[0];
    operands.b_pitch = found[1];
    operands.b_segment_pitch = found[2];
    operands.b_panel_pitch = found[3];
  }

  // One micro-kernel reads both forms, so that a copy beside B in place keeps its type.
  DType b_packed_type(const BlockProduct& product) const { return product.shape.b_element; }

  // The end of the last panel that is computed.
  llvm::Value* panel_end(const BlockProduct& product) {
    const std::int64_t width = shape_.columns();
    llvm::Value* const panels =
        code_.floor_divide(code_.add(product.live_columns, code_.index(width - 1)), width);
    return code_.mul(panels, code_.index(width));
  }

  // B of one pass as [segment][k][column].
  void pack_b(const BlockProduct& product, const ContractRange& range) {
    MemoryMatrix& memory = *b_.memory;
    const LoadedOperand& operand = memory.operand();
    const DType to = b_packed_type(product);
    const std::int64_t element = byte_width(to);
    const std::int64_t pitch = product.padded_columns() * element;
    llvm::Value* const first = code_.add(first_, range.begin);
    loop_over_segments([&](llvm::Value* segment) {
      llvm::Value* const target =
          bytes_behind(b_pack_, code_.mul(segment, code_.index(product.pass * pitch)));
      if (transposes_ && to == accumulator_) {
        Values position = at(memory, first);
        const Run along = memory.run(position, operand.free[0]);
        TransposedCopy copy;
        copy.from = b_.dtype;
        copy.to = to;
        copy.lanes = lanes_;
        copy.source = along.pointer;
        copy.column_pitch = code_.mul(along.stride, code_.index(byte_width(b_.dtype)));
        copy.k = code_.select(memory.holds(along), range.count, code_.index(0));
        copy.columns = along.high == nullptr ? code_.index(product.columns)
                                             : code_.min(along.high, code_.index(product.columns));
        copy.target = target;
        copy.target_pitch = code_.index(pitch);
        copy.padded_columns = panel_end(product);
        emit_transposed_copy(code_, copy);
        return;
      }
      code_.loop(code_.index(0), range.count, code_.index(1), [&](llvm::Value* k) {
        Values position = at(memory, code_.add(first, k));
        llvm::Value* const row = bytes_behind(target, code_.mul(k, code_.index(pitch)));
        const auto columns = [&](const auto& self, std::size_t number, llvm::Value* column) -> void {
          const auto put = [&](int axis, llvm::Value* at_column) {
            llvm::Value* const strip = memory.load_strip(position, axis, lanes_);
            code_.builder().CreateAlignedStore(cpu::widen(code_.builder(), strip, b_.dtype, to),
                                               bytes_behind(row, code_.mul(at_column, code_.index(element))),
                                               llvm::Align(static_cast<std::uint64_t>(element)));
          };
          if (operand.free.empty()) return put(-1, column);
          const int axis = operand.free[number];
          const bool last = number + 1 == operand.free.size();
          llvm::Value* const end =
              operand.free.size() == 1 ? panel_end(product) : code_.index(memory.extent(axis));
          code_.loop(code_.index(0), end, code_.index(last ? lanes_ : 1), [&](llvm::Value* i) {
            position[static_cast<std::size_t>(axis)] = i;
            llvm::Value* const here = code_.add(code_.mul(column, code_.index(memory.extent(axis))), i);
            if (last) {
              put(axis, here);
            } else {
              self(self, number + 1, here);
            }
          });
        };
        columns(columns, 0, code_.index(0));
      });
    });
    bind_segments(false);
  }

  // --- passes and their scratch

  void choose_pass(BlockProduct& product) {
    const tile::Schedule& schedule = l_.schedule();
    const std::int64_t columns = b_direct_ == Direct::Always ? shape_.columns() : product.padded_columns();
    product.pass = schedule.contract_block > 0
                       ? schedule.contract_block
                       : default_pass(l_.target(), product.shape, product.rows, columns, segment_count_);
    if (!inner_) product.pass = std::min(product.pass, problem_.shape.depth);
    // Where liveness changes within the depth it is copied as a whole.
    for (const Operand* operand : {&a_, &b_}) {
      if (operand->memory && is_compound(*operand->memory)) product.pass = problem_.shape.depth;
    }
  }

  void allocate_packs(const BlockProduct& product) {
    a_rows_ = scratch(segment_count_ * product.padded_rows() * 8);
    zeros_ = scratch((product.pass + lanes_) * width_);
    a_pack_pitch_ = round_up(product.pass, lanes_);
    if (a_pack_pitch_ * width_ % 4096 == 0) a_pack_pitch_ += lanes_;
    const bool a_copies = !a_direct_ && (a_.memory || a_.dtype != accumulator_);
    if (a_copies || (a_.memory && a_rows_may_be_partial())) {
      a_pack_ = scratch((segment_count_ * product.padded_rows() * a_pack_pitch_ + lanes_) * width_);
    }
    if (b_.memory && b_direct_ != Direct::Always) {
      const std::int64_t rows = (segment_count_ - 1) * product.pass + round_up(product.pass, lanes_);
      b_pack_ = scratch((rows * product.padded_columns() + lanes_) * byte_width(b_packed_type(product)));
    }
  }

  void clear_zeros(const BlockProduct& product) {
    clear(zeros_, round_up((product.pass + lanes_) * width_, 64));
  }

  // Programs that follow one another often need the same pointers or the same copies of an operand: one row
  // block meets several column panels, or the other way round. `prepare` runs only if something that it
  // depends on has changed since it ran last in this call.
  void unless_unchanged(const Operand& operand, const ContractRange& range, llvm::Value* live,
                        const std::function<void()>& prepare) {
    Values key{batch_, first_, range.begin, range.count, live};
    const Op& load = kernel_.op(operand.memory->operand().load);
    if (!packs_last_ || !add_key(load, key)) return prepare();
    std::erase_if(key, [&](llvm::Value* value) { return code_.level_of(value) == 0; });
    llvm::Value* const slots = code_.stack(static_cast<std::int64_t>(key.size() + 1) * 8);
    const auto slot = [&](std::size_t k) {
      return code_.builder().CreateConstGEP1_64(code_.builder().getInt64Ty(), slots, k);
    };
    {
      const Code::Hoist hoist(code_, {});
      code_.builder().CreateAlignedStore(code_.index(0), slots, llvm::Align(8));
    }
    llvm::Value* same = code_.builder().CreateICmpNE(
        code_.builder().CreateAlignedLoad(code_.builder().getInt64Ty(), slots, llvm::Align(8)),
        code_.index(0));
    for (std::size_t k = 0; k < key.size(); ++k) {
      llvm::Value* const last =
          code_.builder().CreateAlignedLoad(code_.builder().getInt64Ty(), slot(k + 1), llvm::Align(8));
      same = code_.builder().CreateAnd(same, code_.builder().CreateICmpEQ(last, key[k]));
    }
    code_.branch(
        same, [] { return Values{}; },
        [&] {
          prepare();
          code_.builder().CreateAlignedStore(code_.index(1), slots, llvm::Align(8));
          for (std::size_t k = 0; k < key.size(); ++k) {
            code_.builder().CreateAlignedStore(key[k], slot(k + 1), llvm::Align(8));
          }
          return Values{};
        });
  }
  // Adds the scalars that a load's or a view's elements depend on; false if they depend on memory that may
  // change.
  bool add_key(const Op& op, Values& key) const {
    for (const ValueId operand : op.operands) {
      if (!kernel_.type(operand).is_view()) {
        if (!is_index(operand)) key.push_back(l_.scalar(operand));
        continue;
      }
      const OpId definer = l_.plan().definer(operand);
      if (definer) {
        if (kernel_.op(definer).code == Opcode::Local || !add_key(kernel_.op(definer), key)) return false;
        continue;
      }
      for (const tile::Parameter& parameter : kernel_.parameters) {
        if (parameter.value == operand &&
            (parameter.access != tile::Access::In || parameter.alias_group != 0)) {
          return false;
        }
      }
    }
    return true;
  }

  void bind_inner_to_start() {
    if (inner_) l_.set_scalar(problem_.indices[*inner_].argument, code_.index(0));
  }

  Lowering& l_;
  Code& code_;
  const Kernel& kernel_;
  DotProblem problem_;
  Operand a_, b_;
  DType accumulator_ = DType::F32;
  std::int64_t width_ = 4;  // bytes of an element of the accumulator
  int lanes_ = 1;
  MicroKernelShape shape_;
  BlockProduct product_;

  bool packs_last_ = false;  // pointers and copies in scratch are still there when the next program begins
  bool joined_ = false;      // iterations of the contract become one product, but for the outer indices
  std::optional<std::size_t> inner_;
  std::vector<std::size_t> segments_, outer_;
  std::vector<std::int64_t> segment_counts_;
  std::int64_t segment_count_ = 1;

  llvm::Value* c_ = nullptr;
  std::int64_t pitch_ = 0;  // elements
  Buffer result_;
  Buffer a_tile_, b_tile_;

  llvm::Value* batch_ = nullptr;
  llvm::Value* first_ = nullptr;  // the first step of k that is live
  llvm::Value* depth_ = nullptr;  // the number of steps from there

  bool a_direct_ = false;
  llvm::Value* a_rows_ = nullptr;
  llvm::Value* zeros_ = nullptr;
  llvm::Value* a_pack_ = nullptr;
  std::int64_t a_pack_pitch_ = 0;  // elements

  Direct b_direct_ = Direct::Never;
  bool transposes_ = false;
  llvm::Value* column_pitch_ = nullptr;
  llvm::Value* b_pitch_ = nullptr;
  llvm::Value* b_segment_pitch_ = nullptr;
  llvm::Value* b_panel_pitch_ = nullptr;
  llvm::Value* b_live_ = nullptr;
  std::vector<std::pair<llvm::Value*, llvm::Value*>> b_conditions_;
  llvm::Value* b_pack_ = nullptr;
};

}  // namespace

void lower_dot(Lowering& lowering, OpId dot) {
  const Kernel& kernel = lowering.kernel();
  DotLowering(lowering, dot_problem(kernel, dot)).lower(dot, kernel.op(dot).results[0], [] {});
}

bool lower_dot_contract(Lowering& lowering, OpId contract) {
  const Kernel& kernel = lowering.kernel();
  std::optional<DotProblem> problem = contract_problem(kernel, contract, lowering.plan().definers());
  if (!problem) return false;
  const OpId dot = problem->dot;
  const Op& op = kernel.op(contract);
  DotLowering(lowering, std::move(*problem)).lower(contract, op.results[0], [&] {
    for (const OpId inner : kernel.block(op.blocks[0]).ops) {
      if (inner != dot && kernel.op(inner).code != Opcode::Yield) lowering.lower_op(inner);
    }
  });
  return true;
}

}  // namespace kiln::jit::cpu
