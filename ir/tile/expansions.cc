#include "ir/tile/expansions.h"

#include "ir/base/errors.h"
#include "ir/tile/expansion_math.h"

namespace kiln::tile {
namespace {

Expr expand_wide(Function function, std::span<const Expr> x) {
  switch (function) {
#define KILN_PRIMITIVE(enumerator, name, arity) case Function::enumerator:
#include "ir/tile/elementwise.def"
    throw_bug("{} is a primitive and has no expansion", name(function));
    case Function::Exp:
      return expand_exp(x[0]);
    case Function::Exp2:
      return expand_exp2(x[0]);
    case Function::Expm1:
      return expand_expm1(x[0]);
    case Function::Log:
      return expand_log(x[0]);
    case Function::Log2:
      return expand_log2(x[0]);
    case Function::Log1p:
      return expand_log1p(x[0]);
    case Function::Sin:
      return expand_sin(x[0]);
    case Function::Cos:
      return expand_cos(x[0]);
    case Function::Tan:
      return expand_tan(x[0]);
    case Function::Asin:
      return expand_asin(x[0]);
    case Function::Acos:
      return expand_acos(x[0]);
    case Function::Atan:
      return expand_atan(x[0]);
    case Function::Sinh:
      return expand_sinh(x[0]);
    case Function::Cosh:
      return expand_cosh(x[0]);
    case Function::Tanh:
      return expand_tanh(x[0]);
    case Function::Asinh:
      return expand_asinh(x[0]);
    case Function::Acosh:
      return expand_acosh(x[0]);
    case Function::Atanh:
      return expand_atanh(x[0]);
    case Function::Erf:
      return expand_erf(x[0]);
    case Function::Sigmoid:
      return expand_sigmoid(x[0]);
    case Function::Rsqrt:
      return expand_rsqrt(x[0]);
    case Function::Pow:
      return expand_pow(x[0], x[1]);
    case Function::Gelu:
      return expand_gelu(x[0]);
    case Function::GeluTanh:
      return expand_gelu_tanh(x[0]);
    case Function::Silu:
      return expand_silu(x[0]);
    case Function::Softplus:
      return expand_softplus(x[0]);
    case Function::HardSwish:
      return expand_hardswish(x[0]);
  }
  throw_bug("unknown function");
}

}  // namespace

Expr expand(Function function, std::span<const Expr> operands) {
  const DType dtype = operands[0].type().element;
  if (dtype == DType::F32 || dtype == DType::F64) return expand_wide(function, operands);
  KernelBuilder& k = *operands[0].builder();
  Exprs wide;
  for (const Expr& operand : operands) wide.push_back(k.cast(operand, DType::F32));
  return k.cast(expand_wide(function, wide), dtype);
}

// --- shared pieces

using namespace polynomials;  // NOLINT(google-build-using-namespace)

Math::Reduced Math::reduce(Expr x) const {
  // 1.5 * 2^mantissa: the last bit of a sum with it counts ones.
  const double shift = is_double() ? 0x1.8p52 : 0x1.8p23;
  Reduced result;
  const Expr shifted = fma(x, part(kLog2E_32, kLog2E_64, 0), shift);
  result.n = shifted - shift;
  result.exponent = bits(shifted) - pattern(shift);
  result.r = fma(result.n, -part(kLn2_32, kLn2_64, 0), x);
  result.r = fma(result.n, -part(kLn2_32, kLn2_64, 1), result.r);
  return result;
}

Math::Scaled Math::scaled_exp(Expr x, Expr low) const {
  const Reduced reduced = reduce(x);
  const Expr r = low ? reduced.r + low : reduced.r;
  return {polynomial(r, kExp_32, kExp_64), reduced.exponent};
}

Expr Math::expm1_of_reduced(Expr r) const { return fma(r * r, polynomial(r, kExpm1_32, kExpm1_64), r); }

Math::Decomposed Math::decompose(Expr x) const {
  // Denormals are scaled to where the exponent field tells.
  const Expr is_denormal = x < number(is_double() ? 0x1p-1022 : 0x1p-126);
  const double scale = is_double() ? 0x1p52 : 0x1p23;
  const Expr pattern_of_x = bits(select(is_denormal, x * scale, x));
  const Expr exponent = (pattern_of_x - pattern(part(kSqrtHalf_32, kSqrtHalf_64, 0))) >> mantissa_bits();
  const Expr f = from_bits(pattern_of_x - (exponent << mantissa_bits())) - 1;
  return {exponent - select(is_denormal, integer_number(mantissa_bits()), 0), f};
}

Expr Math::log1p_rest(Expr f) const {
  if (!is_double()) return f * f * fma(f, polynomial(f, kLog_32), -0.5);
  // With s = f / (2 + f): log(1 + f) = log((1 + s) / (1 - s)), which is odd in s.
  const Expr half_square = f * f * 0.5;
  const Expr s = f / (f + 2);
  const Expr z = s * s;
  return s * fma(z, polynomial(z, kLog_64), half_square) - half_square;
}

Expr Math::log_sum(Expr e, Expr f) const {
  // e * high is exact and larger than f, or 0: `sum` and `lost` are their exact sum.
  const Expr whole = e * part(kLn2Short_32, kLn2Short_64, 0);
  const Expr sum = whole + f;
  const Expr lost = (whole - sum) + f;
  return sum + (lost + fma(e, part(kLn2Short_32, kLn2Short_64, 1), log1p_rest(f)));
}

}  // namespace kiln::tile
