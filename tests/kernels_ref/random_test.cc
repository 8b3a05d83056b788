#include <algorithm>
#include <cmath>
#include <set>

#include "tests/kernels_ref/support.h"

namespace kiln::reference {
namespace {

using graph::OpKind;

graph::Attributes drawn(DType type, std::optional<double> seed) {
  graph::Attributes attributes = {{"dtype", static_cast<std::int64_t>(type)}};
  if (seed) attributes["seed"] = *seed;
  return attributes;
}

TEST(Random, ASeedGivesTheSameNumbersInEveryRun) {
  for (const OpKind op : {OpKind::RandomUniform, OpKind::RandomNormal}) {
    const Tensor shape = integers({5, 7});
    EXPECT_EQ(run(op, {shape}, drawn(DType::F32, 3.5)), run(op, {shape}, drawn(DType::F32, 3.5)));
    EXPECT_FALSE(run(op, {shape}, drawn(DType::F32, 3.5)) == run(op, {shape}, drawn(DType::F32, 3.25)));
    EXPECT_FALSE(run(op, {shape}, drawn(DType::F32, {})) == run(op, {shape}, drawn(DType::F32, {})));
    // The numbers are those of their places: threads do not matter, nor does the run in f64.
    const ParallelFor backwards = [](std::int64_t count, std::int64_t grain, const RangeBody& body) {
      std::int64_t end = count;
      for (; end > grain; end -= grain) body(end - grain, end);
      body(0, end);
    };
    const Tensor large = integers({5000});
    EXPECT_EQ(run(op, {large}, drawn(DType::F32, 1)),
              run(op, {large}, drawn(DType::F32, 1), {.parallel = &backwards}));
    const Tensor wide = run(op, {shape}, drawn(DType::F32, 3.5), {.f64 = true});
    EXPECT_EQ(wide.dtype(), DType::F64);
    expect_near(values(wide), values(run(op, {shape}, drawn(DType::F32, 3.5))), 1e-6, 1e-7);
  }
}

// With a million draws the mean lies within 5 standard errors, which a right generator fails once in 10^6
// seeds.
TEST(Random, MomentsAreThoseOfTheDistribution) {
  const std::int64_t count = 1000000;
  const auto moments = [&](OpKind op, graph::Attributes attributes) {
    const std::vector<double> all = values(run(op, {integers({count})}, std::move(attributes)));
    double sum = 0, squares = 0;
    for (const double x : all) sum += x;
    const double mean = sum / static_cast<double>(count);
    for (const double x : all) squares += (x - mean) * (x - mean);
    return std::pair(mean, squares / static_cast<double>(count));
  };
  graph::Attributes uniform = drawn(DType::F64, 7);
  uniform["low"] = -1.0;
  uniform["high"] = 5.0;
  const auto [mean, variance] = moments(OpKind::RandomUniform, uniform);
  EXPECT_NEAR(mean, 2, 5 * std::sqrt(3.0 / static_cast<double>(count)));
  EXPECT_NEAR(variance, 3, 0.02);
  graph::Attributes normal = drawn(DType::F32, 7);
  normal["mean"] = 10.0;
  normal["scale"] = 2.0;
  const auto [centre, spread] = moments(OpKind::RandomNormal, normal);
  EXPECT_NEAR(centre, 10, 5 * 2 / std::sqrt(static_cast<double>(count)));
  EXPECT_NEAR(spread, 4, 0.04);
}

TEST(Random, UniformNeverReachesOne) {
  for (const DType type : {DType::BF16, DType::F16, DType::F32, DType::F64}) {
    const std::vector<double> all = values(run(OpKind::RandomUniform, {integers({100000})}, drawn(type, 1)));
    EXPECT_GE(*std::min_element(all.begin(), all.end()), 0);
    EXPECT_LT(*std::max_element(all.begin(), all.end()), 1);
    EXPECT_GT(*std::max_element(all.begin(), all.end()), 0.98);
  }
}

TEST(Random, NormalIsNormal) {
  const std::vector<double> all =
      values(run(OpKind::RandomNormal, {integers({200000})}, drawn(DType::F64, 2)));
  // Shares below -2, -1, 0, 1 and 2.
  for (const double limit : {-2.0, -1.0, 0.0, 1.0, 2.0}) {
    const auto below = std::count_if(all.begin(), all.end(), [&](double x) { return x < limit; });
    EXPECT_NEAR(static_cast<double>(below) / 200000, 0.5 * std::erfc(-limit / std::sqrt(2.0)), 0.006)
        << limit;
  }
  // Neighbours have nothing to do with each other.
  double correlation = 0;
  for (std::size_t i = 1; i < all.size(); ++i) correlation += all[i] * all[i - 1];
  EXPECT_NEAR(correlation / 200000, 0, 0.012);
}

TEST(Random, BadShapesAreErrors) {
  EXPECT_EQ(error_of(OpKind::RandomUniform, {integers({std::int64_t{1} << 40})}, drawn(DType::F32, 1)),
            ErrorCode::LimitExceeded);
  EXPECT_EQ(error_of(OpKind::RandomNormal, {integers({-1})}, drawn(DType::F32, 1)),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(run(OpKind::RandomNormal, {integers({})}, drawn(DType::F32, 1)).extents(), Extents());
  EXPECT_EQ(run(OpKind::RandomNormal, {integers({0, 3})}, drawn(DType::BF16, 1)).extents(), (Extents{0, 3}));
}

TEST(Multinomial, DrawsByProbability) {
  const double low = std::log(0.2), high = std::log(0.6);
  graph::Attributes attributes = drawn(DType::I64, 5);
  attributes["sample_size"] = std::int64_t{100000};
  const Tensor x = tensor({2, 4}, {low, -kInf, high, low, 1000, 0, 0, 0});
  const Tensor y = run(OpKind::Multinomial, {x}, attributes);
  ASSERT_EQ(y.extents(), (Extents{2, 100000}));
  std::vector<double> shares(4);
  const auto all = y.as<std::int64_t>();
  for (std::size_t i = 0; i < 100000; ++i) shares[static_cast<std::size_t>(all[i])] += 1e-5;
  expect_near(shares, {0.2, 0, 0.6, 0.2}, 0, 0.01);
  EXPECT_EQ(shares[1], 0);
  for (std::size_t i = 100000; i < 200000; ++i) ASSERT_EQ(all[i], 0);
  EXPECT_EQ(run(OpKind::Multinomial, {x}, attributes), y);
}

TEST(Multinomial, RowsWithoutProbabilitiesAreErrors) {
  const graph::Attributes attributes = drawn(DType::I32, 5);
  for (const std::vector<double>& row : {std::vector<double>{-kInf, -kInf}, {kNan, 1}, {kInf, 1}}) {
    EXPECT_EQ(error_of(OpKind::Multinomial, {tensor({1, 2}, row)}, attributes), ErrorCode::InvalidArgument);
  }
  EXPECT_EQ(error_of(OpKind::Multinomial, {tensor({1, 0}, {})}, attributes), ErrorCode::InvalidArgument);
  graph::Attributes many = attributes;
  many["sample_size"] = std::int64_t{1} << 50;
  EXPECT_EQ(error_of(OpKind::Multinomial, {tensor({1, 1}, {0})}, many), ErrorCode::LimitExceeded);
}

}  // namespace
}  // namespace kiln::reference
