// The three functions of the kernel ABI (jit/kernel_abi.h).
#include <cstddef>

#include "ir/base/errors.h"
#include "jit/cpu/lowering.h"
#include "jit/cpu/types.h"

namespace kiln::jit::cpu {

using tile::Function;
using tile::Type;
using tile::ValueId;

namespace {

// Tensors are smaller than this along each axis.
constexpr std::int64_t kGreatestExtent = std::int64_t{1} << 40;

}  // namespace

Lowering::Lowering(const tile::Kernel& kernel, const Plan& plan, const tile::Schedule& schedule,
                   const Target& target, llvm::Function* function)
    : kernel_(kernel),
      plan_(plan),
      schedule_(schedule),
      target_(target),
      code_(function),
      scalars_(kernel.values.size(), nullptr) {
  anywhere_ = code_.stack(64);
}

void Lowering::read_arguments(llvm::Value* arguments) {
  std::uint64_t next = 0;
  const auto word = [&](llvm::Type* type) {
    llvm::Value* address = builder().CreateConstGEP1_64(builder().getInt64Ty(), arguments, next++);
    return builder().CreateAlignedLoad(type, address, llvm::Align(8));
  };
  const auto number = [&](std::int64_t known) -> llvm::Value* {
    if (known == tile::kDynamic) return word(builder().getInt64Ty());
    ++next;
    return code_.index(known);
  };
  for (const tile::Parameter& parameter : kernel_.parameters) {
    const Type& type = kernel_.type(parameter.value);
    if (!type.is_view()) {
      llvm::Type* element = register_type(code_.context(), type.element);
      llvm::Value* bits = word(builder().getInt64Ty());
      llvm::Value* narrow =
          builder().CreateTrunc(bits, builder().getIntNTy(element->getPrimitiveSizeInBits()));
      set_scalar(parameter.value, builder().CreateBitCast(narrow, element));
      continue;
    }
    Memory memory;
    memory.data = word(builder().getPtrTy());
    Values extents;
    for (const std::int64_t extent : type.extents) {
      llvm::Value* equal = extent_read_before(parameter.value, static_cast<int>(extents.size()));
      if (equal != nullptr) {
        extents.push_back(equal);
        ++next;
        continue;
      }
      extents.push_back(number(extent));
      if (extent == tile::kDynamic) code_.set_range(extents.back(), {0, kGreatestExtent});
    }
    for (const std::int64_t stride : type.strides) memory.strides.push_back(number(stride));
    memories_[parameter.value.index] = std::move(memory);
    extents_[parameter.value.index] = std::move(extents);
  }
}

// An extent that was read and that the Kernel takes for equal to this one, else null.
llvm::Value* Lowering::extent_read_before(ValueId view, int axis) const {
  for (const auto& group : kernel_.equal_extents) {
    const bool is_member = std::any_of(group.begin(), group.end(), [&](const tile::ParameterExtent& extent) {
      return extent.view == view && extent.axis == axis;
    });
    if (!is_member) continue;
    for (const auto& [other, other_axis] : group) {
      const auto known = extents_.find(other.index);
      if (known != extents_.end()) return known->second[static_cast<std::size_t>(other_axis)];
    }
  }
  return nullptr;
}

// Extents of the grid, as values.
Values Lowering::grid_extents() {
  Values extents;
  if (!kernel_.grid) return extents;
  lower_block(kernel_.grid);
  for (const ValueId extent : kernel_.op(kernel_.block(kernel_.grid).ops.back()).operands) {
    extents.push_back(code_.max(scalar(extent), code_.index(0)));
  }
  return extents;
}

// Programs along a dimension of n or ceildiv(n, block) have an index, id or id * block, below n.
void Lowering::bound_program_id(std::size_t axis, llvm::Value* id) {
  code_.set_below(id, program_counts_[axis]);
  const auto operand = [&](ValueId of, Function function, std::size_t number) {
    const tile::OpId definer = of ? plan_.definer(of) : tile::OpId::none();
    if (!definer) return ValueId::none();
    const tile::Op& op = kernel_.op(definer);
    const bool is_it = op.code == tile::Opcode::Elementwise && op.attributes.function == function;
    return is_it ? op.operands[number] : ValueId::none();
  };
  // ceildiv(n, block) is (n + floormod(-n, block)) / block.
  const ValueId count = kernel_.op(kernel_.block(kernel_.grid).ops.back()).operands[axis];
  const ValueId sum = operand(count, Function::Div, 0), block = operand(count, Function::Div, 1);
  const ValueId n = operand(sum, Function::Add, 0), rest = operand(sum, Function::Add, 1);
  if (!n || operand(operand(rest, Function::FloorMod, 0), Function::Neg, 0) != n) return;
  const auto* size = llvm::dyn_cast<llvm::ConstantInt>(scalar(block));
  const ValueId modulus = operand(rest, Function::FloorMod, 1);
  if (size == nullptr || size->getSExtValue() < 1 || scalar(modulus) != size) return;
  code_.set_below(id, scalar(n), size->getSExtValue());
}

void Lowering::lower_run() {
  llvm::Value* call = code_.function()->getArg(0);
  const auto field = [&](std::size_t offset) {
    return builder().CreateAlignedLoad(builder().getPtrTy(),
                                       builder().CreateConstGEP1_64(builder().getInt8Ty(), call, offset),
                                       llvm::Align(8));
  };
  llvm::Value* arguments = field(offsetof(KernelCall, arguments));
  llvm::Value* low = field(offsetof(KernelCall, low));
  llvm::Value* high = field(offsetof(KernelCall, high));
  scratch_ = field(offsetof(KernelCall, scratch));
  status_ = field(offsetof(KernelCall, status));
  read_arguments(arguments);
  program_counts_ = grid_extents();
  prepare_locals();

  const std::size_t rank = program_counts_.size();
  std::vector<int> order = schedule_.grid_order;
  if (order.empty()) {
    for (std::size_t axis = 0; axis < rank; ++axis) order.push_back(static_cast<int>(axis));
  }
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t axis = 0; axis < rank || axis < sorted.size(); ++axis) {
    if (sorted.size() != rank || sorted[axis] != static_cast<int>(axis)) {
      throw_caller(ErrorCode::Refused,
                   "grid order [{}] of a kernel whose grid has rank {}, expected a permutation",
                   fmt::join(order, ", "), rank);
    }
  }
  const auto bound = [&](llvm::Value* bounds, int axis) {
    llvm::Value* address =
        builder().CreateConstGEP1_64(builder().getInt64Ty(), bounds, static_cast<std::uint64_t>(axis));
    return builder().CreateAlignedLoad(builder().getInt64Ty(), address, llvm::Align(8));
  };
  Values lows, highs;
  for (const int axis : order) {
    lows.push_back(bound(low, axis));
    highs.push_back(bound(high, axis));
  }
  program_ids_.assign(rank, nullptr);
  const std::function<void(std::size_t)> nest = [&](std::size_t k) {
    if (k == order.size()) return lower_block(kernel_.body);
    const auto axis = static_cast<std::size_t>(order[k]);
    if (Code::is_constant(program_counts_[axis], 1)) {  // no box is empty
      program_ids_[axis] = code_.index(0);
      return nest(k + 1);
    }
    code_.loop(lows[k], highs[k], code_.index(1), [&](llvm::Value* id) {
      code_.set_range(id, {0, std::clamp<std::int64_t>(code_.range_of(program_counts_[axis]).high - 1, 0,
                                                       kGreatestExtent)});
      bound_program_id(axis, id);
      program_ids_[axis] = id;
      nest(k + 1);
    });
  };
  nest(0);
  builder().CreateRetVoid();
}

void Lowering::lower_grid() {
  read_arguments(code_.function()->getArg(0));
  const Values extents = grid_extents();
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    llvm::Value* address =
        builder().CreateConstGEP1_64(builder().getInt64Ty(), code_.function()->getArg(1), axis);
    builder().CreateAlignedStore(extents[axis], address, llvm::Align(8));
  }
  builder().CreateRetVoid();
}

void Lowering::lower_scratch(std::int64_t buffer_bytes) {
  read_arguments(code_.function()->getArg(0));
  llvm::Value* bytes = code_.index(buffer_bytes);
  for_each_local(kernel_.body, [&](const tile::Op& op) { bytes = code_.add(bytes, local_bytes(op)); });
  builder().CreateRet(bytes);
}

}  // namespace kiln::jit::cpu
