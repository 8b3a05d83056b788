// exp, log and pow.
#include "ir/tile/expansion_math.h"

namespace kiln::tile {

using namespace polynomials;  // NOLINT(google-build-using-namespace)

Expr expand_exp(Expr x) {
  const Math math(x);
  const auto [p, exponent] = math.scaled_exp(min(max(x, math.lowest_exponent()), math.highest_exponent()));
  return ldexp(p, exponent);
}

Expr expand_exp2(Expr x) {
  const Math math(x);
  const double shift = math.is_double() ? 0x1.8p52 : 0x1.8p23;
  const Expr clamped = math.is_double() ? min(max(x, -1080), 1025) : min(max(x, -152), 129);
  const Expr shifted = clamped + shift;
  const Expr r = clamped - (shifted - shift);
  return ldexp(math.polynomial(r, kExp2_32, kExp2_64), math.bits(shifted) - math.pattern(shift));
}

Expr expand_expm1(Expr x) {
  const Math math(x);
  // Below the lower limit the result rounds to -1.
  const Expr clamped = min(max(x, math.is_double() ? -40 : -20), math.highest_exponent());
  const Math::Reduced reduced = math.reduce(clamped);
  // 2^n (p + 1) - 1 = 2^n (p + (1 - 2^-n)), so that neither cancels nor overflows.
  const Expr inverse = ldexp(math.number(1), math.integer_number(0) - reduced.exponent);
  const Expr y = ldexp(math.expm1_of_reduced(reduced.r) + (1 - inverse), reduced.exponent);
  return select(eq(x, 0), x, y);  // keeps -0
}

Expr expand_log(Expr x) {
  const Math math(x);
  const auto [exponent, f] = math.decompose(x);
  const Expr y = math.log_sum(math.builder().cast(exponent, x.type().element), f);
  return select(x > 0, select(eq(x, math.infinity()), x, y), select(eq(x, 0), -math.infinity(), math.nan()));
}

Expr expand_log2(Expr x) {
  const Math math(x);
  const auto [exponent, f] = math.decompose(x);
  const Expr e = math.builder().cast(exponent, x.type().element);
  const double high = math.part(kLog2E_32, kLog2E_64, 0), low = math.part(kLog2E_32, kLog2E_64, 1);
  // f * high is the large part of log2(1 + f): its rounding error and that of its sum with e are kept.
  const Expr product = f * high;
  const Expr product_low = fma(f, high, -product);
  const Expr sum = e + product;
  const Expr lost = (e - sum) + product;
  const Expr y = sum + (lost + (product_low + fma(math.log1p_rest(f), high, f * low)));
  return select(x > 0, select(eq(x, math.infinity()), x, y), select(eq(x, 0), -math.infinity(), math.nan()));
}

Expr expand_log1p(Expr x) {
  const Math math(x);
  const Math::Decomposed rounded = math.decompose(x + 1);
  // f = (1 + x) / 2^e - 1 with the bits that 1 + x has lost.
  const Expr scale = ldexp(math.number(1), math.integer_number(0) - rounded.exponent);
  const Expr f = fma(x, scale, scale - 1);
  const Expr y = math.log_sum(math.builder().cast(rounded.exponent, x.type().element), f);
  const Expr inside = select(eq(x, 0) | eq(x, math.infinity()), x, y);  // keeps -0
  return select(x > -1, inside, select(eq(x, -1), -math.infinity(), math.nan()));
}

namespace {

// An unevaluated sum of two f64.
struct Pair {
  Expr high, low;
};

// log2 of a positive finite f64 to about 2^-65 relative.
Pair log2_pair(const Math& math, Expr x) {
  const auto [exponent, f] = math.decompose(x);
  const Expr e = math.builder().cast(exponent, DType::F64);
  // s = f / (2 + f), with the remainder of the division.
  const Expr divisor = f + 2;
  const Expr divisor_low = f - (divisor - 2);
  const Expr s = f / divisor;
  const Expr s_low = fma(-s, divisor_low, fma(-s, divisor, f)) / divisor;
  const Expr z = s * s;
  const Expr z_low = fma(s, s, -z) + s * s_low * 2;
  // log(1 + f) = 2s + s z (2/3 + z Q(z)): the term 2/3 in pairs, the rest in f64.
  constexpr double kTwoThirds = 0x1.5555555555555p-1, kTwoThirdsLow = 0x1.5555555555555p-55;
  double rest[std::size(kLog_64) - 1];
  for (std::size_t i = 0; i + 1 < std::size(kLog_64); ++i) rest[i] = kLog_64[i + 1];
  const Expr tail = z * math.polynomial(z, rest);
  const Expr factor = tail + kTwoThirds;
  const Expr factor_low = (kTwoThirds - factor) + tail + kTwoThirdsLow;
  const Expr w = z * factor;
  const Expr w_low = fma(z, factor, -w) + fma(z, factor_low, z_low * factor);
  // (2 + w + w_low) * (s + s_low)
  const Expr two_w = w + 2;
  const Expr two_w_low = (2 - two_w) + w + w_low;
  const Expr log_high = two_w * s;
  const Expr log_low = fma(two_w, s, -log_high) + fma(two_w, s_low, two_w_low * s);
  // times log2(e), plus the exponent.
  const Expr product = log_high * kLog2E_64[0];
  const Expr product_low =
      fma(log_high, kLog2E_64[0], -product) + fma(log_high, kLog2E_64[1], log_low * kLog2E_64[0]);
  const Expr sum = e + product;
  const Expr lost = (e - sum) + product + product_low;
  const Expr high = sum + lost;
  return {high, (sum - high) + lost};
}

// |x|^y for f64, without the special cases of sign and of 1.
Expr power_of_magnitude(const Math& math, Expr magnitude, Expr y) {
  const Pair log = log2_pair(math, magnitude);
  const Expr infinite = eq(magnitude, math.infinity());
  const Expr plain = eq(magnitude, 0) | infinite | isnan(magnitude);
  const Expr log_high =
      select(plain, select(infinite, math.infinity(), select(eq(magnitude, 0), -math.infinity(), magnitude)),
             log.high);
  const Expr product = y * log_high;
  const Expr clamped = min(max(product, -1080), 1025);
  const Expr n = round(clamped);
  // What the product lost counts only where it is finite and not clamped.
  const Expr lost = fma(y, log_high, -product) + y * log.low;
  const Expr low = select(plain | ne(clamped, product), 0, select(abs(lost) < 1, lost, 0));
  const Expr r = (clamped - n) + low;
  return ldexp(math.polynomial(r, kExp2_64), math.builder().cast(n, DType::I64));
}

Expr expand_pow_double(Expr x, Expr y) {
  const Math math(x);
  const Expr magnitude = abs(x);
  const Expr power = power_of_magnitude(math, magnitude, y);
  const Expr whole = eq(trunc(y), y);
  const Expr odd = whole & ne(trunc(y * 0.5), y * 0.5);
  const Expr negative = math.bits(x) < 0;
  Expr result = select(negative & odd, -power, power);
  result = select((x < 0) & ~whole & ne(x, -math.infinity()), math.nan(), result);
  result = select(eq(magnitude, 1) & eq(abs(y), math.infinity()), 1, result);
  return select(eq(y, 0) | eq(x, 1), 1, result);
}

}  // namespace

Expr expand_pow(Expr x, Expr y) {
  if (x.type().element == DType::F64) return expand_pow_double(x, y);
  KernelBuilder& k = *x.builder();
  return k.cast(expand_pow_double(k.cast(x, DType::F64), k.cast(y, DType::F64)), DType::F32);
}

}  // namespace kiln::tile
