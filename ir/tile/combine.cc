// What each Combiner means: a fold in index order, from the first element or, in exclusive scans, from the
// identity.
#include <cmath>
#include <limits>
#include <tuple>

#include "ir/base/errors.h"
#include "ir/tile/primitives.h"
#include "ir/tile/tile_value.h"

namespace kiln::tile {
namespace {

// A fold's state after some elements, and how it takes one more. `identity` is the state before any.
template <typename T, typename Op>
struct Simple {
  using State = std::tuple<T>;
  static State first(T x, std::int64_t) { return {x}; }
  static void take(State& state, T x, std::int64_t) { std::get<0>(state) = Op::apply(std::get<0>(state), x); }
  static State identity() { return {Op::identity()}; }
};

template <typename T>
T lowest() {
  if constexpr (kIsFloat<T>)
    return static_cast<T>(-std::numeric_limits<Wide<T>>::infinity());
  else
    return std::numeric_limits<T>::min();
}
template <typename T>
T highest() {
  if constexpr (kIsFloat<T>)
    return static_cast<T>(std::numeric_limits<Wide<T>>::infinity());
  else
    return std::numeric_limits<T>::max();
}

template <typename T>
struct SumOp {
  static T apply(T a, T b) { return primitive::add(a, b); }
  static T identity() { return static_cast<T>(Wide<T>{0}); }
};
template <typename T>
struct ProdOp {
  static T apply(T a, T b) { return primitive::mul(a, b); }
  static T identity() { return static_cast<T>(Wide<T>{1}); }
};
template <typename T>
struct MinOp {
  static T apply(T a, T b) { return primitive::min(a, b); }
  static T identity() { return highest<T>(); }
};
template <typename T>
struct MaxOp {
  static T apply(T a, T b) { return primitive::max(a, b); }
  static T identity() { return lowest<T>(); }
};
template <typename T>
struct AndOp {
  static T apply(T a, T b) { return static_cast<T>(a & b); }
  static T identity() { return static_cast<T>(std::is_same_v<T, bool> ? 1 : -1); }
};
template <typename T>
struct OrOp {
  static T apply(T a, T b) { return static_cast<T>(a | b); }
  static T identity() { return T{0}; }
};

// The lower index keeps a tie, and the first NaN wins.
template <typename T, bool greatest>
struct Extreme {
  using State = std::tuple<T, std::int64_t>;
  static State first(T x, std::int64_t position) { return {x, position}; }
  static void take(State& state, T x, std::int64_t position) {
    const Wide<T> best = static_cast<Wide<T>>(std::get<0>(state)), value = static_cast<Wide<T>>(x);
    bool better = (greatest ? value > best : value < best) ||
                  (value == best && position < std::get<1>(state));  // in reverse scans
    if constexpr (kIsFloat<T>) better = !std::isnan(best) && (better || std::isnan(value));
    if (better) state = {x, position};
  }
  static State identity() { throw_bug("an exclusive scan of {} has no first value", "argmax or argmin"); }
};

// Wide arithmetic, rounded to T at the end of each step. Equal values differ by 0, infinite ones too.
template <typename T>
struct LogSumExp {
  using State = std::tuple<T, T>;
  static State first(T x, std::int64_t) { return {x, primitive::is_nan(x) ? x : static_cast<T>(Wide<T>{1})}; }
  static void take(State& state, T x, std::int64_t) {
    const Wide<T> top = static_cast<Wide<T>>(std::get<0>(state)), value = static_cast<Wide<T>>(x);
    const Wide<T> sum = static_cast<Wide<T>>(std::get<1>(state));
    const T next = primitive::max(std::get<0>(state), x);
    const Wide<T> reference = static_cast<Wide<T>>(next);
    const auto share = [&](Wide<T> part) {
      return part == reference ? Wide<T>{1} : std::exp(part - reference);
    };
    state = {next, static_cast<T>(sum * share(top) + share(value))};
  }
  static State identity() { return {lowest<T>(), static_cast<T>(Wide<T>{0})}; }
};

template <typename T>
struct Welford {
  using State = std::tuple<T, T, T>;
  static State first(T x, std::int64_t) { return {static_cast<T>(Wide<T>{1}), x, primitive::sub(x, x)}; }
  static void take(State& state, T x, std::int64_t) {
    auto& [count, mean, squares] = state;
    count = primitive::add(count, static_cast<T>(Wide<T>{1}));
    const T delta = primitive::sub(x, mean);
    mean = primitive::add(mean, primitive::div(delta, count));
    squares = primitive::add(squares, primitive::mul(delta, primitive::sub(x, mean)));
  }
  static State identity() {
    const T zero = static_cast<T>(Wide<T>{0});
    return {zero, zero, zero};
  }
};

// Calls visit.operator()<Fold>() for a combiner on elements of type T. The verifier admits no other pairs.
template <typename T, typename Visit>
void with_fold(Combiner combiner, Visit&& visit) {
  if constexpr (!std::is_same_v<T, bool>) {
    switch (combiner) {
      case Combiner::Sum:
        return visit.template operator()<Simple<T, SumOp<T>>>();
      case Combiner::Prod:
        return visit.template operator()<Simple<T, ProdOp<T>>>();
      case Combiner::Min:
        return visit.template operator()<Simple<T, MinOp<T>>>();
      case Combiner::Max:
        return visit.template operator()<Simple<T, MaxOp<T>>>();
      case Combiner::ArgMax:
        return visit.template operator()<Extreme<T, true>>();
      case Combiner::ArgMin:
        return visit.template operator()<Extreme<T, false>>();
      default:
        break;
    }
  }
  if constexpr (kIsFloat<T>) {
    switch (combiner) {
      case Combiner::LogSumExp:
        return visit.template operator()<LogSumExp<T>>();
      case Combiner::Welford:
        return visit.template operator()<Welford<T>>();
      default:
        break;
    }
  } else {
    switch (combiner) {
      case Combiner::And:
        return visit.template operator()<Simple<T, AndOp<T>>>();
      case Combiner::Or:
        return visit.template operator()<Simple<T, OrOp<T>>>();
      default:
        break;
    }
  }
  throw_bug("{} has no meaning on this dtype", name(combiner));
}

template <typename State>
void write(const State& state, std::span<TileValue> results, std::int64_t at) {
  std::size_t i = 0;
  std::apply(
      [&](const auto&... parts) { ((results[i++].data<std::decay_t<decltype(parts)>>()[at] = parts), ...); },
      state);
}

// The axis as a line in row-major memory: `outer` blocks of `length` elements, `inner` apart.
struct Line {
  std::int64_t outer = 1, length = 1, inner = 1;
  Line(const Type& type, std::int64_t axis) : length(type.extents[static_cast<std::size_t>(axis)]) {
    for (std::size_t i = 0; i < type.extents.size(); ++i) {
      if (static_cast<std::int64_t>(i) < axis) outer *= type.extents[i];
      if (static_cast<std::int64_t>(i) > axis) inner *= type.extents[i];
    }
  }
};

std::vector<TileValue> make_values(std::span<const Type> types) {
  std::vector<TileValue> values;
  for (const Type& type : types) values.emplace_back(type);
  return values;
}

}  // namespace

std::vector<TileValue> reduce(Combiner combiner, const TileValue& value, std::int64_t axis,
                              std::span<const Type> types) {
  std::vector<TileValue> results = make_values(types);
  const Line line(value.type(), axis);
  with_element_type(value.dtype(), [&]<typename T>() {
    with_fold<T>(combiner, [&]<typename Fold>() {
      for (std::int64_t outer = 0; outer < line.outer; ++outer) {
        for (std::int64_t inner = 0; inner < line.inner; ++inner) {
          const T* x = value.data<T>() + outer * line.length * line.inner + inner;
          auto state = Fold::first(x[0], 0);
          for (std::int64_t i = 1; i < line.length; ++i) Fold::take(state, x[i * line.inner], i);
          write(state, results, outer * line.inner + inner);
        }
      }
    });
  });
  return results;
}

std::vector<TileValue> scan(Combiner combiner, const TileValue& value, const Attributes& attributes,
                            std::span<const Type> types) {
  std::vector<TileValue> results = make_values(types);
  const Line line(value.type(), attributes.axes[0]);
  with_element_type(value.dtype(), [&]<typename T>() {
    with_fold<T>(combiner, [&]<typename Fold>() {
      for (std::int64_t outer = 0; outer < line.outer; ++outer) {
        for (std::int64_t inner = 0; inner < line.inner; ++inner) {
          const std::int64_t base = outer * line.length * line.inner + inner;
          typename Fold::State state{};
          for (std::int64_t step = 0; step < line.length; ++step) {
            const std::int64_t i = attributes.reverse ? line.length - 1 - step : step;
            const T x = value.data<T>()[base + i * line.inner];
            if (attributes.exclusive) {
              if (step == 0) state = Fold::identity();
              write(state, results, base + i * line.inner);
              if (step == 0)
                state = Fold::first(x, i);
              else
                Fold::take(state, x, i);
            } else {
              if (step == 0)
                state = Fold::first(x, i);
              else
                Fold::take(state, x, i);
              write(state, results, base + i * line.inner);
            }
          }
        }
      }
    });
  });
  return results;
}

}  // namespace kiln::tile
