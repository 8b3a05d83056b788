// Hyperbolic functions and their inverses. Only tanh is written for f32; the others go through f64.
#include "ir/tile/expansion_math.h"

namespace kiln::tile {

using namespace polynomials;  // NOLINT(google-build-using-namespace)

Expr expand_tanh(Expr x) {
  const Math math(x);
  // (e^2a - 1) / (e^2a + 1) for a = |x|; beyond the limit it rounds to 1.
  const Expr a = min(abs(x), math.is_double() ? 20 : 9.125);
  const Expr twice = a + a;
  // The bias in the shift makes the last bits of the sum an exponent field: 2^n costs one shift.
  const double shift = (math.is_double() ? 0x1.8p52 : 0x1.8p23) + math.bias();
  const Expr shifted = fma(twice, math.part(kLog2E_32, kLog2E_64, 0), shift);
  const Expr n = shifted - shift;
  Expr r = fma(n, -math.part(kLn2_32, kLn2_64, 0), twice);
  r = fma(n, -math.part(kLn2_32, kLn2_64, 1), r);
  const Expr scale = math.from_bits(math.bits(shifted) << math.mantissa_bits());
  const Expr expm1 = fma(scale, math.expm1_of_reduced(r), scale - 1);
  return math.with_sign(expm1 / (expm1 + 2), x);
}

Expr expand_sinh(Expr x) {
  const Math math(x);
  if (!math.is_double()) return through_double(x, expand_sinh);
  const Expr a = abs(x);
  const Expr small = expand_expm1(min(a, 30));
  // e^(a/2) twice, as e^a overflows before its half does.
  const Expr root = expand_exp(a * 0.5);
  const Expr y = select(a < 22, (small + small / (small + 1)) * 0.5, root * 0.5 * root);
  return math.with_sign(y, x);
}

Expr expand_cosh(Expr x) {
  const Math math(x);
  if (!math.is_double()) return through_double(x, expand_cosh);
  const Expr a = abs(x);
  const Expr small = expand_exp(min(a, 30));
  const Expr root = expand_exp(a * 0.5);
  return select(a < 22, (small + 1 / small) * 0.5, root * 0.5 * root);
}

namespace {
constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr double kLarge = 0x1p28;  // from here on sqrt(x^2 +- 1) is x
}  // namespace

Expr expand_asinh(Expr x) {
  const Math math(x);
  if (!math.is_double()) return through_double(x, expand_asinh);
  const Expr a = abs(x);
  const Expr square = a * a;
  const Expr small = expand_log1p(a + square / (1 + sqrt(square + 1)));
  return math.with_sign(select(a < kLarge, small, expand_log(a) + kLn2), x);
}

Expr expand_acosh(Expr x) {
  const Math math(x);
  if (!math.is_double()) return through_double(x, expand_acosh);
  const Expr above = x - 1;
  const Expr small = expand_log1p(above + sqrt(fma(above, above, above + above)));
  return select(x < 1, math.nan(), select(x < kLarge, small, expand_log(x) + kLn2));
}

Expr expand_atanh(Expr x) {
  const Math math(x);
  if (!math.is_double()) return through_double(x, expand_atanh);
  const Expr a = abs(x);
  return math.with_sign(expand_log1p((a + a) / (1 - a)) * 0.5, x);
}

}  // namespace kiln::tile
