#include "jit/cpu/memory_matrix.h"

#include <algorithm>

#include "jit/cpu/types.h"

namespace kiln::jit::cpu {

using tile::Kernel;
using tile::Op;
using tile::Opcode;
using tile::OpId;
using tile::ValueId;

namespace {

bool is_zero(const std::optional<tile::Literal>& literal) { return !literal || literal->bits == 0; }

// Whether every element outside the view at any level is zero, and each is in one place.
bool is_plain(const Kernel& kernel, const Plan& plan, ValueId view) {
  if (kernel.type(view).kind == tile::TypeKind::MemoryView) return true;
  const Op& op = kernel.op(plan.definer(view));
  if (op.code == Opcode::ConcatView) return false;
  if (op.code == Opcode::WindowView || op.code == Opcode::PadView) {
    if (!is_zero(op.attributes.literal)) return false;
  }
  return is_plain(kernel, plan, op.operands[0]);
}

// Whether `axis` of `view` runs through memory in equal steps.
bool is_affine_along(const Kernel& kernel, const Plan& plan, ValueId view, int axis) {
  if (kernel.type(view).kind == tile::TypeKind::MemoryView) return true;
  const Op& op = kernel.op(plan.definer(view));
  const tile::Attributes& attributes = op.attributes;
  const ValueId source = op.operands[0];
  const auto below = [&](int source_axis) { return is_affine_along(kernel, plan, source, source_axis); };
  switch (op.code) {
    case Opcode::SliceView:
      return below(axis);
    case Opcode::TransposeView:
      return below(static_cast<int>(attributes.axes[static_cast<std::size_t>(axis)]));
    case Opcode::BroadcastView: {
      int kept = axis;
      for (const std::int64_t inserted : attributes.axes) {
        if (inserted == axis) return true;
        if (inserted < axis) --kept;
      }
      return below(kept);
    }
    case Opcode::MergeView: {
      const int first = static_cast<int>(attributes.axes.front()),
                last = static_cast<int>(attributes.axes.back());
      if (axis != first) return below(axis < first ? axis : axis + last - first);
      // Only axes that lie end to end are one axis.
      const tile::Type& type = kernel.type(source);
      if (type.kind != tile::TypeKind::MemoryView) return false;
      for (int k = first; k < last; ++k) {
        const auto outer = static_cast<std::size_t>(k), inner = outer + 1;
        if (type.strides[outer] == tile::kDynamic || type.strides[inner] == tile::kDynamic ||
            type.extents[inner] == tile::kDynamic ||
            type.strides[outer] != type.strides[inner] * type.extents[inner]) {
          return false;
        }
      }
      return true;
    }
    case Opcode::SplitView: {
      const int first = static_cast<int>(attributes.axes[0]),
                parts = static_cast<int>(op.operands.size()) - 1;
      if (axis < first) return below(axis);
      if (axis >= first + parts) return below(axis - parts + 1);
      // An outer part steps by the extents of the inner ones.
      for (int inner = axis - first + 1; inner < parts; ++inner) {
        const OpId extent = plan.definer(op.operands[static_cast<std::size_t>(1 + inner)]);
        if (!extent || kernel.op(extent).code != Opcode::Constant) return false;
      }
      return below(first);
    }
    case Opcode::WindowView: {
      const int kernel_axes = static_cast<int>(attributes.axes.back()) + 1;
      const int count = static_cast<int>(attributes.axes.size());
      if (axis < kernel_axes) return below(axis);
      if (axis >= kernel_axes + count) return below(axis - count);
      return below(static_cast<int>(attributes.axes[static_cast<std::size_t>(axis - kernel_axes)]));
    }
    case Opcode::PadView:
      return attributes.pad_mode == tile::PadMode::Constant && below(axis);
    case Opcode::GatherView: {
      const int first = static_cast<int>(attributes.axes[0]), count = kernel.type(op.operands[1]).rank();
      if (axis >= first && axis < first + count) return false;
      return below(axis < first ? axis : axis - count + 1);
    }
    default:
      return false;
  }
}

// Whether no condition on the way depends on another axis too.
bool is_separable_along(const Kernel& kernel, const Plan& plan, ValueId view, int axis) {
  if (kernel.type(view).kind == tile::TypeKind::MemoryView) return true;
  const Op& op = kernel.op(plan.definer(view));
  const tile::Attributes& attributes = op.attributes;
  const auto below = [&](int source_axis) {
    return is_separable_along(kernel, plan, op.operands[0], source_axis);
  };
  switch (op.code) {
    case Opcode::SliceView:
    case Opcode::PadView:
      return below(axis);
    case Opcode::TransposeView:
      return below(static_cast<int>(attributes.axes[static_cast<std::size_t>(axis)]));
    case Opcode::BroadcastView: {
      int kept = axis;
      for (const std::int64_t inserted : attributes.axes) {
        if (inserted == axis) return true;
        if (inserted < axis) --kept;
      }
      return below(kept);
    }
    case Opcode::MergeView: {
      const int first = static_cast<int>(attributes.axes.front()),
                last = static_cast<int>(attributes.axes.back());
      return axis == first || below(axis < first ? axis : axis + last - first);
    }
    case Opcode::SplitView: {
      const int first = static_cast<int>(attributes.axes[0]),
                parts = static_cast<int>(op.operands.size()) - 1;
      if (axis >= first && axis < first + parts) return false;
      return below(axis < first ? axis : axis - parts + 1);
    }
    case Opcode::WindowView: {
      const int kernel_axes = static_cast<int>(attributes.axes.back()) + 1;
      const int count = static_cast<int>(attributes.axes.size());
      if (std::find(attributes.axes.begin(), attributes.axes.end(), axis) != attributes.axes.end())
        return false;
      if (axis >= kernel_axes && axis < kernel_axes + count) return false;
      return below(axis < kernel_axes ? axis : axis - count);
    }
    case Opcode::GatherView: {
      const int first = static_cast<int>(attributes.axes[0]), count = kernel.type(op.operands[1]).rank();
      if (axis >= first && axis < first + count) return false;
      return below(axis < first ? axis : axis - count + 1);
    }
    default:
      return false;
  }
}

}  // namespace

bool MemoryMatrix::is_plain(const Kernel& kernel, const Plan& plan, const LoadedOperand& operand) {
  const Op& load = kernel.op(operand.load);
  const auto rank = static_cast<std::size_t>(kernel.type(operand.view).rank());
  if (load.operands.size() == rank + 2) {
    const OpId fill = plan.definer(load.operands.back());
    if (!fill || kernel.op(fill).code != Opcode::Constant || !is_zero(kernel.op(fill).attributes.literal))
      return false;
  }
  return cpu::is_plain(kernel, plan, operand.view);
}

bool MemoryMatrix::is_affine(const std::vector<int>& axes) const {
  return std::all_of(axes.begin(), axes.end(), [&](int axis) {
    return is_affine_along(lowering_.kernel(), lowering_.plan(), operand_.view, axis);
  });
}

bool MemoryMatrix::is_separable(int axis) const {
  return is_separable_along(lowering_.kernel(), lowering_.plan(), operand_.view, axis);
}

void MemoryMatrix::extend_depth(int axis, std::int64_t extent) {
  operand_.box[static_cast<std::size_t>(axis)] = extent;
  if (std::find(operand_.depth.begin(), operand_.depth.end(), axis) == operand_.depth.end()) {
    operand_.depth.insert(operand_.depth.begin(), axis);
  }
}

Coordinates MemoryMatrix::coordinates(const Values& at, int axis) {
  const Op& load = lowering_.kernel().op(operand_.load);
  Coordinates result;
  for (std::size_t k = 0; k < at.size(); ++k) {
    Coordinate coordinate;
    coordinate.base = lowering_.scalar(load.operands[1 + k]);
    if (at[k] != nullptr) coordinate.base = lowering_.code().add(coordinate.base, at[k]);
    coordinate.step = static_cast<int>(k) == axis ? 1 : 0;
    coordinate.fill = lowering_.load_fill(load);
    result.push_back(coordinate);
  }
  return result;
}

Run MemoryMatrix::run(const Values& at, int axis) {
  Code& code = lowering_.code();
  Run run;
  const Strip saved = std::exchange(lowering_.strip(), Strip{});
  lowering_.strip().load_floor = lowering_.strip().value_floor = code.level();
  lowering_.resolve(
      operand_.view, coordinates(at, axis), lowering_.load_fill(lowering_.kernel().op(operand_.load)),
      [&](Access& access) -> llvm::Value* {
        std::vector<std::pair<int, llvm::Value*>> terms;
        run.stride = code.index(0);
        for (std::size_t k = 0; k < access.at.size(); ++k) {
          llvm::Value* const stride = access.memory.strides[k];
          llvm::Value* const term = code.mul(access.at[k].base, stride);
          terms.emplace_back(code.level_of(term), term);
          run.stride = code.add(run.stride, code.mul(stride, code.index(access.at[k].step)));
        }
        // From the outermost level inwards, so that each level adds its own part alone.
        std::stable_sort(terms.begin(), terms.end(),
                         [](const auto& a, const auto& b) { return a.first < b.first; });
        run.pointer = access.memory.data;
        for (const auto& [level, term] : terms) {
          const Code::Hoist hoist(code, {run.pointer, term});
          run.pointer =
              code.builder().CreateGEP(memory_type(code.context(), access.dtype), run.pointer, term);
        }
        const auto narrow = [&](llvm::Value*& bound, llvm::Value* value, bool greatest) {
          bound = bound == nullptr ? value : greatest ? code.max(bound, value) : code.min(bound, value);
        };
        for (const Condition& condition : access.conditions) {
          const Coordinate& coordinate = condition.at;
          const bool low_known = lowering_.low_is_known(coordinate, 1);
          if (coordinate.step == 0) {
            if (low_known && lowering_.high_is_known(coordinate, condition.extent, 1)) continue;
            run.conditions.emplace_back(coordinate.base, condition.extent);
            continue;
          }
          // 0 <= base + step * i < extent
          const std::int64_t step = std::abs(coordinate.step);
          const auto divide_up = [&](llvm::Value* value) {
            return code.floor_divide(code.add(value, code.index(step - 1)), step);
          };
          llvm::Value* const from_zero = coordinate.base;
          llvm::Value* const to_end = code.sub(condition.extent, coordinate.base);
          if (coordinate.step > 0) {
            if (!low_known) narrow(run.low, divide_up(code.sub(code.index(0), from_zero)), true);
            narrow(run.high, divide_up(to_end), false);
          } else {
            narrow(run.low, code.add(code.floor_divide(code.sub(code.index(0), to_end), step), code.index(1)),
                   true);
            narrow(run.high, code.add(code.floor_divide(from_zero, step), code.index(1)), false);
          }
        }
        return nullptr;
      });
  lowering_.strip() = saved;
  return run;
}

llvm::Value* MemoryMatrix::holds(const Run& run) {
  Code& code = lowering_.code();
  llvm::Value* all = code.builder().getTrue();
  for (const auto& [at, extent] : run.conditions) {
    llvm::Value* inside = nullptr;
    {
      const Code::Hoist hoist(code, {at, extent});
      inside = code.builder().CreateICmpULT(at, extent);
    }
    all = code.both(all, inside);
  }
  return all;
}

llvm::Value* MemoryMatrix::load_strip(const Values& at, int axis, int lanes) {
  const Strip saved = std::exchange(lowering_.strip(), Strip{});
  lowering_.strip().lanes = lanes;
  lowering_.strip().load_floor = lowering_.strip().value_floor = lowering_.code().level();
  llvm::Value* const value = lowering_.resolve(operand_.view, coordinates(at, axis),
                                               lowering_.load_fill(lowering_.kernel().op(operand_.load)),
                                               [&](Access& access) { return lowering_.load(access); });
  llvm::Value* const strip = lowering_.vector_of(value, lanes);
  lowering_.strip() = saved;
  return strip;
}

llvm::Value* MemoryMatrix::reach(int axis) {
  Code& code = lowering_.code();
  const Op& load = lowering_.kernel().op(operand_.load);
  llvm::Value* const first = lowering_.scalar(load.operands[1 + static_cast<std::size_t>(axis)]);
  llvm::Value* const rest = code.sub(lowering_.extent(operand_.view, axis), first);
  return code.max(code.index(0), code.min(rest, code.index(extent(axis))));
}

}  // namespace kiln::jit::cpu
