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

// For an f64 up to kLargeAngle: Cody and Waite with pi/2 in three parts.
constexpr double kLargeAngle = 0x1p27;
Angle reduce_small_f64(const Math& math, Expr x) {
  const Expr n = round(x * kTwoOverPi_64[0]);
  const Expr first = fma(n, -kPiHalf_64[0], x);
  const Expr second = n * kPiHalf_64[1];
  const Expr second_low = fma(n, kPiHalf_64[1], -second);
  const Expr y = first - second;
  const Expr lost = (first - y) - second;
  return {math.builder().cast(n, DType::I64), y, lost - fma(n, kPiHalf_64[2], second_low)};
}

// For any f64 from kLargeAngle on: Payne and Hanek. x = m 2^e with m of 53 bits, and of 2/pi only the 192
// bits count whose product with x lies below 4 and above 2^-137.
Angle reduce_large_f64(const Math& math, Expr x) {
  KernelBuilder& k = math.builder();
  const auto number = [&](std::uint64_t value) {
    return k.constant_integer(DType::U64, static_cast<std::int64_t>(value));
  };
  const Expr pattern = k.bitcast(abs(x), DType::U64);
  const Expr mantissa = (pattern & number((std::uint64_t{1} << 52) - 1)) | number(std::uint64_t{1} << 52);
  // The first bit is number e - 2 of 2/pi; the words begin 64 bits before it, and the exponent field is e +
  // 1075.
  const Expr start = (pattern >> 52) - number(1075 + 2 - 64);
  const Expr word = start >> 6;
  const Expr bit = start & number(63);

  // Four words from there on, by halving steps; no start is beyond word 16.
  std::vector<Expr> words;
  for (const std::uint64_t value : kTwoOverPiWords) words.push_back(number(value));
  for (std::size_t step = 16; step > 0; step /= 2) {
    const Expr skip = ne(word & number(step), 0);
    const std::size_t needed = step == 16 ? std::size(kTwoOverPiWords) : 4 + step - 1;
    for (std::size_t i = 0; i < needed && i + step < words.size(); ++i)
      words[i] = select(skip, words[i + step], words[i]);
    words.resize(needed);
  }
  // 32-bit limbs of the 192 bits, the least first.
  std::vector<Expr> limbs(6);
  for (std::size_t i = 0; i < 3; ++i) {
    const Expr shifted = (words[i] << bit) | (words[i + 1] >> (number(64) - bit));
    limbs[5 - 2 * i] = shifted >> 32;
    limbs[4 - 2 * i] = shifted & number(UINT32_MAX);
  }

  // m times them, modulo 2^192: the angle in quarter turns, times 2^190.
  const Expr low = mantissa & number(UINT32_MAX), high = mantissa >> 32;
  std::vector<Expr> product;
  Expr carry = number(0);
  for (std::size_t i = 0; i < 6; ++i) {
    const Expr part = low * limbs[i];
    Expr sum = carry + (part & number(UINT32_MAX));
    if (i > 0) sum = sum + high * limbs[i - 1];
    carry = (sum >> 32) + (part >> 32);
    product.push_back(sum & number(UINT32_MAX));
  }
  const Expr top = (product[5] << 32) | product[4], middle = (product[3] << 32) | product[2];
  const Expr bottom = (product[1] << 32) | product[0];
  const Expr quadrant = k.bitcast((top + number(std::uint64_t{1} << 61)) >> 62, DType::I64);

  // What is left, in [-1/2, 1/2), as signed 64 bits and 64 below them; then as a sum of two f64.
  const Expr fraction = k.bitcast((top << 2) | (middle >> 62), DType::I64);
  const Expr below = k.cast((middle << 2) | (bottom >> 62), DType::F64);
  const Expr rounded = k.cast(fraction, DType::F64);
  const Expr first = rounded * 0x1p-64;
  const Expr second =
      fma(k.cast(fraction - k.cast(rounded, DType::I64), DType::F64), 0x1p-64, below * 0x1p-128);
  const Expr sum = first + second;
  const Expr lost = (first - sum) + second;
  const Expr y = sum * kPiHalf_64[0];
  const Expr y_low = fma(sum, kPiHalf_64[0], -y) + fma(sum, kPiHalf_64[1], lost * kPiHalf_64[0]);

  const Expr negative = x < 0;
  const Expr nan = x * 0;  // if x is infinite
  return {select(negative, -quadrant, quadrant), select(negative, -y, y) + nan,
          select(negative, -y_low, y_low)};
}

Angle reduce_f64(const Math& math, Expr x) {
  const Angle small = reduce_small_f64(math, x), large = reduce_large_f64(math, x);
  const Expr is_large = abs(x) >= kLargeAngle;
  return {select(is_large, large.quadrant, small.quadrant), select(is_large, large.y, small.y),
          select(is_large, large.y_low, small.y_low)};
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
