// Scalars, and tiles of one element: computed where they are defined.
#include "ir/base/errors.h"
#include "jit/cpu/lowering.h"
#include "jit/cpu/types.h"

namespace kiln::jit::cpu {

using tile::Op;
using tile::Opcode;
using tile::ValueId;

llvm::Value* Lowering::scalar(ValueId value) const {
  llvm::Value* emitted = scalars_[value.index];
  require(emitted != nullptr, "scalar {} of kernel {} is used before it is computed", value.index,
          kernel_.name);
  return emitted;
}

void Lowering::lower_scalar(const Op& op) {
  const Strip outer = strip_;
  strip_ = {};
  known_loads_.clear();
  known_blocks_.clear();
  strip_.load_floor = strip_.value_floor = code_.level();
  const auto axis = [&] { return static_cast<std::size_t>(op.attributes.axes[0]); };
  switch (op.code) {
    case Opcode::Dim:
      set_scalar(op.results[0], extent(op.operands[0], static_cast<int>(axis())));
      break;
    case Opcode::ProgramId:
      set_scalar(op.results[0], program_ids_.at(axis()));
      break;
    case Opcode::NumPrograms:
      set_scalar(op.results[0], program_counts_.at(axis()));
      break;
    case Opcode::Assume: {
      // A value of its own, so that what is known here is not believed elsewhere.
      llvm::Value* index = scalar(op.operands[0]);
      const Code::Hoist hoist(code_, {index});
      llvm::Value* assumed = builder().CreateFreeze(index);
      const Code::Range known = code_.range_of(index);
      code_.set_range(assumed, {std::max(known.low, op.attributes.sizes[1]),
                                std::min(known.high, op.attributes.sizes[2])});
      set_scalar(op.results[0], assumed);
      break;
    }
    case Opcode::Reduce: {
      const DType dtype = kernel_.type(op.operands[0]).element;
      const Values state = lift(op.attributes.combiner, dtype, scalar(op.operands[0]), builder().getInt32(0));
      const Values results = finish(op.attributes.combiner, dtype, state);
      for (std::size_t k = 0; k < results.size(); ++k) set_scalar(op.results[k], results[k]);
      break;
    }
    default: {
      Coordinate origin;
      origin.base = code_.index(0);
      const Coordinates at(kernel_.type(op.results[0]).extents.size(), origin);
      set_scalar(op.results[0], emit_op(op.results[0], op, at));
    }
  }
  strip_ = outer;
}

}  // namespace kiln::jit::cpu
