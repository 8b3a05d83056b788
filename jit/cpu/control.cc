// Loops and branches. Scalars that they carry or yield are SSA values; tiles lie in buffers.
#include <algorithm>

#include "ir/base/errors.h"
#include "jit/cpu/lowering.h"

namespace kiln::jit::cpu {

using tile::BlockId;
using tile::Op;
using tile::OpId;
using tile::ValueId;

namespace {

std::span<const ValueId> yielded(const tile::Kernel& kernel, BlockId block) {
  return kernel.op(kernel.block(block).ops.back()).operands;
}

}  // namespace

// Values carried through the iterations of a Block: block arguments, with initial values and what is yielded.
class Carried {
 public:
  Carried(Lowering& lowering, std::span<const ValueId> initial, std::span<const ValueId> arguments)
      : l_(lowering), arguments_(arguments) {
    std::vector<ValueId> tiles;
    for (std::size_t k = 0; k < initial.size(); ++k) {
      if (l_.plan().is_scalar(arguments[k])) {
        scalars_.push_back(l_.scalar(initial[k]));
      } else {
        tiles.push_back(initial[k]);
        held_.push_back(arguments[k]);
        buffers_.push_back(l_.new_buffer(l_.kernel().type(arguments[k]), true));
      }
    }
    l_.assign(tiles, buffers_, {});
  }

  const Values& initial() const { return scalars_; }
  void enter(const Values& scalars) { bind(arguments_, scalars); }
  // The scalars for the next iteration; tiles go into their buffers.
  Values next(std::span<const ValueId> values) {
    Values scalars;
    std::vector<ValueId> tiles;
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (l_.plan().is_scalar(arguments_[k])) {
        scalars.push_back(l_.scalar(values[k]));
      } else {
        tiles.push_back(values[k]);
      }
    }
    l_.assign(tiles, buffers_, held_);
    return scalars;
  }
  void leave(std::span<const ValueId> results, const Values& scalars) { bind(results, scalars); }

 private:
  void bind(std::span<const ValueId> values, const Values& scalars) {
    std::size_t scalar = 0, tile = 0;
    for (const ValueId value : values) {
      if (l_.plan().is_scalar(value)) {
        l_.set_scalar(value, scalars[scalar++]);
      } else {
        l_.set_buffer(value, buffers_[tile++]);
      }
    }
  }

  Lowering& l_;
  std::span<const ValueId> arguments_;
  Values scalars_;
  std::vector<ValueId> held_;
  std::vector<Buffer> buffers_;
};

void Lowering::assign(std::span<const ValueId> values, std::span<const Buffer> targets,
                      std::span<const ValueId> held_by_targets) {
  // A target may be overwritten at once if its old elements matter to the new ones at the same places alone.
  std::vector<std::size_t> direct;
  std::vector<std::pair<std::size_t, Buffer>> by_copy;
  for (std::size_t k = 0; k < values.size(); ++k) {
    bool in_place = true;
    if (!held_by_targets.empty()) {
      if (values[k] == held_by_targets[k]) continue;
      in_place = plan_.is_elementwise_of(values[k], held_by_targets[k]);
      for (std::size_t other = 0; other < values.size(); ++other) {
        in_place = in_place && (other == k || !plan_.depends_on(values[other], held_by_targets[k]));
      }
    }
    if (in_place) {
      direct.push_back(k);
    } else {
      Buffer copy = new_buffer(kernel_.type(values[k]), true);
      materialize(values[k], copy);
      by_copy.emplace_back(k, std::move(copy));
    }
  }
  for (const std::size_t k : direct) materialize(values[k], targets[k]);
  for (const auto& [k, copy] : by_copy) copy_buffer(kernel_.type(values[k]), copy, targets[k]);
}

void Lowering::copy_buffer(const tile::Type& type, const Buffer& from, const Buffer& to) {
  require(from.strides == to.strides, "buffers of one type differ");
  std::int64_t elements = 1;
  for (const std::int64_t extent : type.extents) elements *= extent;
  builder().CreateMemCpy(to.data, llvm::Align(64), from.data, llvm::Align(64),
                         static_cast<std::uint64_t>(elements * ((bits(type.element) + 7) / 8)));
}

void Lowering::lower_for(const Op& op) {
  const BlockId body = op.blocks[0];
  const std::span<const ValueId> arguments = kernel_.block(body).arguments;
  Carried carried(*this, std::span(op.operands).subspan(3), arguments.subspan(1));
  llvm::Value *low = scalar(op.operands[0]), *high = scalar(op.operands[1]);
  llvm::Value* step = code_.max(scalar(op.operands[2]), code_.index(1));
  const Values results =
      code_.loop(low, high, step, carried.initial(), [&](llvm::Value* i, const Values& scalars) {
        code_.set_range(
            i, {code_.range_of(low).low, std::max(code_.range_of(low).low, code_.range_of(high).high - 1)});
        set_scalar(arguments[0], i);
        carried.enter(scalars);
        lower_block(body);
        return carried.next(yielded(kernel_, body));
      });
  carried.leave(op.results, results);
}

void Lowering::lower_contract(const Op& op) {
  const BlockId body = op.blocks[0];
  const std::vector<std::int64_t>& blocks = op.attributes.sizes;
  const std::span<const ValueId> arguments = kernel_.block(body).arguments;
  Carried carried(*this, std::span(op.operands).subspan(blocks.size()), arguments.subspan(blocks.size()));
  const std::function<Values(std::size_t, const Values&)> nest = [&](std::size_t axis,
                                                                     const Values& scalars) {
    if (axis == blocks.size()) {
      carried.enter(scalars);
      lower_block(body);
      return carried.next(yielded(kernel_, body));
    }
    llvm::Value* high = scalar(op.operands[axis]);
    return code_.loop(code_.index(0), high, code_.index(blocks[axis]), scalars,
                      [&](llvm::Value* i, const Values& inner) {
                        code_.set_range(i, {0, std::max<std::int64_t>(0, code_.range_of(high).high - 1)});
                        set_scalar(arguments[axis], i);
                        return nest(axis + 1, inner);
                      });
  };
  carried.leave(op.results, nest(0, carried.initial()));
}

void Lowering::lower_if(const Op& op) {
  std::vector<Buffer> buffers;
  for (const ValueId result : op.results) {
    if (!plan_.is_scalar(result)) {
      buffers.push_back(new_buffer(kernel_.type(result), plan_.is_dense(result)));
      set_buffer(result, buffers.back());
    }
  }
  const auto run = [&](BlockId block) {
    lower_block(block);
    Values scalars;
    std::vector<ValueId> tiles;
    for (const ValueId value : yielded(kernel_, block)) {
      if (plan_.is_scalar(value)) {
        scalars.push_back(scalar(value));
      } else {
        tiles.push_back(value);
      }
    }
    assign(tiles, buffers, {});
    return scalars;
  };
  const Values merged = code_.branch(
      scalar(op.operands[0]), [&] { return run(op.blocks[0]); }, [&] { return run(op.blocks[1]); });
  std::size_t next = 0;
  for (const ValueId result : op.results) {
    if (plan_.is_scalar(result)) set_scalar(result, merged[next++]);
  }
}

// The operands side by side in one buffer.
void Lowering::lower_concat(const Op& op) {
  const ValueId result = op.results[0];
  if (plan_.is_scalar(result)) {
    set_scalar(result, scalar(op.operands[0]));
    return;
  }
  const auto axis = static_cast<std::size_t>(op.attributes.axes[0]);
  const Buffer whole = new_buffer(kernel_.type(result), plan_.is_dense(result));
  std::int64_t offset = 0;
  for (const ValueId operand : op.operands) {
    Buffer part = whole;
    const std::int64_t bytes = offset * whole.strides[axis] * ((bits(whole.dtype) + 7) / 8);
    {
      const Code::Hoist hoist(code_, {whole.data});
      part.data =
          builder().CreateConstGEP1_64(builder().getInt8Ty(), whole.data, static_cast<std::uint64_t>(bytes));
    }
    materialize(operand, part);
    offset += kernel_.type(operand).extents[axis];
  }
  set_buffer(result, whole);
}

// A scan walks its axis element by element; another axis lies along vectors where there is one.
void Lowering::lower_scan(const Op& op) {
  const tile::Type& type = kernel_.type(op.operands[0]);
  const tile::Combiner combiner = op.attributes.combiner;
  if (combiner == tile::Combiner::LogSumExp) {
    throw_caller(ErrorCode::Unsupported, "the x86 lowering has no scan of logsumexp");
  }
  if (plan_.is_scalar(op.operands[0])) {
    Values state = identity(combiner, type.element, 1);
    if (combiner == tile::Combiner::Sum) state = {llvm::Constant::getNullValue(state[0]->getType())};
    if (!op.attributes.exclusive) {
      state = lift(combiner, type.element, scalar(op.operands[0]), builder().getInt32(0));
    }
    const Values results = finish(combiner, type.element, state);
    for (std::size_t k = 0; k < results.size(); ++k) set_scalar(op.results[k], results[k]);
    return;
  }
  const auto axis = static_cast<std::size_t>(op.attributes.axes[0]);
  std::vector<Buffer> buffers;
  for (const ValueId result : op.results) buffers.push_back(result_buffer(result));
  const Strip outer = strip_;
  strip_ = {};
  known_loads_.clear();
  known_blocks_.clear();
  strip_.load_floor = strip_.value_floor = code_.level();
  Coordinate origin;
  origin.base = code_.index(0);
  Coordinates at(type.extents.size(), origin);
  std::size_t lane_axis = axis;
  for (std::size_t k = 0; k < at.size(); ++k) {
    if (k != axis && type.extents[k] != 1) lane_axis = k;
  }
  const std::int64_t length = type.extents[axis];
  const auto walk = [&] {
    Values start = identity(combiner, type.element, strip_.lanes);
    if (op.attributes.exclusive && combiner == tile::Combiner::Sum) {
      start = {llvm::Constant::getNullValue(start[0]->getType())};
    }
    code_.loop(
        code_.index(0), code_.index(length), code_.index(1), start, [&](llvm::Value* i, const Values& state) {
          code_.set_range(i, {0, length - 1});
          llvm::Value* position = op.attributes.reverse ? code_.sub(code_.index(length - 1), i) : i;
          at[axis].base = position;
          llvm::Value* element = vector_of(emit(op.operands[0], at), strip_.lanes);
          const Values one =
              lift(combiner, type.element, element, builder().CreateTrunc(position, builder().getInt32Ty()));
          const Values next = combine(combiner, type.element, state, one);
          const Values shown = finish(combiner, type.element, op.attributes.exclusive ? state : next);
          for (std::size_t k = 0; k < shown.size(); ++k) store_buffer(buffers[k], at, shown[k]);
          return next;
        });
  };
  const std::function<void(std::size_t)> nest = [&](std::size_t k) {
    if (k == at.size()) {
      if (lane_axis == axis) return walk();
      const std::int64_t size = type.extents[lane_axis];
      std::int64_t lanes = target_.vector_bytes() / 8;
      while (lanes / 2 >= size) lanes /= 2;
      strip_.lanes = static_cast<int>(lanes);
      code_.loop(code_.index(0), code_.index(size), code_.index(lanes), [&](llvm::Value* i) {
        code_.set_range(i, {0, size - 1});
        at[lane_axis].base = i;
        at[lane_axis].step = 1;
        strip_.active = size % lanes == 0 ? nullptr : lanes_between(nullptr, code_.sub(code_.index(size), i));
        walk();
        strip_.active = nullptr;
      });
      return;
    }
    if (k == axis || k == lane_axis) return nest(k + 1);
    code_.loop(code_.index(0), code_.index(type.extents[k]), code_.index(1), [&](llvm::Value* i) {
      code_.set_range(i, {0, type.extents[k] - 1});
      at[k].base = i;
      nest(k + 1);
    });
  };
  nest(0);
  strip_ = outer;
  for (std::size_t k = 0; k < buffers.size(); ++k) set_buffer(op.results[k], buffers[k]);
}

Buffer Lowering::result_buffer(ValueId value) {
  return new_buffer(kernel_.type(value), plan_.is_dense(value));
}

}  // namespace kiln::jit::cpu
