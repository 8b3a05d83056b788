// Functions of one element. f16 and bf16 are computed in f32 and rounded once.
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels_ref/arguments.h"
#include "kernels_ref/element.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {
namespace {

// Applies `function`, from the compute type of T to a value convertible to the compute type of Result.
template <typename T, typename Result, typename Function>
void apply(Call& call, std::int64_t cost, Function function) {
  const Tensor& x = call.input(0);
  const T* from = x.as<T>().data();
  Result* to = call.output(0, kDType<Result>, x.extents()).template as_mutable<Result>().data();
  for_range(call, x.elements(), cost, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = Result(function(static_cast<Compute<T>>(from[i])));
  });
}

template <typename List, typename Function>
void map(Call& call, Function function, std::int64_t cost = 1) {
  dispatch(List{}, call.input(0).dtype(), [&]<typename T>() { apply<T, T>(call, cost, function); });
}

constexpr std::int64_t kTranscendentalCost = 20;

// For functions that are defined on floats alone.
template <typename Function>
void map_floats(Call& call, Function function) {
  map<Floats>(call, function, kTranscendentalCost);
}

template <typename T>
T logistic(T x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const T e = std::exp(x);
  return e / (1 + e);
}

template <typename T>
T softplus_of(T x) {
  return std::log1p(std::exp(-std::abs(x))) + (x < 0 ? T{0} : x);
}

// x * Phi(x); erfc keeps the precision of the negative tail.
template <typename T>
T gelu_of(T x) {
  if (x == -std::numeric_limits<T>::infinity()) return T{-0.0f};
  return x / 2 * std::erfc(-x * static_cast<T>(std::numbers::sqrt2 / 2));
}

template <typename T>
T gelu_tanh_of(T x) {
  if (x == -std::numeric_limits<T>::infinity()) return T{-0.0f};
  const T inner = static_cast<T>(2 * std::numbers::inv_sqrtpi / std::numbers::sqrt2) *
                  (x + static_cast<T>(0.044715) * x * x * x);
  return x * logistic(2 * inner);  // (1 + tanh z) / 2 is the logistic function of 2 z
}

template <typename T>
T swish_of(T x, T alpha) {
  const T gate = logistic(alpha * x);
  return gate == 0 ? T{-0.0f} : x * gate;  // the limit at -inf, where the product is inf * 0
}

// Integers wrap: the negative of the minimum is itself.
template <typename T>
T negated(T x) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(-static_cast<std::uint64_t>(x));
  else
    return -x;
}

}  // namespace

void abs(Call& call) {
  map<Numbers>(call, []<typename T>(T x) {
    if constexpr (std::is_floating_point_v<T>)
      return std::abs(x);
    else
      return x < 0 ? negated(x) : x;
  });
}
void neg(Call& call) {
  map<decltype(join(Floats{}, Signed{}))>(call, []<typename T>(T x) { return negated(x); });
}
void sign(Call& call) {
  map<Numbers>(call, []<typename T>(T x) -> T {
    if (x > 0) return 1;
    if (x == 0) return 0;
    if constexpr (std::is_unsigned_v<T>)
      return 0;
    else
      return x < 0 ? T{-1} : x;  // NaN stays
  });
}
void floor(Call& call) {
  map<Floats>(call, [](auto x) { return std::floor(x); });
}
void ceil(Call& call) {
  map<Floats>(call, [](auto x) { return std::ceil(x); });
}
void round(Call& call) {
  map<Floats>(call, [](auto x) { return std::nearbyint(x); });
}
void sqrt(Call& call) {
  map<Floats>(call, [](auto x) { return std::sqrt(x); });
}
void reciprocal(Call& call) {
  map<Floats>(call, [](auto x) { return 1 / x; });
}
void exp(Call& call) {
  map_floats(call, [](auto x) { return std::exp(x); });
}
void log(Call& call) {
  map_floats(call, [](auto x) { return std::log(x); });
}
void sin(Call& call) {
  map_floats(call, [](auto x) { return std::sin(x); });
}
void cos(Call& call) {
  map_floats(call, [](auto x) { return std::cos(x); });
}
void tan(Call& call) {
  map_floats(call, [](auto x) { return std::tan(x); });
}
void asin(Call& call) {
  map_floats(call, [](auto x) { return std::asin(x); });
}
void acos(Call& call) {
  map_floats(call, [](auto x) { return std::acos(x); });
}
void atan(Call& call) {
  map_floats(call, [](auto x) { return std::atan(x); });
}
void sinh(Call& call) {
  map_floats(call, [](auto x) { return std::sinh(x); });
}
void cosh(Call& call) {
  map_floats(call, [](auto x) { return std::cosh(x); });
}
void tanh(Call& call) {
  map_floats(call, [](auto x) { return std::tanh(x); });
}
void asinh(Call& call) {
  map_floats(call, [](auto x) { return std::asinh(x); });
}
void acosh(Call& call) {
  map_floats(call, [](auto x) { return std::acosh(x); });
}
void atanh(Call& call) {
  map_floats(call, [](auto x) { return std::atanh(x); });
}
void erf(Call& call) {
  map<decltype(join(Floats{}, Integers{}))>(
      call,
      []<typename T>(T x) {
        if constexpr (std::is_floating_point_v<T>)
          return std::erf(x);
        else
          return convert<T>(std::erf(static_cast<double>(x)));
      },
      kTranscendentalCost);
}

void relu(Call& call) {
  map<decltype(join(Floats{}, Signed{}))>(call, []<typename T>(T x) { return x < 0 ? T{0} : x; });
}
void leaky_relu(Call& call) {
  const double alpha = number(call.node, "alpha");
  map<Floats>(call, [=]<typename T>(T x) { return x < 0 ? static_cast<T>(alpha) * x : x; });
}
void thresholded_relu(Call& call) {
  const double alpha = number(call.node, "alpha");
  map<Floats>(call, [=]<typename T>(T x) { return x > static_cast<T>(alpha) ? x : T{0}; });
}
void elu(Call& call) {
  const double alpha = number(call.node, "alpha");
  map_floats(call, [=]<typename T>(T x) { return x < 0 ? static_cast<T>(alpha) * std::expm1(x) : x; });
}
void selu(Call& call) {
  const double alpha = number(call.node, "alpha"), gamma = number(call.node, "gamma");
  map_floats(call, [=]<typename T>(T x) {
    return x <= 0 ? static_cast<T>(gamma) * (static_cast<T>(alpha) * std::expm1(x))
                  : static_cast<T>(gamma) * x;
  });
}
void celu(Call& call) {
  const double alpha = number(call.node, "alpha");
  map_floats(call, [=]<typename T>(T x) {
    const T a = static_cast<T>(alpha);
    return x < 0 ? a * std::expm1(x / a) : x;
  });
}
void sigmoid(Call& call) {
  map_floats(call, [](auto x) { return logistic(x); });
}
void hard_sigmoid(Call& call) {
  const double alpha = number(call.node, "alpha"), beta = number(call.node, "beta");
  map<Floats>(call, [=]<typename T>(T x) {
    const T y = static_cast<T>(alpha) * x + static_cast<T>(beta);
    return y < 0 ? T{0} : y > 1 ? T{1} : y;
  });
}
void hard_swish(Call& call) {
  map<Floats>(call, []<typename T>(T x) {
    const T y = x / 6 + static_cast<T>(0.5);
    return y < 0 ? T{-0.0f} : y > 1 ? x : x * y;
  });
}
void softplus(Call& call) {
  map_floats(call, [](auto x) { return softplus_of(x); });
}
void softsign(Call& call) {
  map<Floats>(call, [](auto x) { return x / (1 + std::abs(x)); });
}
void mish(Call& call) {
  map_floats(call, []<typename T>(T x) {
    if (x == -std::numeric_limits<T>::infinity()) return T{-0.0f};
    return x * std::tanh(softplus_of(x));
  });
}
void gelu(Call& call) {
  const std::string& approximate = text(call.node, "approximate");
  if (approximate == "tanh") return map_floats(call, [](auto x) { return gelu_tanh_of(x); });
  if (approximate == "none") return map_floats(call, [](auto x) { return gelu_of(x); });
  throw_caller(ErrorCode::InvalidArgument, "approximate must be 'none' or 'tanh', got '{}'", approximate);
}
void swish(Call& call) {
  const double alpha = number(call.node, "alpha");
  map_floats(call, [=]<typename T>(T x) { return swish_of(x, static_cast<T>(alpha)); });
}
void shrink(Call& call) {
  const double bias = number(call.node, "bias"), lambda = number(call.node, "lambd");
  map<Numbers>(call, [=]<typename T>(T x) -> T {
    using Wide = std::conditional_t<std::is_same_v<T, float>, float, double>;
    const Wide value = static_cast<Wide>(x), b = static_cast<Wide>(bias), l = static_cast<Wide>(lambda);
    if (value < -l) return convert<T>(value + b);
    if (value > l) return convert<T>(value - b);
    return T{0};
  });
}

void is_nan(Call& call) {
  dispatch(Floats{}, call.input(0).dtype(),
           [&]<typename T>() { apply<T, Boolean>(call, 1, [](auto x) { return std::isnan(x); }); });
}
void is_inf(Call& call) {
  const bool negative = integer(call.node, "detect_negative") != 0;
  const bool positive = integer(call.node, "detect_positive") != 0;
  dispatch(Floats{}, call.input(0).dtype(), [&]<typename T>() {
    apply<T, Boolean>(call, 1,
                      [=](auto x) { return std::isinf(x) && (std::signbit(x) ? negative : positive); });
  });
}
void logical_not(Call& call) {
  map<Booleans>(call, [](bool x) { return !x; });
}
void bitwise_not(Call& call) {
  map<Integers>(call, []<typename T>(T x) { return static_cast<T>(~x); });
}

// Of inference: the input itself. Dropping elements at random is no part of Kiln.
void dropout(Call& call) {
  const Tensor& x = call.input(0);
  const bool training = call.has_input(2) && to_number(call.input(2)) != 0;
  const double ratio = call.has_input(1) ? to_number(call.input(1)) : 0.5;
  if (training && ratio != 0)
    throw_caller(ErrorCode::Unsupported, "dropout in training mode with ratio {}", ratio);
  call.output_view(0, x, x.extents());
  if (!call.wants(1)) return;
  for (Boolean& kept : call.output(1, DType::I1, x.extents()).as_mutable<Boolean>()) kept = true;
}

}  // namespace kiln::reference
