// Evaluation, substitution and text of a Dim.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "ir/base/checked_math.h"
#include "ir/base/errors.h"
#include "ir/graph/dim_expression.h"

namespace kiln::graph {
namespace {

std::int64_t checked(std::optional<std::int64_t> value) {
  if (!value) throw_caller(ErrorCode::LimitExceeded, "a dimension exceeds 64-bit integers");
  return *value;
}

std::int64_t broadcast_values(std::span<const std::int64_t> values) {
  std::int64_t result = 1;
  for (const std::int64_t value : values) {
    if (value == 1) continue;
    if (result != 1 && result != value) {
      throw_caller(ErrorCode::ShapeMismatch,
                   "extents {} and {} cannot be broadcast: expected equal ones, or 1", result, value);
    }
    result = value;
  }
  return result;
}

std::int64_t evaluate_operation(const Atom& atom, std::span<const std::int64_t> values) {
  const auto check_divisor = [&] {
    if (values[1] == 0) throw_caller(ErrorCode::InvalidArgument, "a dimension is divided by zero");
    if (values[1] == -1) checked(checked_multiply(values[0], -1));
  };
  switch (atom.kind) {
    case AtomKind::Symbol:
      break;
    case AtomKind::FloorDiv:
      check_divisor();
      return floor_divide(values[0], values[1]);
    case AtomKind::Mod:
      check_divisor();
      return floor_modulo(values[0], values[1]);
    case AtomKind::Min:
      return *std::min_element(values.begin(), values.end());
    case AtomKind::Max:
      return *std::max_element(values.begin(), values.end());
    case AtomKind::Broadcast:
      return broadcast_values(values);
  }
  throw_bug("an atom of unknown kind is evaluated");
}

std::optional<std::int64_t> evaluate_atom(const Atom& atom, std::span<const std::int64_t> bindings) {
  if (atom.kind == AtomKind::Symbol) {
    if (atom.symbol.index >= bindings.size() || bindings[atom.symbol.index] == kUnbound) return std::nullopt;
    return bindings[atom.symbol.index];
  }
  std::vector<std::int64_t> values;
  values.reserve(atom.arguments.size());
  for (const Dim& argument : atom.arguments) {
    const std::optional<std::int64_t> value = argument.try_evaluate(bindings);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return evaluate_operation(atom, values);
}

Dim rebuild(const Atom& atom, const std::function<Dim(SymbolId)>& replacement) {
  if (atom.kind == AtomKind::Symbol) return replacement(atom.symbol);
  Dim result = atom.arguments[0].substitute(replacement);
  for (std::size_t i = 1; i < atom.arguments.size(); ++i) {
    const Dim argument = atom.arguments[i].substitute(replacement);
    switch (atom.kind) {
      case AtomKind::Symbol:
        break;
      case AtomKind::FloorDiv:
        result = floordiv(result, argument);
        break;
      case AtomKind::Mod:
        result = mod(result, argument);
        break;
      case AtomKind::Min:
        result = min(result, argument);
        break;
      case AtomKind::Max:
        result = max(result, argument);
        break;
      case AtomKind::Broadcast:
        result = broadcast(result, argument);
        break;
    }
  }
  return result;
}

void collect_symbols(const Dim& dim, std::set<SymbolId>& symbols) {
  for (const Term& term : DimParts::terms(dim)) {
    for (const std::shared_ptr<const Atom>& atom : term.factors) {
      if (atom->kind == AtomKind::Symbol) symbols.insert(atom->symbol);
      for (const Dim& argument : atom->arguments) collect_symbols(argument, symbols);
    }
  }
}

std::string_view function_name(AtomKind kind) {
  switch (kind) {
    case AtomKind::Symbol:
      break;
    case AtomKind::FloorDiv:
      return "floordiv";
    case AtomKind::Mod:
      return "mod";
    case AtomKind::Min:
      return "min";
    case AtomKind::Max:
      return "max";
    case AtomKind::Broadcast:
      return "broadcast";
  }
  return "";
}

std::string atom_text(const Atom& atom, const std::function<std::string(SymbolId)>& symbol_name) {
  if (atom.kind == AtomKind::Symbol) return symbol_name(atom.symbol);
  std::string text = std::string(function_name(atom.kind)) + "(";
  for (std::size_t i = 0; i < atom.arguments.size(); ++i) {
    if (i > 0) text += ", ";
    text += atom.arguments[i].to_string(symbol_name);
  }
  return text + ")";
}

}  // namespace

std::optional<std::int64_t> Dim::try_evaluate(std::span<const std::int64_t> bindings) const {
  std::int64_t sum = DimParts::constant(*this);
  for (const Term& term : DimParts::terms(*this)) {
    std::int64_t product = term.coefficient;
    for (const std::shared_ptr<const Atom>& atom : term.factors) {
      const std::optional<std::int64_t> value = evaluate_atom(*atom, bindings);
      if (!value) return std::nullopt;
      product = checked(checked_multiply(product, *value));
    }
    sum = checked(checked_add(sum, product));
  }
  return sum;
}

std::int64_t Dim::evaluate(std::span<const std::int64_t> bindings) const {
  const std::optional<std::int64_t> value = try_evaluate(bindings);
  require(value.has_value(), "a dimension is evaluated while one of its symbols is unbound");
  return *value;
}

Dim Dim::substitute(const std::function<Dim(SymbolId)>& replacement) const {
  if (is_constant()) return *this;
  Dim sum = DimParts::constant(*this);
  for (const Term& term : DimParts::terms(*this)) {
    Dim product = term.coefficient;
    for (const std::shared_ptr<const Atom>& atom : term.factors)
      product = product * rebuild(*atom, replacement);
    sum = sum + product;
  }
  return sum;
}

std::vector<SymbolId> Dim::symbols() const {
  std::set<SymbolId> found;
  collect_symbols(*this, found);
  return {found.begin(), found.end()};
}

std::string Dim::to_string(const std::function<std::string(SymbolId)>& symbol_name) const {
  if (is_constant()) return std::to_string(constant_);
  std::string text;
  for (const Term& term : DimParts::terms(*this)) {
    const bool negative = term.coefficient < 0;
    text += text.empty() ? (negative ? "-" : "") : (negative ? " - " : " + ");
    const std::uint64_t magnitude = negative ? 0 - static_cast<std::uint64_t>(term.coefficient)
                                             : static_cast<std::uint64_t>(term.coefficient);
    if (magnitude != 1) text += fmt::format("{}*", magnitude);
    for (std::size_t i = 0; i < term.factors.size(); ++i) {
      if (i > 0) text += "*";
      text += atom_text(*term.factors[i], symbol_name);
    }
  }
  const std::int64_t constant = DimParts::constant(*this);
  if (constant > 0) text += fmt::format(" + {}", constant);
  if (constant < 0) text += fmt::format(" - {}", 0 - static_cast<std::uint64_t>(constant));
  return text;
}

}  // namespace kiln::graph
