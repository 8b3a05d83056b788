// Views: a chain of combinators becomes coordinates in memory and the conditions under which lanes are live.
//
// An index that a combinator passes on unchanged is tested once, at the first level that changes it or ends
// the chain; a test that the ranges of its parts decide is not made at all.
#include <algorithm>

#include "ir/base/errors.h"
#include "ir/tile/verifier.h"
#include "jit/cpu/lowering.h"
#include "jit/cpu/types.h"

namespace kiln::jit::cpu {

using tile::Op;
using tile::Opcode;
using tile::OpId;
using tile::PadMode;
using tile::Type;
using tile::ValueId;

// Extents of a view, as values.
void Lowering::lower_view(OpId id) {
  const Op& op = kernel_.op(id);
  const tile::Attributes& attributes = op.attributes;
  const Values& from = extents_.at(op.operands[0].index);
  const std::size_t rank = from.size();
  const auto axis = [&](std::size_t k) { return static_cast<std::ptrdiff_t>(attributes.axes[k]); };
  const auto operand = [&](std::size_t k) { return scalar(op.operands[k]); };
  const auto natural = [&](llvm::Value* extent) { return code_.max(extent, code_.index(0)); };
  Values to = from;
  switch (op.code) {
    case Opcode::SliceView:
      for (std::size_t k = 0; k < rank; ++k) to[k] = natural(operand(1 + rank + k));
      break;
    case Opcode::TransposeView:
      for (std::size_t k = 0; k < rank; ++k) to[k] = from[static_cast<std::size_t>(attributes.axes[k])];
      break;
    case Opcode::BroadcastView:
      for (std::size_t k = 0; k < attributes.axes.size(); ++k) {
        to.insert(to.begin() + axis(k), natural(operand(1 + k)));
      }
      break;
    case Opcode::MergeView: {
      llvm::Value* merged = code_.index(1);
      for (const std::int64_t k : attributes.axes)
        merged = code_.mul(merged, from[static_cast<std::size_t>(k)]);
      to.erase(to.begin() + attributes.axes.front(), to.begin() + attributes.axes.back() + 1);
      to.insert(to.begin() + attributes.axes.front(), merged);
      break;
    }
    case Opcode::SplitView:
      to.erase(to.begin() + axis(0));
      for (std::size_t k = 1; k < op.operands.size(); ++k) {
        to.insert(to.begin() + axis(0) + static_cast<std::ptrdiff_t>(k) - 1, natural(operand(k)));
      }
      break;
    case Opcode::WindowView: {
      const std::size_t count = attributes.axes.size();
      for (std::size_t k = 0; k < count; ++k) {
        llvm::Value*& extent = to[static_cast<std::size_t>(attributes.axes[k])];
        const std::int64_t reach = attributes.dilations[k] * (attributes.sizes[k] - 1) + 1;
        llvm::Value* padded = code_.add(code_.add(extent, operand(1 + k)), operand(1 + count + k));
        extent = natural(
            code_.add(code_.floor_divide(code_.sub(padded, code_.index(reach)), attributes.strides[k]),
                      code_.index(1)));
      }
      for (std::size_t k = 0; k < count; ++k) {
        to.insert(to.begin() + attributes.axes.back() + 1 + static_cast<std::ptrdiff_t>(k),
                  code_.index(attributes.sizes[k]));
      }
      break;
    }
    case Opcode::PadView:
      for (std::size_t k = 0; k < rank; ++k) {
        to[k] = natural(code_.add(from[k], code_.add(operand(1 + k), operand(1 + rank + k))));
      }
      break;
    case Opcode::GatherView: {
      const Values& indices = extents_.at(op.operands[1].index);
      to.erase(to.begin() + axis(0));
      to.insert(to.begin() + axis(0), indices.begin(), indices.end());
      break;
    }
    case Opcode::ConcatView: {
      const auto k = static_cast<std::size_t>(axis(0));
      to[k] = code_.add(to[k], extents_.at(op.operands[1].index)[k]);
      break;
    }
    default:
      throw_bug("{} does not make a view", tile::name(op.code));
  }
  extents_[op.results[0].index] = std::move(to);
}

Coordinates Lowering::box(ValueId view, std::span<const ValueId> indices, const Type& type,
                          const Coordinates& at, llvm::Value* fill) {
  const int rank = kernel_.type(view).rank();
  const int surplus = type.rank() - rank;
  Coordinates result;
  for (int axis = 0; axis < rank; ++axis) {
    Coordinate coordinate;
    coordinate.base = scalar(indices[static_cast<std::size_t>(axis)]);
    if (const int own = axis + surplus; own >= 0 && type.extents[static_cast<std::size_t>(own)] != 1) {
      coordinate = plus(at[static_cast<std::size_t>(own)], coordinate.base);
    }
    coordinate.fill = fill;
    result.push_back(coordinate);
  }
  return result;
}

llvm::Value* Lowering::coordinate_lanes(const Coordinate& at) {
  if (at.lanes != nullptr) return at.lanes;
  const Code::Hoist hoist(code_, {at.base}, strip_.value_floor);
  llvm::Value* lanes = vector_of(at.base, strip_.lanes);
  if (at.step == 0 || strip_.lanes == 1) return lanes;
  std::vector<llvm::Constant*> offsets;
  for (int lane = 0; lane < strip_.lanes; ++lane) {
    offsets.push_back(builder().getInt64(static_cast<std::uint64_t>(at.step * lane)));
  }
  return builder().CreateAdd(lanes, llvm::ConstantVector::get(offsets));
}

Coordinate Lowering::plus(Coordinate a, llvm::Value* b) {
  if (a.lanes != nullptr) {
    const Code::Hoist hoist(code_, {a.lanes, b}, strip_.value_floor);
    a.lanes = builder().CreateAdd(a.lanes, vector_of(b, strip_.lanes));
  } else {
    a.base = code_.add(a.base, b);
  }
  return a;
}

Coordinate Lowering::plus(Coordinate a, const Coordinate& b) {
  a.residual = a.residual || b.residual;
  const bool irregular = a.row_step == Coordinate::kIrregular || b.row_step == Coordinate::kIrregular;
  a.row_step = irregular ? Coordinate::kIrregular : a.row_step + b.row_step;
  if (a.lanes == nullptr && b.lanes == nullptr) {
    a.base = code_.add(a.base, b.base);
    a.step += b.step;
  } else {
    llvm::Value *x = coordinate_lanes(a), *y = coordinate_lanes(b);
    const Code::Hoist hoist(code_, {x, y}, strip_.value_floor);
    a.lanes = builder().CreateAdd(x, y);
    a.step = 0;
  }
  return a;
}

Coordinate Lowering::times(Coordinate a, llvm::Value* b) {
  const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(b);
  if (a.lanes == nullptr && (a.step == 0 || constant != nullptr)) {
    a.base = code_.mul(a.base, b);
    if (a.step != 0) a.step *= constant->getSExtValue();
    if (a.row_step != 0 && a.row_step != Coordinate::kIrregular) {
      a.row_step = constant == nullptr ? Coordinate::kIrregular : a.row_step * constant->getSExtValue();
    }
    return a;
  }
  return mapped(
      a, [&](Builder& build, llvm::Value* x) { return build.CreateMul(x, vector_of(b, strip_.lanes)); });
}

// Any other function of an index: once if it is uniform, else on all lanes.
Coordinate Lowering::mapped(Coordinate a, const std::function<llvm::Value*(Builder&, llvm::Value*)>& map) {
  if (a.is_uniform() || strip_.lanes == 1) {
    const Code::Hoist hoist(code_, {a.base}, code_.level());
    a.base = map(builder(), a.base);
    return a;
  }
  a.lanes = map(builder(), coordinate_lanes(a));
  a.step = 0;
  return a;
}

bool Lowering::low_is_known(const Coordinate& at, int lanes) const {
  if (at.lanes != nullptr) return false;
  return code_.range_of(at.base).low + std::min<std::int64_t>(0, at.step * (lanes - 1)) >= 0;
}

bool Lowering::high_is_known(const Coordinate& at, llvm::Value* extent, int lanes) const {
  if (at.lanes != nullptr) return false;
  if (at.step <= 0 && code_.is_below(at.base, extent)) return true;
  return code_.range_of(at.base).high + std::max<std::int64_t>(0, at.step * (lanes - 1)) <
         code_.range_of(extent).low;
}

llvm::Value* Lowering::resolve(ValueId view, const Coordinates& at, llvm::Value* outside, const Leaf& leaf) {
  Path path;
  path.at = at;
  path.outside = outside;
  return follow(view, std::move(path), leaf);
}

llvm::Value* Lowering::follow(ValueId view, Path path, const Leaf& leaf) {
  const OpId id = plan_.definer(view);
  const Values& extents = extents_.at(view.index);
  Coordinates& at = path.at;
  // Tests an index here, because below it is another one.
  const auto check = [&](std::size_t axis) {
    Coordinate& coordinate = at[axis];
    if (coordinate.fill == nullptr) return;
    path.conditions.push_back(
        {coordinate, extents[axis], coordinate.residual || coordinate.lanes != nullptr});
    coordinate.fill = nullptr;
  };
  const auto check_all = [&] {
    for (std::size_t axis = 0; axis < at.size(); ++axis) check(axis);
  };
  if (kernel_.type(view).kind == tile::TypeKind::MemoryView) {
    check_all();
    std::stable_sort(path.conditions.begin(), path.conditions.end(),
                     [](const Condition& a, const Condition& b) { return a.at.depth < b.at.depth; });
    Access access{memories_.at(view.index), kernel_.type(view).element, std::move(at),
                  std::move(path.conditions)};
    return leaf(access);
  }

  const Op& op = kernel_.op(id);
  const tile::Attributes& attributes = op.attributes;
  const ValueId source = op.operands[0];
  const Values& source_extents = extents_.at(source.index);
  const std::size_t rank = source_extents.size();
  const auto operand = [&](std::size_t k) { return scalar(op.operands[k]); };
  const auto literal = [&] {
    return constant_of(register_type(code_.context(), kernel_.type(view).element), attributes.literal->dtype,
                       attributes.literal->bits);
  };
  // An index of the level below.
  const auto below = [&](Coordinate coordinate) {
    coordinate.fill = path.outside;
    coordinate.depth = path.depth + 1;
    return coordinate;
  };
  Coordinates to(rank);
  switch (op.code) {
    case Opcode::SliceView:
      check_all();
      for (std::size_t k = 0; k < rank; ++k) {
        to[k] = below(plus(times(at[k], code_.index(attributes.strides[k])), operand(1 + k)));
      }
      break;
    case Opcode::TransposeView:
      for (std::size_t k = 0; k < rank; ++k) to[static_cast<std::size_t>(attributes.axes[k])] = at[k];
      break;
    case Opcode::BroadcastView: {
      std::size_t next = 0;
      for (std::size_t k = 0, kept = 0; k < at.size(); ++k) {
        if (next < attributes.axes.size() && attributes.axes[next] == static_cast<std::int64_t>(k)) {
          check(k);
          ++next;
        } else {
          to[kept++] = at[k];
        }
      }
      break;
    }
    case Opcode::MergeView: {
      const auto first = static_cast<std::size_t>(attributes.axes.front());
      const std::size_t count = attributes.axes.size();
      check(first);
      // Adjacent axes of memory without gaps are one axis of memory.
      if (kernel_.type(source).kind == tile::TypeKind::MemoryView) {
        const Memory& memory = memories_.at(source.index);
        bool dense = true;
        for (std::size_t k = first; k + 1 < first + count; ++k) {
          dense = dense && memory.strides[k] == code_.mul(memory.strides[k + 1], source_extents[k + 1]);
        }
        if (dense) {
          Memory merged = memory;
          const auto begin = merged.strides.begin() + static_cast<std::ptrdiff_t>(first);
          merged.strides.erase(begin, begin + static_cast<std::ptrdiff_t>(count) - 1);
          check_all();
          Access access{std::move(merged), kernel_.type(view).element, std::move(at),
                        std::move(path.conditions)};
          return leaf(access);
        }
      }
      std::copy_n(at.begin(), first, to.begin());
      Coordinate rest = at[first];
      for (std::size_t k = count; k-- > 1;) {
        llvm::Value* extent = code_.max(source_extents[first + k], code_.index(1));
        to[first + k] = mapped(rest, [&](Builder& b, llvm::Value* x) {
          return b.CreateURem(x, vector_of(extent, lane_count(x->getType())));
        });
        rest = mapped(rest, [&](Builder& b, llvm::Value* x) {
          return b.CreateUDiv(x, vector_of(extent, lane_count(x->getType())));
        });
      }
      to[first] = rest;
      std::copy(at.begin() + static_cast<std::ptrdiff_t>(first) + 1, at.end(),
                to.begin() + static_cast<std::ptrdiff_t>(first + count));
      break;
    }
    case Opcode::SplitView: {
      const auto first = static_cast<std::size_t>(attributes.axes[0]);
      const std::size_t count = op.operands.size() - 1;
      for (std::size_t k = 0; k < count; ++k) check(first + k);
      Coordinate linear = at[first];
      for (std::size_t k = 1; k < count; ++k) linear = plus(times(linear, extents[first + k]), at[first + k]);
      std::copy_n(at.begin(), first, to.begin());
      to[first] = below(linear);
      std::copy(at.begin() + static_cast<std::ptrdiff_t>(first + count), at.end(),
                to.begin() + static_cast<std::ptrdiff_t>(first) + 1);
      break;
    }
    case Opcode::WindowView: {
      const std::size_t count = attributes.axes.size();
      const auto kernel = static_cast<std::size_t>(attributes.axes.back()) + 1;
      for (std::size_t k = 0; k < count; ++k) {
        check(static_cast<std::size_t>(attributes.axes[k]));
        check(kernel + k);
      }
      path.outside = literal();
      for (std::size_t k = 0; k < rank; ++k) to[k] = at[k < kernel ? k : k + count];
      for (std::size_t k = 0; k < count; ++k) {
        Coordinate& coordinate = to[static_cast<std::size_t>(attributes.axes[k])];
        coordinate = plus(times(coordinate, code_.index(attributes.strides[k])),
                          times(at[kernel + k], code_.index(attributes.dilations[k])));
        coordinate = below(plus(coordinate, code_.sub(code_.index(0), operand(1 + k))));
      }
      break;
    }
    case Opcode::PadView:
      check_all();
      if (attributes.pad_mode == PadMode::Constant) path.outside = literal();
      for (std::size_t k = 0; k < rank; ++k) {
        llvm::Value* low = operand(1 + k);
        const bool moves = !Code::is_constant(low, 0) || !Code::is_constant(operand(1 + rank + k), 0);
        to[k] = moves ? plus(at[k], code_.sub(code_.index(0), low)) : at[k];
        if (moves && attributes.pad_mode != PadMode::Constant) {
          llvm::Value* extent = code_.max(source_extents[k], code_.index(1));
          to[k] = mapped(to[k], [&](Builder& b, llvm::Value* x) -> llvm::Value* {
            const int lanes = lane_count(x->getType());
            llvm::Value* n = vector_of(extent, lanes);
            llvm::Value* zero = llvm::Constant::getNullValue(x->getType());
            llvm::Value* one = llvm::ConstantInt::get(x->getType(), 1);
            const auto modulo = [&](llvm::Value* value, llvm::Value* period) {
              llvm::Value* r = b.CreateSRem(value, period);
              return b.CreateSelect(b.CreateICmpSLT(r, zero), b.CreateAdd(r, period), r);
            };
            if (attributes.pad_mode == PadMode::Edge) {
              return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin,
                                             b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, zero),
                                             b.CreateSub(n, one));
            }
            if (attributes.pad_mode == PadMode::Wrap) return modulo(x, n);
            llvm::Value* twice = b.CreateShl(b.CreateSub(n, one), one);
            llvm::Value* period = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, twice, one);
            llvm::Value* phase = modulo(x, period);
            return b.CreateSelect(b.CreateICmpSLT(phase, n), phase, b.CreateSub(period, phase));
          });
        }
        to[k] = below(to[k]);
      }
      break;
    case Opcode::GatherView: {
      const auto first = static_cast<std::size_t>(attributes.axes[0]);
      const auto count = static_cast<std::ptrdiff_t>(kernel_.type(op.operands[1]).rank());
      for (std::size_t k = 0; k < at.size(); ++k) {
        if (k < first || k >= first + static_cast<std::size_t>(count)) check(k);
      }
      const Coordinate index = gathered(op, path, leaf);
      std::copy_n(at.begin(), first, to.begin());
      to[first] = index;
      std::copy(at.begin() + static_cast<std::ptrdiff_t>(first) + count, at.end(),
                to.begin() + static_cast<std::ptrdiff_t>(first) + 1);
      break;
    }
    case Opcode::ConcatView: {
      const auto axis = static_cast<std::size_t>(attributes.axes[0]);
      llvm::Value* border = source_extents[axis];
      Coordinate& along = at[axis];
      along.residual = true;
      if (along.fill == nullptr) along = below(along);
      Path right = path;
      right.at[axis] = plus(along, code_.sub(code_.index(0), border));
      llvm::Value* in_left = nullptr;
      if (along.is_uniform()) {
        in_left = code_.less(along.base, border);
      } else {
        llvm::Value* lanes = coordinate_lanes(along);
        const Code::Hoist hoist(code_, {lanes, border}, strip_.value_floor);
        in_left = builder().CreateICmpSLT(lanes, vector_of(border, strip_.lanes));
      }
      llvm::Value* left_value = follow(source, path, leaf);
      llvm::Value* right_value = follow(op.operands[1], std::move(right), leaf);
      if (left_value == nullptr || right_value == nullptr) return nullptr;
      const int lanes = std::max({lane_count(left_value->getType()), lane_count(right_value->getType()),
                                  lane_count(in_left->getType())});
      left_value = vector_of(left_value, lanes);
      right_value = vector_of(right_value, lanes);
      const Code::Hoist hoist(code_, {in_left, left_value, right_value}, strip_.value_floor);
      return builder().CreateSelect(in_left, left_value, right_value);
    }
    default:
      throw_bug("{} does not make a view", tile::name(op.code));
  }
  path.at = std::move(to);
  ++path.depth;
  return follow(source, std::move(path), leaf);
}

// The index into the gathered axis, read from the view of indices; live lanes out of range set the status and
// are not live. While ranges are analysed nothing is read, since that could report.
Coordinate Lowering::gathered(const Op& op, Path& path, const Leaf& leaf) {
  const auto first = static_cast<std::ptrdiff_t>(op.attributes.axes[0]);
  const ValueId indices = op.operands[1];
  llvm::Value* extent = extents_.at(op.operands[0].index)[static_cast<std::size_t>(first)];
  Path inner = path;
  const auto begin = path.at.begin() + first;
  inner.at.assign(begin, begin + kernel_.type(indices).rank());
  Coordinate index;
  if (analysing_) {
    follow(indices, std::move(inner), leaf);
    index.base = code_.index(0);
    return index;
  }
  const DType dtype = kernel_.type(indices).element;
  llvm::Value* read = nullptr;
  follow(indices, std::move(inner), [&](Access& access) -> llvm::Value* {
    if (read != nullptr) throw_caller(ErrorCode::Refused, "indices of a gather come from a concat_view");
    path.conditions = access.conditions;
    // A dead index reads as 0, which is in range wherever there is anything to read.
    Access plain = access;
    for (Condition& condition : plain.conditions) {
      condition.at.fill = llvm::Constant::getNullValue(register_type(code_.context(), dtype));
    }
    read = load(plain);
    return nullptr;
  });
  const int lanes = lane_count(read->getType());
  llvm::Type* wide = with_lanes(builder().getInt64Ty(), lanes);
  llvm::Value* given = nullptr;
  llvm::Value* got = nullptr;  // counted from the front
  llvm::Value* valid = nullptr;
  {
    const Code::Hoist hoist(code_, {read, extent}, strip_.load_floor);
    Builder& b = builder();
    given = is_signed_integer(dtype) ? b.CreateSExt(read, wide) : b.CreateZExt(read, wide);
    got = given;
    llvm::Value* n = vector_of(extent, lanes);
    if (dtype != DType::U64) {
      got =
          b.CreateSelect(b.CreateICmpSLT(got, llvm::Constant::getNullValue(wide)), b.CreateAdd(got, n), got);
    }
    valid = b.CreateICmpULT(got, n);
  }
  llvm::Value* bad = builder().CreateNot(valid);
  const auto restrict_to = [&](llvm::Value* mask) {
    if (mask == nullptr) return;
    const int width = std::max(lane_count(bad->getType()), lane_count(mask->getType()));
    bad = builder().CreateAnd(vector_of(bad, width), vector_of(mask, width));
  };
  for (const Condition& condition : path.conditions) {
    if (!strip_.interior || stays_in_interior(condition)) restrict_to(holds(condition));
  }
  restrict_to(strip_.active);
  report(bad, StatusCode::IndexOutOfRange, given);
  if (lanes == 1) {
    index.base = got;
  } else {
    index.lanes = got;
  }
  index.fill = path.outside;
  index.depth = path.depth;
  index.residual = true;
  return index;
}

}  // namespace kiln::jit::cpu
