#include "ir/tile/kernel.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "ir/base/errors.h"
#include "ir/base/float_types.h"

namespace kiln::tile {
namespace {

constexpr std::array kOpcodeNames = {
#define KILN_TILE_OP(enumerator, name) std::string_view(name),
#include "ir/tile/ops.def"
#undef KILN_TILE_OP
};

struct FunctionRow {
  std::string_view name;
  int arity;
  bool primitive;
};
constexpr std::array kFunctions = {
#define KILN_PRIMITIVE(enumerator, name, arity) FunctionRow{name, arity, true},
#define KILN_FUNCTION(enumerator, name, arity, ulp) FunctionRow{name, arity, false},
#include "ir/tile/elementwise.def"
};

struct CombinerRow {
  std::string_view name;
  int results;
};
constexpr std::array kCombiners = {
#define KILN_COMBINER(enumerator, name, results) CombinerRow{name, results},
#include "ir/tile/combiners.def"
#undef KILN_COMBINER
};

const FunctionRow& row(Function function) { return kFunctions[static_cast<std::size_t>(function)]; }

// Bits of a value: an i1 is stored in a byte but has one.
int value_bits(DType dtype) { return dtype == DType::I1 ? 1 : bits(dtype); }

std::uint64_t low_bits(std::uint64_t value, int count) {
  return count >= 64 ? value : value & ((std::uint64_t{1} << count) - 1);
}

// Truncates toward zero and saturates to the range of a signed or unsigned integer of `count` bits; NaN is 0.
std::uint64_t saturate(double value, int count, bool is_signed) {
  if (std::isnan(value)) return 0;
  const double limit = std::ldexp(1.0, is_signed ? count - 1 : count);
  if (value >= limit) return low_bits(UINT64_MAX, is_signed ? count - 1 : count);
  if (!is_signed) return value <= 0 ? 0 : static_cast<std::uint64_t>(value);
  if (value < -limit) value = -limit;
  return low_bits(static_cast<std::uint64_t>(static_cast<std::int64_t>(value)), count);
}

}  // namespace

std::string_view name(Opcode opcode) { return kOpcodeNames[static_cast<std::size_t>(opcode)]; }
std::string_view name(Function function) { return row(function).name; }
std::string_view name(Combiner combiner) { return kCombiners[static_cast<std::size_t>(combiner)].name; }
int arity(Function function) { return row(function).arity; }
bool is_primitive(Function function) { return row(function).primitive; }
int result_count(Combiner combiner) { return kCombiners[static_cast<std::size_t>(combiner)].results; }

Literal Literal::integer(DType dtype, std::int64_t value) {
  if (dtype == DType::I1) return {dtype, value != 0 ? std::uint64_t{1} : std::uint64_t{0}};
  if (is_integer(dtype)) return {dtype, low_bits(static_cast<std::uint64_t>(value), kiln::bits(dtype))};
  if (dtype == DType::F32) return {dtype, std::bit_cast<std::uint32_t>(static_cast<float>(value))};
  return number(dtype, static_cast<double>(value));
}

Literal Literal::number(DType dtype, double value) {
  switch (dtype) {
    case DType::I1:
      return {dtype, value != 0 ? std::uint64_t{1} : std::uint64_t{0}};
    case DType::F16:
      return {dtype, Float16(value).bits};
    case DType::BF16:
      return {dtype, BFloat16(value).bits};
    case DType::F32:
      return {dtype, std::bit_cast<std::uint32_t>(static_cast<float>(value))};
    case DType::F64:
      return {dtype, std::bit_cast<std::uint64_t>(value)};
    default:
      break;  // the dtypes that do not compute
  }
  if (is_integer(dtype)) return {dtype, saturate(value, kiln::bits(dtype), is_signed_integer(dtype))};
  throw_caller(ErrorCode::Unsupported,
               "no constant of {}: expected an integer type, f16, bf16, f32 or f64; cast one", name(dtype));
}

double Literal::as_number() const {
  switch (dtype) {
    case DType::F16: {
      Float16 half;
      half.bits = static_cast<std::uint16_t>(bits);
      return static_cast<double>(half);
    }
    case DType::BF16: {
      BFloat16 brain;
      brain.bits = static_cast<std::uint16_t>(bits);
      return static_cast<double>(brain);
    }
    case DType::F32:
      return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    case DType::F64:
      return std::bit_cast<double>(bits);
    default:
      break;
  }
  if (is_unsigned_integer(dtype) || dtype == DType::I1) return static_cast<double>(bits);
  if (is_signed_integer(dtype)) return static_cast<double>(as_integer());
  throw_caller(ErrorCode::Unsupported, "no number from a constant of {}", kiln::name(dtype));
}

std::int64_t Literal::as_integer() const {
  if (is_signed_integer(dtype)) {
    const int unused = 64 - value_bits(dtype);
    return static_cast<std::int64_t>(bits << unused) >> unused;
  }
  if (is_unsigned_integer(dtype) || dtype == DType::I1) return static_cast<std::int64_t>(bits);
  return static_cast<std::int64_t>(saturate(as_number(), 64, true));
}

int Kernel::grid_rank() const {
  if (!grid) return 0;
  const Block& block = this->block(grid);
  return block.ops.empty() ? 0 : static_cast<int>(op(block.ops.back()).operands.size());
}

void require_equal_extents(const Kernel& kernel,
                           const std::function<std::int64_t(std::size_t parameter, int axis)>& extent) {
  const auto number_of = [&](ValueId view) {
    std::size_t number = 0;
    while (kernel.parameters[number].value != view) ++number;
    return number;
  };
  for (const auto& group : kernel.equal_extents) {
    const ParameterExtent first = group[0];
    const std::int64_t expected = extent(number_of(first.view), first.axis);
    for (const ParameterExtent& other : group) {
      const std::int64_t got = extent(number_of(other.view), other.axis);
      if (got == expected) continue;
      throw_caller(
          ErrorCode::ShapeMismatch,
          "kernel {}: argument {} has extent {} along axis {}, expected {} as argument {} has along axis {}",
          kernel.name, kernel.values[other.view.index].name, got, other.axis, expected,
          kernel.values[first.view.index].name, first.axis);
    }
  }
}

}  // namespace kiln::tile
