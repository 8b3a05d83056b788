#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "tests/kernels_ref/support.h"

namespace kiln::reference {
namespace {

using graph::OpKind;

// Elements of `x` grouped by the position along the axes that stay.
std::vector<std::vector<double>> groups(const Tensor& x, const std::set<std::int64_t>& axes) {
  std::int64_t count = 1;
  for (std::int64_t k = 0; k < x.rank(); ++k)
    count *= axes.contains(k) ? 1 : x.extents()[static_cast<std::size_t>(k)];
  std::vector<std::vector<double>> result(static_cast<std::size_t>(count));
  const std::vector<double> all = values(x);
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    std::int64_t rest = i, group = 0, stride = 1;
    for (std::int64_t k = x.rank(); k-- > 0;) {
      const std::int64_t extent = x.extents()[static_cast<std::size_t>(k)];
      if (!axes.contains(k)) {
        group += rest % extent * stride;
        stride *= extent;
      }
      rest /= extent;
    }
    result[static_cast<std::size_t>(group)].push_back(all[static_cast<std::size_t>(i)]);
  }
  return result;
}

double sum(const std::vector<double>& x, const std::function<double(double)>& f) {
  double total = 0;
  for (const double v : x) total += f(v);
  return total;
}

TEST(Reduce, MatchesPlainLoopsOverAllAxisSets) {
  std::mt19937 generator(4);
  const Tensor x = random<double>({3, 1, 5, 2}, generator, 0.1, 2);
  const std::vector<std::pair<OpKind, std::function<double(const std::vector<double>&)>>> ops = {
      {OpKind::ReduceSum, [](const auto& v) { return sum(v, [](double e) { return e; }); }},
      {OpKind::ReduceMean,
       [](const auto& v) { return sum(v, [](double e) { return e; }) / static_cast<double>(v.size()); }},
      {OpKind::ReduceProd,
       [](const auto& v) { return std::exp(sum(v, [](double e) { return std::log(e); })); }},
      {OpKind::ReduceMax, [](const auto& v) { return *std::max_element(v.begin(), v.end()); }},
      {OpKind::ReduceMin, [](const auto& v) { return *std::min_element(v.begin(), v.end()); }},
      {OpKind::ReduceL1, [](const auto& v) { return sum(v, [](double e) { return std::abs(e); }); }},
      {OpKind::ReduceL2, [](const auto& v) { return std::sqrt(sum(v, [](double e) { return e * e; })); }},
      {OpKind::ReduceSumSquare, [](const auto& v) { return sum(v, [](double e) { return e * e; }); }},
      {OpKind::ReduceLogSum, [](const auto& v) { return std::log(sum(v, [](double e) { return e; })); }},
      {OpKind::ReduceLogSumExp,
       [](const auto& v) { return std::log(sum(v, [](double e) { return std::exp(e); })); }}};
  for (int mask = 1; mask < 16; ++mask) {
    std::set<std::int64_t> axes;
    std::vector<std::int64_t> listed;
    for (std::int64_t k = 0; k < 4; ++k) {
      if ((mask >> k & 1) == 0) continue;
      axes.insert(k);
      listed.push_back(k % 2 == 0 ? k : k - 4);
    }
    for (const bool keep : {false, true}) {
      Extents extents;
      for (std::int64_t k = 0; k < 4; ++k) {
        if (!axes.contains(k))
          extents.push_back(x.extents()[static_cast<std::size_t>(k)]);
        else if (keep)
          extents.push_back(1);
      }
      for (const auto& [op, formula] : ops) {
        std::vector<double> want;
        for (const auto& group : groups(x, axes)) want.push_back(formula(group));
        expect_values(run(op, {x, integers(listed)}, {{"keepdims", std::int64_t{keep}}}), extents, want,
                      1e-12, 1e-12);
      }
    }
  }
}

TEST(Reduce, WithoutAxes) {
  const Tensor x = tensor({2, 2}, {1, -2, 3, -4});
  expect_values(run(OpKind::ReduceSum, {x}), {1, 1}, {-2});
  expect_values(run(OpKind::ReduceSum, {x}, {{"noop_with_empty_axes", std::int64_t{1}}}), {2, 2},
                {1, -2, 3, -4});
  expect_values(run(OpKind::ReduceL1, {x}, {{"noop_with_empty_axes", std::int64_t{1}}}), {2, 2},
                {1, 2, 3, 4});
}

TEST(Reduce, EmptyReductions) {
  const Tensor x(DType::F32, {2, 0, 3}), n(DType::I32, {2, 0, 3}), axis = integers({1});
  const graph::Attributes drop = {{"keepdims", std::int64_t{0}}};
  const auto all = [](double v) { return std::vector<double>(6, v); };
  expect_values(run(OpKind::ReduceSum, {x, axis}, drop), {2, 3}, all(0));
  expect_values(run(OpKind::ReduceProd, {x, axis}, drop), {2, 3}, all(1));
  expect_values(run(OpKind::ReduceMean, {x, axis}, drop), {2, 3}, all(kNan));
  expect_values(run(OpKind::ReduceMax, {x, axis}, drop), {2, 3}, all(-kInf));
  expect_values(run(OpKind::ReduceMin, {x, axis}, drop), {2, 3}, all(kInf));
  expect_values(run(OpKind::ReduceL2, {x, axis}, drop), {2, 3}, all(0));
  expect_values(run(OpKind::ReduceLogSum, {x, axis}, drop), {2, 3}, all(-kInf));
  expect_values(run(OpKind::ReduceLogSumExp, {x, axis}, drop), {2, 3}, all(-kInf));
  expect_values(run(OpKind::ReduceMax, {n, axis}, drop), {2, 3}, all(INT32_MIN));
  expect_values(run(OpKind::ReduceMin, {n, axis}, drop), {2, 3}, all(INT32_MAX));
  EXPECT_EQ(error_of(OpKind::ReduceMean, {n, axis}, drop), ErrorCode::DivisionByZero);
  EXPECT_EQ(error_of(OpKind::ArgMax, {x}, {{"axis", std::int64_t{1}}}), ErrorCode::ShapeMismatch);
  expect_values(run(OpKind::ReduceSum, {x, integers({0})}, drop), {0, 3}, {});
}

TEST(Reduce, Integers) {
  expect_values(run(OpKind::ReduceSum, {exact<std::int32_t>({2}, {INT32_MAX, 1})}), {1}, {INT32_MIN});
  expect_values(run(OpKind::ReduceMean, {exact<std::int32_t>({2}, {INT32_MAX, INT32_MAX})}), {1},
                {INT32_MAX});
  expect_values(run(OpKind::ReduceMean, {exact<std::int32_t>({2}, {-3, -4})}), {1}, {-3});
  expect_values(run(OpKind::ReduceL2, {exact<std::int32_t>({2}, {3, -4})}), {1}, {5});
  expect_values(run(OpKind::ReduceMax, {tensor<Boolean>({3}, {0, 1, 0})}), {1}, {1});
  expect_values(run(OpKind::ReduceMin, {tensor<Boolean>({3}, {0, 1, 0})}), {1}, {0});
}

TEST(Reduce, LogSumExpNeitherOverflowsNorLosesInfinities) {
  expect_values(run(OpKind::ReduceLogSumExp, {tensor({2}, {1000, 1000})}), {1}, {1000 + std::log(2.0)}, 1e-6);
  expect_values(run(OpKind::ReduceLogSumExp, {tensor({2}, {-kInf, -kInf})}), {1}, {-kInf});
  expect_values(run(OpKind::ReduceLogSumExp, {tensor({3}, {kInf, 1, kInf})}), {1}, {kInf});
  expect_values(run(OpKind::ReduceLogSumExp, {tensor({3}, {1, kNan, 2})}), {1}, {kNan});
  expect_values(run(OpKind::ReduceLogSumExp, {tensor({2}, {-1000, -1001})}), {1},
                {-1000 + std::log1p(std::exp(-1.0))}, 1e-6);
}

TEST(ArgReduce, TiesGoLow) {
  const Tensor x = tensor({2, 4}, {1, 5, 5, 2, 7, 7, 0, 0});
  const graph::Attributes rows = {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{0}}};
  EXPECT_EQ(run(OpKind::ArgMax, {x}, rows), integers({1, 0}));
  EXPECT_EQ(run(OpKind::ArgMin, {x}, rows), integers({0, 2}));
  graph::Attributes last = rows;
  last["select_last_index"] = std::int64_t{1};
  EXPECT_EQ(run(OpKind::ArgMax, {x}, last), integers({2, 1}));
  EXPECT_EQ(run(OpKind::ArgMax, {x}, {{"keepdims", std::int64_t{0}}}), integers({1, 1, 0, 0}));
}

TEST(ArgReduce, ArgFirstNan) {
  const Tensor x = tensor({5}, {3, kNan, 9, kNan, -1});
  EXPECT_EQ(run(OpKind::ArgMax, {x}), integers({1}));
  EXPECT_EQ(run(OpKind::ArgMin, {x}), integers({1}));
}

TEST(Softmax, SumsToOneAlongTheAxis) {
  std::mt19937 generator(5);
  const Tensor x = random<double>({3, 5, 7}, generator, -20, 20);
  for (std::int64_t axis = 0; axis < 3; ++axis) {
    const Tensor y = run(OpKind::Softmax, {x}, {{"axis", axis}});
    const Tensor logarithm = run(OpKind::LogSoftmax, {x}, {{"axis", axis}});
    const auto rows = groups(y, {axis}), inputs = groups(x, {axis}), logs = groups(logarithm, {axis});
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const double total = sum(inputs[r], [](double e) { return std::exp(e); });
      for (std::size_t i = 0; i < rows[r].size(); ++i) {
        EXPECT_NEAR(rows[r][i], std::exp(inputs[r][i]) / total, 1e-14);
        EXPECT_NEAR(logs[r][i], inputs[r][i] - std::log(total), 1e-12);
      }
    }
  }
}

TEST(Softmax, SoftmaxMasked) {
  const Tensor x = tensor({4, 2}, {-kInf, -kInf, 0, -kInf, kInf, 0, 1000, 1000});
  expect_values(run(OpKind::Softmax, {x}), {4, 2}, {kNan, kNan, 1, 0, kNan, kNan, 0.5, 0.5});
  expect_values(run(OpKind::LogSoftmax, {tensor({1, 2}, {1000, 0})}), {1, 2}, {0, -1000});
  expect_values(run(OpKind::Hardmax, {tensor({2, 3}, {1, 4, 4, 0, kNan, 9})}), {2, 3}, {0, 1, 0, 0, 1, 0});
  expect_values(run(OpKind::Softmax, {Tensor(DType::F32, {2, 0})}), {2, 0}, {});
}

}  // namespace
}  // namespace kiln::reference
