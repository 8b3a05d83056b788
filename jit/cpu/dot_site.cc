#include "jit/cpu/dot_site.h"

#include <algorithm>

#include "ir/base/checked_math.h"
#include "ir/base/errors.h"
#include "jit/cpu/types.h"
#include "jit/cpu/widen.h"

namespace kiln::jit::cpu {

using tile::Op;
using tile::Opcode;
using tile::OpId;
using tile::Type;
using tile::ValueId;

namespace {

// Row pointers of one pass: more segments than this become loops round the product.
constexpr std::int64_t kMaxSegments = 256;
// A depth shorter than this is worth joining with the next index, at the price of copying rows at edges.
constexpr std::int64_t kShortDepth = 32;

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

}  // namespace

DotSite::DotSite(Lowering& lowering_state, OpId op, DotProblem dot)
    : lowering(lowering_state),
      code(lowering_state.code()),
      kernel(lowering_state.kernel()),
      problem(std::move(dot)),
      a(operand(problem.a, true)),
      b(operand(problem.b, false)),
      accumulator(computed_in(kernel.type(problem.initial).element)),
      width(byte_width(accumulator)),
      lanes(static_cast<int>(lowering.target().vector_bytes() / width)) {
  const std::vector<OpId>& top = kernel.block(kernel.body).ops;
  top_level_ = std::find(top.begin(), top.end(), op) != top.end();
}

Operand DotSite::operand(ValueId value, bool depth_last) {
  Operand result;
  result.tile = value;
  result.dtype = kernel.type(value).element;
  const Plan& plan = lowering.plan();
  std::optional<LoadedOperand> loaded = loaded_operand(kernel, plan.definers(), problem, value, depth_last);
  // A load that the plan keeps in a buffer may be out of date in memory by now.
  const bool in_memory = loaded && !plan.is_materialized(kernel.op(loaded->load).results[0]);
  if (in_memory && MemoryMatrix::is_plain(kernel, plan, *loaded)) {
    result.memory.emplace(lowering, std::move(*loaded));
  }
  return result;
}

// --- indices

void DotSite::split_indices() {
  joined_ = problem.indices.empty() || (reads_only_from_outside(a) && reads_only_from_outside(b));
  std::vector<std::size_t> rest;
  for (std::size_t i = 0; i < problem.indices.size(); ++i) rest.push_back(i);
  if (joined_ && !rest.empty()) {
    for (const ContractIndex& index : problem.indices) lowering.set_scalar(index.argument, code.index(0));
    lower_constants(a);
    lower_constants(b);
    choose_inner();
    if (inner_) std::erase(rest, *inner_);
    // A static inner index is part of the depth from here on.
    if (inner_ && lengthen_depth()) inner_.reset();
    while (!inner_ && !rest.empty() && fold_into_depth(rest.back())) rest.pop_back();
    while (!rest.empty() && is_segment(rest.back())) {
      segments_.insert(segments_.begin(), rest.back());
      rest.pop_back();
    }
  }
  outer_ = std::move(rest);
}

// Nothing that the load needs is computed in the contract's Block, but for constants and the indices.
bool DotSite::reads_only_from_outside(const Operand& operand) const {
  if (!operand.memory) return false;
  const Op& load = kernel.op(operand.memory->operand().load);
  return std::all_of(load.operands.begin(), load.operands.end(), [&](ValueId value) {
    if (is_index(value)) return true;
    const OpId definer = lowering.plan().definer(value);
    return !definer || !is_in_body(definer) || kernel.op(definer).code == Opcode::Constant;
  });
}

void DotSite::lower_constants(const Operand& operand) {
  for (const ValueId value : kernel.op(operand.memory->operand().load).operands) {
    const OpId definer = lowering.plan().definer(value);
    if (definer && kernel.op(definer).code == Opcode::Constant) lowering.lower_op(definer);
  }
}

bool DotSite::is_index(ValueId value) const {
  return std::any_of(problem.indices.begin(), problem.indices.end(),
                     [&](const ContractIndex& index) { return index.argument == value; });
}

bool DotSite::is_in_body(OpId op) const {
  for (const tile::Block& block : kernel.blocks) {
    const bool has_dot = std::find(block.ops.begin(), block.ops.end(), problem.dot) != block.ops.end();
    if (has_dot) return std::find(block.ops.begin(), block.ops.end(), op) != block.ops.end();
  }
  return false;
}

void DotSite::choose_inner() {
  const std::optional<int> inner = depth_index(kernel, problem, a.memory->operand());
  if (!inner || inner != depth_index(kernel, problem, b.memory->operand())) return;
  const auto number = static_cast<std::size_t>(*inner);
  if (uses(a, number) != 1 || uses(b, number) != 1) return;
  const bool is_static = static_count(number).has_value();
  for (const Operand* operand : {&a, &b}) {
    const std::vector<int>& depth = operand->memory->operand().depth;
    if (!operand->memory->is_affine(depth)) return;
    if (!is_static && !operand->memory->is_separable(depth[0])) return;
  }
  inner_ = number;
}

std::optional<std::int64_t> DotSite::static_count(std::size_t index) const {
  const auto* const extent =
      llvm::dyn_cast<llvm::ConstantInt>(lowering.scalar(problem.indices[index].extent));
  if (extent == nullptr) return std::nullopt;
  return ceil_divide(std::max<std::int64_t>(extent->getSExtValue(), 0), problem.indices[index].block);
}

bool DotSite::lengthen_depth() {
  const std::optional<std::int64_t> count = static_count(*inner_);
  if (!count || *count == 0) return false;
  problem.shape.depth = *count * problem.indices[*inner_].block;
  for (Operand* operand : {&a, &b}) {
    operand->memory->extend_depth(operand->memory->operand().depth[0], problem.shape.depth);
  }
  return true;
}

// An index along which both operands go on where the depth ends: the columns of a window over few channels.
bool DotSite::fold_into_depth(std::size_t index) {
  const std::optional<std::int64_t> count = static_count(index);
  if (problem.shape.depth >= kShortDepth || !count || *count == 0 || problem.indices[index].block != 1) {
    return false;
  }
  std::vector<int> axes;
  for (Operand* operand : {&a, &b}) {
    MemoryMatrix& memory = *operand->memory;
    const std::vector<int>& depth = memory.operand().depth;
    const std::optional<int> axis = axis_of(*operand, index);
    if (!axis || memory.extent(*axis) != 1 || depth.empty() || !memory.is_affine(depth) ||
        !memory.is_affine({*axis})) {
      return false;
    }
    llvm::Value* const step = memory.run(memory.origin(), depth.back()).stride;
    const Run run = memory.run(memory.origin(), *axis);
    if (run.stride != code.mul(step, code.index(problem.shape.depth))) return false;
    axes.push_back(*axis);
  }
  a.memory->extend_depth(axes[0], *count);
  b.memory->extend_depth(axes[1], *count);
  problem.shape.depth *= *count;
  return true;
}

// A segment has a static number of iterations, and B's segments lie at equal distances.
bool DotSite::is_segment(std::size_t index) {
  const std::optional<std::int64_t> count = static_count(index);
  if (!count || *count == 0 || *count * segment_count_ > kMaxSegments) return false;
  if (*count != 1) {
    llvm::Value* const pitch = b_index_pitch(index);
    if (pitch == nullptr) return false;
    if (segment_count_ == 1) {
      b_segment_pitch_ = pitch;
    } else if (pitch != code.mul(b_segment_pitch_, code.index(segment_count_))) {
      return false;
    }
  }
  segment_count_ *= *count;
  segment_counts_.insert(segment_counts_.begin(), *count);
  return true;
}

// Bytes between B at one iteration of the index and the next; null if they differ.
llvm::Value* DotSite::b_index_pitch(std::size_t index) {
  if (uses(b, index) == 0) return code.index(0);
  const std::optional<int> axis = axis_of(b, index);
  if (!axis || !b.memory->is_affine({*axis})) return nullptr;
  const Run run = b.memory->run(b.memory->origin(), *axis);
  return code.mul(run.stride, code.index(problem.indices[index].block * byte_width(b.dtype)));
}

// The axis of the view whose index is this index of the contract, if there is one only.
std::optional<int> DotSite::axis_of(const Operand& operand, std::size_t index) const {
  if (uses(operand, index) != 1) return std::nullopt;
  const Op& load = kernel.op(operand.memory->operand().load);
  const auto found =
      std::find(load.operands.begin() + 1, load.operands.end(), problem.indices[index].argument);
  return static_cast<int>(found - load.operands.begin()) - 1;
}

// How many indices of the load are this index of the contract.
std::int64_t DotSite::uses(const Operand& operand, std::size_t index) const {
  const Op& load = kernel.op(operand.memory->operand().load);
  return std::count(load.operands.begin() + 1, load.operands.end(), problem.indices[index].argument);
}

llvm::Value* DotSite::dynamic_depth() {
  if (!inner_) return nullptr;
  const ContractIndex& index = problem.indices[*inner_];
  llvm::Value* const blocks = code.add(lowering.scalar(index.extent), code.index(index.block - 1));
  return code.mul(code.floor_divide(blocks, index.block), code.index(index.block));
}

void DotSite::loop_over_outer(const std::function<void()>& emit) {
  const auto level = [&](const auto& self, std::size_t number) -> void {
    if (number == outer_.size()) return emit();
    const ContractIndex& index = problem.indices[outer_[number]];
    llvm::Value* const end = lowering.scalar(index.extent);
    code.loop(code.index(0), end, code.index(index.block), [&](llvm::Value* i) {
      code.set_range(i, {0, std::max<std::int64_t>(0, code.range_of(end).high - 1)});
      lowering.set_scalar(index.argument, i);
      self(self, number + 1);
    });
  };
  level(level, 0);
}

void DotSite::loop_over_segments(const std::function<void(llvm::Value* number)>& emit) {
  const auto level = [&](const auto& self, std::size_t k, llvm::Value* number) -> void {
    if (k == segments_.size()) return emit(number);
    const ContractIndex& index = problem.indices[segments_[k]];
    code.loop(code.index(0), code.index(segment_counts_[k]), code.index(1), [&](llvm::Value* i) {
      code.set_range(i, {0, segment_counts_[k] - 1});
      lowering.set_scalar(index.argument, code.mul(i, code.index(index.block)));
      self(self, k + 1, code.add(code.mul(number, code.index(segment_counts_[k])), i));
    });
  };
  level(level, 0, code.index(0));
}

void DotSite::bind_indices(bool last_segment) {
  if (inner_) lowering.set_scalar(problem.indices[*inner_].argument, code.index(0));
  for (std::size_t k = 0; k < segments_.size(); ++k) {
    const ContractIndex& index = problem.indices[segments_[k]];
    lowering.set_scalar(index.argument,
                        code.index(last_segment ? (segment_counts_[k] - 1) * index.block : 0));
  }
}

// --- positions

Values DotSite::at(const MemoryMatrix& memory, llvm::Value* k) {
  Values position = memory.origin();
  spread(memory, memory.operand().batch, batch, position);
  if (k != nullptr) spread(memory, memory.operand().depth, k, position);
  return position;
}

// Splits a position in row-major order over axes.
void DotSite::spread(const MemoryMatrix& memory, const std::vector<int>& axes, llvm::Value* number,
                     Values& position) {
  llvm::Value* rest = number;
  for (std::size_t k = axes.size(); k-- > 0;) {
    const auto axis = static_cast<std::size_t>(axes[k]);
    if (k == 0) {
      position[axis] = rest;
      return;
    }
    const std::int64_t extent = memory.extent(axes[k]);
    llvm::Value* const outer = code.floor_divide(rest, extent);
    position[axis] = code.sub(rest, code.mul(outer, code.index(extent)));
    rest = outer;
  }
}

bool DotSite::is_compound(const MemoryMatrix& memory) {
  const std::vector<int>& depth = memory.operand().depth;
  return depth.size() > 1 || (depth.size() == 1 && !memory.is_separable(depth[0]));
}

// --- scratch

llvm::Value* DotSite::scratch(std::int64_t bytes) {
  return lowering.new_buffer(Type::tile(DType::I8, {ceil_divide(bytes, 64) * 64}), true).data;
}

void DotSite::clear(llvm::Value* data, std::int64_t bytes) {
  llvm::Type* const vector = with_lanes(code.builder().getInt8Ty(), 64);
  code.loop(code.index(0), code.index(ceil_divide(bytes, 64) * 64), code.index(64), [&](llvm::Value* i) {
    code.builder().CreateAlignedStore(llvm::Constant::getNullValue(vector), bytes_behind(data, i),
                                      llvm::Align(16));
  });
}

// A tile of one element is a scalar to the plan.
void DotSite::put(ValueId value, const Buffer& target) {
  if (!lowering.plan().is_scalar(value)) return lowering.materialize(value, target);
  code.builder().CreateAlignedStore(lowering.scalar(value), target.data,
                                    llvm::Align(static_cast<std::uint64_t>(byte_width(target.dtype))));
}

Buffer DotSite::put_matrix(ValueId value, std::int64_t inner, std::int64_t pitch) {
  const Type& type = kernel.type(value);
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
  buffer.data = scratch((rows * pitch + shape.columns()) * byte_width(type.element));
  put(value, buffer);
  return buffer;
}

void DotSite::store_widened(llvm::Value* value, DType from, DType to, llvm::Value* target) {
  code.builder().CreateAlignedStore(widen(code.builder(), value, from, to), target,
                                    llvm::Align(static_cast<std::uint64_t>(byte_width(to))));
}

llvm::Value* DotSite::bytes_behind(llvm::Value* pointer, llvm::Value* bytes) {
  const Code::Hoist hoist(code, {pointer, bytes});
  return code.builder().CreateGEP(code.builder().getInt8Ty(), pointer, bytes);
}

// --- what the last program left

void DotSite::unless_unchanged(const Operand& operand, const ContractRange& range, llvm::Value* live,
                               const std::function<void()>& prepare) {
  Values key{batch, first_step, range.begin, range.count, live};
  const Op& load = kernel.op(operand.memory->operand().load);
  if (!top_level_ || has_outer_loops() || !add_key(load, key)) return prepare();
  // What was computed at the function's entry is the same for all programs.
  std::erase_if(key, [&](llvm::Value* value) { return code.level_of(value) == 0; });
  Builder& b = code.builder();
  llvm::Value* const slots = code.stack(static_cast<std::int64_t>(key.size() + 1) * 8);
  // Volatile keeps the slots in memory: as registers they would live through every loop around the product.
  const auto slot = [&](std::size_t k) { return b.CreateConstGEP1_64(b.getInt64Ty(), slots, k); };
  const auto store = [&](llvm::Value* value, std::size_t k) {
    b.CreateAlignedStore(value, slot(k), llvm::Align(8), /*isVolatile=*/true);
  };
  {
    const Code::Hoist hoist(code, {});
    store(code.index(0), 0);
  }
  key.insert(key.begin(), code.index(1));  // slot 0: whether anything has been prepared
  llvm::Value* difference = code.index(0);
  for (std::size_t k = 0; k < key.size(); ++k) {
    auto* stored = b.CreateAlignedLoad(b.getInt64Ty(), slot(k), llvm::Align(8), /*isVolatile=*/true);
    difference = b.CreateOr(difference, b.CreateXor(stored, key[k]));
  }
  code.branch(
      b.CreateICmpEQ(difference, code.index(0)), [] { return Values{}; },
      [&] {
        prepare();
        for (std::size_t k = 0; k < key.size(); ++k) store(key[k], k);
        return Values{};
      });
}

// Adds the scalars that a load or a view depends on; false if it depends on memory that may change.
bool DotSite::add_key(const Op& op, Values& key) const {
  for (const ValueId operand : op.operands) {
    if (!kernel.type(operand).is_view()) {
      if (!is_index(operand)) key.push_back(lowering.scalar(operand));
      continue;
    }
    const OpId definer = lowering.plan().definer(operand);
    if (definer) {
      if (kernel.op(definer).code == Opcode::Local || !add_key(kernel.op(definer), key)) return false;
      continue;
    }
    for (const tile::Parameter& parameter : kernel.parameters) {
      if (parameter.value == operand &&
          (parameter.access != tile::Access::In || parameter.alias_group != 0)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace kiln::jit::cpu
