// Typing rules of scalars, tiles and control.
#include <algorithm>
#include <array>

#include "ir/base/checked_math.h"
#include "ir/tile/op_rule.h"
#include "ir/tile/verifier.h"

namespace kiln::tile {
namespace {

Type with_element(Type type, DType element) {
  type.element = element;
  return type;
}

Type shaped(DType element, std::vector<std::int64_t> extents) {
  return extents.empty() ? Type::scalar(element) : Type::tile(element, std::move(extents));
}

// What an elementwise function asks of its operands' dtypes.
enum class Domain : std::uint8_t { Number, Float, Integer, IntegerOrBoolean, Any };

Domain domain(Function function) {
  switch (function) {
    case Function::Neg:
    case Function::Abs:
    case Function::Sign:
    case Function::Add:
    case Function::Sub:
    case Function::Mul:
    case Function::Div:
    case Function::Rem:
    case Function::FloorMod:
    case Function::Min:
    case Function::Max:
    case Function::MinNum:
    case Function::MaxNum:
      return Domain::Number;
    case Function::Shl:
    case Function::Shr:
      return Domain::Integer;
    case Function::Not:
    case Function::And:
    case Function::Or:
    case Function::Xor:
      return Domain::IntegerOrBoolean;
    case Function::Eq:
    case Function::Ne:
    case Function::Lt:
    case Function::Le:
    case Function::Gt:
    case Function::Ge:
    case Function::Select:
      return Domain::Any;
    case Function::Floor:
    case Function::Ceil:
    case Function::Round:
    case Function::Trunc:
    case Function::Sqrt:
    case Function::IsNan:
    case Function::Ldexp:
    case Function::Fma:
#define KILN_FUNCTION(enumerator, name, arity, ulp) case Function::enumerator:
#include "ir/tile/elementwise.def"
      return Domain::Float;
  }
  return Domain::Any;
}

bool admits(Domain domain, DType dtype) {
  switch (domain) {
    case Domain::Number:
      return computes_number(dtype);
    case Domain::Float:
      return computes_float(dtype);
    case Domain::Integer:
      return computes_integer(dtype);
    case Domain::IntegerOrBoolean:
      return computes_integer(dtype) || dtype == DType::I1;
    case Domain::Any:
      return computes(dtype);
  }
  return false;
}

std::string_view text(Domain domain) {
  switch (domain) {
    case Domain::Number:
      return "an integer or float";
    case Domain::Float:
      return "f16, bf16, f32 or f64";
    case Domain::Integer:
      return "an integer";
    case Domain::IntegerOrBoolean:
      return "an integer or i1";
    case Domain::Any:
      return "a dtype that computes";
  }
  return "?";
}

bool gives_boolean(Function function) {
  switch (function) {
    case Function::IsNan:
    case Function::Eq:
    case Function::Ne:
    case Function::Lt:
    case Function::Le:
    case Function::Gt:
    case Function::Ge:
      return true;
    default:
      return false;
  }
}

Domain domain(Combiner combiner) {
  switch (combiner) {
    case Combiner::Sum:
    case Combiner::Prod:
    case Combiner::Min:
    case Combiner::Max:
    case Combiner::ArgMax:
    case Combiner::ArgMin:
      return Domain::Number;
    case Combiner::And:
    case Combiner::Or:
      return Domain::IntegerOrBoolean;
    case Combiner::LogSumExp:
    case Combiner::Welford:
      return Domain::Float;
  }
  return Domain::Any;
}

// The values that a combiner gives for an operand, with the operand's dtype or i64.
Types combined(const OpSite& site, const std::vector<std::int64_t>& extents) {
  const DType element = site.operands[0].element;
  const Combiner combiner = site.attributes.combiner;
  const Domain expected = domain(combiner);
  if (!admits(expected, element)) site.fail("operand is {}, expected {}", name(element), text(expected));
  Types results(static_cast<std::size_t>(result_count(combiner)), shaped(element, extents));
  if (combiner == Combiner::ArgMax || combiner == Combiner::ArgMin) results[1].element = DType::I64;
  return results;
}

std::vector<std::int64_t> without_units(std::span<const std::int64_t> extents) {
  std::vector<std::int64_t> kept;
  std::copy_if(extents.begin(), extents.end(), std::back_inserter(kept),
               [](std::int64_t e) { return e != 1; });
  return kept;
}

// The carried operands from `first` on: values, not views.
Types carried(const OpSite& site, std::size_t first) {
  for (std::size_t operand = first; operand < site.operands.size(); ++operand) site.value(operand);
  return {site.operands.begin() + static_cast<std::ptrdiff_t>(first), site.operands.end()};
}

}  // namespace

std::vector<std::int64_t> broadcast_extents(std::span<const Type> operands) {
  std::vector<std::int64_t> extents;
  for (const Type& type : operands) {
    if (type.extents.size() > extents.size())
      extents.insert(extents.begin(), type.extents.size() - extents.size(), 1);
    const std::size_t shift = extents.size() - type.extents.size();
    for (std::size_t axis = 0; axis < type.extents.size(); ++axis) {
      std::int64_t& extent = extents[shift + axis];
      const std::int64_t other = type.extents[axis];
      if (extent == 1) {
        extent = other;
      } else if (other != 1 && other != extent) {
        std::string shapes;
        for (const Type& operand : operands) shapes += (shapes.empty() ? "" : ", ") + to_string(operand);
        throw_caller(ErrorCode::ShapeMismatch,
                     "{} do not broadcast: shapes align from the right, expected extents equal or 1", shapes);
      }
    }
  }
  return extents;
}

DotShape dot_shape(const Type& accumulator, const Type& a, const Type& b, std::int64_t batch_axes) {
  const auto mismatch = [&](std::string_view why) {
    throw_caller(ErrorCode::ShapeMismatch, "dot of {} and {} into {} with {} batch axes: {}", to_string(a),
                 to_string(b), to_string(accumulator), batch_axes, why);
  };
  DotShape shape;
  for (const Type* type : {&accumulator, &a, &b}) {
    if (batch_axes < 0 || batch_axes > type->rank()) mismatch("an operand has fewer axes");
  }
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(batch_axes); ++axis) {
    if (a.extents[axis] != b.extents[axis] || a.extents[axis] != accumulator.extents[axis]) {
      mismatch("batch extents differ");
    }
    shape.batch *= a.extents[axis];
  }
  const auto rest = [&](const Type& type) {
    return without_units(std::span(type.extents).subspan(static_cast<std::size_t>(batch_axes)));
  };
  std::vector<std::int64_t> rows = rest(a), columns = rest(b), free = rest(accumulator);
  if (rows.size() + columns.size() == free.size() + 2 && !rows.empty() && !columns.empty()) {
    if (rows.back() != columns.front()) mismatch("the last axis of a and the first of b differ");
    shape.depth = rows.back();
    rows.pop_back();
    columns.erase(columns.begin());
  } else if (rows.size() + columns.size() != free.size()) {
    mismatch("the free axes of a, then of b, must be the accumulator's");
  }
  for (const std::int64_t extent : rows) shape.rows *= extent;
  for (const std::int64_t extent : columns) shape.columns *= extent;
  rows.insert(rows.end(), columns.begin(), columns.end());
  if (rows != free) mismatch("the free axes of a, then of b, must be the accumulator's");
  return shape;
}

template <>
Types infer<Opcode::Constant>(const OpSite& site) {
  site.count_operands(0);
  if (site.wanted.empty() && site.attributes.literal) return {Type::scalar(site.attributes.literal->dtype)};
  const Type& type = site.wanted_value();
  site.literal(type.element);
  return {type};
}

template <>
Types infer<Opcode::Iota>(const OpSite& site) {
  site.count_operands(0);
  const Type& type = site.wanted_value();
  if (!type.is_tile() || !computes_integer(type.element)) {
    site.fail("result is {}, expected a tile of integers", to_string(type));
  }
  site.only_axis(type.rank());
  return {type};
}

template <>
Types infer<Opcode::Reshape>(const OpSite& site) {
  site.count_operands(1);
  const Type& from = site.value(0);
  const Type& to = site.wanted_value();
  if (to.element != from.element || to.elements() != from.elements()) {
    site.fail("from {} to {}, expected the same dtype and number of elements", to_string(from),
              to_string(to));
  }
  return {to};
}

template <>
Types infer<Opcode::Transpose>(const OpSite& site) {
  site.count_operands(1);
  const Type& from = site.tile(0);
  site.check_permutation(from.rank());
  Type to = from;
  for (std::size_t axis = 0; axis < to.extents.size(); ++axis) {
    to.extents[axis] = from.extents[static_cast<std::size_t>(site.attributes.axes[axis])];
  }
  return {to};
}

template <>
Types infer<Opcode::Broadcast>(const OpSite& site) {
  site.count_operands(1);
  const Type& from = site.value(0);
  const Type& to = site.wanted_value();
  if (to.element != from.element || !to.is_tile() || from.rank() > to.rank() ||
      broadcast_extents(std::array{from, to}) != to.extents) {
    site.fail("from {} to {}, expected the same dtype and extents equal or 1 from the right", to_string(from),
              to_string(to));
  }
  return {to};
}

template <>
Types infer<Opcode::Slice>(const OpSite& site) {
  site.count_operands(1);
  const Type& from = site.tile(0);
  const Type& to = site.wanted_value();
  const std::vector<std::int64_t>& offsets = site.attributes.axes;
  if (to.element != from.element || to.rank() != from.rank() || offsets.size() != from.extents.size()) {
    site.fail("from {} to {} at [{}], expected one offset and one extent per axis", to_string(from),
              to_string(to), fmt::join(offsets, ", "));
  }
  for (std::size_t axis = 0; axis < offsets.size(); ++axis) {
    if (offsets[axis] < 0 || offsets[axis] > from.extents[axis] - to.extents[axis]) {
      site.fail("offset {} and extent {} on axis {} leave {}", offsets[axis], to.extents[axis], axis,
                to_string(from));
    }
  }
  return {to};
}

template <>
Types infer<Opcode::Concat>(const OpSite& site) {
  site.count_operands_at_least(1);
  Type result = site.tile(0);
  const auto axis = static_cast<std::size_t>(site.only_axis(result.rank()));
  for (std::size_t operand = 1; operand < site.operands.size(); ++operand) {
    Type other = site.tile(operand);
    if (other.rank() != result.rank() || other.element != result.element) {
      site.fail("{} and {}, expected the same rank and dtype", to_string(result), to_string(other));
    }
    const std::int64_t sum = checked_add(result.extents[axis], other.extents[axis]).value_or(INT64_MAX);
    result.extents[axis] = other.extents[axis] = sum;
    if (other != result) {
      site.fail("operand {} is {}, expected the extents of operand 0 but on axis {}", operand,
                to_string(site.operands[operand]), axis);
    }
  }
  return {result};
}

template <>
Types infer<Opcode::Cast>(const OpSite& site) {
  site.count_operands(1);
  const Type& to = site.wanted_value();
  if (with_element(to, site.value(0).element) != site.operands[0]) {
    site.fail("from {} to {}, expected the same shape", to_string(site.operands[0]), to_string(to));
  }
  return {to};
}

template <>
Types infer<Opcode::Bitcast>(const OpSite& site) {
  site.count_operands(1);
  const Type& from = site.value(0);
  const Type& to = site.wanted_value();
  const bool boolean = from.element == DType::I1 || to.element == DType::I1;
  if (with_element(to, from.element) != from || bits(from.element) != bits(to.element) || boolean) {
    site.fail("from {} to {}, expected the same shape and dtypes of equal width, not i1", to_string(from),
              to_string(to));
  }
  return {to};
}

template <>
Types infer<Opcode::Elementwise>(const OpSite& site) {
  const Function function = site.attributes.function;
  site.count_operands(static_cast<std::size_t>(arity(function)));
  for (std::size_t operand = 0; operand < site.operands.size(); ++operand) site.value(operand);
  // Operands that share a dtype; the others are checked here.
  std::span<const Type> alike = site.operands;
  if (function == Function::Select) {
    if (alike[0].element != DType::I1) site.fail("operand 0 is {}, expected i1", to_string(alike[0]));
    alike = alike.subspan(1);
  } else if (function == Function::Ldexp) {
    const DType exponent = alike[0].element == DType::F64 ? DType::I64 : DType::I32;
    if (alike[1].element != exponent)
      site.fail("operand 1 is {}, expected {}", to_string(alike[1]), name(exponent));
    alike = alike.first(1);
  }
  const DType element = alike[0].element;
  for (const Type& type : alike) {
    if (type.element != element) {
      site.fail("operands are {} and {}, expected one dtype; cast one of them", name(element),
                name(type.element));
    }
  }
  const Domain expected = domain(function);
  if (!admits(expected, element)) site.fail("operand is {}, expected {}", name(element), text(expected));
  return {shaped(gives_boolean(function) ? DType::I1 : element, broadcast_extents(site.operands))};
}

template <>
Types infer<Opcode::Reduce>(const OpSite& site) {
  site.count_operands(1);
  std::vector<std::int64_t> extents = site.tile(0).extents;
  extents.erase(extents.begin() + site.only_axis(site.operands[0].rank()));
  return combined(site, extents);
}

template <>
Types infer<Opcode::Scan>(const OpSite& site) {
  site.count_operands(1);
  site.only_axis(site.tile(0).rank());
  const Combiner combiner = site.attributes.combiner;
  if (site.attributes.exclusive && (combiner == Combiner::ArgMax || combiner == Combiner::ArgMin)) {
    site.fail("exclusive has no first value");
  }
  return combined(site, site.operands[0].extents);
}

template <>
Types infer<Opcode::Dot>(const OpSite& site) {
  site.count_operands(3);
  const Type& accumulator = site.tile(0);
  const DType to = accumulator.element;
  const DType a = site.tile(1).element;
  const DType b = site.tile(2).element;
  const auto byte = [](DType dtype) { return dtype == DType::I8 || dtype == DType::U8; };
  const bool floats =
      a == b && computes_float(a) && (to == DType::F64 || (to == DType::F32 && a != DType::F64));
  const bool bytes = byte(a) && byte(b) && to == DType::I32;
  const bool integers = a == b && a == to && computes_integer(a) && bits(a) >= 32;
  if (!floats && !bytes && !integers) {
    site.fail(
        "{} by {} into {}: expected two floats of one dtype into f32 or f64, i8 or u8 into i32, or one "
        "integer "
        "dtype of 32 or 64 bits",
        name(a), name(b), name(to));
  }
  dot_shape(accumulator, site.operands[1], site.operands[2], site.attributes.count);
  return {accumulator};
}

template <>
Types infer<Opcode::Mask>(const OpSite& site) {
  site.count_operands(3);
  const Type& tile = site.tile(0);
  site.only_axis(tile.rank());
  site.index(1);
  site.scalar(2, tile.element);
  return {tile};
}

template <>
Types infer<Opcode::ProgramId>(const OpSite& site) {
  site.count_operands(0);
  site.only_axis(kMaxGridRank);
  return {Type::index()};
}

template <>
Types infer<Opcode::NumPrograms>(const OpSite& site) {
  return infer<Opcode::ProgramId>(site);
}

template <>
Types infer<Opcode::For>(const OpSite& site) {
  site.count_operands_at_least(3);
  for (std::size_t operand = 0; operand < 3; ++operand) site.index(operand);
  return carried(site, 3);
}

template <>
Types infer<Opcode::If>(const OpSite& site) {
  site.count_operands(1);
  site.scalar(0, DType::I1);
  for (const Type& type : site.wanted) {
    if (type.is_view()) site.fail("result is {}, expected a scalar or a tile", to_string(type));
  }
  return {site.wanted.begin(), site.wanted.end()};
}

template <>
Types infer<Opcode::Contract>(const OpSite& site) {
  const std::size_t axes = site.attributes.sizes.size();
  if (axes == 0) site.fail("has no indices");
  site.count_operands_at_least(axes);
  for (std::size_t axis = 0; axis < axes; ++axis) {
    site.index(axis);
    const std::int64_t block = site.attributes.sizes[axis];
    if (block < 1) site.fail("block {} of index {}, expected at least 1", block, axis);
  }
  return carried(site, axes);
}

template <>
Types infer<Opcode::Yield>(const OpSite& site) {
  carried(site, 0);
  return {};
}

template <>
Types infer<Opcode::Assume>(const OpSite& site) {
  site.count_operands(1);
  site.index(0);
  const std::vector<std::int64_t>& facts = site.attributes.sizes;
  if (facts.size() != 3 || facts[0] < 1 || facts[1] > facts[2]) {
    site.fail("facts [{}], expected a positive multiple and a range that is not empty",
              fmt::join(facts, ", "));
  }
  return {Type::index()};
}

template <>
Types infer<Opcode::Assert>(const OpSite& site) {
  site.count_operands(1);
  site.scalar(0, DType::I1);
  return {};
}

template <>
Types infer<Opcode::Print>(const OpSite& site) {
  site.count_operands(1);
  site.value(0);
  return {};
}

}  // namespace kiln::tile
