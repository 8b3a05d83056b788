// The loop nest of a Group: loops over its iteration space, the innermost along vectors, cut into an interior
// where every access is in range, which is unrolled and free of masks, and edges, which test and mask.
#include <algorithm>
#include <set>

#include "ir/base/errors.h"
#include "jit/cpu/lowering.h"
#include "jit/cpu/types.h"

namespace kiln::jit::cpu {

namespace {

// Operations in the body of a loop over strips, at most.
constexpr int kRowWork = 256;

}  // namespace

using tile::Combiner;
using tile::Function;
using tile::Op;
using tile::Opcode;
using tile::Type;
using tile::ValueId;

// Lowers one Group.
class Nest {
 public:
  // `target`: where the one Root, a tile to materialise, goes; null: to buffers of the results' own.
  Nest(Lowering& lowering, const Group& group, const Buffer* target)
      : l_(lowering),
        code_(lowering.code_),
        kernel_(lowering.kernel_),
        plan_(lowering.plan_),
        group_(group),
        target_(target) {}

  void run() {
    const Strip outer = l_.strip_;
    l_.strip_ = {};
    l_.known_loads_.clear();  // memory may have changed
    l_.known_blocks_.clear();
    lanes_ = group_.lane_axis < 0 ? 1 : l_.lanes_for(group_);
    l_.strip_.lanes = lanes_;
    l_.strip_.load_floor = l_.strip_.value_floor = code_.level();
    whole_ = std::any_of(group_.roots.begin(), group_.roots.end(),
                         [&](const Root& r) { return reports(r.value); });
    for (const Root& root : group_.roots) prepare(root);
    Coordinate origin;
    origin.base = code_.index(0);
    at_.assign(group_.extents.size(), origin);
    choose_rows();
    loop_over(0);
    l_.strip_ = outer;
  }

 private:
  struct Span {
    llvm::Value* low;
    llvm::Value* high;
  };

  const Op& op(const Root& root) const { return kernel_.op(root.op); }

  // Buffers of the results.
  void prepare(const Root& root) {
    if (target_ != nullptr) return;
    if (root.kind == Root::Kind::Materialize) {
      l_.set_buffer(root.value, l_.new_buffer(kernel_.type(root.value), plan_.is_dense(root.value)));
    } else if (root.kind == Root::Kind::ReduceLanes) {
      for (const ValueId result : op(root).results) {
        if (!plan_.is_scalar(result)) {
          l_.set_buffer(result, l_.new_buffer(kernel_.type(result), plan_.is_dense(result)));
        }
      }
    }
  }

  // Integer division reports even for elements that no one stores: such tiles are computed in full.
  bool reports(ValueId value) const {
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

  // Coordinates along the axes of a tile whose extents are the iteration space's but for unit axes.
  Coordinates tile_axes(const Type& type) const {
    Coordinates result;
    Coordinate origin;
    origin.base = code_.index(0);
    std::size_t next = 0;
    for (const std::int64_t extent : type.extents) result.push_back(extent == 1 ? origin : at_[next++]);
    return result;
  }

  // The live range of a Root along one axis of the space; everything but a store needs all of it.
  Span live(const Root& root, int axis) const {
    const std::int64_t extent = group_.extents[static_cast<std::size_t>(axis)];
    Span span{code_.index(0), code_.index(extent)};
    if (whole_ || (root.kind != Root::Kind::Store && root.kind != Root::Kind::AtomicAdd)) return span;
    const Type& type = kernel_.type(root.value);
    const ValueId view = op(root).operands[0];
    const int surplus = type.rank() - kernel_.type(view).rank();
    int next = 0;
    for (int k = 0; k < type.rank(); ++k) {
      if (type.extents[static_cast<std::size_t>(k)] == 1) continue;
      if (next++ != axis) continue;
      const int view_axis = k - surplus;
      llvm::Value* first = l_.scalar(op(root).operands[static_cast<std::size_t>(1 + view_axis)]);
      llvm::Value* size = l_.extent(view, view_axis);
      if (l_.range_of(first).low < 0) span.low = code_.max(span.low, code_.sub(code_.index(0), first));
      if (l_.range_of(first).high + extent > l_.range_of(size).low) {
        span.high = code_.min(span.high, code_.sub(size, first));
      }
    }
    return span;
  }
  static bool is_zero(llvm::Value* value) { return Code::is_constant(value, 0); }

  void loop_over(std::size_t axis) {
    if (axis == at_.size()) {
      if (group_.lane_axis < 0 || single_lane()) {
        run_single();
      } else {
        run_lanes();
      }
      return;
    }
    if (static_cast<int>(axis) == group_.lane_axis && !single_lane()) return loop_over(axis + 1);
    Span span = live(group_.roots[0], static_cast<int>(axis));
    for (std::size_t k = 1; k < group_.roots.size(); ++k) {
      const Span other = live(group_.roots[k], static_cast<int>(axis));
      span = {code_.min(span.low, other.low), code_.max(span.high, other.high)};
    }
    if (static_cast<int>(axis) == row_axis_) {
      code_.loop(span.low, span.high, code_.index(rows_), [&](llvm::Value* i) {
        l_.set_range(i, {0, group_.extents[axis] - 1});
        row_span_ = {i, code_.min(code_.add(i, code_.index(rows_)), span.high)};
        set_row(0);
        loop_over(axis + 1);
      });
      return;
    }
    code_.loop(span.low, span.high, code_.index(1), [&](llvm::Value* i) {
      l_.set_range(i, {0, group_.extents[axis] - 1});
      at_[axis].base = i;
      loop_over(axis + 1);
    });
  }

  // Rows of the axis next to the vectors' that one strip of loads can serve: several are computed together if
  // an operand is the same for all of them, as weights and biases are.
  void choose_rows() {
    if (group_.lane_axis < 0 || single_lane()) return;
    for (const Root& root : group_.roots) {
      if (root.kind != Root::Kind::Store) return;
    }
    int axis = plan_.crossing_axis(group_);
    if (axis >= 0 && lanes_ > 1 && lanes_ <= 16 && group_.extents[static_cast<std::size_t>(axis)] >= lanes_) {
      row_axis_ = axis;  // blocks of rows by lanes are transposed
      rows_ = lanes_;
      return;
    }
    axis = -1;
    for (int k = 0; k < static_cast<int>(at_.size()); ++k) {
      if (k != group_.lane_axis) axis = k;
    }
    if (axis < 0 || !plan_.has_invariant_load(group_, axis)) return;
    const std::int64_t size = group_.extents[static_cast<std::size_t>(axis)];
    const std::int64_t most = std::clamp<std::int64_t>(kRowWork / std::max(group_.work, 1), 1, 8);
    if (most < 2) return;
    row_axis_ = axis;
    rows_ = std::min(most, size);
    for (std::int64_t rows = rows_; rows >= 3; --rows) {
      if (size % rows == 0) {
        rows_ = rows;
        break;
      }
    }
  }
  void set_row(std::int64_t row) {
    if (row_axis_ < 0) return;
    llvm::Value* base = code_.add(row_span_.low, code_.index(row));
    l_.set_range(base, {0, group_.extents[static_cast<std::size_t>(row_axis_)] - 1});
    at_[static_cast<std::size_t>(row_axis_)].base = base;
    at_[static_cast<std::size_t>(row_axis_)].row_step = 1;
    l_.strip_.row = row;
  }
  bool rows_are_whole() const {
    return group_.extents[static_cast<std::size_t>(row_axis_)] % rows_ == 0 &&
           Code::is_constant(code_.sub(row_span_.high, row_span_.low), rows_);
  }
  bool single_lane() const { return group_.roots[0].kind == Root::Kind::AtomicAdd; }

  // One element at a time.
  void run_single() {
    l_.strip_.lanes = 1;
    for (const Root& root : group_.roots) {
      const Coordinates at = tile_axes(kernel_.type(root.value));
      if (root.kind == Root::Kind::ReduceLanes) throw_bug("a reduction of one element has its own root");
      finish_root(root, at);
    }
  }

  void finish_root(const Root& root, const Coordinates& at) {
    if (root.kind == Root::Kind::Materialize) {
      if (target_ != nullptr) {
        l_.store_buffer(*target_, at, l_.emit(root.value, at));
      } else {
        l_.store_buffer(l_.buffer(root.value), at, l_.compute(root.value, at));
      }
      return;
    }
    llvm::Value* value = l_.emit(root.value, at);
    const Op& store = op(root);
    const ValueId view = store.operands[0];
    const auto rank = static_cast<std::size_t>(kernel_.type(view).rank());
    llvm::Value* any = llvm::PoisonValue::get(register_type(code_.context(), kernel_.type(view).element));
    const Coordinates box =
        l_.box(view, std::span(store.operands).subspan(1, rank), kernel_.type(root.value), at, any);
    l_.resolve(view, box, any, [&](Access& access) -> llvm::Value* {
      if (root.kind == Root::Kind::AtomicAdd) {
        l_.atomic_add(access, value);
      } else {
        l_.store(access, value);
      }
      return nullptr;
    });
  }

  // --- the axis along vectors

  std::size_t lane_axis() const { return static_cast<std::size_t>(group_.lane_axis); }
  std::int64_t extent() const { return group_.extents[lane_axis()]; }
  void set_lane(llvm::Value* base) {
    at_[lane_axis()].base = base;
    at_[lane_axis()].step = 1;
  }

  // Visits the conditions of every access that computing `value` at `at` makes.
  void visit_conditions(ValueId value, const Coordinates& at,
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
      l_.resolve(view,
                 l_.box(view, std::span(source.operands).subspan(1, rank), kernel_.type(value), at, fill),
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
    } else if (source.code == Opcode::Reshape &&
               without_unit_axes(kernel_.type(source.operands[0]).extents) !=
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
  Span interior(Span span) {
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
      const std::int64_t step = std::abs(at.step);
      const auto negative = [&](llvm::Value* value) { return code_.sub(code_.index(0), value); };
      const auto ceiling = [&](llvm::Value* value) {
        return negative(code_.floor_divide(negative(value), step));
      };
      const auto behind = [&](llvm::Value* value) {
        return code_.add(code_.floor_divide(value, step), code_.index(1));
      };
      if (at.step > 0) {
        if (!low_known) span.low = code_.max(span.low, ceiling(negative(at.base)));
        if (!high_known) span.high = code_.min(span.high, ceiling(code_.sub(condition.extent, at.base)));
      } else {
        if (!low_known) span.high = code_.min(span.high, behind(at.base));
        if (!high_known) span.low = code_.max(span.low, behind(code_.sub(at.base, condition.extent)));
      }
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
  void visit_root(const Root& root, const std::function<void(const Condition&)>& visit) {
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
  llvm::Value* live_end(ValueId value, const Coordinates& at) {
    if (plan_.is_scalar(value) || !plan_.is_inline(value)) return nullptr;
    const Op& source = kernel_.op(plan_.definer(value));
    Coordinate origin;
    origin.base = code_.index(0);
    const auto varies = [](const Coordinates& coordinates) {
      return std::any_of(coordinates.begin(), coordinates.end(),
                         [](const Coordinate& c) { return c.step != 0; });
    };
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
  llvm::Constant* dead_element(ValueId value) {
    const tile::OpId definer = plan_.definer(value);
    if (!definer) return nullptr;
    const Op& source = kernel_.op(definer);
    if (source.code == Opcode::Constant) {
      return constant_of(register_type(code_.context(), kernel_.type(value).element),
                         kernel_.type(value).element, source.attributes.literal->bits);
    }
    if (plan_.is_scalar(value) || !plan_.is_inline(value)) return nullptr;
    if (source.code == Opcode::Load) return llvm::dyn_cast<llvm::Constant>(l_.load_fill(source));
    if (source.code == Opcode::Mask) return llvm::dyn_cast<llvm::Constant>(l_.scalar(source.operands[2]));
    if (source.code == Opcode::Broadcast || source.code == Opcode::Transpose)
      return dead_element(source.operands[0]);
    if (source.code != Opcode::Elementwise && source.code != Opcode::Cast) return nullptr;
    Values operands;
    for (const ValueId operand : source.operands) {
      llvm::Constant* constant = dead_element(operand);
      if (constant == nullptr) return nullptr;
      operands.push_back(constant);
    }
    // The builder folds what it can; an instruction that it did emit is dead and disappears.
    const DType from =
        kernel_.type(source.operands[source.attributes.function == Function::Select ? 1 : 0]).element;
    llvm::Value* result =
        source.code == Opcode::Cast
            ? l_.cast(operands[0], kernel_.type(source.operands[0]).element, kernel_.type(value).element)
            : l_.elementwise(source.attributes.function, from, operands);
    return llvm::dyn_cast<llvm::Constant>(result);
  }
  // Elements that leave a reduction's state as it is, whatever it is by now.
  llvm::Value* is_identity(const Root& root, llvm::Value* element) {
    const Combiner combiner = op(root).attributes.combiner;
    if (combiner == Combiner::Welford) return code_.builder().getFalse();
    const DType dtype = kernel_.type(root.value).element;
    llvm::Value* x = l_.widen(element, dtype);
    llvm::Value* neutral = l_.identity(combiner, dtype, 1)[0];
    return is_float(dtype) ? code_.builder().CreateFCmpOEQ(x, neutral)
                           : code_.builder().CreateICmpEQ(x, neutral);
  }

  void run_lanes() {
    const int lanes = lanes_;
    const std::int64_t size = extent();
    set_lane(code_.index(0));

    // How far each Root must go. A reduction goes on behind its live elements until a strip shows that the
    // elements there leave it unchanged, unless that is known beforehand.
    Span span{nullptr, nullptr};
    llvm::Value* live_everywhere = nullptr;
    std::vector<const Root*> open_ended;
    const auto extend = [&](const Span& other) {
      span.low = span.low == nullptr ? other.low : code_.min(span.low, other.low);
      span.high = span.high == nullptr ? other.high : code_.max(span.high, other.high);
    };
    for (const Root& root : group_.roots) {
      Span own = live(root, group_.lane_axis);
      llvm::Value* end = own.high;
      if (root.kind == Root::Kind::ReduceLanes && !whole_) {
        if (llvm::Value* stop = live_end(root.value, tile_axes(kernel_.type(root.value)))) {
          end = code_.max(stop, code_.index(1));  // there is always a first element
          llvm::Constant* dead = dead_element(root.value);
          llvm::Value* neutral = dead == nullptr ? nullptr : is_identity(root, dead);
          if (neutral != nullptr && llvm::isa<llvm::ConstantInt>(neutral)) {
            if (llvm::cast<llvm::ConstantInt>(neutral)->isOne()) own.high = end;
          } else {
            open_ended.push_back(&root);
          }
        }
      }
      extend(own);
      live_everywhere = live_everywhere == nullptr ? end : code_.max(live_everywhere, end);
    }
    l_.set_range(span.high, {0, size});

    Span inside = interior(span);
    if (!open_ended.empty()) inside.high = code_.min(inside.high, live_everywhere);
    const std::int64_t strips = size / lanes;
    int unroll = std::max(1, l_.schedule_.vector_unroll);
    if (group_.work > 24) unroll = std::min(unroll, 2);
    if (group_.work > 64) unroll = 1;
    if (row_axis_ >= 0) unroll = 1;
    while (unroll > 1 && (unroll > strips || (size % lanes == 0 && strips % unroll != 0))) --unroll;
    const std::int64_t step = unroll * lanes;

    // Partial states: `unroll` for each reduction.
    Values state;
    for (const Root& root : group_.roots) {
      if (root.kind != Root::Kind::ReduceLanes) continue;
      for (int k = 0; k < unroll; ++k) {
        for (llvm::Value* value :
             l_.identity(op(root).attributes.combiner, kernel_.type(root.value).element, lanes)) {
          state.push_back(value);
        }
      }
    }

    const bool static_inside = is_zero(inside.low) && Code::is_constant(inside.high, size) &&
                               is_zero(span.low) && Code::is_constant(span.high, size);
    llvm::Value* main_end = inside.low;
    if (size >= lanes) {
      if (static_inside) {
        main_end = code_.index(size / step * step);
      } else {
        llvm::Value* length = code_.max(code_.sub(inside.high, inside.low), code_.index(0));
        llvm::Value* whole = code_.mul(code_.floor_divide(length, step), code_.index(step));
        main_end = code_.add(inside.low, whole);
        l_.set_range(main_end, {0, size});
      }
      state = code_.loop(
          inside.low, main_end, code_.index(step), state, [&](llvm::Value* i, const Values& carried) {
            l_.set_range(i, {0, size - step});
            const Strip saved = l_.strip_;
            l_.strip_.interior = true;
            l_.strip_.rows = rows_;
            // Not out of the entry of this loop: only behind its guard is an access known to be in range.
            l_.strip_.load_floor =
                static_inside ? saved.load_floor : std::max(code_.level() - 1, saved.load_floor);
            Values next = carried;
            for (int k = 0; k < unroll; ++k) {
              llvm::Value* base = code_.add(i, code_.index(k * lanes));
              l_.set_range(base, {0, size - lanes});
              set_lane(base);
              for (std::int64_t row = 0; row < rows_; ++row) {
                set_row(row);
                run_strip(next, k, unroll);
              }
            }
            l_.strip_ = saved;
            return next;
          });
    }
    if (!(static_inside && size % step == 0 && size >= lanes)) {
      if (row_axis_ < 0) {
        state = run_edges(span, inside, main_end, live_everywhere, open_ended, unroll, state);
      } else {
        code_.loop(row_span_.low, row_span_.high, code_.index(1), [&](llvm::Value* row) {
          l_.set_range(row, {0, group_.extents[static_cast<std::size_t>(row_axis_)] - 1});
          at_[static_cast<std::size_t>(row_axis_)].base = row;
          at_[static_cast<std::size_t>(row_axis_)].row_step = 0;
          run_edges(span, inside, main_end, live_everywhere, open_ended, unroll, state);
        });
      }
    }
    finish_reductions(state, unroll);
  }

  // The rest of the axis, one masked strip after the other: before the interior, and behind its last whole
  // step.
  Values run_edges(const Span& span, const Span& inside, llvm::Value* main_end, llvm::Value* live_everywhere,
                   const std::vector<const Root*>& open_ended, int unroll, const Values& initial) {
    const int lanes = lanes_;
    const std::int64_t size = extent();
    const bool aligned =
        is_zero(inside.low) && is_zero(span.low) && Code::is_constant(span.high, size) && size % lanes == 0;
    const auto edge = [&](llvm::Value* low, llvm::Value* high, const Values& state) {
      llvm::Value* unchanged = nullptr;
      const auto stop = [&](llvm::Value* next, const Values&) -> llvm::Value* {
        llvm::Value* behind = code_.builder().CreateICmpSGT(next, live_everywhere);
        return code_.builder().CreateAnd(behind, unchanged);
      };
      return code_.loop(
          low, high, code_.index(lanes), state,
          [&](llvm::Value* i, const Values& carried) {
            l_.set_range(i, {0, size - 1});
            const Strip saved = l_.strip_;
            set_lane(i);
            l_.strip_.active = aligned ? nullptr : l_.lanes_between(nullptr, code_.sub(high, i));
            Values next = carried;
            last_elements_.clear();
            run_strip(next, 0, unroll);
            unchanged = nullptr;
            for (const Root* root : open_ended) {
              llvm::Value* element = last_elements_.at(root);
              if (element->getType()->isVectorTy()) {
                element =
                    code_.builder().CreateExtractElement(element, static_cast<std::uint64_t>(lanes - 1));
              }
              unchanged = code_.both(unchanged, is_identity(*root, element));
            }
            l_.strip_ = saved;
            return next;
          },
          open_ended.empty() ? Code::LoopStop{} : stop);
    };
    if (is_zero(code_.sub(inside.low, span.low))) return edge(main_end, span.high, initial);
    // Two pieces, by one copy of the code.
    llvm::Value* first_end = code_.min(inside.low, span.high);
    return code_.loop(code_.index(0), code_.index(2), code_.index(1), initial,
                      [&](llvm::Value* piece, const Values& state) {
                        llvm::Value* first = code_.builder().CreateICmpEQ(piece, code_.index(0));
                        return edge(code_.select(first, span.low, main_end),
                                    code_.select(first, first_end, span.high), state);
                      });
  }

  // One strip of every Root; strip k of an unrolled step adds to the k-th partial states.
  void run_strip(Values& state, int k, int unroll) {
    std::size_t slot = 0;
    for (const Root& root : group_.roots) {
      const Coordinates at = tile_axes(kernel_.type(root.value));
      if (root.kind != Root::Kind::ReduceLanes) {
        finish_root(root, at);
        continue;
      }
      const Combiner combiner = op(root).attributes.combiner;
      const DType dtype = kernel_.type(root.value).element;
      llvm::Value* element = l_.vector_of(l_.emit(root.value, at), lanes_);
      last_elements_[&root] = element;
      Builder& b = code_.builder();
      llvm::Value* position = nullptr;
      if (combiner == Combiner::ArgMax || combiner == Combiner::ArgMin) {
        std::vector<llvm::Constant*> numbers;
        for (int lane = 0; lane < lanes_; ++lane) numbers.push_back(b.getInt32(static_cast<unsigned>(lane)));
        position = b.CreateAdd(l_.vector_of(b.CreateTrunc(at_[lane_axis()].base, b.getInt32Ty()), lanes_),
                               llvm::ConstantVector::get(numbers));
      }
      Values next = l_.lift(combiner, dtype, element, position);
      const Values neutral = l_.identity(combiner, dtype, lanes_);
      const std::size_t width = next.size();
      Values mine(
          state.begin() + static_cast<std::ptrdiff_t>(slot + static_cast<std::size_t>(k) * width),
          state.begin() + static_cast<std::ptrdiff_t>(slot + static_cast<std::size_t>(k + 1) * width));
      if (l_.strip_.active != nullptr) {
        for (std::size_t part = 0; part < width; ++part) {
          next[part] = b.CreateSelect(l_.strip_.active, next[part], neutral[part]);
        }
      }
      const Values combined = l_.combine(combiner, dtype, mine, next);
      std::copy(combined.begin(), combined.end(),
                state.begin() + static_cast<std::ptrdiff_t>(slot + static_cast<std::size_t>(k) * width));
      slot += width * static_cast<std::size_t>(unroll);
    }
  }

  void finish_reductions(const Values& state, int unroll) {
    std::size_t slot = 0;
    for (const Root& root : group_.roots) {
      if (root.kind != Root::Kind::ReduceLanes) continue;
      const Combiner combiner = op(root).attributes.combiner;
      const DType dtype = kernel_.type(root.value).element;
      const std::size_t width = op(root).results.size();
      std::vector<Values> partial;
      for (int k = 0; k < unroll; ++k) {
        partial.emplace_back(state.begin() + static_cast<std::ptrdiff_t>(slot),
                             state.begin() + static_cast<std::ptrdiff_t>(slot + width));
        slot += width;
      }
      while (partial.size() > 1) {
        std::vector<Values> half;
        for (std::size_t k = 0; k + 1 < partial.size(); k += 2) {
          half.push_back(l_.combine(combiner, dtype, partial[k], partial[k + 1]));
        }
        if (partial.size() % 2 != 0) half.push_back(partial.back());
        partial = std::move(half);
      }
      const Values results = l_.finish(combiner, dtype, l_.across_lanes(combiner, dtype, partial[0]));
      const int lanes = std::exchange(l_.strip_.lanes, 1);
      for (std::size_t k = 0; k < width; ++k) {
        const ValueId result = op(root).results[k];
        if (plan_.is_scalar(result)) {
          l_.set_scalar(result, results[k]);
        } else {
          Coordinates at = tile_axes(kernel_.type(root.value));
          at.erase(at.begin() + op(root).attributes.axes[0]);
          l_.store_buffer(l_.buffer(result), at, results[k]);
        }
      }
      l_.strip_.lanes = lanes;
    }
  }

  Lowering& l_;
  Code& code_;
  const tile::Kernel& kernel_;
  const Plan& plan_;
  const Group& group_;
  const Buffer* target_;
  int lanes_ = 1;
  bool whole_ = false;
  // Rows computed together along `row_axis_`, and those of the current iteration.
  int row_axis_ = -1;
  std::int64_t rows_ = 1;
  Span row_span_{nullptr, nullptr};
  Coordinates at_;  // along the axes of the space
  ValueId materialized_;
  std::set<Lowering::MemoKey> visited_;
  std::map<const Root*, llvm::Value*> last_elements_;
};

void Lowering::lower_group(const Group& group) { Nest(*this, group, nullptr).run(); }

void Lowering::materialize(ValueId value, const Buffer& target) {
  const Group group = plan_.make_group({Root::Kind::Materialize, tile::OpId::none(), value});
  Nest(*this, group, &target).run();
}

// As many lanes as fit one vector of the widest element that is computed with; no more than there are
// elements.
int Lowering::lanes_for(const Group& group) const {
  std::int64_t widest = 1;
  for (const Root& root : group.roots) {
    for (const ValueId value : plan_.computed_for(root.value)) {
      const Type& type = kernel_.type(value);
      if (type.is_view() || plan_.is_scalar(value)) continue;
      const tile::OpId definer = plan_.definer(value);
      const bool half = type.element == DType::F16 || type.element == DType::BF16;
      const bool computes = definer && kernel_.op(definer).code == Opcode::Elementwise;
      widest = std::max(widest, half && computes ? 4 : byte_width(type.element));
    }
    if (root.kind == Root::Kind::ReduceLanes) widest = std::max<std::int64_t>(widest, 4);
  }
  const std::int64_t extent = group.extents[static_cast<std::size_t>(group.lane_axis)];
  std::int64_t lanes = target_.vector_bytes() / widest;
  while (lanes / 2 >= extent) lanes /= 2;
  return static_cast<int>(lanes);
}

}  // namespace kiln::jit::cpu
