// Bounds of a Nest: how far each Root must go, and the interior where no access needs a test.
#include <algorithm>
#include <set>

#include "jit/cpu/nest.h"
#include "jit/cpu/types.h"

namespace kiln::jit::cpu {

using tile::Combiner;
using tile::Function;
using tile::Op;
using tile::Opcode;
using tile::Type;
using tile::ValueId;

// Integer division reports even for elements that no one stores: such tiles are computed in full.
bool Nest::reports(ValueId value) const {
  for (const ValueId id : plan_.computed_for(value)) {
    const tile::OpId definer = plan_.definer(id);
    if (!definer || kernel_.op(definer).code != Opcode::Elementwise || plan_.is_scalar(id)) continue;
    const Op& inner = kernel_.op(definer);
    const Function f = inner.attributes.function;
    if (f != Function::Div && f != Function::Rem && f != Function::FloorMod) continue;
    if (!is_integer(kernel_.type(inner.operands[1]).element)) continue;
    const tile::OpId divisor = plan_.definer(inner.operands[1]);
    if (divisor && kernel_.op(divisor).code == Opcode::Constant &&
        kernel_.op(divisor).attributes.literal->bits != 0) {
      continue;
    }
    return true;
  }
  return false;
}

// Where a Root stores along an axis of the space; nothing if it needs all of the space.
std::optional<Nest::Stored> Nest::stored(const Root& root, int axis) const {
  if (whole_ || (root.kind != Root::Kind::Store && root.kind != Root::Kind::AtomicAdd)) return std::nullopt;
  const Type& type = kernel_.type(root.value);
  const ValueId view = op(root).operands[0];
  const int surplus = type.rank() - kernel_.type(view).rank();
  int next = 0;
  for (int k = 0; k < type.rank(); ++k) {
    if (type.extents[static_cast<std::size_t>(k)] == 1 || next++ != axis) continue;
    const int view_axis = k - surplus;
    return Stored{l_.scalar(op(root).operands[static_cast<std::size_t>(1 + view_axis)]),
                  l_.extent(view, view_axis)};
  }
  return std::nullopt;
}

// The live range of a Root along one axis of the space; everything but a store needs all of it.
Nest::Span Nest::live(const Root& root, int axis) const {
  const std::int64_t extent = group_.extents[static_cast<std::size_t>(axis)];
  Span span{code_.index(0), code_.index(extent)};
  if (const std::optional<Stored> at = stored(root, axis)) {
    if (code_.range_of(at->first).low < 0)
      span.low = code_.max(span.low, code_.sub(code_.index(0), at->first));
    if (code_.range_of(at->first).high + extent > code_.range_of(at->size).low) {
      span.high = code_.min(span.high, code_.sub(at->size, at->first));
    }
  }
  return span;
}

// `i` is live: what it stores to is below the end of the view.
void Nest::bound_index(const Root& root, int axis, llvm::Value* i) {
  if (const std::optional<Stored> at = stored(root, axis)) code_.set_below(code_.add(i, at->first), at->size);
}

// Visits the conditions of every access that computing `value` at `at` makes.
void Nest::visit_conditions(ValueId value, const Coordinates& at,
                            const std::function<void(const Condition&)>& visit) {
  if (plan_.is_scalar(value)) return;
  if (!(plan_.is_inline(value) || value == materialized_)) return;
  if (!visited_.insert(l_.memo_key(value, at)).second) return;
  const Op& source = kernel_.op(plan_.definer(value));
  Coordinate origin;
  origin.base = code_.index(0);
  if (source.code == Opcode::Load) {
    const ValueId view = source.operands[0];
    const auto rank = static_cast<std::size_t>(kernel_.type(view).rank());
    llvm::Value* fill = l_.load_fill(source);
    l_.resolve(view, l_.box(view, std::span(source.operands).subspan(1, rank), kernel_.type(value), at, fill),
               fill, [&](Access& access) -> llvm::Value* {
                 for (const Condition& condition : access.conditions) visit(condition);
                 return nullptr;
               });
  } else if (source.code == Opcode::Reduce) {
    // Coordinates are affine in the reduced index: what holds at both ends holds between.
    const auto axis = source.attributes.axes[0];
    const std::int64_t length = kernel_.type(source.operands[0]).extents[static_cast<std::size_t>(axis)];
    for (const std::int64_t k : std::set<std::int64_t>{0, length - 1}) {
      Coordinates inner = at;
      Coordinate along;
      along.base = code_.index(k);
      inner.insert(inner.begin() + axis, along);
      visit_conditions(source.operands[0], inner, visit);
    }
  } else if (source.code == Opcode::Reshape && without_unit_axes(kernel_.type(source.operands[0]).extents) !=
                                                   without_unit_axes(kernel_.type(value).extents)) {
    return;
  } else {
    if (source.code == Opcode::Mask) {  // in the interior no lane is replaced
      const Coordinate& along = at[static_cast<std::size_t>(source.attributes.axes[0])];
      if (along.step != 0) visit({along, l_.scalar(source.operands[1])});
    }
    for (std::size_t k = 0; k < source.operands.size(); ++k) {
      const ValueId operand = source.operands[k];
      if (kernel_.type(operand).is_view() || plan_.is_scalar(operand)) continue;
      Coordinates inner = operand_axes(kernel_, source, k, at, origin);
      if (source.code == Opcode::Slice) {
        for (std::size_t axis = 0; axis < inner.size(); ++axis) {
          inner[axis] = l_.plus(inner[axis], code_.index(source.attributes.axes[axis]));
        }
      }
      visit_conditions(operand, inner, visit);
    }
  }
}

// The part of `span` where every condition holds for every lane.
Nest::Span Nest::interior(Span span) {
  set_lane(code_.index(0));
  l_.analysing_ = true;
  visited_.clear();
  llvm::Value* always = nullptr;
  const auto narrow = [&](const Condition& condition) {
    if (Lowering::stays_in_interior(condition)) return;
    const Coordinate& at = condition.at;
    const auto lanes = static_cast<int>(extent());
    const bool low_known = l_.low_is_known(at, lanes),
               high_known = l_.high_is_known(at, condition.extent, lanes);
    if (low_known && high_known) return;
    if (at.step == 0) {
      always = code_.both(always, l_.holds(condition));
      return;
    }
    const auto [first, last] = l_.live_lanes(condition, low_known, high_known);
    if (first != nullptr) span.low = code_.max(span.low, first);
    if (last != nullptr) span.high = code_.min(span.high, last);
  };
  // What holds in the first and the last row holds between.
  if (row_axis_ >= 0) {
    if (!rows_are_whole()) {
      llvm::Value* count = code_.sub(row_span_.high, row_span_.low);
      const Code::Hoist hoist(code_, {count});
      always = code_.builder().CreateICmpEQ(count, code_.index(rows_));
    }
    set_row(rows_ - 1);
    for (const Root& root : group_.roots) visit_root(root, narrow);
    set_row(0);
    visited_.clear();
  }
  for (const Root& root : group_.roots) visit_root(root, narrow);
  l_.analysing_ = false;
  if (always != nullptr) span.high = code_.select(always, span.high, span.low);
  return span;
}

void Nest::visit_root(const Root& root, const std::function<void(const Condition&)>& visit) {
  const Coordinates at = tile_axes(kernel_.type(root.value));
  const bool computes = root.kind == Root::Kind::Materialize && target_ == nullptr;
  materialized_ = computes ? root.value : ValueId::none();
  visit_conditions(root.value, at, visit);
  if (root.kind != Root::Kind::Store) return;
  const ValueId view = op(root).operands[0];
  const auto rank = static_cast<std::size_t>(kernel_.type(view).rank());
  llvm::Value* any = llvm::PoisonValue::get(register_type(code_.context(), kernel_.type(view).element));
  const Coordinates box =
      l_.box(view, std::span(op(root).operands).subspan(1, rank), kernel_.type(root.value), at, any);
  l_.resolve(view, box, any, [&](Access& access) -> llvm::Value* {
    for (const Condition& condition : access.conditions) visit(condition);
    return nullptr;
  });
}

// The end of the live elements of a tile along the vectors: beyond it every load has its outermost fill.
// Null if the elements beyond are not all the same.
llvm::Value* Nest::live_end(ValueId value, const Coordinates& at) {
  if (plan_.is_scalar(value) || !plan_.is_inline(value)) return nullptr;
  const Lowering::MemoKey key = l_.memo_key(value, at);
  if (const auto found = live_ends_.find(key); found != live_ends_.end()) return found->second;
  return live_ends_[key] = find_live_end(value, at);
}

llvm::Value* Nest::find_live_end(ValueId value, const Coordinates& at) {
  const Op& source = kernel_.op(plan_.definer(value));
  Coordinate origin;
  origin.base = code_.index(0);
  switch (source.code) {
    case Opcode::Load: {
      const ValueId view = source.operands[0];
      const int surplus = kernel_.type(value).rank() - kernel_.type(view).rank();
      llvm::Value* end = nullptr;
      llvm::Value* live = nullptr;
      for (int axis = 0; axis < kernel_.type(view).rank(); ++axis) {
        llvm::Value* first = l_.scalar(source.operands[static_cast<std::size_t>(1 + axis)]);
        llvm::Value* room = code_.sub(l_.extent(view, axis), first);
        const int own = axis + surplus;
        const bool moves = own >= 0 && kernel_.type(value).extents[static_cast<std::size_t>(own)] != 1;
        if (moves && at[static_cast<std::size_t>(own)].step != 0) {
          end = code_.min(code_.sub(room, at[static_cast<std::size_t>(own)].base), code_.index(extent()));
        } else {
          llvm::Value* position = moves ? at[static_cast<std::size_t>(own)].base : code_.index(0);
          live = code_.both(live, code_.less(position, room));
        }
      }
      if (end != nullptr && live != nullptr) end = code_.select(live, end, code_.index(0));
      return end;
    }
    case Opcode::Mask: {
      const Coordinate& along = at[static_cast<std::size_t>(source.attributes.axes[0])];
      if (along.step == 0) return nullptr;
      return code_.min(code_.sub(l_.scalar(source.operands[1]), along.base), code_.index(extent()));
    }
    case Opcode::Elementwise:
    case Opcode::Cast:
    case Opcode::Bitcast:
    case Opcode::Broadcast:
    case Opcode::Transpose: {
      llvm::Value* end = nullptr;
      for (std::size_t k = 0; k < source.operands.size(); ++k) {
        const Coordinates inner = operand_axes(kernel_, source, k, at, origin);
        if (plan_.is_scalar(source.operands[k]) || !varies(inner)) continue;
        llvm::Value* own = live_end(source.operands[k], inner);
        if (own == nullptr) return nullptr;
        end = end == nullptr ? own : code_.max(end, own);
      }
      return end;
    }
    default:
      return nullptr;
  }
}

// The element of a tile beyond its live end if that is a constant, else null.
llvm::Constant* Nest::dead_element(ValueId value, const Coordinates& at) {
  const tile::OpId definer = plan_.definer(value);
  if (!definer) return nullptr;
  const Op& source = kernel_.op(definer);
  const DType dtype = kernel_.type(value).element;
  if (source.code == Opcode::Constant) {
    return constant_of(register_type(code_.context(), dtype), dtype, source.attributes.literal->bits);
  }
  // What does not vary along the vectors has no end.
  if (plan_.is_scalar(value) || !plan_.is_inline(value) || !varies(at)) return nullptr;
  const Lowering::MemoKey key = l_.memo_key(value, at);
  if (const auto found = dead_elements_.find(key); found != dead_elements_.end()) return found->second;
  return dead_elements_[key] = find_dead_element(value, at);
}

llvm::Constant* Nest::find_dead_element(ValueId value, const Coordinates& at) {
  const Op& source = kernel_.op(plan_.definer(value));
  const DType dtype = kernel_.type(value).element;
  Coordinate origin;
  origin.base = code_.index(0);
  switch (source.code) {
    case Opcode::Load:
      return llvm::dyn_cast<llvm::Constant>(l_.load_fill(source));
    case Opcode::Mask:
      return llvm::dyn_cast<llvm::Constant>(l_.scalar(source.operands[2]));
    case Opcode::Broadcast:
    case Opcode::Transpose:
      return dead_element(source.operands[0], operand_axes(kernel_, source, 0, at, origin));
    case Opcode::Elementwise:
    case Opcode::Cast: {
      Values operands;
      for (std::size_t k = 0; k < source.operands.size(); ++k) {
        llvm::Constant* constant =
            dead_element(source.operands[k], operand_axes(kernel_, source, k, at, origin));
        if (constant == nullptr) return nullptr;
        operands.push_back(constant);
      }
      // The builder folds what it can; an instruction that it did emit is dead and disappears.
      const std::size_t typed =
          source.attributes.function == Function::Select && operands.size() == 3 ? 1 : 0;
      const DType from = kernel_.type(source.operands[typed]).element;
      llvm::Value* result = source.code == Opcode::Cast
                                ? l_.cast(operands[0], from, dtype)
                                : l_.elementwise(source.attributes.function, from, operands);
      return llvm::dyn_cast<llvm::Constant>(result);
    }
    default:
      return nullptr;
  }
}

// Elements that leave a reduction's state as it is, whatever it is by now.
llvm::Value* Nest::is_identity(const Root& root, llvm::Value* element) {
  const Combiner combiner = op(root).attributes.combiner;
  if (combiner == Combiner::Welford) return code_.builder().getFalse();
  const DType dtype = kernel_.type(root.value).element;
  llvm::Value* x = l_.widen(element, dtype);
  llvm::Value* neutral = l_.identity(combiner, dtype, 1)[0];
  return is_float(dtype) ? code_.builder().CreateFCmpOEQ(x, neutral)
                         : code_.builder().CreateICmpEQ(x, neutral);
}

}  // namespace kiln::jit::cpu
