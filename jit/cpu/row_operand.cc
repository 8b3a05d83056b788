#include "jit/cpu/row_operand.h"

#include <algorithm>

#include "ir/base/checked_math.h"
#include "jit/cpu/transpose.h"
#include "jit/cpu/types.h"
#include "jit/cpu/widen.h"

namespace kiln::jit::cpu {
namespace {

// Row pointers that are stored together.
constexpr int kPointers = 8;

}  // namespace

void RowOperand::put_tile() {
  if (!site_.a.memory)
    tile_ = site_.put_matrix(site_.a.tile, site_.problem.shape.depth, site_.problem.shape.depth);
}

void RowOperand::choose() {
  in_place_ = transposed_ = false;
  may_copy_ = site_.a.memory || site_.a.dtype != site_.accumulator;
  if (!site_.a.memory) return;
  MemoryMatrix& memory = *site_.a.memory;
  const std::vector<int>&depth = memory.operand().depth, &free = memory.operand().free;
  if (!memory.is_affine(depth)) return;
  std::int64_t length = 1;
  bool adjacent = true;
  for (std::size_t k = depth.size(); k-- > 0;) {
    const Run run = memory.run(site_.at(memory, nullptr), depth[k]);
    adjacent = adjacent && Code::is_constant(run.stride, length);
    length *= memory.extent(depth[k]);
  }
  const bool same_type = site_.a.dtype == site_.accumulator;
  if (adjacent && same_type && !site_.lowering.schedule().pack_a) {
    in_place_ = true;
    may_copy_ = DotSite::is_compound(memory);
  } else if (!adjacent && depth.size() == 1 && !DotSite::is_compound(memory) && free.size() == 1 &&
             memory.is_affine(free)) {
    const Run run = memory.run(site_.at(memory, nullptr), free[0]);
    transposed_ = Code::is_constant(run.stride, 1) && run.low == nullptr;
  }
}

void RowOperand::allocate(const BlockProduct& product) {
  padded_rows_ = product.padded_rows();
  pass_ = product.pass;
  table_ = site_.scratch((site_.segment_count() * padded_rows_ + kPointers) * 8);
  zeros_ = site_.scratch((pass_ + site_.lanes) * site_.width);
  if (!may_copy_) return;
  copy_pitch_ = ceil_divide(pass_, site_.lanes) * site_.lanes;
  if (copy_pitch_ * site_.width % 4096 == 0) copy_pitch_ += site_.lanes;
  // A transposed copy writes whole squares.
  const std::int64_t rows = site_.segment_count() * padded_rows_ + (transposed_ ? site_.lanes : 0);
  copies_ = site_.scratch((rows * copy_pitch_ + site_.lanes) * site_.width);
}

void RowOperand::prepare(const BlockProduct& product, const ContractRange& range, PassOperands& operands) {
  operands.rows = table_;
  operands.a_offset = code_.index(0);
  if (!site_.a.memory) return prepare_tile(product, range);
  site_.bind_indices();
  site_.unless_unchanged(site_.a, range, product.live_rows, [&] {
    site_.clear(zeros_, (pass_ + site_.lanes) * site_.width);
    site_.loop_over_segments([&](llvm::Value* segment) { prepare_segment(product, range, segment); });
    site_.bind_indices();
  });
}

// Rows of [batch][row][depth], converted where the arithmetic is in another type.
void RowOperand::prepare_tile(const BlockProduct& product, const ContractRange& range) {
  const std::int64_t depth = site_.problem.shape.depth, element = byte_width(site_.a.dtype);
  site_.clear(zeros_, (pass_ + site_.lanes) * site_.width);
  llvm::Value* const first_step = code_.add(site_.first_step, range.begin);
  llvm::Value* const first = code_.mul(site_.batch, code_.index(site_.problem.shape.rows * depth * element));
  llvm::Value* const base = site_.bytes_behind(tile_.data, first);
  code_.loop(code_.index(0), code_.index(product.rows), code_.index(1), [&](llvm::Value* row) {
    llvm::Value* const start = code_.add(code_.mul(row, code_.index(depth)), first_step);
    llvm::Value* const source = site_.bytes_behind(base, code_.mul(start, code_.index(element)));
    if (!may_copy_) return store_pointer(table_, row, source);
    llvm::Value* const target =
        site_.bytes_behind(copies_, code_.mul(row, code_.index(copy_pitch_ * site_.width)));
    code_.loop(code_.index(0), range.count, code_.index(site_.lanes), [&](llvm::Value* k) {
      llvm::Value* const value = code_.builder().CreateAlignedLoad(
          with_lanes(memory_element(code_.context(), site_.a.dtype), site_.lanes),
          site_.bytes_behind(source, code_.mul(k, code_.index(element))),
          llvm::Align(static_cast<std::uint64_t>(element)));
      site_.store_widened(value, site_.a.dtype, site_.accumulator,
                          site_.bytes_behind(target, code_.mul(k, code_.index(site_.width))));
    });
    store_pointer(table_, row, target);
  });
  fill_table(table_, code_.index(product.rows));
}

llvm::Value* RowOperand::segment_table(const BlockProduct& product, llvm::Value* segment) {
  return site_.bytes_behind(table_, code_.mul(segment, code_.index(product.padded_rows() * 8)));
}

void RowOperand::store_pointer(llvm::Value* table, llvm::Value* row, llvm::Value* pointer) {
  code_.builder().CreateAlignedStore(pointer, site_.bytes_behind(table, code_.mul(row, code_.index(8))),
                                     llvm::Align(8));
}

// A register tile may reach beyond the live rows and finds zeros there.
void RowOperand::fill_table(llvm::Value* table, llvm::Value* live) {
  llvm::Value* const panels =
      code_.floor_divide(code_.add(live, code_.index(rows_of_panel() - 1)), rows_of_panel());
  code_.loop(live, code_.mul(panels, code_.index(rows_of_panel())), code_.index(1),
             [&](llvm::Value* row) { store_pointer(table, row, zeros_); });
}

void RowOperand::prepare_segment(const BlockProduct& product, const ContractRange& range,
                                 llvm::Value* segment) {
  MemoryMatrix& memory = *site_.a.memory;
  const std::vector<int>& free = memory.operand().free;
  llvm::Value* const table = segment_table(product, segment);
  llvm::Value* const first_slot = code_.mul(segment, code_.index(padded_rows_));
  if (transposed_) {
    copy_transposed(range, segment, table);
    return fill_table(table, product.live_rows);
  }
  Values position = site_.at(memory, nullptr);
  const bool by_runs = in_place_ && !free.empty() && memory.is_affine({free.back()});
  const auto rows = [&](const auto& self, std::size_t number, llvm::Value* row) -> void {
    if (number == free.size()) {
      store_pointer(table, row, row_pointer(range, code_.add(first_slot, row), position));
      return;
    }
    const int axis = free[number];
    const std::int64_t extent = memory.extent(axis);
    llvm::Value* const end = number == 0 ? memory.reach(axis) : code_.index(extent);
    llvm::Value* const first = code_.mul(row, code_.index(extent));
    if (by_runs && number + 1 == free.size())
      return prepare_rows(range, table, first, first_slot, position, end);
    code_.loop(code_.index(0), end, code_.index(1), [&](llvm::Value* i) {
      site_.code.set_range(i, {0, extent - 1});
      position[static_cast<std::size_t>(axis)] = i;
      self(self, number + 1, code_.add(first, i));
    });
  };
  rows(rows, 0, code_.index(0));
  fill_table(table, product.live_rows);
}

// Rows along the last free axis: those that are live as a whole are an interval, at equal distances.
void RowOperand::prepare_rows(const ContractRange& range, llvm::Value* table, llvm::Value* first_row,
                              llvm::Value* slot, Values position, llvm::Value* end) {
  MemoryMatrix& memory = *site_.a.memory;
  const int axis = memory.operand().free.back();
  llvm::Value* const k = code_.add(site_.first_step, range.begin);
  llvm::Value *low = code_.index(0), *high = end;
  Run first;
  bool at_start = true;
  for (const Values& point : ends(position, k)) {
    const Run run = memory.run(point, axis);
    if (run.low != nullptr) low = code_.max(low, run.low);
    if (run.high != nullptr) high = code_.min(high, run.high);
    high = code_.select(memory.holds(run), high, code_.index(0));
    if (at_start) first = run;
    at_start = false;
  }
  low = code_.min(low, end);
  high = code_.max(high, low);

  // The last vector may write beyond the interval: the pointers there are stored later.
  Builder& b = code_.builder();
  llvm::Value* const distance = code_.mul(first.stride, code_.index(site_.width));
  llvm::SmallVector<llvm::Constant*, kPointers> numbers;
  for (int lane = 0; lane < kPointers; ++lane)
    numbers.push_back(llvm::ConstantInt::getSigned(b.getInt64Ty(), lane));
  llvm::Value* const offsets =
      b.CreateMul(b.CreateVectorSplat(kPointers, distance), llvm::ConstantVector::get(numbers));
  code_.loop(low, high, code_.index(kPointers), [&](llvm::Value* i) {
    llvm::Value* const pointer = site_.bytes_behind(first.pointer, code_.mul(i, distance));
    llvm::Value* const start = b.CreateVectorSplat(kPointers, b.CreatePtrToInt(pointer, b.getInt64Ty()));
    llvm::Value* const target = site_.bytes_behind(table, code_.mul(code_.add(first_row, i), code_.index(8)));
    b.CreateAlignedStore(b.CreateAdd(start, offsets), target, llvm::Align(8));
  });

  // Before the interval, and behind it, by one copy of the code.
  const auto outside = [&](llvm::Value* from, llvm::Value* to) {
    code_.loop(from, to, code_.index(1), [&](llvm::Value* i) {
      site_.code.set_range(i, {0, memory.extent(axis) - 1});
      position[static_cast<std::size_t>(axis)] = i;
      llvm::Value* const row = code_.add(first_row, i);
      store_pointer(table, row, may_copy_ ? copy(range, code_.add(slot, row), position) : zeros_);
    });
  };
  if (Code::is_constant(low, 0)) return outside(high, end);
  code_.loop(code_.index(0), code_.index(2), code_.index(1), [&](llvm::Value* piece) {
    llvm::Value* const before = b.CreateICmpEQ(piece, code_.index(0));
    outside(code_.select(before, code_.index(0), high), code_.select(before, low, end));
  });
}

void RowOperand::copy_transposed(const ContractRange& range, llvm::Value* segment, llvm::Value* table) {
  MemoryMatrix& memory = *site_.a.memory;
  const int axis = memory.operand().free[0], depth = memory.operand().depth[0];
  llvm::Value* const end = memory.reach(axis);
  llvm::Value* const k = code_.add(site_.first_step, range.begin);
  const Run rows = memory.run(site_.at(memory, k), axis);
  llvm::Value* live = end;
  if (rows.high != nullptr) live = code_.max(code_.min(live, rows.high), code_.index(0));
  llvm::Value* const pitch = code_.index(copy_pitch_ * site_.width);
  llvm::Value* const squares =
      code_.floor_divide(code_.add(range.count, code_.index(site_.lanes - 1)), site_.lanes);
  TransposedCopy copy;
  copy.from = site_.a.dtype;
  copy.to = site_.accumulator;
  copy.lanes = site_.lanes;
  copy.source = rows.pointer;
  copy.column_pitch =
      code_.mul(memory.run(site_.at(memory, nullptr), depth).stride, code_.index(byte_width(site_.a.dtype)));
  copy.k = live;
  copy.columns = code_.select(memory.holds(rows), range.count, code_.index(0));
  copy.target = site_.bytes_behind(copies_, code_.mul(code_.mul(segment, code_.index(padded_rows_)), pitch));
  copy.target_pitch = pitch;
  copy.padded_columns = code_.mul(squares, code_.index(site_.lanes));
  emit_transposed_copy(code_, copy);
  code_.loop(code_.index(0), live, code_.index(1), [&](llvm::Value* row) {
    store_pointer(table, row, site_.bytes_behind(copy.target, code_.mul(row, pitch)));
  });
  code_.loop(live, end, code_.index(1), [&](llvm::Value* row) { store_pointer(table, row, zeros_); });
}

std::vector<Values> RowOperand::ends(const Values& position, llvm::Value* k) const {
  const MemoryMatrix& memory = *site_.a.memory;
  const std::vector<int>& depth = memory.operand().depth;
  std::vector<Values> points{position};
  if (depth.empty()) return points;
  if (!DotSite::is_compound(memory)) {
    points[0][static_cast<std::size_t>(depth[0])] = k;
    return points;
  }
  // A pass is all of a compound depth.
  points.push_back(position);
  for (const int axis : depth) {
    points[0][static_cast<std::size_t>(axis)] = code_.index(0);
    points[1][static_cast<std::size_t>(axis)] = code_.index(memory.extent(axis) - 1);
  }
  return points;
}

// The pointer to one row, where rows follow no pattern.
llvm::Value* RowOperand::row_pointer(const ContractRange& range, llvm::Value* slot, const Values& position) {
  if (!in_place_) return copy(range, slot, position);
  MemoryMatrix& memory = *site_.a.memory;
  llvm::Value* live = nullptr;
  llvm::Value* pointer = nullptr;
  for (const Values& point : ends(position, code_.add(site_.first_step, range.begin))) {
    const Run run = memory.run(point, -1);
    live = code_.both(live, memory.holds(run));
    if (pointer == nullptr) pointer = run.pointer;
  }
  if (!may_copy_) return code_.select(live, pointer, zeros_);
  return code_.branch(
      live, [&] { return Values{pointer}; }, [&] { return Values{copy(range, slot, position)}; })[0];
}

llvm::Value* RowOperand::copy(const ContractRange& range, llvm::Value* slot, const Values& position) {
  llvm::Value* const target =
      site_.bytes_behind(copies_, code_.mul(slot, code_.index(copy_pitch_ * site_.width)));
  copy_row(position, range, target);
  return target;
}

// A pass of one row in the accumulator's type, zero where it is not live. The last strip may write beyond.
void RowOperand::copy_row(Values position, const ContractRange& range, llvm::Value* target) {
  MemoryMatrix& memory = *site_.a.memory;
  const std::vector<int>& depth = memory.operand().depth;
  const auto store = [&](int axis, llvm::Value* i) {
    site_.store_widened(memory.load_strip(position, axis, site_.lanes), site_.a.dtype, site_.accumulator,
                        site_.bytes_behind(target, code_.mul(i, code_.index(site_.width))));
  };
  if (depth.empty()) return store(-1, code_.index(0));
  if (depth.size() == 1) {
    llvm::Value* const k = code_.add(site_.first_step, range.begin);
    code_.loop(code_.index(0), range.count, code_.index(site_.lanes), [&](llvm::Value* i) {
      position[static_cast<std::size_t>(depth[0])] = code_.add(k, i);
      store(depth[0], i);
    });
    return;
  }
  const auto axes = [&](const auto& self, std::size_t number, llvm::Value* i) -> void {
    const int axis = depth[number];
    const bool last = number + 1 == depth.size();
    code_.loop(code_.index(0), code_.index(memory.extent(axis)), code_.index(last ? site_.lanes : 1),
               [&](llvm::Value* step) {
                 position[static_cast<std::size_t>(axis)] = step;
                 llvm::Value* const element = code_.add(code_.mul(i, code_.index(memory.extent(axis))), step);
                 if (last) {
                   store(axis, element);
                 } else {
                   self(self, number + 1, element);
                 }
               });
  };
  axes(axes, 0, code_.index(0));
}

}  // namespace kiln::jit::cpu
