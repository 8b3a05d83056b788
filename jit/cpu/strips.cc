// The elements of a tile for one strip, on demand: an inlined tile is computed from the strips of its
// operands at the positions that it needs. What was computed at a position that is still visible is not
// computed again.
#include <algorithm>

#include "ir/base/errors.h"
#include "jit/cpu/lowering.h"
#include "jit/cpu/types.h"

namespace kiln::jit::cpu {

using tile::Function;
using tile::Op;
using tile::Opcode;
using tile::Type;
using tile::ValueId;

namespace {

bool may_report(const Op& op, DType dtype) {
  const Function f = op.attributes.function;
  return is_integer(dtype) && (f == Function::Div || f == Function::Rem || f == Function::FloorMod);
}

}  // namespace

llvm::Value* Lowering::emit(ValueId value, const Coordinates& at) {
  if (plan_.is_scalar(value)) return scalar(value);
  if (llvm::Value* known = remembered(value, at)) return known;
  if (!plan_.is_inline(value)) return load_buffer(buffer(value), at);
  return compute(value, at);
}

llvm::Value* Lowering::remembered(ValueId value, const Coordinates& at) const {
  const auto found = memo_.find(memo_key(value, at));
  return found != memo_.end() && code_.is_visible(found->second) ? found->second : nullptr;
}

Lowering::MemoKey Lowering::memo_key(ValueId value, const Coordinates& at) const {
  MemoKey key{value.index, strip_.lanes, {}};
  for (const Coordinate& coordinate : at) key.at.emplace_back(coordinate.base, coordinate.step);
  return key;
}

llvm::Value* Lowering::compute(ValueId value, const Coordinates& at) {
  if (llvm::Value* known = remembered(value, at)) return known;
  const Op& op = kernel_.op(plan_.definer(value));
  llvm::Value* result = nullptr;
  if (op.code == Opcode::Reduce) {
    const Values results = emit_reduce(op, at);
    for (std::size_t k = 0; k < results.size(); ++k) {
      memo_[memo_key(op.results[k], at)] = results[k];
      if (op.results[k] == value) result = results[k];
    }
  } else {
    result = emit_op(value, op, at);
    memo_[memo_key(value, at)] = result;
  }
  return result;
}

llvm::Value* Lowering::emit_op(ValueId value, const Op& op, const Coordinates& at) {
  const Type& type = kernel_.type(value);
  Coordinate origin;
  origin.base = code_.index(0);
  const auto operand = [&](std::size_t k) {
    return emit(op.operands[k], operand_axes(kernel_, op, k, at, origin));
  };
  switch (op.code) {
    case Opcode::Constant:
      return constant_of(register_type(code_.context(), type.element), type.element,
                         op.attributes.literal->bits);
    case Opcode::Iota: {
      const Coordinate& along = at[static_cast<std::size_t>(op.attributes.axes[0])];
      llvm::Type* integer = register_type(code_.context(), type.element);
      const Code::Hoist hoist(code_, {along.base}, along.is_uniform() ? 0 : strip_.value_floor);
      llvm::Value* base = builder().CreateTrunc(along.base, integer);
      if (along.is_uniform()) return base;
      std::vector<llvm::Constant*> lanes;
      for (int lane = 0; lane < strip_.lanes; ++lane) {
        lanes.push_back(llvm::ConstantInt::get(code_.context(),
                                               llvm::APInt(64, static_cast<std::uint64_t>(along.step * lane))
                                                   .trunc(integer->getIntegerBitWidth())));
      }
      return builder().CreateAdd(vector_of(base, strip_.lanes), llvm::ConstantVector::get(lanes));
    }
    case Opcode::Reshape: {
      const Type& from = kernel_.type(op.operands[0]);
      if (plan_.is_scalar(op.operands[0])) return scalar(op.operands[0]);
      if (without_unit_axes(from.extents) == without_unit_axes(type.extents)) return operand(0);
      // The operand lies dense in row-major order: its elements have the numbers that they have here.
      Coordinate linear = origin;
      for (std::size_t axis = 0; axis < at.size(); ++axis) {
        linear = plus(times(linear, code_.index(type.extents[axis])), at[axis]);
      }
      Buffer flat = buffer(op.operands[0]);
      flat.strides = {1};
      return load_buffer(flat, {linear});
    }
    case Opcode::Transpose:
    case Opcode::Broadcast:
      return operand(0);
    case Opcode::Slice: {
      Coordinates inner = operand_axes(kernel_, op, 0, at, origin);
      for (std::size_t axis = 0; axis < inner.size(); ++axis) {
        inner[axis] = plus(inner[axis], code_.index(op.attributes.axes[axis]));
      }
      return emit(op.operands[0], inner);
    }
    case Opcode::Cast: {
      llvm::Value* x = operand(0);
      const Code::Hoist hoist(code_, {x}, strip_.value_floor);
      return cast(x, kernel_.type(op.operands[0]).element, type.element);
    }
    case Opcode::Bitcast: {
      llvm::Value* x = operand(0);
      const Code::Hoist hoist(code_, {x}, strip_.value_floor);
      return builder().CreateBitCast(
          x, x->getType()->getWithNewType(register_type(code_.context(), type.element)));
    }
    case Opcode::Elementwise: {
      Values operands;
      int lanes = 1;
      for (std::size_t k = 0; k < op.operands.size(); ++k) {
        operands.push_back(operand(k));
        lanes = std::max(lanes, lane_count(operands.back()->getType()));
      }
      const DType dtype =
          kernel_.type(op.operands[op.attributes.function == Function::Select ? 1 : 0]).element;
      for (llvm::Value*& x : operands) {
        const Code::Hoist hoist(code_, {x}, strip_.value_floor);
        x = vector_of(x, lanes);
      }
      const int floor = may_report(op, dtype) ? code_.level() : lanes == 1 ? 0 : strip_.value_floor;
      const Code::Hoist hoist(code_, operands, floor);
      return elementwise(op.attributes.function, dtype, operands);
    }
    case Opcode::Mask: {
      llvm::Value* x = operand(0);
      const Coordinate& along = at[static_cast<std::size_t>(op.attributes.axes[0])];
      if (strip_.interior && along.step != 0) return x;
      llvm::Value* length = scalar(op.operands[1]);
      llvm::Value* fill = scalar(op.operands[2]);
      llvm::Value* inside = nullptr;
      if (along.is_uniform()) {
        inside = code_.less(along.base, length);
      } else if (along.step == 1) {
        inside = lanes_between(nullptr, code_.sub(length, along.base));
      } else {
        llvm::Value* lanes = coordinate_lanes(along);
        const Code::Hoist hoist(code_, {lanes, length}, strip_.value_floor);
        inside = builder().CreateICmpSLT(lanes, vector_of(length, strip_.lanes));
      }
      const int lanes = std::max(lane_count(x->getType()), lane_count(inside->getType()));
      const Code::Hoist hoist(code_, {x, inside, fill}, strip_.value_floor);
      return builder().CreateSelect(inside, vector_of(x, lanes), vector_of(fill, lanes));
    }
    case Opcode::Load: {
      const ValueId view = op.operands[0];
      const auto rank = static_cast<std::size_t>(kernel_.type(view).rank());
      return resolve(view, box(view, std::span(op.operands).subspan(1, rank), type, at, load_fill(op)),
                     load_fill(op), [&](Access& access) { return load(access); });
    }
    default:
      throw_bug("{} is not computed in place", tile::name(op.code));
  }
}

llvm::Value* Lowering::load_fill(const Op& op) const {
  const Type& view = kernel_.type(op.operands[0]);
  if (op.operands.size() == view.extents.size() + 2) return scalar(op.operands.back());
  return llvm::Constant::getNullValue(register_type(anywhere_->getContext(), view.element));
}

// A reduction across strips: along another axis than the vectors'.
Values Lowering::emit_reduce(const Op& op, const Coordinates& at) {
  const Type& type = kernel_.type(op.operands[0]);
  const auto axis = op.attributes.axes[0];
  const std::int64_t extent = type.extents[static_cast<std::size_t>(axis)];
  const tile::Combiner combiner = op.attributes.combiner;
  const auto element = [&](llvm::Value* position) {
    Coordinates inner = at;
    Coordinate along;
    along.base = position;
    inner.insert(inner.begin() + axis, along);
    llvm::Value* x = emit(op.operands[0], inner);
    const Code::Hoist hoist(code_, {x, position}, strip_.value_floor);
    return lift(combiner, type.element, x, builder().CreateTrunc(position, builder().getInt32Ty()));
  };
  if (extent <= kUnrolledReduce) {
    Values state = element(code_.index(0));
    for (std::int64_t k = 1; k < extent; ++k) {
      const Values next = element(code_.index(k));
      state = combine(combiner, type.element, state, next);
    }
    return finish(combiner, type.element, state);
  }
  const bool uniform = std::all_of(at.begin(), at.end(), [](const Coordinate& c) { return c.is_uniform(); });
  const int lanes = uniform ? 1 : strip_.lanes;
  const Values result =
      code_.loop(code_.index(0), code_.index(extent), code_.index(1), identity(combiner, type.element, lanes),
                 [&](llvm::Value* k, const Values& state) {
                   return combine(combiner, type.element, state, element(k));
                 });
  return finish(combiner, type.element, result);
}

}  // namespace kiln::jit::cpu
