#include "ir/templates/node_emitter.h"

#include <cmath>
#include <limits>

#include "ir/base/errors.h"
#include "ir/base/float_types.h"
#include "ir/graph/contract.h"

namespace kiln::templates {
namespace {

using graph::Graph;
using graph::Node;
using graph::OpKind;
using tile::apply;
using tile::Expr;
using tile::Function;
using tile::KernelBuilder;

// Operators that are one function of the tile language.
std::optional<Function> direct_function(OpKind op) {
  switch (op) {
    case OpKind::Abs:
      return Function::Abs;
    case OpKind::Neg:
      return Function::Neg;
    case OpKind::Sign:
      return Function::Sign;
    case OpKind::Sqrt:
      return Function::Sqrt;
    case OpKind::Exp:
      return Function::Exp;
    case OpKind::Log:
      return Function::Log;
    case OpKind::Floor:
      return Function::Floor;
    case OpKind::Ceil:
      return Function::Ceil;
    case OpKind::Round:
      return Function::Round;
    case OpKind::Erf:
      return Function::Erf;
    case OpKind::Sin:
      return Function::Sin;
    case OpKind::Cos:
      return Function::Cos;
    case OpKind::Tan:
      return Function::Tan;
    case OpKind::Asin:
      return Function::Asin;
    case OpKind::Acos:
      return Function::Acos;
    case OpKind::Atan:
      return Function::Atan;
    case OpKind::Sinh:
      return Function::Sinh;
    case OpKind::Cosh:
      return Function::Cosh;
    case OpKind::Asinh:
      return Function::Asinh;
    case OpKind::Acosh:
      return Function::Acosh;
    case OpKind::Atanh:
      return Function::Atanh;
    case OpKind::Sigmoid:
      return Function::Sigmoid;
    case OpKind::Tanh:
      return Function::Tanh;
    case OpKind::Softplus:
      return Function::Softplus;
    case OpKind::HardSwish:
      return Function::HardSwish;
    case OpKind::Add:
      return Function::Add;
    case OpKind::Sub:
      return Function::Sub;
    case OpKind::Mul:
      return Function::Mul;
    case OpKind::Div:
      return Function::Div;
    case OpKind::Not:
    case OpKind::BitwiseNot:
      return Function::Not;
    case OpKind::And:
    case OpKind::BitwiseAnd:
      return Function::And;
    case OpKind::Or:
    case OpKind::BitwiseOr:
      return Function::Or;
    case OpKind::Xor:
    case OpKind::BitwiseXor:
      return Function::Xor;
    case OpKind::Equal:
      return Function::Eq;
    case OpKind::Less:
      return Function::Lt;
    case OpKind::LessOrEqual:
      return Function::Le;
    case OpKind::Greater:
      return Function::Gt;
    case OpKind::GreaterOrEqual:
      return Function::Ge;
    case OpKind::IsNaN:
      return Function::IsNan;
    default:
      return std::nullopt;
  }
}

// Operators with a rule in NodeEmitter::result_of().
bool has_rule(const Graph& graph, const Node& node) {
  const DType dtype = graph.value(node.inputs[0]).dtype;
  switch (node.op) {
    case OpKind::Identity:
    case OpKind::Cast:
    case OpKind::CastLike:
    case OpKind::Where:
    case OpKind::Clip:
    case OpKind::Relu:
    case OpKind::PRelu:
    case OpKind::Min:
    case OpKind::Max:
    case OpKind::Sum:
    case OpKind::Mean:
    case OpKind::BitShift:
    case OpKind::Pow:
      return true;
    case OpKind::Mod:
      return integer(node, "fmod") != 0 || is_integer(dtype);
    case OpKind::Shrink:
      return is_float(dtype);
    case OpKind::Reciprocal:
    case OpKind::LeakyRelu:
    case OpKind::ThresholdedRelu:
    case OpKind::Elu:
    case OpKind::Celu:
    case OpKind::Selu:
    case OpKind::HardSigmoid:
    case OpKind::Swish:
    case OpKind::Mish:
    case OpKind::Gelu:
    case OpKind::Softsign:
    case OpKind::IsInf:
      return true;
    default:
      return false;
  }
}

double scalar_constant(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::F32:
      return static_cast<double>(tensor.as<float>()[0]);
    case DType::F64:
      return tensor.as<double>()[0];
    case DType::F16:
      return static_cast<double>(tensor.as<Float16>()[0]);
    case DType::BF16:
      return static_cast<double>(tensor.as<BFloat16>()[0]);
    default:
      throw_bug("scalar constant of {}", name(tensor.dtype()));
  }
}

Expr literal(KernelBuilder& builder, const Tensor& tensor) {
  if (is_float(tensor.dtype()))
    return builder.constant(compute_dtype(tensor.dtype()), scalar_constant(tensor));
  return builder.constant_integer(tensor.dtype(), tensor.to_integers()[0]);
}

}  // namespace

DType compute_dtype(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16 ? DType::F32 : dtype; }

bool is_computable(DType dtype) {
  switch (dtype) {
    case DType::I1:
    case DType::I8:
    case DType::I16:
    case DType::I32:
    case DType::I64:
    case DType::U8:
    case DType::U16:
    case DType::U32:
    case DType::U64:
    case DType::F16:
    case DType::BF16:
    case DType::F32:
    case DType::F64:
      return true;
    default:
      return false;
  }
}

bool may_divide_by_zero(const Graph& graph, const Node& node) {
  if (node.op != OpKind::Div && node.op != OpKind::Mod && node.op != OpKind::Pow) return false;
  const graph::Value &x = graph.value(node.inputs[0]), &y = graph.value(node.inputs[1]);
  if (!is_integer(x.dtype) || !is_integer(y.dtype)) return false;
  if (node.op == OpKind::Pow && is_unsigned_integer(y.dtype)) return false;
  if (!y.constant || y.constant->elements() != 1) return true;
  const std::int64_t number = y.constant->to_integers()[0];
  return node.op == OpKind::Pow ? number < 0 : number == 0;
}

std::optional<std::string> why_not_emittable(const Graph& graph, const Node& node) {
  if (contract(node.op).fusion != graph::FusionClass::Elementwise ||
      (!direct_function(node.op) && !has_rule(graph, node))) {
    return fmt::format("{} has no tile expression", name(node.op));
  }
  for (const auto* values : {&node.inputs, &node.outputs}) {
    for (const graph::ValueId id : *values) {
      if (id && !is_computable(graph.value(id).dtype)) {
        return fmt::format("{} on {} has no tile expression", name(node.op), name(graph.value(id).dtype));
      }
    }
  }
  for (std::size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.outputs[i]) return fmt::format("{} with a second output has no tile expression", name(node.op));
  }
  return std::nullopt;
}

std::optional<double> scalar_number(const Tensor& constant) {
  if (is_float(constant.dtype())) return scalar_constant(constant);
  if (constant.dtype() == DType::I1) return constant.as<std::uint8_t>()[0] != 0 ? 1 : 0;
  const std::int64_t integer = constant.to_integers()[0];
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  if (integer < -kExact || integer > kExact) return std::nullopt;
  return static_cast<double>(integer);
}

void NodeEmitter::define(graph::ValueId id, Expr expr) {
  const DType wanted = compute_dtype(graph_.value(id).dtype);
  defined_[id] = expr.type().element == wanted ? expr : builder_.cast(expr, wanted);
}

Expr NodeEmitter::value(graph::ValueId id) {
  const auto found = defined_.find(id);
  if (found != defined_.end()) return found->second;
  const auto& constant = graph_.value(id).constant;
  require(constant && constant->elements() == 1, "value {} of a region is read before it is defined",
          id.index);
  return literal(builder_, *constant);
}

Expr NodeEmitter::stored(graph::ValueId id) {
  const Expr expr = value(id);
  const DType dtype = graph_.value(id).dtype;
  return expr.type().element == dtype ? expr : builder_.cast(expr, dtype);
}

void NodeEmitter::emit(const Node& node) {
  const graph::ValueId output = node.outputs[0];
  Expr result = result_of(node);
  const DType dtype = graph_.value(output).dtype;
  // One rounding per node, as the reference kernels do.
  if (compute_dtype(dtype) != dtype)
    result = builder_.cast(builder_.cast(result, dtype), compute_dtype(dtype));
  defined_[output] = result;
}

// Elements that there are not divide by 1.
Expr NodeEmitter::among_live(Expr divisor) {
  require(make_live_ != nullptr, "an integer division is emitted where live elements are not known");
  if (!live_) live_ = make_live_();
  return select(live_, divisor, 1);
}

// Exact modulo 2^bits. A negative exponent gives the true value truncated: of 1 and -1 a unit, of 0 an error,
// of others 0, which is what the square or the odd power of 1 / x is.
Expr NodeEmitter::integer_power(const Node& node) {
  const Expr x = value(node.inputs[0]);
  const DType dtype = x.type().element;
  const auto reciprocal = [&](Expr base) { return 1 / among_live(base); };
  const auto& exponent = graph_.value(node.inputs[1]).constant;
  if (exponent && exponent->elements() == 1) {
    const std::int64_t power = exponent->to_integers()[0];
    const bool negative = power < 0 && is_signed_integer(exponent->dtype());
    const Expr base = negative ? reciprocal(x) : x;
    if (negative) return power % 2 != 0 ? base : base * base;
    Expr result, square = base;
    for (auto left = static_cast<std::uint64_t>(power); left > 0; left >>= 1) {
      if (left % 2 != 0) result = result ? result * square : square;
      if (left > 1) square = square * square;
    }
    return result ? result : x * 0 + 1;
  }
  const Expr y = value(node.inputs[1]);
  const bool may_be_negative = is_signed_integer(y.type().element);
  const std::vector<std::int64_t> extents = (x * builder_.cast(y, dtype)).type().extents;
  const auto whole = [&](Expr part) { return extents.empty() ? part : builder_.broadcast(part, extents); };
  const Expr left = may_be_negative ? max(y, 0) : y;
  const tile::Exprs initial = {builder_.full(dtype, extents, 1), whole(x), whole(left)};
  // As many steps as the greatest exponent has bits.
  Expr greatest = left;
  for (std::size_t rank = left.type().extents.size(); rank > 0; --rank)
    greatest = builder_.reduce(tile::Combiner::Max, greatest, 0);
  const Expr bit = builder_.iota(y.type().element, {bits(y.type().element)}, 0);
  const Expr is_left = builder_.cast(tile::ne(greatest >> bit, 0), DType::I64);
  const Expr bits_of_power = builder_.reduce(tile::Combiner::Sum, is_left, 0);
  const Expr power =
      builder_.loop(0, bits_of_power, 1, initial, [](Expr, const tile::Exprs& carried) -> tile::Exprs {
        const Expr &result = carried[0], &square = carried[1], &rest = carried[2];
        return {select(tile::ne(rest & 1, 0), result * square, result), square * square, rest >> 1};
      })[0];
  if (!may_be_negative) return power;
  const Expr negative = tile::lt(y, 0);
  const Expr inverse = reciprocal(select(negative, x, 1));
  return select(negative, select(tile::ne(y & 1, 0), inverse, inverse * inverse), power);
}

Expr NodeEmitter::result_of(const Node& node) {
  const auto operand = [&](std::size_t i) { return value(node.inputs[i]); };
  const auto has_operand = [&](std::size_t i) { return i < node.inputs.size() && node.inputs[i]; };
  const auto to_dtype = [&](Expr expr, DType dtype) {
    return expr.type().element == dtype ? expr : builder_.cast(expr, dtype);
  };
  const auto fold = [&](Function function) {
    Expr result = operand(0);
    for (std::size_t i = 1; i < node.inputs.size(); ++i) result = apply(function, {result, operand(i)});
    return result;
  };
  if (const auto function = direct_function(node.op)) {
    std::vector<tile::Operand> operands;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) operands.emplace_back(operand(i));
    if (may_divide_by_zero(graph_, node)) operands[1] = among_live(operands[1].expr);
    return builder_.call(*function, operands);
  }
  const Expr x = operand(0);
  switch (node.op) {
    case OpKind::Identity:
      return x;
    case OpKind::Cast:
    case OpKind::CastLike: {
      const DType to = graph_.value(node.outputs[0]).dtype;
      // To a narrow float through the storage type: emit() widens it again.
      return x.type().element == to ? x : builder_.cast(x, to);
    }
    case OpKind::Where:
      return select(x, operand(1), operand(2));
    case OpKind::Clip: {
      // min(max(x, low), high), as the standard orders them.
      Expr result = x;
      if (has_operand(1)) result = max(result, operand(1));
      if (has_operand(2)) result = min(result, operand(2));
      return result;
    }
    case OpKind::Relu:
      return max(x, 0);
    case OpKind::PRelu:
      return select(tile::lt(x, 0), x * operand(1), x);
    case OpKind::Min:
      return fold(Function::Min);
    case OpKind::Max:
      return fold(Function::Max);
    case OpKind::Sum:
      return fold(Function::Add);
    case OpKind::Mean:
      return fold(Function::Add) / static_cast<double>(node.inputs.size());
    case OpKind::Mod: {
      const Expr y = may_divide_by_zero(graph_, node) ? among_live(operand(1)) : operand(1);
      return apply(integer(node, "fmod") != 0 ? Function::Rem : Function::FloorMod, {x, y});
    }
    case OpKind::BitShift:
      return apply(text(node, "direction") == "LEFT" ? Function::Shl : Function::Shr, {x, operand(1)});
    case OpKind::Pow: {
      // Small whole exponents are products: exact where pow only comes close.
      const auto& exponent = graph_.value(node.inputs[1]).constant;
      const Expr y = operand(1);
      if (!is_float(x.type().element) && !is_float(y.type().element)) return integer_power(node);
      if (!is_float(x.type().element) || !is_float(y.type().element)) {
        const Expr power = apply(Function::Pow, {to_dtype(x, DType::F64), to_dtype(y, DType::F64)});
        return to_dtype(power, x.type().element);
      }
      if (exponent && exponent->elements() == 1) {
        const double power = scalar_constant(*exponent);
        if (power == 1) return x;
        if (power == 2) return x * x;
        if (power == 3) return x * x * x;
      }
      return apply(Function::Pow, {x, to_dtype(y, x.type().element)});
    }
    case OpKind::Reciprocal:
      return 1.0 / x;
    case OpKind::LeakyRelu:
      return select(tile::lt(x, 0), x * number(node, "alpha"), x);
    case OpKind::ThresholdedRelu:
      return select(tile::gt(x, number(node, "alpha")), x, 0);
    case OpKind::Shrink: {
      const double bias = number(node, "bias"), lambda = number(node, "lambd");
      return select(tile::lt(x, -lambda), x + bias, select(tile::gt(x, lambda), x - bias, 0));
    }
    case OpKind::Elu:
      return select(tile::lt(x, 0), expm1(x) * number(node, "alpha"), x);
    case OpKind::Celu: {
      const double alpha = number(node, "alpha");
      return max(x, 0) + min(0, expm1(x / alpha) * alpha);
    }
    case OpKind::Selu: {
      const double alpha = number(node, "alpha"), gamma = number(node, "gamma");
      return select(tile::le(x, 0), (expm1(x) * alpha) * gamma, x * gamma);
    }
    case OpKind::HardSigmoid: {
      const Expr line = x * number(node, "alpha") + number(node, "beta");
      return max(0, min(1, line));
    }
    case OpKind::Swish: {
      const double alpha = number(node, "alpha");
      if (alpha == 1) return silu(x);
      return alpha == 0 ? x * 0.5 : silu(x * alpha) / alpha;
    }
    case OpKind::Mish:
      // Bounded where the result is 0 anyway: that is the limit at -inf, too.
      return max(x, -1000) * tanh(softplus(x));
    case OpKind::Gelu:
      return apply(text(node, "approximate") == "tanh" ? Function::GeluTanh : Function::Gelu, {x});
    case OpKind::Softsign:
      return x / (1.0 + abs(x));
    case OpKind::IsInf: {
      const double infinity = std::numeric_limits<double>::infinity();
      const bool positive = integer(node, "detect_positive") != 0,
                 negative = integer(node, "detect_negative") != 0;
      const Expr is_positive = tile::eq(x, positive ? infinity : NAN);
      const Expr is_negative = tile::eq(x, negative ? -infinity : NAN);
      return is_positive | is_negative;
    }
    default:
      throw_bug("{} has no tile expression", name(node.op));
  }
}

}  // namespace kiln::templates
