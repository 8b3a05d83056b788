// Operations in op form: `name operands keyword list ... : type`.
#include <algorithm>

#include "ir/tile/parser.h"

namespace kiln::tile {

namespace {

Attributes with_axis(std::int64_t axis) {
  Attributes attributes;
  attributes.axes = {axis};
  return attributes;
}

std::optional<Combiner> combiner_named(std::string_view text) {
#define KILN_COMBINER(enumerator, name, results) \
  if (text == name) return Combiner::enumerator;
#include "ir/tile/combiners.def"
#undef KILN_COMBINER
  return std::nullopt;
}

}  // namespace

// Behind the operation's name, which stands at `offset`.
std::vector<ValueId> KernelParser::operation(Opcode code, std::size_t offset) {
  const auto axis_of = [&] {
    expect("axis");
    return with_axis(static_primary());
  };
  switch (code) {
    case Opcode::Constant: {
      const Term term = expression();
      expect(':');
      return {constant(term, type())};
    }
    case Opcode::Iota: {
      const Attributes attributes = axis_of();
      expect(':');
      return emit(code, {}, attributes, offset, {type()});
    }
    case Opcode::Reshape:
    case Opcode::Broadcast: {
      const Term term = primary();
      expect(':');
      const Type result = type();
      const ValueId operand = term.value ? *term.value : constant(term, Type::scalar(result.element));
      return emit(code, {operand}, {}, offset, {result});
    }
    case Opcode::Transpose:
    case Opcode::TransposeView:
    case Opcode::MergeView: {
      const ValueId operand = value(primary());
      Attributes attributes;
      attributes.axes = static_list();
      return emit(code, {operand}, attributes, offset);
    }
    case Opcode::Slice: {
      const ValueId operand = tile_or_scalar();
      Attributes attributes;
      attributes.axes = static_list();
      expect(':');
      return emit(code, {operand}, attributes, offset, {type()});
    }
    case Opcode::Concat:
    case Opcode::ConcatView: {
      std::vector<ValueId> operands;
      do operands.push_back(value(primary()));
      while (accept(','));
      return emit(code, operands, axis_of(), offset);
    }
    case Opcode::Cast:
    case Opcode::Bitcast: {
      const ValueId operand = tile_or_scalar();
      expect("to");
      const std::optional<DType> dtype = dtype_named(current_.text);
      if (!dtype) fail_expected("a dtype");
      advance();
      Type result = type_of(operand);
      result.element = *dtype;
      return emit(code, {operand}, {}, offset, {result});
    }
    case Opcode::Elementwise:
      fail(offset, "write the function's name");
    case Opcode::Reduce:
    case Opcode::Scan: {
      const std::optional<Combiner> combiner = combiner_named(current_.text);
      if (!combiner) fail_expected("a combiner such as 'sum'");
      advance();
      const ValueId operand = tile_or_scalar();
      Attributes attributes = axis_of();
      attributes.combiner = *combiner;
      attributes.exclusive = code == Opcode::Scan && accept("exclusive");
      attributes.reverse = code == Opcode::Scan && accept("reverse");
      return emit(code, {operand}, attributes, offset);
    }
    case Opcode::Dot: {
      std::vector<ValueId> operands = {tile_or_scalar()};
      expect(',');
      operands.push_back(tile_or_scalar());
      expect(',');
      operands.push_back(tile_or_scalar());
      Attributes attributes;
      if (accept("batch")) attributes.count = static_primary();
      return emit(code, operands, attributes, offset);
    }
    case Opcode::Mask: {
      const ValueId operand = tile_or_scalar();
      const Attributes attributes = axis_of();
      expect("length");
      const ValueId length = coerce(primary(), Type::index());
      expect("fill");
      const ValueId fill = coerce(unary(), Type::scalar(type_of(operand).element));
      return emit(code, {operand, length, fill}, attributes, offset);
    }
    case Opcode::Dim: {
      const ValueId operand = view();
      expect(',');
      return emit(code, {operand}, with_axis(static_primary()), offset);
    }
    case Opcode::SliceView:
      return slice_view(offset);
    case Opcode::BroadcastView: {
      std::vector<ValueId> operands = {view()};
      Attributes attributes;
      expect("axes");
      attributes.axes = static_list();
      expect("extents");
      const std::vector<ValueId> extents = index_list();
      operands.insert(operands.end(), extents.begin(), extents.end());
      return emit(code, operands, attributes, offset);
    }
    case Opcode::SplitView: {
      std::vector<ValueId> operands = {view()};
      const Attributes attributes = axis_of();
      expect("extents");
      const std::vector<ValueId> extents = index_list();
      operands.insert(operands.end(), extents.begin(), extents.end());
      return emit(code, operands, attributes, offset);
    }
    case Opcode::WindowView:
      return window(offset);
    case Opcode::PadView:
      return pad(offset);
    case Opcode::GatherView: {
      const ValueId source = view();
      const Attributes attributes = axis_of();
      expect("indices");
      return emit(code, {source, view()}, attributes, offset);
    }
    case Opcode::Load:
      return load(offset);
    case Opcode::ProgramId:
    case Opcode::NumPrograms:
      return emit(code, {}, with_axis(static_primary()), offset);
    case Opcode::For:
      return loop(offset);
    case Opcode::If:
      return branch(offset);
    case Opcode::Contract:
      return contract(offset);
    case Opcode::Assume:
      return assume(offset);
    case Opcode::Store:
    case Opcode::AtomicAdd:
    case Opcode::Local:
    case Opcode::Yield:
    case Opcode::Assert:
    case Opcode::Print:
      fail(offset, "{} is a statement and gives no value", name(code));
  }
  return {};
}

// slice_view %v[offset : extent : step, ...]; the step is 1 if absent, and a lone `:` takes the whole axis.
std::vector<ValueId> KernelParser::slice_view(std::size_t offset) {
  const ValueId source = view();
  std::vector<ValueId> offsets, extents;
  Attributes attributes;
  list('[', ']', [&] {
    if (accept(':')) {
      const auto axis = static_cast<std::int64_t>(offsets.size());
      offsets.push_back(constant({}, Type::index()));
      extents.push_back(emit(Opcode::Dim, {source}, with_axis(axis), offset)[0]);
      attributes.strides.push_back(1);
      return;
    }
    offsets.push_back(index());
    expect(':');
    extents.push_back(index());
    attributes.strides.push_back(accept(':') ? static_integer() : 1);
  });
  std::vector<ValueId> operands = {source};
  operands.insert(operands.end(), offsets.begin(), offsets.end());
  operands.insert(operands.end(), extents.begin(), extents.end());
  return emit(Opcode::SliceView, operands, attributes, offset);
}

// window %v axes [..] kernel [..] {stride [..]} {dilation [..]} {pad [..] | low [..] high [..]} {value
// number}
std::vector<ValueId> KernelParser::window(std::size_t offset) {
  std::vector<ValueId> operands = {view()};
  Attributes attributes;
  expect("axes");
  attributes.axes = static_list();
  const std::size_t axes = attributes.axes.size();
  expect("kernel");
  attributes.sizes = static_list();
  attributes.strides = accept("stride") ? static_list() : std::vector<std::int64_t>(axes, 1);
  attributes.dilations = accept("dilation") ? static_list() : std::vector<std::int64_t>(axes, 1);
  std::vector<ValueId> low, high;
  if (accept("pad")) {
    low = high = index_list();
  } else if (accept("low")) {
    low = index_list();
    expect("high");
    high = index_list();
  } else {
    low = high = std::vector<ValueId>(axes, constant({}, Type::index()));
  }
  if (low.size() != axes || high.size() != axes) {
    fail(offset, "window pads {} and {} axes, expected {}", low.size(), high.size(), axes);
  }
  operands.insert(operands.end(), low.begin(), low.end());
  operands.insert(operands.end(), high.begin(), high.end());
  attributes.literal = literal(accept("value") ? unary() : Term{}, type_of(operands[0]).element);
  return emit(Opcode::WindowView, operands, attributes, offset);
}

// pad %v low [..] high [..] {constant number | edge | reflect | wrap}
std::vector<ValueId> KernelParser::pad(std::size_t offset) {
  std::vector<ValueId> operands = {view()};
  expect("low");
  const std::vector<ValueId> low = index_list();
  expect("high");
  const std::vector<ValueId> high = index_list();
  if (low.size() != high.size()) fail(offset, "pad has {} low and {} high extents", low.size(), high.size());
  operands.insert(operands.end(), low.begin(), low.end());
  operands.insert(operands.end(), high.begin(), high.end());
  Attributes attributes;
  if (accept("edge")) {
    attributes.pad_mode = PadMode::Edge;
  } else if (accept("reflect")) {
    attributes.pad_mode = PadMode::Reflect;
  } else if (accept("wrap")) {
    attributes.pad_mode = PadMode::Wrap;
  } else {
    attributes.literal = literal(accept("constant") ? unary() : Term{}, type_of(operands[0]).element);
  }
  return emit(Opcode::PadView, operands, attributes, offset);
}

// load %v[index, ...] {fill = expression} : type
std::vector<ValueId> KernelParser::load(std::size_t offset) {
  std::vector<ValueId> operands = {view()};
  const Type source = type_of(operands[0]);
  const std::vector<ValueId> indices = index_list();
  operands.insert(operands.end(), indices.begin(), indices.end());
  if (accept("fill")) {
    expect('=');
    operands.push_back(coerce(expression(), Type::scalar(source.element)));
  }
  expect(':');
  return emit(Opcode::Load, operands, {}, offset, {type()});
}

// carry (%name = expression {: type}, ...)
KernelParser::Carried KernelParser::carry() {
  Carried carried;
  if (!accept("carry")) return carried;
  list('(', ')', [&] {
    carried.names.push_back(value_name());
    expect('=');
    const Term term = expression();
    if (accept(':')) {
      carried.initial.push_back(coerce(term, type()));
    } else {
      carried.initial.push_back(value(term));
    }
  });
  return carried;
}

// The Block of a loop, whose arguments are indices and then the carried values, and the loop itself.
std::vector<ValueId> KernelParser::loop_results(Opcode code, std::vector<ValueId> operands,
                                                Attributes attributes, std::vector<std::string_view> names,
                                                const Carried& carried, std::size_t offset) {
  std::vector<ValueId> arguments;
  std::vector<Type> carried_types;
  for (std::size_t i = 0; i < names.size(); ++i) arguments.push_back(new_value(Type::index()));
  for (const ValueId initial : carried.initial) {
    if (type_of(initial).is_view()) fail(offset, "a view cannot be carried");
    carried_types.push_back(type_of(initial));
    arguments.push_back(new_value(carried_types.back()));
  }
  names.insert(names.end(), carried.names.begin(), carried.names.end());
  operands.insert(operands.end(), carried.initial.begin(), carried.initial.end());
  const BlockId body = block(arguments, names, carried_types, offset);
  return emit(code, operands, std::move(attributes), offset, {}, {body});
}

// for %i = low to high {step n} {carry (...)} { ... }
std::vector<ValueId> KernelParser::loop(std::size_t offset) {
  const std::string_view name = value_name();
  expect('=');
  const ValueId low = index();
  expect("to");
  const ValueId high = index();
  Term one;
  one.number.integer = 1;
  const ValueId step = accept("step") ? index() : constant(one, Type::index());
  const Carried carried = carry();
  return loop_results(Opcode::For, {low, high, step}, {}, {name}, carried, offset);
}

// if condition { ... } {else { ... }}
std::vector<ValueId> KernelParser::branch(std::size_t offset) {
  const ValueId condition = coerce(expression(), Type::scalar(DType::I1));
  const BlockId then = block({}, {}, std::nullopt, offset);
  const std::vector<Type> results = yielded_types(then);
  for (const Type& result : results) {
    if (result.is_view()) fail(offset, "a view cannot be the result of if");
  }
  BlockId otherwise;
  if (accept("else")) {
    otherwise = block({}, {}, results, offset);
  } else if (results.empty()) {
    otherwise = new_block();
    open_.push_back(otherwise);
    emit(Opcode::Yield, {}, {}, offset);
    open_.pop_back();
  } else {
    fail_expected("'else', because the first block yields values");
  }
  return emit(Opcode::If, {condition}, {}, offset, results, {then, otherwise});
}

// contract (%index : block, ...) in (extent, ...) {carry (...)} { ... }
std::vector<ValueId> KernelParser::contract(std::size_t offset) {
  std::vector<std::string_view> names;
  Attributes attributes;
  list('(', ')', [&] {
    names.push_back(value_name());
    expect(':');
    attributes.sizes.push_back(static_integer());
  });
  expect("in");
  std::vector<ValueId> extents;
  list('(', ')', [&] { extents.push_back(index()); });
  if (extents.size() != names.size())
    fail(offset, "contract has {} indices in {} extents", names.size(), extents.size());
  const Carried carried = carry();
  return loop_results(Opcode::Contract, extents, attributes, names, carried, offset);
}

// assume expression {multiple_of n} {in [least, greatest]}
std::vector<ValueId> KernelParser::assume(std::size_t offset) {
  const ValueId operand = coerce(primary(), Type::index());
  Attributes attributes;
  attributes.sizes = {1, INT64_MIN, INT64_MAX};
  const bool multiple = accept("multiple_of");
  if (multiple) attributes.sizes[0] = static_primary();
  if (accept("in")) {
    const std::vector<std::int64_t> range = static_list();
    if (range.size() != 2) fail(offset, "a range has 2 ends, got {}", range.size());
    attributes.sizes[1] = range[0];
    attributes.sizes[2] = range[1];
  } else if (!multiple) {
    fail_expected("'multiple_of' or 'in'");
  }
  return emit(Opcode::Assume, {operand}, attributes, offset);
}

}  // namespace kiln::tile
