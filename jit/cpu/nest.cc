// The loop nest of a Group: loops over its iteration space, the innermost along vectors, cut into an interior
// where every access is in range, which is unrolled and free of masks, and edges, which test and mask.
#include "jit/cpu/nest.h"

#include <algorithm>
#include <utility>

#include "ir/base/errors.h"
#include "jit/cpu/types.h"

namespace kiln::jit::cpu {

namespace {

// Operations in the body of a loop over strips, at most.
constexpr int kRowWork = 256;

}  // namespace

using tile::Combiner;
using tile::Op;
using tile::Opcode;
using tile::Type;
using tile::ValueId;

void Nest::run() {
  const Strip outer = l_.strip_;
  l_.strip_ = {};
  l_.known_loads_.clear();  // memory may have changed
  l_.known_blocks_.clear();
  lanes_ = group_.lane_axis < 0 ? 1 : l_.lanes_for(group_);
  l_.strip_.lanes = lanes_;
  l_.strip_.load_floor = l_.strip_.value_floor = code_.level();
  whole_ =
      std::any_of(group_.roots.begin(), group_.roots.end(), [&](const Root& r) { return reports(r.value); });
  for (const Root& root : group_.roots) prepare(root);
  Coordinate origin;
  origin.base = code_.index(0);
  at_.assign(group_.extents.size(), origin);
  choose_rows();
  loop_over(0);
  l_.strip_ = outer;
}

// Buffers of the results.
void Nest::prepare(const Root& root) {
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

// Coordinates along the axes of a tile whose extents are the iteration space's but for unit axes.
Coordinates Nest::tile_axes(const Type& type) const {
  Coordinates result;
  Coordinate origin;
  origin.base = code_.index(0);
  std::size_t next = 0;
  for (const std::int64_t extent : type.extents) result.push_back(extent == 1 ? origin : at_[next++]);
  return result;
}

void Nest::loop_over(std::size_t axis) {
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
      code_.set_range(i, {0, group_.extents[axis] - 1});
      row_span_ = {i, code_.min(code_.add(i, code_.index(rows_)), span.high)};
      set_row(0);
      loop_over(axis + 1);
    });
    return;
  }
  code_.loop(span.low, span.high, code_.index(1), [&](llvm::Value* i) {
    code_.set_range(i, {0, group_.extents[axis] - 1});
    at_[axis].base = i;
    for (const Root& root : group_.roots) {
      if (live(root, static_cast<int>(axis)).high == span.high) bound_index(root, static_cast<int>(axis), i);
    }
    loop_over(axis + 1);
  });
}

// Rows of the axis next to the vectors' that one strip of loads can serve: several are computed together if
// an operand is the same for all of them, as weights and biases are.
void Nest::choose_rows() {
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
  // Rows that are left over take the slow way of the edges.
  std::int64_t rows = most;
  while (rows > 1 && size % rows != 0) --rows;
  if (rows == 1 && size >= 8 * most) rows = most;
  if (rows == 1) return;
  row_axis_ = axis;
  rows_ = rows;
}

void Nest::set_row(std::int64_t row) {
  if (row_axis_ < 0) return;
  llvm::Value* base = code_.add(row_span_.low, code_.index(row));
  code_.set_range(base, {0, group_.extents[static_cast<std::size_t>(row_axis_)] - 1});
  at_[static_cast<std::size_t>(row_axis_)].base = base;
  at_[static_cast<std::size_t>(row_axis_)].row_step = 1;
  l_.strip_.row = row;
}

bool Nest::rows_are_whole() const {
  return group_.extents[static_cast<std::size_t>(row_axis_)] % rows_ == 0 &&
         Code::is_constant(code_.sub(row_span_.high, row_span_.low), rows_);
}

// One element at a time.
void Nest::run_single() {
  l_.strip_.lanes = 1;
  for (const Root& root : group_.roots) {
    const Coordinates at = tile_axes(kernel_.type(root.value));
    if (root.kind == Root::Kind::ReduceLanes) throw_bug("a reduction of one element has its own root");
    finish_root(root, at);
  }
}

void Nest::finish_root(const Root& root, const Coordinates& at) {
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

void Nest::set_lane(llvm::Value* base) {
  at_[lane_axis()].base = base;
  at_[lane_axis()].step = 1;
}

void Nest::run_lanes() {
  const int lanes = lanes_;
  const std::int64_t size = extent();
  set_lane(code_.index(0));

  // How far each Root must go. A reduction goes on behind its live elements until a strip shows that the
  // elements there leave it unchanged, unless that is known beforehand.
  Span span{nullptr, nullptr};
  llvm::Value* live_everywhere = nullptr;
  std::vector<const Root*> open_ended;
  live_ends_.clear();
  dead_elements_.clear();
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
        llvm::Constant* dead = dead_element(root.value, tile_axes(kernel_.type(root.value)));
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
    }
    state = code_.loop(inside.low, main_end, code_.index(step), state,
                       [&](llvm::Value* i, const Values& carried) {
                         code_.set_range(i, {0, size - step});
                         const Strip saved = l_.strip_;
                         l_.strip_.interior = true;
                         l_.strip_.rows = rows_;
                         // Not out of the entry of this loop: only behind its guard is an access known to be
                         // in range.
                         l_.strip_.load_floor =
                             static_inside ? saved.load_floor : std::max(code_.level() - 1, saved.load_floor);
                         Values next = carried;
                         for (int k = 0; k < unroll; ++k) {
                           llvm::Value* base = code_.add(i, code_.index(k * lanes));
                           code_.set_range(base, {0, size - lanes});
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
        code_.set_range(row, {0, group_.extents[static_cast<std::size_t>(row_axis_)] - 1});
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
Values Nest::run_edges(const Span& span, const Span& inside, llvm::Value* main_end,
                       llvm::Value* live_everywhere, const std::vector<const Root*>& open_ended, int unroll,
                       const Values& initial) {
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
          code_.set_range(i, {0, size - 1});
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
              element = code_.builder().CreateExtractElement(element, static_cast<std::uint64_t>(lanes - 1));
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
void Nest::run_strip(Values& state, int k, int unroll) {
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
    Values mine(state.begin() + static_cast<std::ptrdiff_t>(slot + static_cast<std::size_t>(k) * width),
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

void Nest::finish_reductions(const Values& state, int unroll) {
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
