#include "ir/tile/builder.h"

#include <algorithm>
#include <cmath>

#include "ir/base/errors.h"
#include "ir/tile/verifier.h"

namespace kiln::tile {
namespace {

// Extents without unit axes: what "unit axes are immaterial" compares.
std::vector<std::int64_t> without_units(std::vector<std::int64_t> extents) {
  std::erase(extents, 1);
  return extents;
}

std::vector<Type> types_of(std::span<const Expr> values) {
  std::vector<Type> types;
  for (const Expr& value : values) types.push_back(value.type());
  return types;
}

std::size_t axis_of(const Type& type, int axis) {
  const int rank = type.rank();
  require(axis >= -rank && axis < rank, "axis {} of {}", axis, to_string(type));
  return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
}

Type shaped_like(const Type& type, DType element) {
  return type.is_scalar() ? Type::scalar(element) : Type::tile(element, type.extents);
}

}  // namespace

const Type& Expr::type() const {
  require(builder_ != nullptr, "an empty tile::Expr has no type");
  return builder_->kernel().type(id_);
}

KernelBuilder::KernelBuilder(std::string name) {
  kernel_.name = std::move(name);
  kernel_.grid = add_block({});
  kernel_.body = add_block({});
  open(kernel_.body);
}

ValueId KernelBuilder::add_value(Type type, std::string name) {
  const ValueId id{static_cast<std::uint32_t>(kernel_.values.size())};
  kernel_.values.push_back({std::move(type), std::move(name)});
  return id;
}

BlockId KernelBuilder::add_block(std::span<const Type> argument_types) {
  const BlockId id{static_cast<std::uint32_t>(kernel_.blocks.size())};
  kernel_.blocks.emplace_back();
  for (const Type& type : argument_types) {
    const ValueId argument = add_value(type);
    kernel_.blocks.back().arguments.push_back(argument);
  }
  return id;
}

View KernelBuilder::parameter(std::string name, Type type, Access access, int alias_group) {
  require(type.kind == TypeKind::MemoryView, "parameter {} is a {}, expected a memory view", name,
          to_string(type));
  const ValueId value = add_value(std::move(type), std::move(name));
  kernel_.parameters.push_back({value, access, alias_group});
  return {this, value};
}

View KernelBuilder::input(std::string name, Type view_type, int alias_group) {
  return parameter(std::move(name), std::move(view_type), Access::In, alias_group);
}
View KernelBuilder::output(std::string name, Type view_type, int alias_group) {
  return parameter(std::move(name), std::move(view_type), Access::Out, alias_group);
}
View KernelBuilder::inout(std::string name, Type view_type) {
  return parameter(std::move(name), std::move(view_type), Access::InOut, 0);
}

Expr KernelBuilder::scalar(std::string name, DType dtype) {
  const ValueId value = add_value(Type::scalar(dtype), std::move(name));
  kernel_.parameters.push_back({value, Access::In, 0});
  return {this, value};
}

void KernelBuilder::grid(const std::function<Indices()>& build) {
  require(kernel_.block(kernel_.grid).ops.empty(), "the grid of kernel {} is given twice", kernel_.name);
  open(kernel_.grid);
  std::vector<ValueId> extents;
  for (const Index& extent : build()) extents.push_back(resolve(extent));
  append(Opcode::Yield, std::move(extents));
  close();
}

std::vector<ValueId> KernelBuilder::append(Opcode code, std::vector<ValueId> operands, Attributes attributes,
                                           std::vector<Type> explicit_types, std::vector<BlockId> blocks) {
  require(!open_.empty(), "{} is built outside any block", tile::name(code));
  std::vector<Type> operand_types;
  for (const ValueId operand : operands) {
    require(operand.index < kernel_.values.size(), "an operand of {} is not a value of this kernel",
            tile::name(code));
    operand_types.push_back(kernel_.type(operand));
  }
  std::vector<ValueId> results;
  for (Type& type : infer_types(code, operand_types, attributes, explicit_types)) {
    results.push_back(add_value(std::move(type)));
  }
  known_.resize(kernel_.values.size(), kDynamic);
  if (code == Opcode::Constant && kernel_.type(results[0]) == Type::index()) {
    known_[results[0].index] = attributes.literal->as_integer();
  }
  const OpId op{static_cast<std::uint32_t>(kernel_.ops.size())};
  kernel_.ops.push_back({code, std::move(operands), results, std::move(blocks), std::move(attributes)});
  kernel_.blocks[open_.back().index].ops.push_back(op);
  return results;
}

Expr KernelBuilder::single(Opcode code, std::vector<ValueId> operands, Attributes attributes,
                           std::vector<Type> explicit_types) {
  return {this, append(code, std::move(operands), std::move(attributes), std::move(explicit_types)).front()};
}

ValueId KernelBuilder::resolve(const Index& index) {
  if (!index.expr) return this->index(index.constant).id();
  require(index.expr.builder() == this, "an index belongs to another kernel");
  require(index.expr.type() == Type::index(), "got {} as an index, expected i64",
          to_string(index.expr.type()));
  return index.expr.id();
}

std::int64_t KernelBuilder::known(const Index& index) const {
  if (!index.expr) return index.constant;
  const std::size_t id = index.expr.id().index;
  return id < known_.size() ? known_[id] : kDynamic;
}

Expr KernelBuilder::coerce(Expr value, const Type& type) {
  const Type& got = value.type();
  if (got == type) return value;
  require(!got.is_view() && !type.is_view() && got.element == type.element, "got {}, expected {}; cast it",
          to_string(got), to_string(type));
  if (without_units(got.extents) == without_units(type.extents)) {
    return single(Opcode::Reshape, {value.id()}, {}, {type});
  }
  return single(Opcode::Broadcast, {value.id()}, {}, {type});
}

// --- values

Expr KernelBuilder::program_id(int axis) { return single(Opcode::ProgramId, {}, {.axes = {axis}}); }
Expr KernelBuilder::num_programs(int axis) { return single(Opcode::NumPrograms, {}, {.axes = {axis}}); }

Expr KernelBuilder::constant(DType dtype, double value) { return full(dtype, {}, value); }

Expr KernelBuilder::constant_integer(DType dtype, std::int64_t value) {
  return single(Opcode::Constant, {}, {.literal = Literal::integer(dtype, value)}, {Type::scalar(dtype)});
}

Expr KernelBuilder::splat(Expr scalar, std::vector<std::int64_t> extents) {
  require(scalar.type().is_scalar(), "splat of {}, expected a scalar", to_string(scalar.type()));
  return broadcast(scalar, std::move(extents));
}

Expr KernelBuilder::zeros(DType dtype, std::vector<std::int64_t> extents) {
  return full(dtype, std::move(extents), 0);
}

Expr KernelBuilder::full(DType dtype, std::vector<std::int64_t> extents, double value) {
  require(is_float(dtype) || value == std::trunc(value), "constant {} of {}, expected a whole number", value,
          kiln::name(dtype));
  return single(Opcode::Constant, {}, {.literal = Literal::number(dtype, value)},
                {extents.empty() ? Type::scalar(dtype) : Type::tile(dtype, std::move(extents))});
}

Expr KernelBuilder::iota(DType dtype, std::vector<std::int64_t> extents, int axis) {
  const Type type = Type::tile(dtype, std::move(extents));
  return single(Opcode::Iota, {}, {.axes = {static_cast<std::int64_t>(axis_of(type, axis))}}, {type});
}

Expr KernelBuilder::call(Function function, std::span<const Operand> operands) {
  require(static_cast<int>(operands.size()) == arity(function), "{} of {} operands, expected {}",
          tile::name(function), operands.size(), arity(function));
  // The dtype of numbers: that of the other operands, but for a condition and an exponent.
  std::optional<DType> element;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].expr) continue;
    require(operands[i].expr.builder() == this, "an operand of {} belongs to another kernel",
            tile::name(function));
    const bool apart = (function == Function::Select && i == 0) || (function == Function::Ldexp && i == 1);
    if (!apart && !element) element = operands[i].expr.type().element;
  }
  require(element.has_value(), "{} of numbers alone, expected a value among its operands",
          tile::name(function));
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    DType number_dtype = *element;
    if (function == Function::Select && i == 0) number_dtype = DType::I1;
    if (function == Function::Ldexp && i == 1)
      number_dtype = *element == DType::F64 ? DType::I64 : DType::I32;
    ids.push_back(operands[i].expr ? operands[i].expr.id() : constant(number_dtype, operands[i].number).id());
  }
  return single(Opcode::Elementwise, std::move(ids), {.function = function});
}

Expr KernelBuilder::cast(Expr value, DType dtype) {
  if (value.type().element == dtype) return value;
  return single(Opcode::Cast, {value.id()}, {}, {shaped_like(value.type(), dtype)});
}

Expr KernelBuilder::bitcast(Expr value, DType dtype) {
  if (value.type().element == dtype) return value;
  return single(Opcode::Bitcast, {value.id()}, {}, {shaped_like(value.type(), dtype)});
}

Expr KernelBuilder::reshape(Expr tile, std::vector<std::int64_t> extents) {
  const Type type = shaped_like(Type::tile(tile.type().element, std::move(extents)), tile.type().element);
  if (type == tile.type()) return tile;
  return single(Opcode::Reshape, {tile.id()}, {}, {type});
}

Expr KernelBuilder::transpose(Expr tile, std::vector<std::int64_t> permutation) {
  return single(Opcode::Transpose, {tile.id()}, {.axes = std::move(permutation)});
}

Expr KernelBuilder::broadcast(Expr value, std::vector<std::int64_t> extents) {
  return coerce(value, Type::tile(value.type().element, std::move(extents)));
}

Expr KernelBuilder::slice(Expr tile, std::vector<std::int64_t> offsets, std::vector<std::int64_t> extents) {
  const Type type = Type::tile(tile.type().element, std::move(extents));
  return single(Opcode::Slice, {tile.id()}, {.axes = std::move(offsets)}, {type});
}

Expr KernelBuilder::concat(std::span<const Expr> tiles, int axis) {
  require(!tiles.empty(), "concat of no tiles");
  std::vector<ValueId> ids;
  for (const Expr& tile : tiles) ids.push_back(tile.id());
  return single(Opcode::Concat, std::move(ids),
                {.axes = {static_cast<std::int64_t>(axis_of(tiles[0].type(), axis))}});
}

Expr KernelBuilder::reduce(Combiner combiner, Expr tile, int axis) {
  return reduce_all(combiner, tile, axis).front();
}

Exprs KernelBuilder::reduce_all(Combiner combiner, Expr tile, int axis) {
  Attributes attributes{.axes = {static_cast<std::int64_t>(axis_of(tile.type(), axis))},
                        .combiner = combiner};
  Exprs results;
  for (const ValueId id : append(Opcode::Reduce, {tile.id()}, std::move(attributes)))
    results.push_back({this, id});
  return results;
}

Exprs KernelBuilder::scan(Combiner combiner, Expr tile, int axis, bool exclusive, bool reverse) {
  Attributes attributes{.axes = {static_cast<std::int64_t>(axis_of(tile.type(), axis))},
                        .exclusive = exclusive,
                        .reverse = reverse,
                        .combiner = combiner};
  Exprs results;
  for (const ValueId id : append(Opcode::Scan, {tile.id()}, std::move(attributes)))
    results.push_back({this, id});
  return results;
}

Expr KernelBuilder::dot(Expr accumulator, Expr a, Expr b, int batch_axes) {
  return single(Opcode::Dot, {accumulator.id(), a.id(), b.id()}, {.count = batch_axes});
}

Expr KernelBuilder::mask(Expr tile, int axis, Index length, double fill) {
  const std::int64_t along = static_cast<std::int64_t>(axis_of(tile.type(), axis));
  const ValueId length_id = resolve(length);
  return single(Opcode::Mask, {tile.id(), length_id, constant(tile.type().element, fill).id()},
                {.axes = {along}});
}

Expr KernelBuilder::assume_range(Expr index, std::int64_t multiple_of, std::int64_t at_least,
                                 std::int64_t at_most) {
  return single(Opcode::Assume, {index.id()}, {.sizes = {multiple_of, at_least, at_most}});
}

View KernelBuilder::local(DType dtype, const Indices& extents, std::int64_t max_elements) {
  std::vector<ValueId> ids;  // of the run-time extents
  std::vector<std::int64_t> static_extents;
  for (const Index& extent : extents) {
    static_extents.push_back(known(extent));
    if (static_extents.back() == kDynamic) ids.push_back(resolve(extent));
  }
  const Type type = Type::view(dtype, std::move(static_extents));
  return {this, append(Opcode::Local, std::move(ids), {.count = max_elements}, {type}).front()};
}

// --- control

Exprs KernelBuilder::run_body(BlockId block, std::span<const Type> yielded,
                              const std::function<Exprs(const Exprs&)>& body) {
  Exprs arguments;
  for (const ValueId id : kernel_.block(block).arguments) arguments.push_back({this, id});
  open(block);
  const Exprs results = body(arguments);
  require(results.size() == yielded.size(), "a block yields {} values, expected {}", results.size(),
          yielded.size());
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < results.size(); ++i) ids.push_back(coerce(results[i], yielded[i]).id());
  append(Opcode::Yield, std::move(ids));
  close();
  return results;
}

Exprs KernelBuilder::loop(Index lo, Index hi, Index step, const Exprs& initial, const LoopBody& body) {
  std::vector<ValueId> operands = {resolve(lo), resolve(hi), resolve(step)};
  const std::vector<Type> carried = types_of(initial);
  std::vector<Type> arguments = {Type::index()};
  arguments.insert(arguments.end(), carried.begin(), carried.end());
  for (const Expr& value : initial) operands.push_back(value.id());
  const BlockId block = add_block(arguments);
  run_body(block, carried,
           [&](const Exprs& values) { return body(values[0], {values.begin() + 1, values.end()}); });
  Exprs results;
  for (const ValueId id : append(Opcode::For, std::move(operands), {}, carried, {block})) {
    results.push_back({this, id});
  }
  return results;
}

void KernelBuilder::loop(Index lo, Index hi, Index step, const std::function<void(Expr index)>& body) {
  loop(lo, hi, step, {}, [&](Expr index, const Exprs&) -> Exprs {
    body(index);
    return {};
  });
}

Exprs KernelBuilder::contract(const Indices& extents, std::vector<std::int64_t> blocks, const Exprs& initial,
                              const ContractBody& body) {
  require(extents.size() == blocks.size(), "contract over {} extents in {} blocks", extents.size(),
          blocks.size());
  std::vector<ValueId> operands;
  for (const Index& extent : extents) operands.push_back(resolve(extent));
  for (const Expr& value : initial) operands.push_back(value.id());
  const std::vector<Type> carried = types_of(initial);
  std::vector<Type> arguments(extents.size(), Type::index());
  arguments.insert(arguments.end(), carried.begin(), carried.end());
  const BlockId block = add_block(arguments);
  run_body(block, carried, [&](const Exprs& values) {
    const auto split = values.begin() + static_cast<std::ptrdiff_t>(extents.size());
    return body({values.begin(), split}, {split, values.end()});
  });
  Exprs results;
  for (const ValueId id :
       append(Opcode::Contract, std::move(operands), {.sizes = std::move(blocks)}, carried, {block})) {
    results.push_back({this, id});
  }
  return results;
}

Exprs KernelBuilder::branch(Expr condition, const std::function<Exprs()>& then,
                            const std::function<Exprs()>& otherwise) {
  const BlockId then_block = add_block({});
  open(then_block);
  const Exprs values = then();
  std::vector<ValueId> ids;
  for (const Expr& value : values) ids.push_back(value.id());
  append(Opcode::Yield, std::move(ids));
  close();
  const std::vector<Type> types = types_of(values);
  const BlockId else_block = add_block({});
  run_body(else_block, types, [&](const Exprs&) { return otherwise ? otherwise() : Exprs(); });
  Exprs results;
  for (const ValueId id : append(Opcode::If, {condition.id()}, {}, types, {then_block, else_block})) {
    results.push_back({this, id});
  }
  return results;
}

Kernel KernelBuilder::finish() {
  require(open_.size() == 1 && open_.back() == kernel_.body, "kernel {} ends inside a block", kernel_.name);
  append(Opcode::Yield, {});
  close();
  if (kernel_.block(kernel_.grid).ops.empty()) grid([] { return Indices{1}; });
  verify(kernel_);
  return std::move(kernel_);
}

// --- free functions

Expr apply(Function function, std::initializer_list<Operand> operands) {
  for (const Operand& operand : operands) {
    if (operand.expr) return operand.expr.builder()->call(function, {operands.begin(), operands.size()});
  }
  throw_bug("{} of numbers alone, expected a value among its operands", tile::name(function));
}

Expr operator-(Expr a) { return apply(Function::Neg, {a}); }
Expr operator~(Expr a) { return apply(Function::Not, {a}); }
Expr operator+(Operand a, Operand b) { return apply(Function::Add, {a, b}); }
Expr operator-(Operand a, Operand b) { return apply(Function::Sub, {a, b}); }
Expr operator*(Operand a, Operand b) { return apply(Function::Mul, {a, b}); }
Expr operator/(Operand a, Operand b) { return apply(Function::Div, {a, b}); }
Expr operator&(Operand a, Operand b) { return apply(Function::And, {a, b}); }
Expr operator|(Operand a, Operand b) { return apply(Function::Or, {a, b}); }
Expr operator^(Operand a, Operand b) { return apply(Function::Xor, {a, b}); }
Expr operator<<(Operand a, Operand count) { return apply(Function::Shl, {a, count}); }
Expr operator>>(Operand a, Operand count) { return apply(Function::Shr, {a, count}); }
Expr operator<(Operand a, Operand b) { return apply(Function::Lt, {a, b}); }
Expr operator<=(Operand a, Operand b) { return apply(Function::Le, {a, b}); }
Expr operator>(Operand a, Operand b) { return apply(Function::Gt, {a, b}); }
Expr operator>=(Operand a, Operand b) { return apply(Function::Ge, {a, b}); }

Expr mod(Operand a, Operand b) { return floormod(a, b); }
// What is left after taking the remainder away divides exactly.
Expr floordiv(Operand a, Operand b) { return (a - floormod(a, b)) / b; }
// The same from above, without overflow in a + b - 1.
Expr ceildiv(Operand a, Operand b) {
  require(bool(a.expr), "ceildiv of a number, expected a value");
  return (a + floormod(-a.expr, b)) / b;
}

}  // namespace kiln::tile
