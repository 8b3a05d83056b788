// Trigonometric functions and their inverses. f32 is computed in f64 throughout.
#include "ir/tile/expansion_math.h"

namespace kiln::tile {

using namespace polynomials;  // NOLINT(google-build-using-namespace)

namespace {

// x = (quadrant + fraction) pi/2: the angle left is y + y_low, |y| <= pi/4.
struct Angle {
  Expr quadrant;  // i64, its last two bits count
  Expr y;
  Expr y_low;  // may be empty
};

// For an f32 in f64. Each piece of 2/pi times x is exact, and loses whole turns exactly; what is left of all
// pieces is summed from the largest, after the quadrant has been taken from the first.
Angle reduce_f32(const Math& math, Expr x) {
  constexpr std::size_t kMayExceedATurn = 5;
  std::vector<Expr> parts;
  for (std::size_t i = 0; i < std::size(kTwoOverPiPieces); ++i) {
    Expr part = x * kTwoOverPiPieces[i];
    if (i < kMayExceedATurn) part = fma(round(part * 0.25), -4, part);
    parts.push_back(part);
  }
  Expr whole = round(parts[0] + parts[1] + parts[2] + parts[3] + parts[4]);
  Expr fraction = parts[0] - whole;
  for (std::size_t i = 1; i < parts.size(); ++i) fraction = fraction + parts[i];
  return {math.builder().cast(whole, DType::I64), fraction * kPiHalf_64[0], {}};
}

// For an f64: Cody and Waite with pi/2 in three parts.
Angle reduce_f64(const Math& math, Expr x) {
  const Expr n = round(x * kTwoOverPi_64[0]);
  const Expr first = fma(n, -kPiHalf_64[0], x);
  const Expr second = n * kPiHalf_64[1];
  const Expr second_low = fma(n, kPiHalf_64[1], -second);
  const Expr y = first - second;
  const Expr lost = (first - y) - second;
  return {math.builder().cast(n, DType::I64), y, lost - fma(n, kPiHalf_64[2], second_low)};
}

struct SineCosine {
  Expr sine, cosine;
};

SineCosine sine_cosine(const Math& math, const Angle& angle, bool narrow) {
  const Expr y = angle.y;
  const Expr z = y * y;
  Expr sine =
      narrow ? fma(y * z, math.polynomial(z, kSin_32), y) : fma(y * z, math.polynomial(z, kSin_64), y);
  const Expr rest = z * z * (narrow ? math.polynomial(z, kCos_32) : math.polynomial(z, kCos_64));
  // 1 - z/2 + rest, with what the subtraction from 1 lost.
  const Expr half = z * 0.5;
  const Expr main = 1 - half;
  Expr correction = ((1 - main) - half) + rest;
  if (angle.y_low) {
    sine = y + fma(angle.y_low, 1 - half, y * z * math.polynomial(z, kSin_64));
    correction = correction - y * angle.y_low;
  }
  return {sine, main + correction};
}

Expr has_bit(const Math& math, Expr integer, std::int64_t bit) {
  return ne(integer & math.integer_number(bit), 0);
}

enum class Which { Sine, Cosine, Tangent };

Expr trigonometric(Expr x, Which which, bool narrow) {
  const Math math(x);
  const Angle angle = narrow ? reduce_f32(math, x) : reduce_f64(math, x);
  const auto [sine, cosine] = sine_cosine(math, angle, narrow);
  const Expr odd = has_bit(math, angle.quadrant, 1);
  switch (which) {
    case Which::Sine: {
      const Expr y = select(odd, cosine, sine);
      return select(eq(x, 0), x, select(has_bit(math, angle.quadrant, 2), -y, y));
    }
    case Which::Cosine: {
      const Expr y = select(odd, sine, cosine);
      return select(has_bit(math, angle.quadrant + 1, 2), -y, y);
    }
    case Which::Tangent:
      break;
  }
  return select(eq(x, 0), x, select(odd, -cosine, sine) / select(odd, sine, cosine));
}

Expr trigonometric(Expr x, Which which) {
  if (x.type().element == DType::F64) return trigonometric(x, which, false);
  return through_double(x, [&](Expr wide) { return trigonometric(wide, which, true); });
}

// asin(s) - s for 0 <= s <= 1/2, or of s = sqrt(z) given both.
Expr asin_rest(const Math& math, Expr s, Expr z) { return s * z * math.polynomial(z, kAsin_64); }

}  // namespace

Expr expand_sin(Expr x) { return trigonometric(x, Which::Sine); }
Expr expand_cos(Expr x) { return trigonometric(x, Which::Cosine); }
Expr expand_tan(Expr x) { return trigonometric(x, Which::Tangent); }

Expr expand_asin(Expr x) {
  const Math math(x);
  if (!math.is_double()) return through_double(x, expand_asin);
  const Expr a = abs(x);
  const Expr large = a > 0.5;
  // Above 1/2: pi/2 - 2 asin(sqrt((1 - a) / 2)).
  const Expr z = select(large, (1 - a) * 0.5, a * a);
  const Expr s = select(large, sqrt(z), a);
  const Expr rest = asin_rest(math, s, z);
  const Expr above = kPiHalf_64[0] - ((s + rest) * 2 - kPiHalf_64[1]);
  return math.with_sign(select(large, above, s + rest), x);
}

Expr expand_acos(Expr x) {
  const Math math(x);
  if (!math.is_double()) return through_double(x, expand_acos);
  const Expr a = abs(x);
  const Expr large = a > 0.5;
  const Expr z = select(large, (1 - a) * 0.5, a * a);
  const Expr s = select(large, sqrt(z), x);
  const Expr rest = asin_rest(math, s, z);
  // What sqrt lost, as the result has no larger term to hide it.
  const Expr root_low = select(eq(s, 0), 0, fma(-s, s, z) / (s + s));
  const Expr twice = (s + (rest + root_low)) * 2;
  const Expr above = select(x < 0, kPiHalf_64[0] * 2 - (twice - kPiHalf_64[1] * 2), twice);
  return select(large, above, kPiHalf_64[0] - (s - (kPiHalf_64[1] - rest)));
}

Expr expand_atan(Expr x) {
  const Math math(x);
  if (!math.is_double()) return through_double(x, expand_atan);
  constexpr double kTanEighth = 0x1.a827999fcef32p-2, kTanThreeEighths = 0x1.3504f333f9de6p+1;
  const Expr a = abs(x);
  const Expr middle = a > kTanEighth;
  const Expr large = a > kTanThreeEighths;
  // atan(a) = pi/4 + atan((a - 1) / (a + 1)) = pi/2 + atan(-1 / a)
  const Expr y = select(large, -1, select(middle, a - 1, a)) / select(large, a, select(middle, a + 1, 1));
  const Expr base = select(large, kPiHalf_64[0], select(middle, math.number(kPiHalf_64[0] / 2), 0));
  const Expr base_low = select(large, kPiHalf_64[1], select(middle, math.number(kPiHalf_64[1] / 2), 0));
  const Expr z = y * y;
  const Expr sum = base + (y + fma(y * z, math.polynomial(z, kAtan_64), base_low));
  return math.with_sign(sum, x);
}

}  // namespace kiln::tile
