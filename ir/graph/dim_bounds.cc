// What can be proved of a Dim: its range and its divisors.
#include <algorithm>
#include <numeric>

#include <kiln/error.h>

#include "ir/base/checked_math.h"
#include "ir/graph/dim_expression.h"

namespace kiln::graph {
namespace {

constexpr std::int64_t kLow = INT64_MIN, kHigh = INT64_MAX;

bool unbounded(std::int64_t bound) { return bound == kLow || bound == kHigh; }

// Sums and products that stay at infinity once there; 0 times infinity is 0.
std::int64_t saturating_multiply(std::int64_t a, std::int64_t b) {
  if (a == 0 || b == 0) return 0;
  const std::int64_t infinity = ((a < 0) == (b < 0)) ? kHigh : kLow;
  if (unbounded(a) || unbounded(b)) return infinity;
  return checked_multiply(a, b).value_or(infinity);
}

std::int64_t saturating_add(std::int64_t a, std::int64_t b) {
  if (unbounded(a)) return a;
  if (unbounded(b)) return b;
  return checked_add(a, b).value_or(a < 0 ? kLow : kHigh);
}

Interval operator+(Interval a, Interval b) {
  return {saturating_add(a.low, b.low), saturating_add(a.high, b.high)};
}

Interval operator*(Interval a, Interval b) {
  const auto [low, high] =
      std::minmax({saturating_multiply(a.low, b.low), saturating_multiply(a.low, b.high),
                   saturating_multiply(a.high, b.low), saturating_multiply(a.high, b.high)});
  return {low, high};
}

std::int64_t divided(std::int64_t bound, std::int64_t divisor) {
  return unbounded(bound) ? bound : floor_divide(bound, divisor);
}

Interval atom_interval(const Atom& atom) {
  switch (atom.kind) {
    case AtomKind::Symbol:
      return {0, kHigh};
    case AtomKind::FloorDiv: {
      const Interval a = interval(atom.arguments[0]), b = interval(atom.arguments[1]);
      if (b.low < 0) return {};
      const std::int64_t smallest = std::max<std::int64_t>(b.low, 1);  // a divisor is not 0
      const std::int64_t largest = std::max(b.high, smallest);
      return {a.low >= 0 ? (unbounded(largest) ? 0 : divided(a.low, largest)) : divided(a.low, smallest),
              a.high >= 0 ? divided(a.high, smallest) : -1};
    }
    case AtomKind::Mod: {
      const Interval a = interval(atom.arguments[0]), b = interval(atom.arguments[1]);
      if (b.low < 0) return {};
      const std::int64_t below = unbounded(b.high) ? kHigh : std::max<std::int64_t>(b.high, 1) - 1;
      return {0, a.low >= 0 ? std::min(a.high, below) : below};
    }
    case AtomKind::Min:
    case AtomKind::Max:
    case AtomKind::Broadcast: {
      Interval result = interval(atom.arguments[0]);
      for (std::size_t i = 1; i < atom.arguments.size(); ++i) {
        const Interval next = interval(atom.arguments[i]);
        result.low =
            atom.kind == AtomKind::Max ? std::max(result.low, next.low) : std::min(result.low, next.low);
        result.high =
            atom.kind == AtomKind::Min ? std::min(result.high, next.high) : std::max(result.high, next.high);
      }
      return result;
    }
  }
  return {};
}

// The greatest integer known to divide every value; 0 if every value is 0.
std::int64_t divisor_of(const Dim& dim) {
  std::int64_t result = DimParts::constant(dim);
  for (const Term& term : DimParts::terms(dim)) {
    std::int64_t factor = term.coefficient;
    for (const std::shared_ptr<const Atom>& atom : term.factors) {
      std::int64_t atom_divisor = 1;
      if (atom->kind != AtomKind::Symbol && atom->kind != AtomKind::FloorDiv) {
        atom_divisor = 0;
        for (const Dim& argument : atom->arguments) {
          atom_divisor = std::gcd(atom_divisor, divisor_of(argument));
        }
      }
      // On overflow the factor found so far still divides.
      factor = checked_multiply(factor, atom_divisor).value_or(factor);
    }
    result = std::gcd(result, factor);
  }
  return result;
}

// Proves dim >= bound by intervals, and where these are too wide by replacing a floordiv, min or max that
// stands alone in its term by what it is known to be above or below; `depth` of them at most.
bool proves_at_least(const Dim& dim, std::int64_t bound, int depth) {
  if (interval(dim).low >= bound) return true;
  if (depth == 0) return false;
  for (const Term& term : DimParts::terms(dim)) {
    const Atom& atom = *term.factors[0];
    if (term.factors.size() != 1 || atom.kind == AtomKind::Symbol) continue;
    const Dim rest = dim - DimParts::make({term}, 0);
    const Dim k = term.coefficient;
    const bool raises = term.coefficient > 0;
    const auto with = [&](const Dim& argument) {
      return proves_at_least(rest + k * argument, bound, depth - 1);
    };
    switch (atom.kind) {
      case AtomKind::FloorDiv: {
        const Dim& by = atom.arguments[1];
        if (!by.is_constant()) break;
        // (x - by + 1) / by <= floordiv(x, by) <= x / by
        const Dim relaxed = raises ? atom.arguments[0] - by + 1 : atom.arguments[0];
        if (proves_at_least(by * (rest - bound) + k * relaxed, 0, depth - 1)) return true;
        break;
      }
      case AtomKind::Min:
      case AtomKind::Max: {
        const std::vector<Dim>& arguments = atom.arguments;
        const bool any = raises == (atom.kind == AtomKind::Max);
        if (any ? std::any_of(arguments.begin(), arguments.end(), with)
                : std::all_of(arguments.begin(), arguments.end(), with)) {
          return true;
        }
        break;
      }
      case AtomKind::Symbol:
      case AtomKind::Mod:
      case AtomKind::Broadcast:
        break;
    }
  }
  return false;
}

}  // namespace

Interval interval(const Dim& dim) {
  Interval sum{DimParts::constant(dim), DimParts::constant(dim)};
  for (const Term& term : DimParts::terms(dim)) {
    Interval product{term.coefficient, term.coefficient};
    for (const std::shared_ptr<const Atom>& atom : term.factors) product = product * atom_interval(*atom);
    sum = sum + product;
  }
  return sum;
}

bool Dim::is_at_least(std::int64_t bound) const {
  constexpr int kDepth = 3;
  try {
    return proves_at_least(*this, bound, kDepth);
  } catch (const Error&) {
    return false;  // an intermediate expression exceeds what a Dim can hold
  }
}

bool Dim::is_multiple_of(std::int64_t factor) const {
  const std::int64_t divisor = divisor_of(*this);
  return factor == 0 ? divisor == 0 : divisor % factor == 0;
}

}  // namespace kiln::graph
