#include "jit/cpu/panel_operand.h"

#include <algorithm>

#include "ir/base/checked_math.h"
#include "jit/cpu/transpose.h"
#include "jit/cpu/types.h"

namespace kiln::jit::cpu {

void PanelOperand::put_tile(const BlockProduct& product) {
  if (!site_.b.memory) {
    tile_ = site_.put_matrix(site_.b.tile, site_.problem.shape.columns, product.padded_columns());
  }
}

int PanelOperand::column_axis() const {
  const std::vector<int>& free = site_.b.memory->operand().free;
  return free.empty() ? -1 : free.back();
}

void PanelOperand::choose(const BlockProduct& product, llvm::Value*& depth) {
  read_ = Read::InPlace;
  if (!site_.b.memory) return;
  read_ = Read::Copied;
  MemoryMatrix& memory = *site_.b.memory;
  if (!memory.is_affine(memory.operand().depth) || !memory.is_affine(memory.operand().free)) return;
  if (site_.lowering.schedule().pack_b || !find_depth_pitch() || !find_panel_pitch()) return;
  decide_liveness(product, depth);
}

// Axes of depth must lie end to end.
bool PanelOperand::find_depth_pitch() {
  MemoryMatrix& memory = *site_.b.memory;
  const std::vector<int>& depth = memory.operand().depth;
  llvm::Value* step = code_.index(0);
  std::int64_t steps = 1;
  for (std::size_t d = depth.size(); d-- > 0;) {
    const Run run = memory.run(site_.at(memory, nullptr), depth[d]);
    if (d + 1 == depth.size()) {
      step = run.stride;
    } else if (run.stride != code_.mul(step, code_.index(steps))) {
      return false;
    }
    steps *= memory.extent(depth[d]);
  }
  pitch_ = code_.mul(step, code_.index(byte_width(site_.b.dtype)));
  return true;
}

// Columns must be adjacent, or lie in pieces of whole panels at equal distances.
bool PanelOperand::find_panel_pitch() {
  MemoryMatrix& memory = *site_.b.memory;
  const std::vector<int>& free = memory.operand().free;
  const std::int64_t width = site_.shape.columns(), element = byte_width(site_.b.dtype);
  panel_pitch_ = code_.index(width * element);
  if (free.empty()) return width == 1;
  if (!Code::is_constant(memory.run(site_.at(memory, nullptr), free.back()).stride, 1)) return false;
  std::int64_t columns = memory.extent(free.back());
  for (std::size_t f = free.size() - 1; f-- > 0;) {
    if (columns % width != 0) return false;
    const Run piece = memory.run(site_.at(memory, nullptr), free[f]);
    llvm::Value* const distance = code_.mul(piece.stride, code_.index(element));
    if (columns == width) {
      panel_pitch_ = distance;
    } else if (distance != code_.mul(panel_pitch_, code_.index(columns / width))) {
      return false;
    }
    columns *= memory.extent(free[f]);
  }
  return true;
}

// All that whole panels read is live iff it is at both ends of every axis but the depth, which is clipped.
void PanelOperand::decide_liveness(const BlockProduct& product, llvm::Value*& depth) {
  MemoryMatrix& memory = *site_.b.memory;
  const LoadedOperand& operand = memory.operand();
  const bool compound = DotSite::is_compound(memory);
  // A panel reads whole vectors, also beyond the columns of the tile.
  const std::int64_t columns = operand.free.size() == 1 ? product.padded_columns()
                               : column_axis() < 0      ? 1
                                                        : memory.extent(column_axis());
  live_ = nullptr;
  bool one_condition = !compound;
  std::vector<std::pair<llvm::Value*, llvm::Value*>> first_conditions;
  for (const bool last : {false, true}) {
    site_.bind_indices(last);
    Values position = site_.at(memory, nullptr);
    const auto move_to_end = [&](const std::vector<int>& axes) {
      for (const int axis : axes) {
        if (last && axis != column_axis()) {
          position[static_cast<std::size_t>(axis)] = code_.index(memory.extent(axis) - 1);
        }
      }
    };
    move_to_end(operand.free);
    if (compound) {
      move_to_end(operand.depth);
    } else if (!operand.depth.empty()) {
      position[static_cast<std::size_t>(operand.depth[0])] = site_.first_step;
    }
    const Run run = memory.run(position, column_axis());
    live_ = code_.both(live_, memory.holds(run));
    if (run.low != nullptr) live_ = code_.both(live_, code_.less(run.low, code_.index(1)));
    if (run.high != nullptr) {
      llvm::Value* const enough = code_.less(code_.index(columns - 1), run.high);
      live_ = code_.both(live_, enough);
      one_condition = one_condition && llvm::isa<llvm::ConstantInt>(enough);
    }
    if (!last) first_conditions = run.conditions;
    one_condition = one_condition && run.low == nullptr && run.conditions == first_conditions;
  }
  site_.bind_indices();
  if (const auto* const known = llvm::dyn_cast<llvm::ConstantInt>(live_)) {
    read_ = known->isZero() ? Read::Copied : Read::InPlace;
  } else if (one_condition) {
    // The same for all of B: all of it is live, or there is nothing to multiply with.
    read_ = Read::InPlace;
    depth = code_.select(live_, depth, code_.index(0));
  } else {
    read_ = Read::InPlaceIfLive;
  }
}

void PanelOperand::allocate(const BlockProduct& product) {
  if (!may_copy()) return;
  const std::int64_t rows =
      (site_.segment_count() - 1) * product.pass + ceil_divide(product.pass, site_.lanes) * site_.lanes;
  copy_ = site_.scratch((rows * product.padded_columns() + site_.lanes) * byte_width(element()));
}

void PanelOperand::prepare(const BlockProduct& product, const ContractRange& range, PassOperands& operands) {
  const std::int64_t copied_width = byte_width(element());
  llvm::Value* const row_pitch = code_.index(product.padded_columns() * copied_width);
  llvm::Value* const panel_pitch = code_.index(site_.shape.columns() * copied_width);
  llvm::Value* const first_step = code_.add(site_.first_step, range.begin);
  const auto in_tile = [&]() -> Values {
    llvm::Value* const row =
        code_.add(code_.mul(site_.batch, code_.index(site_.problem.shape.depth)), first_step);
    return {site_.bytes_behind(tile_.data, code_.mul(row, row_pitch)), row_pitch, code_.index(0),
            panel_pitch};
  };
  const auto in_place = [&]() -> Values {
    MemoryMatrix& memory = *site_.b.memory;
    const Run run = memory.run(site_.at(memory, nullptr), -1);
    llvm::Value* const segment_pitch =
        site_.b_segment_pitch() != nullptr ? site_.b_segment_pitch() : code_.index(0);
    return {site_.bytes_behind(run.pointer, code_.mul(first_step, pitch_)), pitch_, segment_pitch,
            panel_pitch_};
  };
  const auto copied = [&]() -> Values {
    site_.unless_unchanged(site_.b, range, product.live_columns, [&] { copy(product, range); });
    return {copy_, row_pitch, code_.mul(row_pitch, code_.index(product.pass)), panel_pitch};
  };
  site_.bind_indices();
  Values found;
  if (!site_.b.memory) {
    found = in_tile();
  } else {
    switch (read_) {
      case Read::InPlace:
        found = in_place();
        break;
      case Read::Copied:
        found = copied();
        break;
      case Read::InPlaceIfLive:
        found = code_.branch(live_, in_place, copied);
        break;
    }
  }
  operands.b = found[0];
  operands.b_pitch = found[1];
  operands.b_segment_pitch = found[2];
  operands.b_panel_pitch = found[3];
}

llvm::Value* PanelOperand::panel_end(const BlockProduct& product) {
  const std::int64_t width = site_.shape.columns();
  llvm::Value* const panels =
      code_.floor_divide(code_.add(product.live_columns, code_.index(width - 1)), width);
  return code_.mul(panels, code_.index(width));
}

// A pass as [segment][k][column], zero where not live.
void PanelOperand::copy(const BlockProduct& product, const ContractRange& range) {
  const std::int64_t pitch = product.padded_columns() * byte_width(element());
  llvm::Value* const first = code_.add(site_.first_step, range.begin);
  site_.loop_over_segments([&](llvm::Value* segment) {
    llvm::Value* const target =
        site_.bytes_behind(copy_, code_.mul(segment, code_.index(product.pass * pitch)));
    MemoryMatrix& memory = *site_.b.memory;
    if (column_axis() >= 0 && memory.is_affine({column_axis()})) {
      const Run columns = memory.run(site_.at(memory, first), column_axis());
      if (copies_transposed(columns)) return copy_transposed(product, range, columns, target);
    }
    code_.loop(code_.index(0), range.count, code_.index(1), [&](llvm::Value* k) {
      copy_row(product, code_.add(first, k), site_.bytes_behind(target, code_.mul(k, code_.index(pitch))));
    });
  });
  site_.bind_indices();
}

// The depth is contiguous, the columns are not.
bool PanelOperand::copies_transposed(const Run& columns) const {
  MemoryMatrix& memory = *site_.b.memory;
  const LoadedOperand& operand = memory.operand();
  if (operand.free.size() != 1 || operand.depth.size() != 1 || !memory.is_affine(operand.depth) ||
      DotSite::is_compound(memory) || element() != site_.accumulator) {
    return false;
  }
  const Run along = memory.run(site_.at(memory, nullptr), operand.depth[0]);
  return Code::is_constant(along.stride, 1) && !Code::is_constant(columns.stride, 1) &&
         columns.low == nullptr;
}

void PanelOperand::copy_transposed(const BlockProduct& product, const ContractRange& range,
                                   const Run& columns, llvm::Value* target) {
  llvm::Value* live = code_.index(product.columns);
  if (columns.high != nullptr) live = code_.max(code_.min(live, columns.high), code_.index(0));
  TransposedCopy copy;
  copy.from = site_.b.dtype;
  copy.to = element();
  copy.lanes = site_.lanes;
  copy.source = columns.pointer;
  copy.column_pitch = code_.mul(columns.stride, code_.index(byte_width(site_.b.dtype)));
  copy.k = range.count;
  copy.columns = code_.select(site_.b.memory->holds(columns), live, code_.index(0));
  copy.target = target;
  copy.target_pitch = code_.index(product.padded_columns() * byte_width(element()));
  copy.padded_columns = panel_end(product);
  emit_transposed_copy(code_, copy);
}

void PanelOperand::copy_row(const BlockProduct& product, llvm::Value* k, llvm::Value* target) {
  MemoryMatrix& memory = *site_.b.memory;
  const std::vector<int>& free = memory.operand().free;
  Values position = site_.at(memory, k);
  const auto store = [&](llvm::Value* column) {
    site_.store_widened(memory.load_strip(position, column_axis(), site_.lanes), site_.b.dtype, element(),
                        site_.bytes_behind(target, code_.mul(column, code_.index(byte_width(element())))));
  };
  if (free.empty()) return store(code_.index(0));
  // Strips go beyond the end of a piece of columns; the next piece overwrites what they leave there.
  const auto axes = [&](const auto& self, std::size_t number, llvm::Value* column) -> void {
    const int axis = free[number];
    const bool last = number + 1 == free.size();
    llvm::Value* const end = free.size() == 1 ? panel_end(product) : code_.index(memory.extent(axis));
    code_.loop(code_.index(0), end, code_.index(last ? site_.lanes : 1), [&](llvm::Value* i) {
      position[static_cast<std::size_t>(axis)] = i;
      llvm::Value* const here = code_.add(code_.mul(column, code_.index(memory.extent(axis))), i);
      if (last) {
        store(here);
      } else {
        self(self, number + 1, here);
      }
    });
  };
  axes(axes, 0, code_.index(0));
}

}  // namespace kiln::jit::cpu
