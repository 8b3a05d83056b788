#include "ir/tile/op_rule.h"

#include <algorithm>

#include "ir/tile/verifier.h"

namespace kiln::tile {

bool computes_float(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16 || dtype == DType::F32 || dtype == DType::F64;
}
bool computes_integer(DType dtype) { return is_integer(dtype) && bits(dtype) >= 8; }
bool computes_number(DType dtype) { return computes_float(dtype) || computes_integer(dtype); }
bool computes(DType dtype) { return computes_number(dtype) || dtype == DType::I1; }

std::string OpSite::label() const {
  if (code == Opcode::Elementwise) return std::string(name(attributes.function));
  const bool combines = code == Opcode::Reduce || code == Opcode::Scan;
  return combines ? fmt::format("{} {}", name(code), name(attributes.combiner)) : std::string(name(code));
}

void OpSite::count_operands(std::size_t expected) const {
  if (operands.size() != expected) fail("got {} operands, expected {}", operands.size(), expected);
}

void OpSite::count_operands_at_least(std::size_t expected) const {
  if (operands.size() < expected) fail("got {} operands, expected at least {}", operands.size(), expected);
}

const Type& OpSite::tile(std::size_t operand) const {
  if (!operands[operand].is_tile()) {
    fail("operand {} is {}, expected a tile", operand, to_string(operands[operand]));
  }
  return operands[operand];
}

const Type& OpSite::view(std::size_t operand) const {
  if (!operands[operand].is_view()) {
    fail("operand {} is {}, expected a view", operand, to_string(operands[operand]));
  }
  return operands[operand];
}

const Type& OpSite::value(std::size_t operand) const {
  if (operands[operand].is_view()) {
    fail("operand {} is {}, expected a scalar or a tile", operand, to_string(operands[operand]));
  }
  return operands[operand];
}

const Type& OpSite::scalar(std::size_t operand, DType dtype) const {
  if (operands[operand] != Type::scalar(dtype)) {
    fail("operand {} is {}, expected a scalar {}", operand, to_string(operands[operand]), name(dtype));
  }
  return operands[operand];
}

void OpSite::indices_from(std::size_t first) const {
  for (std::size_t operand = first; operand < operands.size(); ++operand) index(operand);
}

const Type& OpSite::wanted_value() const {
  if (wanted.size() != 1) fail("got {} result types, expected 1", wanted.size());
  const Type& type = wanted[0];
  if (type.is_view()) fail("result is {}, expected a scalar or a tile", to_string(type));
  check_limits(*this, type);
  return type;
}

std::int64_t OpSite::only_axis(std::int64_t rank) const {
  if (attributes.axes.size() != 1) fail("got {} axes, expected 1", attributes.axes.size());
  const std::int64_t axis = attributes.axes[0];
  if (axis < 0 || axis >= rank) fail("axis {} is outside 0 .. {}", axis, rank - 1);
  return axis;
}

void OpSite::check_permutation(int rank) const {
  std::vector<std::int64_t> sorted = attributes.axes;
  std::sort(sorted.begin(), sorted.end());
  bool is_permutation = static_cast<int>(sorted.size()) == rank;
  for (std::size_t axis = 0; is_permutation && axis < sorted.size(); ++axis) {
    is_permutation = sorted[axis] == static_cast<std::int64_t>(axis);
  }
  if (!is_permutation)
    fail("axes [{}] are not a permutation of {} axes", fmt::join(attributes.axes, ", "), rank);
}

void OpSite::check_ascending(int rank) const {
  std::int64_t previous = -1;
  for (const std::int64_t axis : attributes.axes) {
    if (axis <= previous || axis >= rank) {
      fail("axes [{}] must ascend within 0 .. {}", fmt::join(attributes.axes, ", "), rank - 1);
    }
    previous = axis;
  }
}

const Literal& OpSite::literal(DType dtype) const {
  if (!attributes.literal) fail("has no constant, expected one of {}", name(dtype));
  const Literal& literal = *attributes.literal;
  if (literal.dtype != dtype) fail("constant is {}, expected {}", name(literal.dtype), name(dtype));
  if (!computes(dtype) && !is_integer(dtype)) fail("no constants of {}; cast one", name(dtype));
  const int width = dtype == DType::I1 ? 1 : bits(dtype);
  if (width < 64 && literal.bits >> width) fail("constant has bits beyond those of {}", name(dtype));
  return literal;
}

void check_limits(const OpSite& site, const Type& type) {
  const std::string broken = broken_limit(type);
  if (!broken.empty()) site.fail("{} {}", to_string(type), broken);
}

std::vector<Type> infer_types(Opcode code, std::span<const Type> operands, const Attributes& attributes,
                              std::span<const Type> wanted) {
  const OpSite site{code, operands, attributes, wanted};
  Types results;
  switch (code) {
#define KILN_TILE_OP(enumerator, name)         \
  case Opcode::enumerator:                     \
    results = infer<Opcode::enumerator>(site); \
    break;
#include "ir/tile/ops.def"
#undef KILN_TILE_OP
  }
  for (const Type& type : results) check_limits(site, type);
  if (wanted.empty()) return results;
  if (wanted.size() != results.size()) site.fail("gives {} results, got {}", results.size(), wanted.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (wanted[i] != results[i]) {
      site.fail("result {} is {}, got {}", i, to_string(results[i]), to_string(wanted[i]));
    }
  }
  return results;
}

}  // namespace kiln::tile
