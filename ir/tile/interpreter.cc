#include "ir/tile/interpreter.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "ir/base/checked_math.h"
#include "ir/base/errors.h"
#include "ir/tile/passes/passes.h"
#include "ir/tile/primitives.h"
#include "ir/tile/tile_value.h"
#include "ir/tile/verifier.h"
#include "ir/tile/view_value.h"

namespace kiln::tile {
namespace {

using ViewPointer = std::shared_ptr<const ViewValue>;

std::string shape_text(std::span<const std::int64_t> extents) {
  return fmt::format("({})", fmt::join(extents, ", "));
}

// Runs Blocks over the values of one program instance.
class Machine {
 public:
  Machine(const Kernel& kernel, std::span<const Argument> arguments,
          const std::function<void(std::string_view)>& print)
      : kernel_(kernel), print_(print), values_(kernel.values.size()), views_(kernel.values.size()) {
    bind(arguments);
  }

  std::vector<std::int64_t> grid() {
    std::vector<std::int64_t> extents;
    for (const TileValue& extent : run(kernel_.grid)) {
      extents.push_back(std::max<std::int64_t>(0, extent.index()));
    }
    return extents;
  }

  void run_grid() {
    grid_ = grid();
    const std::int64_t programs = element_count(grid_);
    program_.assign(grid_.size(), 0);
    for (std::int64_t i = 0; i < programs; ++i) {
      try {
        run(kernel_.body);
      } catch (Error& error) {
        throw error.with("program", shape_text(program_));
      }
      for (std::size_t axis = grid_.size(); axis-- > 0;) {
        if (++program_[axis] < grid_[axis]) break;
        program_[axis] = 0;
      }
    }
  }

 private:
  void bind(std::span<const Argument> arguments);
  ViewPointer bind_view(const Type& type, const ViewArgument& argument, const std::string& name);

  // Runs a Block whose arguments are set and gives what it yields.
  std::vector<TileValue> run(BlockId block) {
    for (const OpId id : kernel_.block(block).ops) {
      const Op& op = kernel_.op(id);
      if (op.code == Opcode::Yield) {
        std::vector<TileValue> yielded;
        for (const ValueId operand : op.operands) yielded.push_back(value(operand));
        return yielded;
      }
      run(op);
    }
    throw_bug("a block of kernel {} has no yield", kernel_.name);
  }

  void run(const Op& op);
  void run_for(const Op& op);
  void run_contract(const Op& op);
  void make_local(const Op& op);

  const TileValue& value(ValueId id) const { return values_[id.index]; }
  const ViewPointer& view(ValueId id) const { return views_[id.index]; }
  std::int64_t index(ValueId id) const { return value(id).index(); }
  std::vector<std::int64_t> indices(const Op& op, std::size_t first, std::size_t count) const {
    std::vector<std::int64_t> result;
    for (std::size_t i = 0; i < count; ++i) result.push_back(index(op.operands[first + i]));
    return result;
  }
  void set(ValueId id, TileValue result) {
    hold(byte_size(result.dtype(), result.elements()) - byte_size(value(id).dtype(), value(id).elements()));
    values_[id.index] = std::move(result);
  }
  void set(const Op& op, TileValue result) { set(op.results[0], std::move(result)); }
  void set(const Op& op, std::int64_t result) { set(op, TileValue(Literal::integer(DType::I64, result))); }
  void set_all(std::span<const ValueId> ids, std::vector<TileValue> results) {
    for (std::size_t i = 0; i < ids.size(); ++i) set(ids[i], std::move(results[i]));
  }
  // Counts memory, so that a kernel of many huge tiles is refused before the machine is full.
  void hold(std::int64_t bytes) {
    constexpr std::int64_t kLimit = std::int64_t{1} << 30;
    held_ += bytes;
    if (held_ > kLimit) {
      throw_caller(ErrorCode::LimitExceeded, "a program instance needs more than {} bytes in the interpreter",
                   kLimit);
    }
  }

  const Kernel& kernel_;
  const std::function<void(std::string_view)>& print_;
  std::int64_t held_ = 0;  // bytes of values and locals
  std::vector<TileValue> values_;
  std::vector<ViewPointer> views_;
  std::vector<std::int64_t> grid_;
  std::vector<std::int64_t> program_;
};

void Machine::bind(std::span<const Argument> arguments) {
  if (arguments.size() != kernel_.parameters.size()) {
    throw_caller(ErrorCode::TypeMismatch, "kernel {} got {} arguments, expected {}", kernel_.name,
                 arguments.size(), kernel_.parameters.size());
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const ValueId id = kernel_.parameters[i].value;
    const Type& type = kernel_.type(id);
    const std::string& name = kernel_.values[id.index].name;
    if (const auto* scalar = std::get_if<Literal>(&arguments[i])) {
      if (type != Type::scalar(scalar->dtype)) {
        throw_caller(ErrorCode::TypeMismatch, "argument {} is a scalar {}, expected {}", name,
                     kiln::name(scalar->dtype), to_string(type));
      }
      values_[id.index] = TileValue(*scalar);
    } else {
      views_[id.index] = bind_view(type, std::get<ViewArgument>(arguments[i]), name);
    }
  }
  require_equal_extents(kernel_, [&](std::size_t parameter, int axis) {
    return std::get<ViewArgument>(arguments[parameter]).extents[static_cast<std::size_t>(axis)];
  });
}

ViewPointer Machine::bind_view(const Type& type, const ViewArgument& argument, const std::string& name) {
  const auto mismatch = [&](const std::string& got) {
    throw_caller(ErrorCode::TypeMismatch, "argument {} has {}, expected {}", name, got, to_string(type));
  };
  if (!type.is_view()) mismatch("extents");
  const std::size_t rank = type.extents.size();
  if (argument.extents.size() != rank || argument.strides.size() != rank) {
    mismatch(fmt::format("{} extents and {} strides", argument.extents.size(), argument.strides.size()));
  }
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t extent = argument.extents[axis];
    if (extent < 0 || (type.extents[axis] != kDynamic && type.extents[axis] != extent)) {
      mismatch(fmt::format("extents {}", shape_text(argument.extents)));
    }
    // The stride of an axis that never moves is immaterial.
    if (extent > 1 && type.strides[axis] != kDynamic && type.strides[axis] != argument.strides[axis]) {
      mismatch(fmt::format("strides {}", shape_text(argument.strides)));
    }
  }
  const std::int64_t size = byte_size(type.element, 1);
  const auto address = reinterpret_cast<std::uintptr_t>(argument.bytes.data()) +
                       static_cast<std::uintptr_t>(argument.offset * size);
  if (type.alignment > 0 && address % static_cast<std::uintptr_t>(type.alignment) != 0) {
    mismatch("an address of smaller alignment");
  }
  return std::make_shared<ViewValue>(
      ViewValue::memory(type.element, argument.extents, argument.strides, argument.offset, argument.bytes));
}

void Machine::make_local(const Op& op) {
  const Type& type = kernel_.type(op.results[0]);
  std::vector<std::int64_t> extents = type.extents;
  std::size_t next = 0;
  for (std::int64_t& extent : extents) {
    if (extent == kDynamic) extent = index(op.operands[next++]);
    if (extent < 0) throw_caller(ErrorCode::ShapeMismatch, "local has the negative extent {}", extent);
  }
  const std::int64_t elements = element_count(extents);
  if (elements > op.attributes.count) {
    throw_caller(ErrorCode::LimitExceeded, "local of {} elements, expected at most {}", elements,
                 op.attributes.count);
  }
  std::vector<std::int64_t> strides(extents.size());
  std::int64_t stride = 1;
  for (std::size_t axis = extents.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= extents[axis];
  }
  const auto size = static_cast<std::size_t>(byte_size(type.element, elements));
  const ViewPointer& before = view(op.results[0]);  // of the program instance before this one
  hold(static_cast<std::int64_t>(size) - (before ? before->byte_size() : 0));
  const std::shared_ptr<std::byte[]> bytes(new std::byte[size]);
  std::memset(bytes.get(), 0xff, size);
  auto memory = std::make_shared<ViewValue>(
      ViewValue::memory(type.element, std::move(extents), std::move(strides), 0, {bytes.get(), size}));
  // The view keeps its memory alive.
  views_[op.results[0].index] = ViewPointer(memory.get(), [memory, bytes](const ViewValue*) {});
}

void Machine::run_for(const Op& op) {
  const std::int64_t lo = index(op.operands[0]), hi = index(op.operands[1]), step = index(op.operands[2]);
  if (step < 1) throw_caller(ErrorCode::InvalidArgument, "loop step {}, expected at least 1", step);
  std::vector<TileValue> carried;
  for (std::size_t i = 3; i < op.operands.size(); ++i) carried.push_back(value(op.operands[i]));
  const std::vector<ValueId>& arguments = kernel_.block(op.blocks[0]).arguments;
  for (std::int64_t i = lo; i < hi;) {
    set(arguments[0], TileValue(Literal::integer(DType::I64, i)));
    set_all(std::span(arguments).subspan(1), std::move(carried));
    carried = run(op.blocks[0]);
    const auto next = checked_add(i, step);
    if (!next) break;
    i = *next;
  }
  set_all(op.results, std::move(carried));
}

void Machine::run_contract(const Op& op) {
  const std::vector<std::int64_t>& blocks = op.attributes.sizes;
  const std::size_t axes = blocks.size();
  const std::vector<std::int64_t> extents = indices(op, 0, axes);
  std::vector<TileValue> carried;
  for (std::size_t i = axes; i < op.operands.size(); ++i) carried.push_back(value(op.operands[i]));
  const std::vector<ValueId>& arguments = kernel_.block(op.blocks[0]).arguments;
  std::vector<std::int64_t> at(axes, 0);
  const bool empty =
      std::any_of(extents.begin(), extents.end(), [](std::int64_t extent) { return extent <= 0; });
  for (bool more = !empty; more;) {
    for (std::size_t k = 0; k < axes; ++k) {
      set(arguments[k], TileValue(Literal::integer(DType::I64, at[k])));
    }
    set_all(std::span(arguments).subspan(axes), std::move(carried));
    carried = run(op.blocks[0]);
    more = false;
    for (std::size_t k = axes; k-- > 0 && !more;) {
      more = at[k] < extents[k] - blocks[k];
      at[k] = more ? at[k] + blocks[k] : 0;
    }
  }
  set_all(op.results, std::move(carried));
}

void Machine::run(const Op& op) {
  const Attributes& attributes = op.attributes;
  const auto operand = [&](std::size_t i) -> const TileValue& { return value(op.operands[i]); };
  const auto result_type = [&]() -> const Type& { return kernel_.type(op.results[0]); };
  const auto result_types = [&] {
    std::vector<Type> types;
    for (const ValueId id : op.results) types.push_back(kernel_.type(id));
    return types;
  };
  switch (op.code) {
    case Opcode::Constant: {
      const TileValue literal(*attributes.literal);
      set(op, result_type().is_scalar() ? literal : broadcast(literal, result_type()));
      return;
    }
    case Opcode::Iota:
      set(op, iota(attributes.axes[0], result_type()));
      return;
    case Opcode::Reshape:
      set(op, operand(0).reshaped(result_type()));
      return;
    case Opcode::Bitcast:
      set(op, operand(0).reshaped(result_type()));
      return;
    case Opcode::Transpose:
      set(op, transpose(operand(0), attributes.axes, result_type()));
      return;
    case Opcode::Broadcast:
      set(op, broadcast(operand(0), result_type()));
      return;
    case Opcode::Slice:
      set(op, slice(operand(0), attributes.axes, result_type()));
      return;
    case Opcode::Concat:
    case Opcode::Elementwise: {
      std::vector<const TileValue*> operands;
      for (const ValueId id : op.operands) operands.push_back(&value(id));
      set(op, op.code == Opcode::Concat ? concat(operands, attributes.axes[0], result_type())
                                        : elementwise(attributes.function, operands, result_type()));
      return;
    }
    case Opcode::Cast:
      set(op, cast(operand(0), result_type()));
      return;
    case Opcode::Reduce:
      set_all(op.results, reduce(attributes.combiner, operand(0), attributes.axes[0], result_types()));
      return;
    case Opcode::Scan:
      set_all(op.results, scan(attributes.combiner, operand(0), attributes, result_types()));
      return;
    case Opcode::Dot:
      set(op, dot(operand(0), operand(1), operand(2), attributes.count));
      return;
    case Opcode::Mask:
      set(op, mask(operand(0), attributes.axes[0], index(op.operands[1]), operand(2)));
      return;

    case Opcode::Dim:
      set(op, view(op.operands[0])->extents()[static_cast<std::size_t>(attributes.axes[0])]);
      return;
    case Opcode::SliceView:
    case Opcode::TransposeView:
    case Opcode::BroadcastView:
    case Opcode::MergeView:
    case Opcode::SplitView:
    case Opcode::WindowView:
    case Opcode::PadView:
    case Opcode::GatherView:
    case Opcode::ConcatView: {
      const bool two_views = op.code == Opcode::GatherView || op.code == Opcode::ConcatView;
      const std::size_t first = two_views ? 2 : 1;
      views_[op.results[0].index] = std::make_shared<ViewValue>(
          ViewValue::derived(op, view(op.operands[0]), two_views ? view(op.operands[1]) : nullptr,
                             indices(op, first, op.operands.size() - first)));
      return;
    }

    case Opcode::Load: {
      const ViewValue& source = *view(op.operands[0]);
      const std::size_t rank = source.extents().size();
      const bool has_fill = op.operands.size() == rank + 2;
      const Literal fill = has_fill ? operand(rank + 1).literal() : Literal{source.element(), 0};
      set(op, load(source, indices(op, 1, rank), result_type(), fill));
      return;
    }
    case Opcode::Store:
    case Opcode::AtomicAdd: {
      const ViewValue& target = *view(op.operands[0]);
      const std::vector<std::int64_t> at = indices(op, 1, target.extents().size());
      const TileValue& stored = value(op.operands.back());
      if (op.code == Opcode::Store) {
        store(target, at, stored);
      } else {
        atomic_add(target, at, stored);
      }
      return;
    }
    case Opcode::Local:
      make_local(op);
      return;

    case Opcode::ProgramId:
      set(op, program_[static_cast<std::size_t>(attributes.axes[0])]);
      return;
    case Opcode::NumPrograms:
      set(op, grid_[static_cast<std::size_t>(attributes.axes[0])]);
      return;
    case Opcode::For:
      run_for(op);
      return;
    case Opcode::If:
      set_all(op.results, run(op.blocks[*operand(0).data<bool>() ? 0 : 1]));
      return;
    case Opcode::Contract:
      run_contract(op);
      return;
    case Opcode::Yield:
      return;
    case Opcode::Assume:
      set(op, operand(0));
      return;
    case Opcode::Assert:
      if (!*operand(0).data<bool>()) {
        throw_caller(ErrorCode::InvalidArgument, "assertion failed: {}", attributes.text);
      }
      return;
    case Opcode::Print:
      if (print_) {
        std::string line = attributes.text;
        for (std::int64_t i = 0; i < operand(0).elements(); ++i) {
          line += fmt::format(" {}", operand(0).literal(i).as_number());
        }
        print_(line);
      }
      return;
  }
}

bool has_functions(const Kernel& kernel) {
  return std::any_of(kernel.ops.begin(), kernel.ops.end(), [](const Op& op) {
    return op.code == Opcode::Elementwise && !is_primitive(op.attributes.function);
  });
}

}  // namespace

void interpret(const Kernel& kernel, std::span<const Argument> arguments,
               const std::function<void(std::string_view)>& print) {
  if (has_functions(kernel)) {
    Kernel expanded = kernel;
    expand_functions(expanded);
    return interpret(expanded, arguments, print);
  }
  try {
    Machine(kernel, arguments, print).run_grid();
  } catch (Error& error) {
    throw error.with("kernel", kernel.name);
  }
}

std::vector<std::int64_t> grid_extents(const Kernel& kernel, std::span<const Argument> arguments) {
  return Machine(kernel, arguments, {}).grid();
}

Literal evaluate(Function primitive, std::span<const Literal> operands) {
  std::vector<TileValue> values;
  std::vector<const TileValue*> pointers;
  std::vector<Type> types;
  for (const Literal& operand : operands) {
    values.emplace_back(operand);
    types.push_back(Type::scalar(operand.dtype));
  }
  for (const TileValue& value : values) pointers.push_back(&value);
  const Type type = infer_types(Opcode::Elementwise, types, {.function = primitive}, {}).front();
  return elementwise(primitive, pointers, type).literal();
}

Literal cast(Literal value, DType dtype) { return cast(TileValue(value), Type::scalar(dtype)).literal(); }

}  // namespace kiln::tile
