#include "ir/graph/dim.h"

#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <kiln/error.h>

#include "ir/base/checked_math.h"

namespace kiln::graph {
namespace {

const Dim s = Dim::symbol({0}), t = Dim::symbol({1}), u = Dim::symbol({2});

std::string text(const Dim& dim) {
  return dim.to_string([](SymbolId id) { return std::string(1, static_cast<char>('s' + id.index)); });
}

TEST(Dim, HasOneNormalForm) {
  EXPECT_EQ(s + t, t + s);
  EXPECT_EQ((s + t) * (s - t), s * s - t * t);
  EXPECT_EQ(s - s, Dim(0));
  EXPECT_EQ((s * 3 + 1).hash(), (1 + s + s + s).hash());
  EXPECT_FALSE(s == t);
  EXPECT_FALSE(s == s + 1);
  EXPECT_TRUE((s * t - t * s).is_constant());
  EXPECT_EQ(s.as_symbol(), SymbolId{0});
  EXPECT_FALSE((s + 1).as_symbol());
  EXPECT_FALSE((s * 2).as_symbol());
  EXPECT_FALSE((s * t).as_symbol());
}

TEST(Dim, DividesExactly) {
  EXPECT_EQ(floordiv(s * 4, 4), s);
  EXPECT_EQ(mod(s * 4, 4), Dim(0));
  EXPECT_EQ(floordiv(s * t, t), s);
  EXPECT_EQ(floordiv(s * t * 768, t * 64), s * 12);
  EXPECT_EQ(floordiv((s + 1) * t * 12, (s + 1) * t), Dim(12));
  EXPECT_EQ(floordiv((s + 1) * (t + 2), t + 2), s + 1);
  EXPECT_EQ(mod((s + 1) * (t + 2), t + 2), Dim(0));
  EXPECT_EQ(floordiv(s, s), Dim(1));
  EXPECT_EQ(floordiv(s * Dim(-2), s), Dim(-2));
  EXPECT_EQ(floordiv(Dim(0), s), Dim(0));
  EXPECT_EQ(floordiv(s, 1), s);
}

TEST(Dim, SimplifiesDivision) {
  EXPECT_EQ(text(floordiv(s * 4 + 7, 4)), "s + 1");
  EXPECT_EQ(text(floordiv(s * 5, 4)), "s + floordiv(s, 4)");
  EXPECT_EQ(floordiv(s * 4 + 2, 8), floordiv(s, 2));
  EXPECT_EQ(floordiv(floordiv(s + 1, 2) + 1, 2), floordiv(s + 3, 4));
  EXPECT_EQ(ceildiv(s, 2), floordiv(s + 1, 2));
  EXPECT_EQ(ceildiv(s * 8, 4), s * 2);
  EXPECT_EQ(mod(s * 4 + 7, 4), Dim(3));
  EXPECT_EQ(mod(s * 4 + 6, 8), mod(s + 1, 2) * 4 + 2);
  EXPECT_EQ(floordiv(mod(s, 4), 4), Dim(0));
  EXPECT_EQ(floordiv(s * t + u, t), s + floordiv(u, t));
  EXPECT_EQ(floordiv(s * t, u * t), floordiv(s, u));
  EXPECT_EQ(floordiv(s, -2), floordiv(s * Dim(-1), 2));
}

// Output extent of a convolution or pooling.
Dim window(const Dim& extent, std::int64_t pads, std::int64_t kernel, std::int64_t stride) {
  return floordiv(extent + pads - kernel, stride) + 1;
}

TEST(Dim, KeepsWindowFormulasFlat) {
  EXPECT_EQ(window(s, 2, 3, 1), s);
  EXPECT_EQ(text(window(s, 6, 7, 2)), "floordiv(s + 1, 2)");
  Dim extent = s;
  for (int i = 0; i < 5; ++i) extent = window(extent, 2, 3, 2);
  EXPECT_EQ(text(extent), "floordiv(s + 31, 32)");
}

TEST(Dim, SimplifiesExtrema) {
  EXPECT_EQ(max(s, s), s);
  EXPECT_EQ(max(s, 0), s);
  EXPECT_EQ(min(s, -1), Dim(-1));
  EXPECT_EQ(min(s + 1, t + 1), min(s, t) + 1);
  EXPECT_EQ(min(min(s, 4) + 1, t), min(s + 1, min(t, 5)));
  EXPECT_EQ(max(s, min(s, 3)), s);
  EXPECT_EQ(min(s, floordiv(s, 2)), floordiv(s, 2));
  EXPECT_EQ(text(min(s, 5)), "min(s, 5)");
  EXPECT_EQ(max(min(s, 5), 0), min(s, 5));
  EXPECT_FALSE(max(s, 1) == s);
}

TEST(Dim, Broadcasts) {
  EXPECT_EQ(broadcast(s, 1), s);
  EXPECT_EQ(broadcast(Dim(1), 7), Dim(7));
  EXPECT_EQ(broadcast(s, s), s);
  EXPECT_EQ(broadcast(broadcast(s, t), s), broadcast(t, s));
  EXPECT_THROW(broadcast(Dim(2), 3), Error);
  EXPECT_THROW(broadcast(broadcast(s, 2), 3), Error);
  const Dim both = broadcast(s, t);
  EXPECT_EQ(both.evaluate(std::vector<std::int64_t>{1, 5}), 5);
  EXPECT_EQ(both.evaluate(std::vector<std::int64_t>{1, 0}), 0);
  EXPECT_THROW(both.evaluate(std::vector<std::int64_t>{2, 5}), Error);
}

TEST(Dim, ProvesBoundsAndMultiples) {
  EXPECT_TRUE((s * 4 + 8).is_multiple_of(4));
  EXPECT_FALSE((s * 4 + 8).is_multiple_of(8));
  EXPECT_TRUE((s * t * 6).is_multiple_of(3));
  EXPECT_TRUE(Dim(0).is_multiple_of(0));
  EXPECT_TRUE(min(s * 4, t * 8).is_multiple_of(4));
  EXPECT_TRUE(s.is_at_least(0));
  EXPECT_FALSE(s.is_at_least(1));
  EXPECT_TRUE((s + 1).is_at_least(1));
  EXPECT_FALSE((s - t).is_at_least(0));
  EXPECT_TRUE((s - floordiv(s, 2)).is_at_least(0));
  EXPECT_TRUE((s - min(s, 5)).is_at_least(0));
  EXPECT_TRUE((max(s, t) - s).is_at_least(0));
  EXPECT_TRUE((floordiv(s, t) + 3).is_at_least(3));
  EXPECT_FALSE((s - 1).is_at_least(0));
}

TEST(Dim, EvaluatesOnlyWhatIsBound) {
  const Dim dim = floordiv(s * t + 3, 2);
  EXPECT_EQ(dim.try_evaluate(std::vector<std::int64_t>{3, 5}), 9);
  EXPECT_FALSE(dim.try_evaluate(std::vector<std::int64_t>{3}));
  EXPECT_FALSE(dim.try_evaluate(std::vector<std::int64_t>{3, kUnbound}));
  EXPECT_THROW(floordiv(t, s).evaluate(std::vector<std::int64_t>{0, 5}), Error);
  EXPECT_EQ(dim.symbols(), (std::vector<SymbolId>{{0}, {1}}));
  EXPECT_EQ(dim.substitute([](SymbolId) { return s * 2; }), s * s * 2 + 1);
}

TEST(Dim, RefusesOverflowAndExplosion) {
  EXPECT_THROW(Dim(INT64_MAX) + 1, Error);
  EXPECT_THROW(Dim(INT64_MIN) * Dim(-1), Error);
  EXPECT_THROW(s * INT64_MAX + s, Error);
  EXPECT_THROW((s * INT64_MAX).evaluate(std::vector<std::int64_t>{2}), Error);
  EXPECT_THROW(floordiv(s, 0), Error);
  EXPECT_THROW(mod(s, 0), Error);
  Dim product = 1;
  EXPECT_THROW(
      {
        for (std::uint32_t i = 0; i < 64; ++i) product = product * (Dim::symbol({i}) + 1);
      },
      Error);
  Dim nested = s;
  EXPECT_THROW(
      {
        for (int i = 0; i < 100000; ++i) nested = floordiv(t, nested + 1);
      },
      Error);
}

// A plain expression tree, evaluated with integers, beside the Dim that it builds.
struct Expression {
  char op;
  std::int64_t value;
  std::shared_ptr<Expression> left, right;

  std::optional<std::int64_t> evaluate(std::span<const std::int64_t> bindings) const {
    if (op == 'c') return value;
    if (op == 's') return bindings[static_cast<std::size_t>(value)];
    const auto a = left->evaluate(bindings), b = right->evaluate(bindings);
    if (!a || !b) return std::nullopt;
    switch (op) {
      case '+':
        return *a + *b;
      case '-':
        return *a - *b;
      case '*':
        return *a * *b;
      case '<':
        return std::min(*a, *b);
      case '>':
        return std::max(*a, *b);
      case '/':
        if (*b == 0) return std::nullopt;
        return floor_divide(*a, *b);
      case 'c' + 1:
        if (*b == 0) return std::nullopt;
        return ceil_divide(*a, *b);
      case '%':
        if (*b == 0) return std::nullopt;
        return floor_modulo(*a, *b);
      default:
        if (*a != 1 && *b != 1 && *a != *b) return std::nullopt;
        return *a == 1 ? *b : *a;
    }
  }

  Dim dim() const {
    if (op == 'c') return value;
    if (op == 's') return Dim::symbol({static_cast<std::uint32_t>(value)});
    const Dim a = left->dim(), b = right->dim();
    switch (op) {
      case '+':
        return a + b;
      case '-':
        return a - b;
      case '*':
        return a * b;
      case '<':
        return min(a, b);
      case '>':
        return max(a, b);
      case '/':
        return floordiv(a, b);
      case 'c' + 1:
        return ceildiv(a, b);
      case '%':
        return mod(a, b);
      default:
        return broadcast(a, b);
    }
  }
};

std::shared_ptr<Expression> random_expression(std::mt19937& random, int depth) {
  if (depth == 0 || random() % 5 == 0) {
    if (random() % 2 == 0)
      return std::make_shared<Expression>(
          Expression{'s', static_cast<std::int64_t>(random() % 3), nullptr, nullptr});
    return std::make_shared<Expression>(
        Expression{'c', static_cast<std::int64_t>(random() % 13) - 4, nullptr, nullptr});
  }
  constexpr char kOps[] = {'+', '-', '*', '+', '*', '/', '/', 'd', '%', '<', '>', 'b'};
  return std::make_shared<Expression>(Expression{kOps[random() % sizeof(kOps)], 0,
                                                 random_expression(random, depth - 1),
                                                 random_expression(random, depth - 1)});
}

TEST(Dim, RandomExpressionsEvaluateAsWritten) {
  std::mt19937 random(20240611);
  int compared = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::shared_ptr<Expression> expression =
        random_expression(random, 1 + static_cast<int>(random() % 5));
    std::optional<Dim> dim;
    try {
      dim = expression->dim();
    } catch (const Error&) {
      // Refused while building: then every evaluation as written must fail too, or exceed the limits.
      continue;
    }
    const bool non_negative = dim->is_at_least(0);
    for (int k = 0; k < 6; ++k) {
      const std::vector<std::int64_t> bindings = {static_cast<std::int64_t>(random() % 9),
                                                  static_cast<std::int64_t>(random() % 9),
                                                  static_cast<std::int64_t>(random() % 40)};
      const std::optional<std::int64_t> want = expression->evaluate(bindings);
      if (!want) continue;  // divides by zero, or does not broadcast
      ASSERT_EQ(dim->evaluate(bindings), *want) << text(*dim);
      for (const std::int64_t factor : {2, 3, 4}) {
        ASSERT_TRUE(*want % factor == 0 || !dim->is_multiple_of(factor)) << text(*dim);
      }
      ASSERT_TRUE(*want >= 0 || !non_negative) << text(*dim);
      const Dim shifted = dim->substitute([&](SymbolId id) { return Dim::symbol(id); });
      ASSERT_EQ(shifted, *dim);
      ++compared;
    }
  }
  EXPECT_GT(compared, 50000);
}

}  // namespace
}  // namespace kiln::graph
