// Symbolic dimensions: integer expressions over Symbols, always in one normal form.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/base/id.h"

namespace kiln::graph {

using SymbolId = Id<struct SymbolTag>;

// Values of Symbols by SymbolId::index; a Symbol beyond the end, or whose entry is kUnbound, is unknown.
constexpr std::int64_t kUnbound = INT64_MIN;
using Bindings = std::vector<std::int64_t>;

// An integer expression. Immutable and cheap to copy. Normal form: a sum of integer multiples of products
// of atoms, sorted; an atom is a Symbol or a floordiv, mod, min, max or broadcast of Dims. Two Dims are
// equal iff their normal forms are the same: equality that cannot be proved counts as different. The normal
// form uses that Symbols are >= 0 (max(s, 0) is s) and divisors not 0 (floordiv(a*b, b) is a). An overflow
// or an expression beyond kMaxDimSize throws Error (caller, limit_exceeded). Thread safe.
class Dim {
 public:
  Dim(std::int64_t value = 0);  // NOLINT(google-explicit-constructor): integers are Dims
  static Dim symbol(SymbolId symbol);

  bool is_constant() const;
  std::int64_t constant() const;  // only if is_constant()
  std::optional<SymbolId> as_symbol() const;

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  // Division is by a Dim assumed non-zero; evaluate() throws Error (caller, invalid_argument) when it is 0.
  friend Dim floordiv(const Dim& a, const Dim& b);
  friend Dim ceildiv(const Dim& a, const Dim& b);
  friend Dim mod(const Dim& a, const Dim& b);  // sign of the divisor
  friend Dim min(const Dim& a, const Dim& b);
  friend Dim max(const Dim& a, const Dim& b);
  // The extent of two broadcast extents: the other if one is 1, else both must agree (checked when
  // evaluated, Error shape_mismatch).
  friend Dim broadcast(const Dim& a, const Dim& b);

  friend bool operator==(const Dim& a, const Dim& b);
  std::size_t hash() const;

  // The value, or nothing while a Symbol is unbound. Throws Error on overflow, division by zero or a
  // failed broadcast.
  std::optional<std::int64_t> try_evaluate(std::span<const std::int64_t> bindings) const;
  // The same for Bindings that bind every Symbol used.
  std::int64_t evaluate(std::span<const std::int64_t> bindings) const;

  // Every Symbol replaced by `replacement(symbol)`.
  Dim substitute(const std::function<Dim(SymbolId)>& replacement) const;
  // Symbols used, ascending, each once.
  std::vector<SymbolId> symbols() const;
  // True if provably a multiple of `factor` / at least `bound`, given that every Symbol is >= 0.
  bool is_multiple_of(std::int64_t factor) const;
  bool is_at_least(std::int64_t bound) const;

  // Reads like source: "4*batch + 3", "floordiv(h + 1, 2)". `symbol_name` prints a Symbol.
  std::string to_string(const std::function<std::string(SymbolId)>& symbol_name) const;

  struct Expression;

 private:
  friend struct DimParts;
  explicit Dim(std::shared_ptr<const Expression> expression);
  std::shared_ptr<const Expression> expression_;  // null: the constant below
  std::int64_t constant_ = 0;
};

// Most Symbols, numbers and operations in one Dim.
constexpr std::int64_t kMaxDimSize = 2048;

using Shape = std::vector<Dim>;

// Product of all extents, 1 for none.
Dim element_count(std::span<const Dim> shape);
// Row-major strides of a dense tensor, in elements.
std::vector<Dim> dense_strides(std::span<const Dim> shape);

}  // namespace kiln::graph

template <>
struct std::hash<kiln::graph::Dim> {
  std::size_t operator()(const kiln::graph::Dim& dim) const noexcept { return dim.hash(); }
};
