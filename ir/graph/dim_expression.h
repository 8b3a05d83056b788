// How a Dim is made; for the files dim*.cc alone.
#pragma once

#include <compare>
#include <memory>
#include <utility>
#include <vector>

#include "ir/graph/dim.h"

namespace kiln::graph {

enum class AtomKind : std::uint8_t { Symbol, FloorDiv, Mod, Min, Max, Broadcast };

struct Atom {
  AtomKind kind;
  SymbolId symbol;             // Symbol only
  std::vector<Dim> arguments;  // two of FloorDiv and Mod, at least two and sorted of the others
  std::size_t hash;
  std::int64_t size;
};
using Atoms = std::vector<std::shared_ptr<const Atom>>;

struct Term {
  std::int64_t coefficient;  // never 0
  Atoms factors;             // sorted, at least one
};

// At least one term; their order is that of a graded lexicographic order on monomials, greatest first.
struct Dim::Expression {
  std::vector<Term> terms;
  std::int64_t constant;
  std::size_t hash;
  std::int64_t size;
};

// Access to the parts of a Dim, and the only way to make one from parts.
struct DimParts {
  static const std::vector<Term>& terms(const Dim& dim);
  static std::int64_t constant(const Dim& dim);  // the constant term
  static std::int64_t size(const Dim& dim);
  static const Dim::Expression* expression(const Dim& dim) { return dim.expression_.get(); }
  // Sorts the terms, merges those of the same monomial.
  static Dim make(std::vector<Term> terms, std::int64_t constant);
  static Dim atom(AtomKind kind, SymbolId symbol, std::vector<Dim> arguments);
};

std::strong_ordering compare(const Atoms& a, const Atoms& b);
std::strong_ordering compare(const Dim& a, const Dim& b);

// Integers that a Dim may take when Symbols take any value >= 0; the extremes of int64 mean unbounded.
struct Interval {
  std::int64_t low = INT64_MIN, high = INT64_MAX;
};
Interval interval(const Dim& dim);

}  // namespace kiln::graph
