#include <cmath>
#include <cstdint>
#include <limits>

#include "tests/kernels_ref/support.h"

namespace kiln::reference {
namespace {

using graph::OpKind;

// Index into a tensor of `extents` of the element that a broadcast reads at `index` of `out`.
std::size_t broadcast_index(const Extents& extents, const Extents& out, std::int64_t index) {
  std::vector<std::int64_t> position(out.size());
  for (std::size_t axis = out.size(); axis-- > 0; index /= out[axis]) position[axis] = index % out[axis];
  std::int64_t offset = 0;
  for (std::size_t k = 0; k < extents.size(); ++k) {
    const std::int64_t at = position[out.size() - extents.size() + k];
    offset = offset * extents[k] + (extents[k] == 1 ? 0 : at);
  }
  return static_cast<std::size_t>(offset);
}

TEST(Broadcast, MatchesPlainIndexing) {
  std::mt19937 generator(1);
  const std::vector<std::pair<Extents, Extents>> shapes = {{{}, {}},
                                                           {{7}, {}},
                                                           {{}, {3, 5}},
                                                           {{3, 5}, {5}},
                                                           {{3, 1}, {1, 5}},
                                                           {{2, 3, 5}, {3, 1}},
                                                           {{1, 3, 1, 5}, {7, 1, 2, 1}},
                                                           {{0, 3}, {1, 3}},
                                                           {{2, 1, 3}, {2, 5, 3}},
                                                           {{13, 17}, {13, 17}},
                                                           {{4, 1, 6}, {4, 5, 1}}};
  for (const auto& [a_extents, b_extents] : shapes) {
    const Tensor a = random(a_extents, generator), b = random(b_extents, generator);
    const Tensor y = run(OpKind::Sub, {a, b});
    ASSERT_EQ(y.rank(), static_cast<std::int64_t>(std::max(a_extents.size(), b_extents.size())));
    for (std::int64_t i = 0; i < y.elements(); ++i) {
      EXPECT_EQ(y.as<float>()[static_cast<std::size_t>(i)],
                a.as<float>()[broadcast_index(a_extents, y.extents(), i)] -
                    b.as<float>()[broadcast_index(b_extents, y.extents(), i)]);
    }
  }
  EXPECT_EQ(error_of(OpKind::Add, {random({2, 3}, generator), random({2}, generator)}),
            ErrorCode::ShapeMismatch);
}

TEST(Broadcast, SplitsWorkOverThreads) {
  // Ranges given out of order and one by one: what any pool may do.
  const ParallelFor backwards = [](std::int64_t count, std::int64_t grain, const RangeBody& body) {
    for (std::int64_t end = count; end > 0; end -= std::min(end, grain))
      body(std::max<std::int64_t>(0, end - grain), end);
  };
  std::mt19937 generator(2);
  const Tensor a = random({3, 1, 211, 307}, generator), b = random({5, 1, 307}, generator);
  EXPECT_EQ(run(OpKind::Mul, {a, b}), run(OpKind::Mul, {a, b}, {}, {.f64 = false, .parallel = &backwards}));
}

TEST(Integers, IntegerWraps) {
  constexpr std::int8_t kLow = INT8_MIN, kHigh = INT8_MAX;
  expect_values(run(OpKind::Add, {exact<std::int8_t>({2}, {kHigh, kLow}), exact<std::int8_t>({2}, {1, -1})}),
                {2}, {kLow, kHigh});
  expect_values(run(OpKind::Mul, {exact<std::uint16_t>({1}, {65535}), exact<std::uint16_t>({1}, {65535})}),
                {1}, {1});
  expect_values(run(OpKind::Neg, {exact<std::int32_t>({1}, {INT32_MIN})}), {1}, {INT32_MIN});
  expect_values(run(OpKind::Abs, {exact<std::int64_t>({2}, {INT64_MIN, -3})}), {2},
                {static_cast<double>(INT64_MIN), 3});
  EXPECT_EQ(run(OpKind::Sub, {integers({INT64_MIN}), integers({1})}), integers({INT64_MAX}));
}

TEST(Integers, IntegerDivision) {
  EXPECT_EQ(run(OpKind::Div, {integers({7, -7, 7, -7, INT64_MIN}), integers({2, 2, -2, -2, -1})}),
            integers({3, -3, -3, 3, INT64_MIN}));
  expect_values(run(OpKind::Div, {exact<std::int8_t>({1}, {INT8_MIN}), exact<std::int8_t>({1}, {-1})}), {1},
                {INT8_MIN});
}

TEST(Integers, DivisionByZeroIsAnError) {
  EXPECT_EQ(error_of(OpKind::Div, {integers({1, 2}), integers({1, 0})}), ErrorCode::DivisionByZero);
  EXPECT_EQ(error_of(OpKind::Mod, {integers({1}), integers({0})}), ErrorCode::DivisionByZero);
  EXPECT_EQ(error_of(OpKind::Mod, {integers({1}), integers({0})}, {{"fmod", std::int64_t{1}}}),
            ErrorCode::DivisionByZero);
  EXPECT_EQ(error_of(OpKind::Pow, {integers({0}), integers({-1})}), ErrorCode::DivisionByZero);
  expect_values(run(OpKind::Div, {tensor({3}, {1, -1, 0}), tensor({3}, {0, 0, 0})}), {3},
                {kInf, -kInf, kNan});
}

TEST(Integers, ModSigns) {
  const Tensor a = integers({7, -7, 7, -7, 6, INT64_MIN}), b = integers({3, 3, -3, -3, -3, -1});
  EXPECT_EQ(run(OpKind::Mod, {a, b}), integers({1, 2, -2, -1, 0, 0}));
  EXPECT_EQ(run(OpKind::Mod, {a, b}, {{"fmod", std::int64_t{1}}}), integers({1, -1, 1, -1, 0, 0}));
  expect_values(run(OpKind::Mod, {tensor({4}, {5.5, -5.5, 5.5, -5.5}), tensor({4}, {2, 2, -2, -2})},
                    {{"fmod", std::int64_t{1}}}),
                {4}, {1.5, -1.5, 1.5, -1.5});
}

TEST(Integers, IntegerPow) {
  EXPECT_EQ(run(OpKind::Pow,
                {integers({3, -2, 0, 1, -1, -1, 5, 2, 10}), integers({39, 63, 0, -5, -5, -4, -1, 64, 18})}),
            integers({4052555153018976267, INT64_MIN, 1, 1, -1, 1, 0, 0, 1000000000000000000}));
  expect_values(run(OpKind::Pow, {exact<std::int32_t>({2}, {2, 9}), tensor({2}, {0.5, 0.5})}), {2}, {1, 3});
  expect_values(run(OpKind::Pow, {tensor({3}, {2, -2, 0}), integers({-1, 3, 0})}), {3}, {0.5, -8, 1});
}

TEST(Integers, ShiftOut) {
  const Tensor x = exact<std::uint8_t>({4}, {255, 255, 255, 1}),
               by = exact<std::uint8_t>({4}, {1, 8, 200, 7});
  expect_values(run(OpKind::BitShift, {x, by}, {{"direction", std::string("LEFT")}}), {4}, {254, 0, 0, 128});
  expect_values(run(OpKind::BitShift, {x, by}, {{"direction", std::string("RIGHT")}}), {4}, {127, 0, 0, 0});
  const Tensor wide = exact<std::uint64_t>({1}, {std::uint64_t{1} << 63});
  EXPECT_EQ(
      run(OpKind::BitShift, {wide, exact<std::uint64_t>({1}, {63})}, {{"direction", std::string("RIGHT")}}),
      exact<std::uint64_t>({1}, {1}));
}

TEST(Nan, NanPropagates) {
  const Tensor a = tensor({4}, {kNan, 1, kNan, 2}), b = tensor({4}, {1, kNan, kNan, 3});
  expect_values(run(OpKind::Min, {a, b}), {4}, {kNan, kNan, kNan, 2});
  expect_values(run(OpKind::Max, {a, b}), {4}, {kNan, kNan, kNan, 3});
  expect_values(run(OpKind::Max, {b, a, tensor({}, {9})}), {4}, {kNan, kNan, kNan, 9});
  expect_values(run(OpKind::Relu, {tensor({4}, {kNan, -1, 2, -kInf})}), {4}, {kNan, 0, 2, 0});
  expect_values(run(OpKind::Clip, {tensor({4}, {kNan, -5, 5, 0.5}), tensor({}, {-1}), tensor({}, {1})}), {4},
                {kNan, -1, 1, 0.5});
  expect_values(run(OpKind::Clip, {tensor({2}, {-5, kInf}), std::nullopt, tensor({}, {1})}), {2}, {-5, 1});
  expect_values(run(OpKind::ReduceMax, {a}), {1}, {kNan});
  expect_values(run(OpKind::ReduceMin, {b}), {1}, {kNan});
  expect_values(run(OpKind::Sign, {tensor({4}, {kNan, -0.0, -3, kInf})}), {4}, {kNan, 0, -1, 1});
}

TEST(Nan, NanCompares) {
  const Tensor a = tensor({3}, {kNan, 1, 2}), b = tensor({3}, {kNan, kNan, 2});
  for (const OpKind op : {OpKind::Equal, OpKind::LessOrEqual, OpKind::GreaterOrEqual}) {
    expect_values(run(op, {a, b}), {3}, {0, 0, 1});
  }
  for (const OpKind op : {OpKind::Less, OpKind::Greater}) expect_values(run(op, {a, b}), {3}, {0, 0, 0});
}

TEST(Rounding, RoundHalfEven) {
  expect_values(run(OpKind::Round, {tensor({6}, {0.5, 1.5, 2.5, -0.5, -1.5, 2.4})}), {6},
                {0, 2, 2, 0, -2, 2});
}

TEST(Rounding, HalfRoundsOnce) {
  // In f16 alone 2048 + 1 + 1 stays 2048; summed in f32 and rounded once it is 2050.
  const Tensor a = tensor<Float16>({1}, {2048}), one = tensor<Float16>({1}, {1});
  expect_values(run(OpKind::Sum, {a, one, one}), {1}, {2050});
  expect_values(run(OpKind::ReduceSum, {tensor<BFloat16>({4}, {256, 1, 1, 1})}), {1}, {260});
  expect_values(run(OpKind::Mul, {tensor<Float16>({1}, {65504}), tensor<Float16>({1}, {2})}), {1}, {kInf});
}

TEST(Activations, MatchTheirFormulas) {
  std::vector<double> x;
  for (int i = -81; i <= 81; ++i) x.push_back(0.37 * i);
  const Tensor input = tensor<double>({static_cast<std::int64_t>(x.size())}, x);
  const auto check = [&](OpKind op, graph::Attributes attributes, auto formula) {
    std::vector<double> want;
    for (const double v : x) want.push_back(formula(v));
    expect_near(values(run(op, {input}, std::move(attributes))), want, 1e-12, 1e-14);
  };
  check(OpKind::Sigmoid, {}, [](double v) { return 1 / (1 + std::exp(-v)); });
  check(OpKind::Softplus, {}, [](double v) { return std::log1p(std::exp(v)); });
  check(OpKind::Elu, {{"alpha", 0.7}}, [](double v) { return v < 0 ? 0.7 * (std::exp(v) - 1) : v; });
  check(OpKind::Celu, {{"alpha", 2.0}},
        [](double v) { return std::max(0.0, v) + std::min(0.0, 2 * (std::exp(v / 2) - 1)); });
  check(OpKind::LeakyRelu, {{"alpha", 0.1}}, [](double v) { return v < 0 ? 0.1 * v : v; });
  check(OpKind::HardSigmoid, {{"alpha", 0.25}, {"beta", 0.5}},
        [](double v) { return std::max(0.0, std::min(1.0, 0.25 * v + 0.5)); });
  check(OpKind::HardSwish, {}, [](double v) { return v * std::max(0.0, std::min(1.0, v / 6 + 0.5)); });
  check(OpKind::Mish, {}, [](double v) { return v * std::tanh(std::log1p(std::exp(v))); });
  check(OpKind::Softsign, {}, [](double v) { return v / (1 + std::abs(v)); });
  check(OpKind::Gelu, {}, [](double v) { return v * 0.5 * (1 + std::erf(v / std::sqrt(2.0))); });
  check(OpKind::Gelu, {{"approximate", std::string("tanh")}}, [](double v) {
    return 0.5 * v * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v)));
  });
  check(OpKind::Swish, {{"alpha", 1.5}}, [](double v) { return v / (1 + std::exp(-1.5 * v)); });
  check(OpKind::Shrink, {{"bias", 1.0}, {"lambd", 2.0}}, [](double v) {
    return v < -2 ? v + 1 : v > 2 ? v - 1 : 0;
  });
  check(OpKind::ThresholdedRelu, {{"alpha", 1.5}}, [](double v) { return v > 1.5 ? v : 0; });
  check(OpKind::Erf, {}, [](double v) { return std::erf(v); });
}

TEST(Activations, ActivationLimits) {
  const Tensor x = tensor({3}, {-kInf, kInf, kNan});
  for (const OpKind op : {OpKind::Gelu, OpKind::Swish, OpKind::Mish, OpKind::HardSwish}) {
    expect_values(run(op, {x}), {3}, {0, kInf, kNan});
  }
  expect_values(run(OpKind::Gelu, {x}, {{"approximate", std::string("tanh")}}), {3}, {0, kInf, kNan});
  expect_values(run(OpKind::Sigmoid, {x}), {3}, {0, 1, kNan});
  expect_values(run(OpKind::Softplus, {x}), {3}, {0, kInf, kNan});
  expect_values(run(OpKind::Sigmoid, {tensor({2}, {-1000, 1000})}), {2}, {0, 1});
}

// As the standard's own bodies of these functions say.
TEST(Activations, FormulasDecide) {
  const Tensor x = tensor({5}, {-kInf, kInf, kNan, 3, -3});
  expect_values(run(OpKind::Softsign, {x}), {5}, {kNan, kNan, kNan, 0.75, -0.75});
  expect_values(run(OpKind::Shrink, {x}, {{"bias", 0.5}, {"lambd", 1.0}}), {5}, {-kInf, kInf, 0, 2.5, -2.5});
  expect_values(run(OpKind::ThresholdedRelu, {x}, {{"alpha", 1.0}}), {5}, {0, kInf, 0, 3, 0});
}

TEST(Selection, WhereMovesAnyType) {
  const Tensor condition = tensor<Boolean>({2, 1}, {1, 0});
  const Tensor a = exact<std::string>({3}, {"a", "b", "c"}), b = exact<std::string>({1}, {"z"});
  EXPECT_EQ(run(OpKind::Where, {condition, a, b}),
            exact<std::string>({2, 3}, {"a", "b", "c", "z", "z", "z"}));
  EXPECT_EQ(run(OpKind::Equal, {a, exact<std::string>({}, {"b"})}), tensor<Boolean>({3}, {0, 1, 0}));
}

TEST(Selection, AnyByteButZeroIsTrue) {
  Tensor odd(DType::I1, {3});
  odd.as_mutable<std::uint8_t>()[0] = 2;
  odd.as_mutable<std::uint8_t>()[2] = 255;
  EXPECT_EQ(run(OpKind::Not, {odd}), tensor<Boolean>({3}, {0, 1, 0}));
  EXPECT_EQ(run(OpKind::And, {odd, odd}), tensor<Boolean>({3}, {1, 0, 1}));
}

}  // namespace
}  // namespace kiln::reference
