// Linear algebra, sets, losses, and elements put elsewhere.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/kernels_ref/support.h"

namespace kiln::reference {
namespace {

using graph::OpKind;
using Ints = std::vector<std::int64_t>;

graph::Attribute number(std::int64_t value) { return value; }
graph::Attribute words(const char* value) { return std::string(value); }
graph::Attributes equation(const char* text) { return {{"equation", words(text)}}; }

// --- Einsum

TEST(Einsum, MatchesLoops) {
  std::mt19937 generator(1);
  const Tensor a = random<double>({2, 3, 4}, generator), b = random<double>({2, 4, 5}, generator);
  const std::vector<double> av = values(a), bv = values(b);
  std::vector<double> product(2 * 5 * 3);
  for (std::size_t n = 0; n < 2; ++n)
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t k = 0; k < 5; ++k)
        for (std::size_t j = 0; j < 4; ++j)
          product[(n * 5 + k) * 3 + i] += av[(n * 3 + i) * 4 + j] * bv[(n * 4 + j) * 5 + k];
  for (const char* text : {"bij,bjk->bki", " b i j , bjk -> b k i ", "...ij,...jk->...ki"}) {
    expect_values(run(OpKind::Einsum, {a, b}, equation(text)), {2, 5, 3}, product, 1e-12, 1e-12);
  }
  const Tensor sum = run(OpKind::Einsum, {a}, equation("zyx->"));
  expect_values(sum, {}, {std::accumulate(av.begin(), av.end(), 0.0)}, 1e-12, 1e-12);
  // Without an arrow the letters used once come in their order.
  const Tensor transposed = run(OpKind::Einsum, {a}, equation("cab"));
  EXPECT_EQ(transposed.extents(), (Extents{3, 4, 2}));
  EXPECT_EQ(values(transposed)[1], av[12]);
  EXPECT_EQ(run(OpKind::Einsum, {a}, equation("aBb")).extents(), (Extents{3, 2, 4}));  // capitals first
}

TEST(Einsum, DiagonalsBroadcastsAndManyOperands) {
  const Tensor square = tensor({2, 2}, {1, 2, 3, 4});
  expect_values(run(OpKind::Einsum, {square}, equation("ii->i")), {2}, {1, 4});
  expect_values(run(OpKind::Einsum, {square}, equation("ii")), {}, {5});
  expect_values(run(OpKind::Einsum, {tensor({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8})}, equation("...ii->...i")),
                {2, 2}, {1, 4, 5, 8});
  // An ellipsis may stand for fewer axes in one operand, and extents of 1 repeat.
  const Tensor row = tensor({1, 3}, {1, 2, 3}), column = tensor({2, 1, 1}, {10, 20});
  expect_values(run(OpKind::Einsum, {row, column}, equation("...,...->...")), {2, 1, 3},
                {10, 20, 30, 20, 40, 60});
  expect_values(run(OpKind::Einsum, {tensor({2}, {1, 2}), tensor({1}, {5})}, equation("i,i->i")), {2},
                {5, 10});
  const Tensor v = tensor({2}, {1, 2});
  expect_values(run(OpKind::Einsum, {v, v, v, v}, equation("a,b,c,a->cb")), {2, 2}, {5, 10, 10, 20});
  expect_values(run(OpKind::Einsum, {row}, equation("...->")), {}, {6});
  expect_values(run(OpKind::Einsum, {tensor({}, {3}), tensor({}, {4})}, equation(",->")), {}, {12});
}

TEST(Einsum, TypesAndEmptySums) {
  expect_values(run(OpKind::Einsum, {tensor<std::int8_t>({2}, {100, 100}), tensor<std::int8_t>({2}, {1, 1})},
                    equation("i,i")),
                {}, {-56});
  expect_values(run(OpKind::Einsum, {exact<std::uint64_t>({2}, {UINT64_MAX, 2})}, equation("i->")), {}, {1});
  expect_values(run(OpKind::Einsum, {tensor({2, 0}, {}), tensor({0, 3}, {})}, equation("ij,jk->ik")), {2, 3},
                {0, 0, 0, 0, 0, 0});
  // 2048 + 1 + 1 in f16 steps would stay 2048.
  expect_values(run(OpKind::Einsum, {tensor<Float16>({3}, {2048, 1, 1})}, equation("i->")), {}, {2050});
}

TEST(Einsum, BadEquationsAreErrors) {
  const Tensor x = tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto error = [&](const char* text) { return error_of(OpKind::Einsum, {x}, equation(text)); };
  for (const char* text : {"ij->ii", "ij->k", "i.j->ij", "ij,jk->ik", "i1->i", "......", "ij->i->j", "i-j"}) {
    EXPECT_EQ(error(text), ErrorCode::InvalidModel) << text;
  }
  for (const char* text : {"i->i", "ijk->i", "", "ii->i", "ijk...->i"}) {
    EXPECT_EQ(error(text), ErrorCode::ShapeMismatch) << text;
  }
  EXPECT_EQ(error_of(OpKind::Einsum, {x, x}, equation("ij,jk->ik")), ErrorCode::ShapeMismatch);
}

// --- Det, Inverse

// By Leibniz: over all permutations.
double determinant(const std::vector<double>& m, std::size_t n) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  double sum = 0;
  do {
    double term = 1;
    for (std::size_t i = 0; i < n; ++i) {
      term *= m[i * n + order[i]];
      for (std::size_t k = 0; k < i; ++k) term *= order[k] > order[i] ? -1 : 1;
    }
    sum += term;
  } while (std::next_permutation(order.begin(), order.end()));
  return sum;
}

TEST(Det, MatchesPermutations) {
  std::mt19937 generator(2);
  for (const std::int64_t n : {1, 2, 3, 5}) {
    const Tensor x = random<double>({2, 2, n, n}, generator);
    const std::vector<double> all = values(x);
    std::vector<double> want;
    for (std::int64_t i = 0; i < 4; ++i)
      want.push_back(
          determinant({all.begin() + i * n * n, all.begin() + (i + 1) * n * n}, static_cast<std::size_t>(n)));
    expect_values(run(OpKind::Det, {x}), {2, 2}, want, 1e-12, 1e-12);
  }
  expect_values(run(OpKind::Det, {tensor({3, 0, 0}, {})}), {3}, {1, 1, 1});
  expect_values(run(OpKind::Det, {tensor({2, 2}, {1, 2, 2, 4})}), {}, {0});
  expect_values(run(OpKind::Det, {tensor({2, 2}, {0, 1, 1, 0})}), {}, {-1});
  EXPECT_TRUE(std::isnan(values(run(OpKind::Det, {tensor({2, 2}, {kNan, 2, 2, 4})}))[0]));
  EXPECT_EQ(error_of(OpKind::Det, {tensor({1, 2}, {1, 2})}), ErrorCode::ShapeMismatch);
}

TEST(Inverse, TimesTheMatrixIsOne) {
  std::mt19937 generator(3);
  for (const std::int64_t n : {1, 2, 4, 7}) {
    const Tensor x = random<double>({3, n, n}, generator);
    const Tensor product = run(OpKind::MatMul, {x, run(OpKind::Inverse, {x})});
    std::vector<double> unit;
    for (std::int64_t i = 0; i < 3 * n * n; ++i) unit.push_back(i % (n * n) % (n + 1) == 0 ? 1 : 0);
    expect_values(product, {3, n, n}, unit, 1e-9, 1e-9);
  }
  expect_values(run(OpKind::Inverse, {tensor({2, 2}, {1, 2, 2, 4})}), {2, 2}, {kNan, kNan, kNan, kNan});
  expect_values(run(OpKind::Inverse, {tensor<Float16>({1, 1}, {4})}), {1, 1}, {0.25});
}

// --- Unique

TEST(Unique, SortsCountsAndPointsBack) {
  const Tensor x = tensor({2, 3}, {2, 1, 1, 3, 4, 3});
  const std::vector<Tensor> sorted = run_all(OpKind::Unique, {x}, {}, 4);
  expect_values(sorted[0], {4}, {1, 2, 3, 4});
  expect_values(sorted[1], {4}, {1, 0, 3, 4});
  expect_values(sorted[2], {6}, {1, 0, 0, 2, 3, 2});
  expect_values(sorted[3], {4}, {2, 1, 2, 1});
  const std::vector<Tensor> seen = run_all(OpKind::Unique, {x}, {{"sorted", number(0)}}, 4);
  expect_values(seen[0], {4}, {2, 1, 3, 4});
  expect_values(seen[1], {4}, {0, 1, 3, 4});
  expect_values(seen[2], {6}, {0, 1, 1, 2, 3, 2});
  expect_values(seen[3], {4}, {1, 2, 2, 1});
}

TEST(Unique, AlongAnAxis) {
  // Columns (1, 9), (0, 2), (1, 9), (1, 3).
  const Tensor x = tensor<std::int32_t>({2, 4}, {1, 0, 1, 1, 9, 2, 9, 3});
  const std::vector<Tensor> y = run_all(OpKind::Unique, {x}, {{"axis", number(-1)}}, 4);
  expect_values(y[0], {2, 3}, {0, 1, 1, 2, 3, 9});
  expect_values(y[1], {3}, {1, 3, 0});
  expect_values(y[2], {4}, {2, 0, 2, 1});
  expect_values(y[3], {3}, {1, 1, 2});
}

TEST(Unique, NanEqualsNanAndComesLast) {
  const std::vector<Tensor> y =
      run_all(OpKind::Unique, {tensor({6}, {kNan, 1, -kInf, kNan, -0.0, 0.0})}, {}, 4);
  expect_values(y[0], {4}, {-kInf, 0, 1, kNan});
  EXPECT_TRUE(std::signbit(values(y[0])[1]));  // the first of equal ones
  expect_values(y[3], {4}, {1, 2, 1, 2});
}

TEST(Unique, TypesAndEdges) {
  const std::vector<std::string> names = {"b", "a", "b", ""};
  const Tensor text = run(OpKind::Unique, {exact<std::string>({4}, names)});
  EXPECT_EQ(text.elements(), 3);
  EXPECT_EQ(text.as<std::string>()[2], "b");
  expect_values(run(OpKind::Unique, {tensor<Boolean>({3}, {1, 0, 1})}), {2}, {0, 1});
  expect_values(run(OpKind::Unique, {tensor<Float16>({3}, {2, -1, 2})}), {2}, {-1, 2});
  Tensor complex(DType::C64, {3});
  const std::vector<float> parts = {1, 2, 1, -2, 1, 2};
  std::copy(parts.begin(), parts.end(), reinterpret_cast<float*>(complex.mutable_data()));
  EXPECT_EQ(run(OpKind::Unique, {complex}).extents(), (Extents{2}));
  expect_values(run(OpKind::Unique, {tensor({0}, {})}), {0}, {});
  expect_values(run(OpKind::Unique, {tensor({}, {7})}), {1}, {7});
  // Slices without elements are all the same.
  EXPECT_EQ(run(OpKind::Unique, {tensor({3, 0}, {})}, {{"axis", number(0)}}).extents(), (Extents{1, 0}));
}

// --- NegativeLogLikelihoodLoss

TEST(NegativeLogLikelihoodLoss, WeighsIgnoresAndReduces) {
  const Tensor x = tensor({2, 3, 2}, {-1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -11, -12});
  const Tensor target = integers({0, 2, 1, 0}).reshaped({2, 2}), weight = tensor({3}, {1, 2, 4});
  const auto loss = [&](const char* reduction, bool weighted, std::optional<std::int64_t> ignored = {}) {
    graph::Attributes attributes = {{"reduction", words(reduction)}};
    if (ignored) attributes["ignore_index"] = *ignored;
    return run(OpKind::NegativeLogLikelihoodLoss,
               {x, target, weighted ? std::optional(weight) : std::nullopt}, attributes);
  };
  expect_values(loss("none", false), {2, 2}, {1, 6, 9, 8});
  expect_values(loss("none", true), {2, 2}, {1, 24, 18, 8});
  expect_values(loss("none", true, 2), {2, 2}, {1, 0, 18, 8});
  expect_values(loss("sum", true), {}, {51});
  expect_values(loss("mean", false), {}, {6});
  expect_values(loss("mean", true), {}, {51.0 / 8}, 1e-7, 0);
  expect_values(loss("mean", true, 0), {}, {42.0 / 6}, 1e-7, 0);
  const Tensor far = exact<std::int32_t>({2}, {-5, 1});
  const Tensor two = tensor({2, 3}, {-1, -2, -3, -4, -5, -6});
  expect_values(run(OpKind::NegativeLogLikelihoodLoss, {two, far}, {{"ignore_index", number(-5)}}), {}, {5});
  EXPECT_TRUE(std::isnan(values(
      run(OpKind::NegativeLogLikelihoodLoss, {two, integers({1, 1})}, {{"ignore_index", number(1)}}))[0]));
  EXPECT_EQ(error_of(OpKind::NegativeLogLikelihoodLoss, {two, far}), ErrorCode::IndexOutOfRange);
  EXPECT_EQ(error_of(OpKind::NegativeLogLikelihoodLoss, {two, integers({3, 0})}), ErrorCode::IndexOutOfRange);
  EXPECT_EQ(error_of(OpKind::NegativeLogLikelihoodLoss, {two, integers({0, 0}), tensor({2}, {1, 1})}),
            ErrorCode::ShapeMismatch);
}

// --- TensorScatter, BitCast

TEST(TensorScatter, WritesFromTheIndexOn) {
  const Tensor cache = tensor({2, 1, 4, 1}, {0, 1, 2, 3, 4, 5, 6, 7}),
               update = tensor({2, 1, 2, 1}, {10, 11, 12, 13});
  expect_values(run(OpKind::TensorScatter, {cache, update}), {2, 1, 4, 1}, {10, 11, 2, 3, 12, 13, 6, 7});
  expect_values(run(OpKind::TensorScatter, {cache, update, integers({1, 2})}), {2, 1, 4, 1},
                {0, 10, 11, 3, 4, 5, 12, 13});
  expect_values(run(OpKind::TensorScatter, {cache, update, integers({3, 6})}, {{"mode", words("circular")}}),
                {2, 1, 4, 1}, {11, 1, 2, 10, 4, 5, 12, 13});
  // Types packed two to a byte.
  Tensor nibbles(DType::U4, {1, 3, 1}), one(DType::U4, {1, 1, 1});
  nibbles.mutable_data()[0] = std::byte{0x21};
  nibbles.mutable_data()[1] = std::byte{0x03};
  one.mutable_data()[0] = std::byte{0x0f};
  const Tensor packed = run(OpKind::TensorScatter, {nibbles, one, integers({1})}, {{"axis", number(1)}});
  EXPECT_EQ(packed.data()[0], std::byte{0xf1});
  EXPECT_EQ(packed.data()[1], std::byte{0x03});
}

TEST(TensorScatter, BadInputIsAnError) {
  const Tensor cache = tensor({1, 4, 1}, {0, 1, 2, 3}), update = tensor({1, 2, 1}, {8, 9});
  EXPECT_EQ(error_of(OpKind::TensorScatter, {cache, update, integers({3})}), ErrorCode::IndexOutOfRange);
  EXPECT_EQ(error_of(OpKind::TensorScatter, {cache, update, integers({-1})}), ErrorCode::IndexOutOfRange);
  EXPECT_EQ(error_of(OpKind::TensorScatter, {update, cache, integers({0})}), ErrorCode::ShapeMismatch);
  EXPECT_EQ(error_of(OpKind::TensorScatter, {cache, update}, {{"axis", number(0)}}), ErrorCode::InvalidModel);
}

graph::Attributes to(DType type) { return {{"to", static_cast<std::int64_t>(type)}}; }

TEST(BitCast, KeepsTheBits) {
  const Tensor x = exact<float>({2}, {1.0F, -0.0F});
  const Tensor bits = run(OpKind::BitCast, {x}, to(DType::I32));
  EXPECT_EQ(bits, exact<std::int32_t>({2}, {0x3f800000, INT32_MIN}));
  EXPECT_EQ(run(OpKind::BitCast, {bits}, to(DType::F32)), x);
  Tensor nibbles(DType::I4, {3});
  nibbles.mutable_data()[0] = std::byte{0xa5};
  const Tensor unsigned_nibbles = run(OpKind::BitCast, {nibbles}, to(DType::U4));
  EXPECT_EQ(unsigned_nibbles.dtype(), DType::U4);
  EXPECT_EQ(unsigned_nibbles.data()[0], std::byte{0xa5});
  EXPECT_EQ(error_of(OpKind::BitCast, {x}, to(DType::I64)), ErrorCode::TypeMismatch);
  EXPECT_EQ(error_of(OpKind::BitCast, {x}, to(DType::String)), ErrorCode::TypeMismatch);
  // In f64 the bits are still those of f32.
  EXPECT_EQ(run(OpKind::BitCast, {x}, to(DType::I32), {.f64 = true}), bits);
  EXPECT_EQ(run(OpKind::BitCast, {bits}, to(DType::F32), {.f64 = true}), exact<double>({2}, {1.0, -0.0}));
}

}  // namespace
}  // namespace kiln::reference
