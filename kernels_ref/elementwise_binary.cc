// Arithmetic and logic of broadcast operands.
#include <cmath>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/broadcast.h"
#include "kernels_ref/kernels.h"

namespace kiln::reference {
namespace {

// Remainder with the sign of the divisor, or of the dividend as C's % and fmod have it.
template <typename T>
T floor_remainder(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) throw_caller(ErrorCode::DivisionByZero, "integer remainder by zero");
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
      const T rest = static_cast<T>(a % b);
      return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
    } else {
      return static_cast<T>(a % b);
    }
  } else {
    const T rest = std::fmod(a, b);
    if (rest == 0) return std::copysign(rest, b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
  }
}
template <typename T>
T truncated_remainder(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) throw_caller(ErrorCode::DivisionByZero, "integer remainder by zero");
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  } else {
    return std::fmod(a, b);
  }
}

// Modulo 2^64, with the sign extended.
template <typename T>
std::uint64_t wrapped(T x) {
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(x));
}

// base^(+-magnitude) by squaring, wrapping; a negative power truncates the true value towards zero.
template <typename T>
T integer_power(T base, std::uint64_t magnitude, bool negative) {
  if (negative) {
    if (base == 0) throw_caller(ErrorCode::DivisionByZero, "0 to the power -{}", magnitude);
    const bool unit = base == 1 || (std::is_signed_v<T> && base == static_cast<T>(-1));
    if (!unit) return 0;
  }
  std::uint64_t result = 1, square = wrapped(base);
  for (; magnitude != 0; magnitude >>= 1) {
    if (magnitude & 1) result *= square;
    square *= square;
  }
  return static_cast<T>(result);
}

template <typename A, typename B>
Compute<A> power(Compute<A> base, Compute<B> exponent) {
  if constexpr (std::is_integral_v<A> && std::is_integral_v<B>) {
    const bool negative = std::is_signed_v<B> && exponent < B{0};
    const std::uint64_t bits = wrapped(exponent);
    return integer_power<A>(base, negative ? -bits : bits, negative);
  } else if constexpr (std::is_same_v<Compute<A>, float> && std::is_same_v<Compute<B>, float>) {
    return std::pow(base, exponent);
  } else {
    return convert<Compute<A>>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
}

// Folds a variadic list pairwise from the left.
template <typename List, typename Function>
void fold(Call& call, Function function) {
  const DType dtype = call.input(0).dtype();
  if (call.inputs.size() == 1) return call.output_view(0, call.input(0), call.input(0).extents());
  Extents extents = call.input(0).extents();
  for (std::size_t k = 0; k < call.inputs.size(); ++k) {
    const Tensor& input = call.input(k);
    extents = broadcast_extents(extents, input.extents());
    if (input.dtype() != dtype) {
      throw_caller(ErrorCode::TypeMismatch, "operands must have one type, got {} and {}", name(dtype),
                   name(input.dtype()));
    }
  }
  dispatch(List{}, dtype, [&]<typename T>() {
    Tensor& y = call.output(0, dtype, extents);
    T* to = y.template as_mutable<T>().data();
    copy_elements(call, dtype,
                  {extents, {dense_strides(extents), broadcast_strides(call.input(0).extents(), extents)}},
                  y.mutable_data(), call.input(0).data());
    for (std::size_t k = 1; k < call.inputs.size(); ++k) {
      const Nest<2> nest = coalesce(
          Nest<2>{extents, {dense_strides(extents), broadcast_strides(call.input(k).extents(), extents)}});
      const T* from = call.input(k).as<T>().data();
      walk_all(call, nest, 1, [&](const std::array<std::int64_t, 2>& offsets, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) {
          T& element = to[offsets[0] + i];
          element = T(function(static_cast<Compute<T>>(element),
                               static_cast<Compute<T>>(from[offsets[1] + i * nest.strides[1].back()])));
        }
      });
    }
  });
}

template <typename Function>
void map_booleans(Call& call, Function function) {
  map_binary<Booleans>(call, function);
}

}  // namespace

void add(Call& call) {
  map_binary<Numbers>(call, []<typename T>(T a, T b) { return sum_of(a, b); });
}
void sub(Call& call) {
  map_binary<Numbers>(call, []<typename T>(T a, T b) { return difference_of(a, b); });
}
void mul(Call& call) {
  map_binary<Numbers>(call, []<typename T>(T a, T b) { return product_of(a, b); });
}
void div(Call& call) {
  map_binary<Numbers>(call, []<typename T>(T a, T b) { return quotient_of(a, b); });
}
void mod(Call& call) {
  if (integer(call.node, "fmod") != 0) {
    map_binary<Numbers>(call, []<typename T>(T a, T b) { return truncated_remainder(a, b); });
  } else {
    map_binary<Numbers>(call, []<typename T>(T a, T b) { return floor_remainder(a, b); });
  }
}
void pow(Call& call) {
  const Tensor &base = call.input(0), &exponent = call.input(1);
  dispatch(Numbers{}, base.dtype(), [&]<typename A>() {
    dispatch(Numbers{}, exponent.dtype(), [&]<typename B>() {
      broadcast_binary<A, B, A>(call, base, exponent, 20,
                                [](Compute<A> a, Compute<B> b) { return power<A, B>(a, b); });
    });
  });
}
void prelu(Call& call) {
  map_binary<Numbers>(call, []<typename T>(T x, T slope) { return x < 0 ? product_of(slope, x) : x; });
}

void min(Call& call) {
  fold<Numbers>(call, []<typename T>(T a, T b) { return smaller(a, b); });
}
void max(Call& call) {
  fold<Numbers>(call, []<typename T>(T a, T b) { return larger(a, b); });
}
void sum(Call& call) {
  if (computed_in_f32(call, call.input(0).dtype(), sum)) return;
  fold<WideFloats>(call, [](auto a, auto b) { return a + b; });
}
void mean(Call& call) {
  if (computed_in_f32(call, call.input(0).dtype(), mean)) return;
  sum(call);
  Tensor& y = call.outputs[0].tensor();
  if (call.inputs.size() == 1) return;
  dispatch(WideFloats{}, y.dtype(), [&]<typename T>() {
    for (T& element : y.template as_mutable<T>()) element /= static_cast<T>(call.inputs.size());
  });
}

void logical_and(Call& call) {
  map_booleans(call, [](bool a, bool b) { return a && b; });
}
void logical_or(Call& call) {
  map_booleans(call, [](bool a, bool b) { return a || b; });
}
void logical_xor(Call& call) {
  map_booleans(call, [](bool a, bool b) { return a != b; });
}
void bitwise_and(Call& call) {
  map_binary<Integers>(call, []<typename T>(T a, T b) { return static_cast<T>(a & b); });
}
void bitwise_or(Call& call) {
  map_binary<Integers>(call, []<typename T>(T a, T b) { return static_cast<T>(a | b); });
}
void bitwise_xor(Call& call) {
  map_binary<Integers>(call, []<typename T>(T a, T b) { return static_cast<T>(a ^ b); });
}
void bit_shift(Call& call) {
  const std::string& direction = text(call.node, "direction");
  // A count of the width or more shifts every bit out.
  if (direction == "LEFT") {
    map_binary<Unsigned>(call, []<typename T>(T a, T b) {
      return b >= std::numeric_limits<T>::digits ? T{0} : static_cast<T>(std::uint64_t{a} << b);
    });
  } else if (direction == "RIGHT") {
    map_binary<Unsigned>(call, []<typename T>(T a, T b) {
      return b >= std::numeric_limits<T>::digits ? T{0} : static_cast<T>(a >> b);
    });
  } else {
    throw_caller(ErrorCode::InvalidArgument, "direction must be 'LEFT' or 'RIGHT', got '{}'", direction);
  }
}

void clip(Call& call) {
  const Tensor& x = call.input(0);
  dispatch(Numbers{}, x.dtype(), [&]<typename T>() {
    using C = Compute<T>;
    const auto bound = [&](std::size_t index, C otherwise) {
      if (!call.has_input(index)) return otherwise;
      const Tensor& tensor = call.input(index);
      if (tensor.elements() != 1 || tensor.dtype() != x.dtype()) {
        throw_caller(ErrorCode::InvalidArgument, "a bound must be one {}, got {} of {}", name(x.dtype()),
                     name(tensor.dtype()), to_string(tensor.extents()));
      }
      return static_cast<C>(tensor.as<T>()[0]);
    };
    using Limits = std::numeric_limits<C>;
    const bool infinite = Limits::has_infinity;
    const C low = bound(1, infinite ? -Limits::infinity() : Limits::min());
    const C high = bound(2, infinite ? Limits::infinity() : Limits::max());
    const T* from = x.as<T>().data();
    T* to = call.output(0, x.dtype(), x.extents()).template as_mutable<T>().data();
    for_range(call, x.elements(), 1, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        to[i] = T(smaller(larger(static_cast<C>(from[i]), low), high));
      }
    });
  });
}

void where(Call& call) {
  const Tensor &condition = call.input(0), &a = call.input(1), &b = call.input(2);
  if (a.dtype() != b.dtype() || condition.dtype() != DType::I1) {
    throw_caller(ErrorCode::TypeMismatch, "expected i1 and two operands of one type, got {}, {} and {}",
                 name(condition.dtype()), name(a.dtype()), name(b.dtype()));
  }
  Tensor& y = call.output(
      0, a.dtype(), broadcast_extents(condition.extents(), broadcast_extents(a.extents(), b.extents())));
  const Extents& to = y.extents();
  const Nest<4> nest =
      coalesce(Nest<4>{to,
                       {dense_strides(to), broadcast_strides(condition.extents(), to),
                        broadcast_strides(a.extents(), to), broadcast_strides(b.extents(), to)}});
  const auto select = [&]<typename T>() {
    const Boolean* flags = condition.as<Boolean>().data();
    walk_all(call, nest, 1, [&](const std::array<std::int64_t, 4>& offsets, std::int64_t count) {
      T* row = y.as_mutable<T>().data() + offsets[0];
      for (std::int64_t i = 0; i < count; ++i) {
        row[i] = flags[offsets[1] + i * nest.strides[1].back()]
                     ? a.as<T>().data()[offsets[2] + i * nest.strides[2].back()]
                     : b.as<T>().data()[offsets[3] + i * nest.strides[3].back()];
      }
    });
  };
  dispatch_storage(a.dtype(), select);
}

}  // namespace kiln::reference
