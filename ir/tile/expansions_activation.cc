// Activations and the error function.
#include "ir/tile/expansion_math.h"

namespace kiln::tile {

using namespace polynomials;  // NOLINT(google-build-using-namespace)

namespace {

// The normal distribution's tail P(-t), t >= 0, as p * 2^exponent with p of ordinary size; p is 0 for
// infinity.
Math::Scaled normal_tail(const Math& math, Expr t) {
  const Expr clamped = min(t, math.is_double() ? 39 : 14.5);
  const double k = math.is_double() ? 6 : 3;
  // e^(-t^2/2) with both halves of the exact square: the rounding of t^2 alone would cost digits.
  const Expr square = clamped * clamped;
  const Expr square_low = fma(clamped, clamped, -square);
  const Math::Scaled exp = math.scaled_exp_of_negative(square * -0.5, square_low * -0.5);
  const Expr inverse = 1 / (t + k);
  const Expr u = fma(inverse, 2 * k, -1);
  return {exp.p * (inverse * math.polynomial(u, kNormalTail_32, kNormalTail_64)), exp.exponent};
}

// x / (1 + e^-v), v of the sign of x, given e^-|v|. Scaling comes last, so that results may be denormal.
// Where the result is 0 anyway x is bounded: the limit at -inf is 0.
Expr times_logistic(const Math& math, Expr x, const Math::Scaled& exp) {
  const Expr negative = x < 0;
  const Expr quotient =
      select(negative, max(x, math.lowest_exponent()) * exp.p, x) / (ldexp(exp.p, exp.exponent) + 1);
  return ldexp(quotient, select(negative, exp.exponent, 0));
}

}  // namespace

Expr expand_rsqrt(Expr x) { return 1 / sqrt(x); }

Expr expand_erf(Expr x) {
  const Math math(x);
  const Expr a = abs(x);
  if (!math.is_double()) {
    const Expr small = fma(x, math.polynomial(x * x, kErf_32), x);
    // 1 - 2^g, its exponent field made as in tanh; 1 from the limit on.
    const Expr g = math.polynomial(min(a, 3.93), kLog2Erfc_32);
    const double shift = 0x1.8p23 + math.bias();
    const Expr shifted = g + shift;
    const Expr scale = math.from_bits(math.bits(shifted) << math.mantissa_bits());
    const Expr large = fma(-math.polynomial(g - (shifted - shift), kExp2_32), scale, 1);
    return select(a < 1, small, math.with_sign(large, x));
  }
  const Expr small = x * math.polynomial(x * x, kErf_64);
  const Math::Scaled tail = normal_tail(math, a * 0x1.6a09e667f3bcdp+0);
  return select(a < 1, small, math.with_sign(1 - ldexp(tail.p, tail.exponent) * 2, x));
}

Expr expand_sigmoid(Expr x) {
  const Math math(x);
  const Math::Scaled parts = math.scaled_exp_of_negative(-abs(x));
  const Expr exp = ldexp(parts.p, parts.exponent);
  return select(x < 0, exp, 1) / (exp + 1);
}

Expr expand_silu(Expr x) {
  const Math math(x);
  return times_logistic(math, x, math.scaled_exp_of_negative(-abs(x)));
}

// x P(x): for x > 0 it is x - x P(-x), whose second product vanishes beyond the limits.
Expr expand_gelu(Expr x) {
  const Math math(x);
  const Math::Scaled tail = normal_tail(math, abs(x));
  const double limit = math.is_double() ? 39 : 14.5;
  const Expr small = ldexp(min(max(x, -limit), limit) * tail.p, tail.exponent);
  return select(x > 0, x - small, small);
}

// 0.5 x (1 + tanh(u)) = x / (1 + e^-2u), 2u = a (linear + cubic a^2): the argument of e as a sum of two, as
// its rounding error would be multiplied by it.
Expr expand_gelu_tanh(Expr x) {
  const Math math(x);
  const Expr a = min(abs(x), math.is_double() ? 24 : 11);
  const Expr square = a * a;
  const Expr square_low = fma(a, a, -square);
  const double cubic = math.part(kGeluTanhCubic_32, kGeluTanhCubic_64, 0);
  const double linear = math.part(kGeluTanhLinear_32, kGeluTanhLinear_64, 0);
  const Expr product = square * cubic;
  const Expr product_low =
      fma(square, cubic, -product) +
      fma(square, math.part(kGeluTanhCubic_32, kGeluTanhCubic_64, 1), square_low * cubic);
  const Expr sum = product + linear;
  const Expr of_linear = sum - product;
  const Expr sum_low = (product - (sum - of_linear)) + (linear - of_linear) +
                       (product_low + math.part(kGeluTanhLinear_32, kGeluTanhLinear_64, 1));
  const Expr high = sum * a;
  const Expr low = fma(sum, a, -high) + sum_low * a;
  return times_logistic(math, x, math.scaled_exp_of_negative(-high, -low));
}

Expr expand_softplus(Expr x) {
  const Math math(x);
  const Math::Scaled parts = math.scaled_exp_of_negative(-abs(x));
  const Expr exp = ldexp(parts.p, parts.exponent);
  if (math.is_double()) return expand_log1p(exp) + max(x, 0);
  const Expr s = exp / (exp + 2);  // log(1 + e) = 2 atanh(e / (2 + e))
  return fma(s, math.polynomial(s * s, kAtanh_32), max(x, 0));
}

// A sixth in two parts: the product is that with 1/6 rounded once, and 6 gives 1.
Expr expand_hardswish(Expr x) {
  const Math math(x);
  const Expr bounded = max(x, -3);  // 0 from there down, at -inf too
  const Expr sixths = min(bounded + 3, 6);
  const double high = Literal::number(x.type().element, 1.0 / 6).as_number();
  const double low = (1.0 - 6 * high) / 6;
  return bounded * fma(sixths, high, sixths * (math.is_double() ? 0x1.5555555555555p-57 : low));
}

}  // namespace kiln::tile
