#include "ir/graph/dim.h"

#include <algorithm>
#include <numeric>

#include "ir/base/checked_math.h"
#include "ir/base/errors.h"
#include "ir/graph/dim_expression.h"

namespace kiln::graph {
namespace {

[[noreturn]] void throw_overflow() {
  throw_caller(ErrorCode::LimitExceeded, "a dimension expression exceeds 64-bit integers");
}

std::int64_t add(std::int64_t a, std::int64_t b) {
  const std::optional<std::int64_t> sum = checked_add(a, b);
  if (!sum) throw_overflow();
  return *sum;
}

std::int64_t multiply(std::int64_t a, std::int64_t b) {
  const std::optional<std::int64_t> product = checked_multiply(a, b);
  if (!product) throw_overflow();
  return *product;
}

std::size_t mix(std::size_t seed, std::size_t value) {
  return (seed ^ (value + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2))) * 0xff51afd7ed558ccdULL;
}

std::strong_ordering compare(const Atom& a, const Atom& b) {
  if (&a == &b) return std::strong_ordering::equal;
  if (const auto order = a.kind <=> b.kind; order != 0) return order;
  if (const auto order = a.symbol <=> b.symbol; order != 0) return order;
  if (const auto order = a.arguments.size() <=> b.arguments.size(); order != 0) return order;
  for (std::size_t i = 0; i < a.arguments.size(); ++i) {
    if (const auto order = compare(a.arguments[i], b.arguments[i]); order != 0) return order;
  }
  return std::strong_ordering::equal;
}

bool atom_less(const std::shared_ptr<const Atom>& a, const std::shared_ptr<const Atom>& b) {
  return compare(*a, *b) < 0;
}

Atoms merged(const Atoms& a, const Atoms& b) {
  Atoms result;
  result.reserve(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result), atom_less);
  return result;
}

// a / b as monomials, if b divides a.
std::optional<Atoms> quotient(const Atoms& a, const Atoms& b) {
  if (!std::includes(a.begin(), a.end(), b.begin(), b.end(), atom_less)) return std::nullopt;
  Atoms result;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result), atom_less);
  return result;
}

// Monomials of `dim` with their coefficients, the constant (with no factors) last.
std::vector<Term> all_terms(const Dim& dim) {
  std::vector<Term> terms = DimParts::terms(dim);
  if (DimParts::constant(dim) != 0) terms.push_back({DimParts::constant(dim), {}});
  return terms;
}

struct Division {
  Dim quotient, remainder;
};

// Integer polynomials with a = quotient * b + remainder, so that floordiv(a, b) = quotient +
// floordiv(remainder, b). By the leading monomial of b; coefficients leave a floor remainder.
Division divide(const Dim& a, const Dim& b) {
  constexpr int kMaxSteps = 64;  // what shapes need is far below; beyond it the division is left as it is
  const Term leading = all_terms(b).front();
  Division result{0, 0};
  Dim rest = a;
  for (int step = 0; !(rest == Dim(0)); ++step) {
    if (step == kMaxSteps) return {0, a};
    const Term term = all_terms(rest).front();
    Dim kept = DimParts::make({term}, 0);
    if (const std::optional<Atoms> monomial = quotient(term.factors, leading.factors)) {
      const Dim factor =
          DimParts::make({{floor_divide(term.coefficient, leading.coefficient), *monomial}}, 0);
      result.quotient = result.quotient + factor;
      rest = rest - factor * b;
      kept = DimParts::make({{floor_modulo(term.coefficient, leading.coefficient), term.factors}}, 0);
    }
    result.remainder = result.remainder + kept;
    rest = rest - kept;
  }
  return result;
}

// Greatest common divisor of the coefficients, without the constant term; 0 for none.
std::int64_t coefficient_gcd(const Dim& dim) {
  std::int64_t result = 0;
  for (const Term& term : DimParts::terms(dim)) result = std::gcd(result, term.coefficient);
  return result;
}

// Every coefficient and the constant term divided by `divisor`, rounding the constant down.
Dim divide_coefficients(const Dim& dim, std::int64_t divisor) {
  std::vector<Term> terms = DimParts::terms(dim);
  for (Term& term : terms) term.coefficient /= divisor;
  return DimParts::make(std::move(terms), floor_divide(DimParts::constant(dim), divisor));
}

// The atom that `dim` is, if it is one of `kind` plus a constant.
const Atom* atom_plus_constant(const Dim& dim, AtomKind kind) {
  const std::vector<Term>& terms = DimParts::terms(dim);
  const bool single = terms.size() == 1 && terms[0].coefficient == 1 && terms[0].factors.size() == 1;
  return single && terms[0].factors[0]->kind == kind ? terms[0].factors[0].get() : nullptr;
}

// floordiv(dim, divisor) for 1 < divisor and a remainder of divide().
Dim floordiv_remainder(const Dim& dim, std::int64_t divisor) {
  const Interval range = interval(dim);
  if (range.low >= 0 && range.high < divisor) return 0;
  if (const std::int64_t common = std::gcd(coefficient_gcd(dim), divisor); common > 1) {
    return floordiv(divide_coefficients(dim, common), divisor / common);
  }
  // floordiv(floordiv(x, p) + k, q) = floordiv(x + k*p, p*q): chains of strided operators stay flat.
  const Atom* inner = atom_plus_constant(dim, AtomKind::FloorDiv);
  if (inner && inner->arguments[1].is_constant()) {
    const Dim& by = inner->arguments[1];
    return floordiv(inner->arguments[0] + DimParts::constant(dim) * by, by * divisor);
  }
  return DimParts::atom(AtomKind::FloorDiv, SymbolId::none(), {dim, divisor});
}

// Divides out what every term of both has in common, and makes the leading coefficient of b positive.
void cancel_common(Dim& a, Dim& b) {
  std::vector<Term> terms = all_terms(a);
  const std::size_t count = terms.size();
  for (Term& term : all_terms(b)) terms.push_back(std::move(term));
  std::int64_t divisor = 0;
  Atoms common = terms[0].factors;
  for (const Term& term : terms) {
    divisor = std::gcd(divisor, term.coefficient);
    Atoms both;
    std::set_intersection(common.begin(), common.end(), term.factors.begin(), term.factors.end(),
                          std::back_inserter(both), atom_less);
    common = std::move(both);
  }
  if (terms[count].coefficient < 0) divisor = -divisor;
  for (Term& term : terms) term = {term.coefficient / divisor, *quotient(term.factors, common)};
  const auto middle = terms.begin() + static_cast<std::ptrdiff_t>(count);
  a = DimParts::make({terms.begin(), middle}, 0);
  b = DimParts::make({middle, terms.end()}, 0);
}

void check_divisor(const Dim& b) {
  if (b.is_constant() && b.constant() == 0) {
    throw_caller(ErrorCode::InvalidArgument, "a dimension is divided by zero");
  }
}

// Arguments of nested operations of one kind, flattened; a constant added outside is added to each.
std::vector<Dim> flattened(AtomKind kind, std::initializer_list<Dim> dims) {
  std::vector<Dim> result;
  for (const Dim& dim : dims) {
    if (const Atom* atom = atom_plus_constant(dim, kind)) {
      for (const Dim& argument : atom->arguments) result.push_back(argument + DimParts::constant(dim));
    } else {
      result.push_back(dim);
    }
  }
  return result;
}

void sort_and_unify(std::vector<Dim>& dims) {
  std::sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return compare(a, b) < 0; });
  dims.erase(std::unique(dims.begin(), dims.end()), dims.end());
}

Dim extremum(AtomKind kind, const Dim& a, const Dim& b) {
  std::vector<Dim> arguments = flattened(kind, {a, b});
  sort_and_unify(arguments);
  for (std::size_t i = 0; i < arguments.size();) {
    const bool dominated = std::any_of(arguments.begin(), arguments.end(), [&](const Dim& other) {
      if (&other == &arguments[i]) return false;
      return (kind == AtomKind::Max ? other - arguments[i] : arguments[i] - other).is_at_least(0);
    });
    if (dominated) {
      arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  if (arguments.size() == 1) return arguments[0];
  // min(a + k, b + k) is min(a, b) + k: the first argument, never a constant one, gets no constant term.
  const std::int64_t shift = DimParts::constant(arguments[0]);
  for (Dim& argument : arguments) argument = argument - shift;
  return DimParts::atom(kind, SymbolId::none(), std::move(arguments)) + shift;
}

}  // namespace

const std::vector<Term>& DimParts::terms(const Dim& dim) {
  static const std::vector<Term> none;
  return dim.expression_ ? dim.expression_->terms : none;
}

std::int64_t DimParts::constant(const Dim& dim) {
  return dim.expression_ ? dim.expression_->constant : dim.constant_;
}

std::int64_t DimParts::size(const Dim& dim) { return dim.expression_ ? dim.expression_->size : 1; }

Dim DimParts::make(std::vector<Term> terms, std::int64_t constant) {
  std::sort(terms.begin(), terms.end(),
            [](const Term& a, const Term& b) { return compare(a.factors, b.factors) < 0; });
  std::vector<Term> merged_terms;
  for (Term& term : terms) {
    if (term.factors.empty()) {
      constant = add(constant, term.coefficient);
    } else if (!merged_terms.empty() && compare(merged_terms.back().factors, term.factors) == 0) {
      merged_terms.back().coefficient = add(merged_terms.back().coefficient, term.coefficient);
    } else {
      merged_terms.push_back(std::move(term));
    }
  }
  std::erase_if(merged_terms, [](const Term& term) { return term.coefficient == 0; });
  if (merged_terms.empty()) return constant;

  std::size_t hash = mix(0, static_cast<std::size_t>(constant));
  std::int64_t size = 1;
  for (const Term& term : merged_terms) {
    hash = mix(hash, static_cast<std::size_t>(term.coefficient));
    for (const std::shared_ptr<const Atom>& atom : term.factors) {
      hash = mix(hash, atom->hash);
      size += atom->size;
    }
  }
  if (size > kMaxDimSize) {
    throw_caller(ErrorCode::LimitExceeded, "a dimension expression has more than {} parts", kMaxDimSize);
  }
  return Dim(std::make_shared<const Dim::Expression>(
      Dim::Expression{std::move(merged_terms), constant, hash, size}));
}

Dim DimParts::atom(AtomKind kind, SymbolId symbol, std::vector<Dim> arguments) {
  std::size_t hash = mix(static_cast<std::size_t>(kind), symbol.index);
  std::int64_t size = 1;
  for (const Dim& argument : arguments) {
    hash = mix(hash, argument.hash());
    size += DimParts::size(argument);
  }
  auto shared = std::make_shared<const Atom>(Atom{kind, symbol, std::move(arguments), hash, size});
  return make({{1, {std::move(shared)}}}, 0);
}

// Greater monomials come first: those of higher degree, then lexicographically.
std::strong_ordering compare(const Atoms& a, const Atoms& b) {
  if (const auto order = b.size() <=> a.size(); order != 0) return order;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (const auto order = compare(*a[i], *b[i]); order != 0) return order;
  }
  return std::strong_ordering::equal;
}

// Constants come last, and the constant term decides last.
std::strong_ordering compare(const Dim& a, const Dim& b) {
  if (DimParts::expression(a) == DimParts::expression(b) && !a.is_constant()) {
    return std::strong_ordering::equal;
  }
  const std::vector<Term>& x = DimParts::terms(a);
  const std::vector<Term>& y = DimParts::terms(b);
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (const auto order = compare(x[i].factors, y[i].factors); order != 0) return order;
    if (const auto order = x[i].coefficient <=> y[i].coefficient; order != 0) return order;
  }
  if (const auto order = y.size() <=> x.size(); order != 0) return order;
  return DimParts::constant(a) <=> DimParts::constant(b);
}

Dim::Dim(std::int64_t value) : constant_(value) {}

Dim::Dim(std::shared_ptr<const Expression> expression) : expression_(std::move(expression)) {}

Dim Dim::symbol(SymbolId symbol) { return DimParts::atom(AtomKind::Symbol, symbol, {}); }

bool Dim::is_constant() const { return expression_ == nullptr; }

std::int64_t Dim::constant() const {
  require(is_constant(), "the constant of a symbolic dimension was asked for");
  return constant_;
}

std::optional<SymbolId> Dim::as_symbol() const {
  const Atom* atom = DimParts::constant(*this) == 0 ? atom_plus_constant(*this, AtomKind::Symbol) : nullptr;
  if (!atom) return std::nullopt;
  return atom->symbol;
}

std::size_t Dim::hash() const {
  return expression_ ? expression_->hash : mix(0, static_cast<std::size_t>(constant_));
}

bool operator==(const Dim& a, const Dim& b) {
  if (a.is_constant() || b.is_constant()) {
    return a.is_constant() && b.is_constant() && a.constant_ == b.constant_;
  }
  return a.expression_ == b.expression_ || (a.hash() == b.hash() && compare(a, b) == 0);
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return add(a.constant_, b.constant_);
  std::vector<Term> terms = DimParts::terms(a);
  terms.insert(terms.end(), DimParts::terms(b).begin(), DimParts::terms(b).end());
  return DimParts::make(std::move(terms), add(DimParts::constant(a), DimParts::constant(b)));
}

Dim operator-(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) {
    std::int64_t result;
    if (__builtin_sub_overflow(a.constant_, b.constant_, &result)) throw_overflow();
    return result;
  }
  return a + b * Dim(-1);
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return multiply(a.constant_, b.constant_);
  const std::vector<Term> x = all_terms(a), y = all_terms(b);
  if (static_cast<std::int64_t>(x.size() * y.size()) > kMaxDimSize) {
    throw_caller(ErrorCode::LimitExceeded, "a dimension expression has more than {} parts", kMaxDimSize);
  }
  std::vector<Term> terms;
  for (const Term& left : x) {
    for (const Term& right : y) {
      terms.push_back({multiply(left.coefficient, right.coefficient), merged(left.factors, right.factors)});
    }
  }
  return DimParts::make(std::move(terms), 0);
}

Dim floordiv(const Dim& a, const Dim& b) {
  check_divisor(b);
  if (b.is_constant()) {
    if (b.constant_ < 0) return floordiv(a * Dim(-1), b * Dim(-1));
    if (b.constant_ == 1) return a;
    if (a.is_constant()) return floor_divide(a.constant_, b.constant_);
  }
  auto [quotient, remainder] = divide(a, b);
  if (remainder == Dim(0)) return quotient;
  if (b.is_constant()) return quotient + floordiv_remainder(remainder, b.constant_);
  Dim divisor = b;
  cancel_common(remainder, divisor);
  if (divisor.is_constant()) return quotient + floordiv(remainder, divisor);
  return quotient + DimParts::atom(AtomKind::FloorDiv, SymbolId::none(), {remainder, divisor});
}

Dim ceildiv(const Dim& a, const Dim& b) {
  check_divisor(b);
  // The usual form when b is surely positive, so that it equals one written by hand.
  if (b.is_at_least(b.is_constant() ? 1 : 0)) return floordiv(a + b - 1, b);
  return floordiv(a * Dim(-1), b) * Dim(-1);
}

Dim mod(const Dim& a, const Dim& b) {
  check_divisor(b);
  if (b.is_constant()) {
    if (b.constant_ < 0) return mod(a * Dim(-1), b * Dim(-1)) * Dim(-1);
    if (b.constant_ == 1) return 0;
  }
  Dim remainder = divide(a, b).remainder;
  if (remainder == Dim(0)) return 0;
  if (!b.is_constant()) return DimParts::atom(AtomKind::Mod, SymbolId::none(), {remainder, b});
  const std::int64_t divisor = b.constant_;
  const Interval range = interval(remainder);
  if (range.low >= 0 && range.high < divisor) return remainder;
  if (const std::int64_t common = std::gcd(coefficient_gcd(remainder), divisor); common > 1) {
    // mod(g*x + k, g*c) = g*mod(x + floordiv(k, g), c) + mod(k, g)
    return mod(divide_coefficients(remainder, common), divisor / common) * Dim(common) +
           floor_modulo(DimParts::constant(remainder), common);
  }
  return DimParts::atom(AtomKind::Mod, SymbolId::none(), {remainder, b});
}

Dim min(const Dim& a, const Dim& b) { return extremum(AtomKind::Min, a, b); }

Dim max(const Dim& a, const Dim& b) { return extremum(AtomKind::Max, a, b); }

Dim broadcast(const Dim& a, const Dim& b) {
  std::vector<Dim> arguments;
  for (const Dim* dim : {&a, &b}) {
    const Atom* atom =
        DimParts::constant(*dim) == 0 ? atom_plus_constant(*dim, AtomKind::Broadcast) : nullptr;
    if (atom) {
      arguments.insert(arguments.end(), atom->arguments.begin(), atom->arguments.end());
    } else if (!(*dim == Dim(1))) {
      arguments.push_back(*dim);
    }
  }
  sort_and_unify(arguments);
  if (arguments.empty()) return 1;
  if (arguments.size() == 1) return arguments[0];
  if (arguments[arguments.size() - 2].is_constant()) {
    throw_caller(ErrorCode::ShapeMismatch, "extents {} and {} cannot be broadcast: expected equal ones, or 1",
                 arguments[arguments.size() - 2].constant_, arguments.back().constant_);
  }
  return DimParts::atom(AtomKind::Broadcast, SymbolId::none(), std::move(arguments));
}

Dim element_count(std::span<const Dim> shape) {
  Dim count = 1;
  for (const Dim& extent : shape) count = count * extent;
  return count;
}

std::vector<Dim> dense_strides(std::span<const Dim> shape) {
  std::vector<Dim> strides(shape.size());
  Dim stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride = stride * shape[i];
  }
  return strides;
}

}  // namespace kiln::graph
