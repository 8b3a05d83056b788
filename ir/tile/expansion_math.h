// Pieces that several expansions share. Every function here takes and gives f32 or f64 Exprs and appends
// primitives; `Math` knows which of the two, and picks constants and polynomials.
#pragma once

#include <cstdint>
#include <limits>

#include "ir/tile/builder.h"
#include "ir/tile/polynomials.h"

namespace kiln::tile {

class Math {
 public:
  explicit Math(Expr x) : k_(x.builder()), dtype_(x.type().element) {}

  KernelBuilder& builder() const { return *k_; }
  bool is_double() const { return dtype_ == DType::F64; }
  DType integer() const { return is_double() ? DType::I64 : DType::I32; }
  int mantissa_bits() const { return is_double() ? 52 : 23; }
  int bias() const { return is_double() ? 1023 : 127; }

  Expr number(double value) const { return k_->constant(dtype_, value); }
  Expr infinity() const { return number(std::numeric_limits<double>::infinity()); }
  Expr nan() const { return number(std::numeric_limits<double>::quiet_NaN()); }
  Expr bits(Expr x) const { return k_->bitcast(x, integer()); }
  Expr from_bits(Expr i) const { return k_->bitcast(i, dtype_); }
  Expr integer_number(std::int64_t value) const { return k_->constant_integer(integer(), value); }
  // The bits of a number as an integer.
  Expr pattern(double value) const {
    return integer_number(static_cast<std::int64_t>(Literal::number(dtype_, value).bits));
  }
  Expr sign_bit() const {
    return integer_number(is_double() ? std::numeric_limits<std::int64_t>::min() : std::int64_t{INT32_MIN});
  }
  // The magnitude of `x`, which is not negative, with the sign of `sign`.
  Expr with_sign(Expr x, Expr sign) const { return from_bits(bits(x) | (bits(sign) & sign_bit())); }

  // Horner's rule by fma over coefficients of lowest order first.
  template <typename Number, std::size_t count>
  Expr polynomial(Expr x, const Number (&coefficients)[count]) const {
    Expr sum = number(coefficients[count - 1]);
    for (std::size_t i = count - 1; i-- > 0;) sum = fma(sum, x, number(coefficients[i]));
    return sum;
  }
  template <std::size_t narrow, std::size_t wide>
  Expr polynomial(Expr x, const float (&for_f32)[narrow], const double (&for_f64)[wide]) const {
    return is_double() ? polynomial(x, for_f64) : polynomial(x, for_f32);
  }
  // Part `i` of a constant given as a sum.
  template <std::size_t parts>
  double part(const float (&for_f32)[parts], const double (&for_f64)[parts], std::size_t i) const {
    return is_double() ? for_f64[i] : static_cast<double>(for_f32[i]);
  }

  // x = n ln2 + r, |r| <= ln2 / 2, by adding and taking away a number so large that only an integer is left
  // in its last bits. |x| must be small enough for n to be exact, as it is where e^x has not overflowed.
  struct Reduced {
    Expr n;         // as a float
    Expr exponent;  // as an integer
    Expr r;
  };
  Reduced reduce(Expr x) const;
  // e^x as p * 2^exponent, 0.7 < p < 1.5; x within the same limits. `low` is added to r.
  struct Scaled {
    Expr p;
    Expr exponent;
  };
  Scaled scaled_exp(Expr x, Expr low = {}) const;
  // e^x for x <= 0.
  Scaled scaled_exp_of_negative(Expr x, Expr low = {}) const {
    return scaled_exp(max(x, lowest_exponent()), low);
  }
  // From there down e^x rounds to 0, and so does x e^x.
  double lowest_exponent() const { return is_double() ? -756 : -112; }
  double highest_exponent() const { return is_double() ? 710 : 89; }
  // (e^r - 1) for |r| <= ln2 / 2.
  Expr expm1_of_reduced(Expr r) const;

  // x = 2^exponent (1 + f), 1 + f in [sqrt(1/2), sqrt 2), for x > 0 and finite.
  struct Decomposed {
    Expr exponent;  // integer
    Expr f;
  };
  Decomposed decompose(Expr x) const;
  // log(1 + f) - f for f in [sqrt(1/2) - 1, sqrt 2 - 1].
  Expr log1p_rest(Expr f) const;
  // e ln2 + log(1 + f), e a whole number.
  Expr log_sum(Expr e, Expr f) const;

 private:
  KernelBuilder* k_;
  DType dtype_;
};

// Expansions on f32 or f64, by family.
Expr expand_exp(Expr x);
Expr expand_exp2(Expr x);
Expr expand_expm1(Expr x);
Expr expand_log(Expr x);
Expr expand_log2(Expr x);
Expr expand_log1p(Expr x);
Expr expand_pow(Expr x, Expr y);

Expr expand_sin(Expr x);
Expr expand_cos(Expr x);
Expr expand_tan(Expr x);
Expr expand_asin(Expr x);
Expr expand_acos(Expr x);
Expr expand_atan(Expr x);

Expr expand_sinh(Expr x);
Expr expand_cosh(Expr x);
Expr expand_tanh(Expr x);
Expr expand_asinh(Expr x);
Expr expand_acosh(Expr x);
Expr expand_atanh(Expr x);

Expr expand_rsqrt(Expr x);
Expr expand_erf(Expr x);
Expr expand_sigmoid(Expr x);
Expr expand_gelu(Expr x);
Expr expand_gelu_tanh(Expr x);
Expr expand_silu(Expr x);
Expr expand_softplus(Expr x);
Expr expand_hardswish(Expr x);

// Computes an f32 through the f64 expansion, rounded once: right for functions that no hot loop calls.
template <typename Expand>
Expr through_double(Expr x, Expand&& expand) {
  KernelBuilder& k = *x.builder();
  return k.cast(expand(k.cast(x, DType::F64)), DType::F32);
}

}  // namespace kiln::tile
