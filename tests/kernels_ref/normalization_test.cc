#include <cmath>

#include "tests/kernels_ref/support.h"

namespace kiln::reference {
namespace {

using graph::OpKind;

struct Statistics {
  double mean = 0, variance = 0;
};
// Over the elements i of `x` for which `belongs(i)`.
template <typename Belongs>
Statistics statistics(const std::vector<double>& x, Belongs belongs) {
  Statistics s;
  double count = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (belongs(i)) {
      s.mean += x[i];
      ++count;
    }
  }
  s.mean /= count;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (belongs(i)) s.variance += (x[i] - s.mean) * (x[i] - s.mean) / count;
  }
  return s;
}

TEST(Normalization, Layer) {
  std::mt19937 generator(13);
  const Tensor x = random<double>({2, 3, 5, 7}, generator, 99, 101),
               scale = random<double>({5, 7}, generator);
  const Tensor bias = random<double>({7}, generator);
  const std::vector<Tensor> y = run_all(OpKind::LayerNormalization, {x, scale, bias},
                                        {{"axis", std::int64_t{2}}, {"epsilon", 1e-3}}, 3);
  const std::vector<double> v = values(x), s = values(scale), b = values(bias);
  std::vector<double> want;
  for (std::size_t i = 0; i < v.size(); ++i) {
    const Statistics m = statistics(v, [&](std::size_t k) { return k / 35 == i / 35; });
    want.push_back((v[i] - m.mean) / std::sqrt(m.variance + 1e-3) * s[i % 35] + b[i % 7]);
  }
  expect_values(y[0], {2, 3, 5, 7}, want, 1e-11, 1e-11);
  EXPECT_EQ(y[1].extents(), (Extents{2, 3, 1, 1}));
  EXPECT_EQ(y[1].dtype(), DType::F32);
  EXPECT_NEAR(y[2].as<float>()[0],
              1 / std::sqrt(statistics(v, [](std::size_t k) { return k < 35; }).variance + 1e-3), 1e-4);
}

TEST(Normalization, RootMeanSquare) {
  const Tensor y = run(OpKind::RMSNormalization,
                       {tensor<double>({1, 2}, {3, 4}), tensor<double>({2}, {1, 10})}, {{"epsilon", 0.0}});
  expect_values(y, {1, 2}, {3 / std::sqrt(12.5), 40 / std::sqrt(12.5)}, 1e-14);
}

TEST(Normalization, BatchInstanceAndGroup) {
  std::mt19937 generator(14);
  const Tensor x = random<double>({2, 6, 5}, generator), scale = random<double>({6}, generator),
               bias = random<double>({6}, generator);
  const std::vector<double> v = values(x), s = values(scale), b = values(bias);
  const graph::Attributes epsilon = {{"epsilon", 0.01}};
  const auto normalized = [&](auto same_group) {
    std::vector<double> want;
    for (std::size_t i = 0; i < v.size(); ++i) {
      const Statistics m = statistics(v, [&](std::size_t k) { return same_group(i, k); });
      const std::size_t channel = i / 5 % 6;
      want.push_back((v[i] - m.mean) / std::sqrt(m.variance + 0.01) * s[channel] + b[channel]);
    }
    return want;
  };
  expect_values(run(OpKind::InstanceNormalization, {x, scale, bias}, epsilon), {2, 6, 5},
                normalized([](std::size_t i, std::size_t k) { return i / 5 == k / 5; }), 1e-12, 1e-12);
  expect_values(
      run(OpKind::GroupNormalization, {x, scale, bias}, {{"epsilon", 0.01}, {"num_groups", std::int64_t{3}}}),
      {2, 6, 5}, normalized([](std::size_t i, std::size_t k) { return i / 10 == k / 10; }), 1e-12, 1e-12);
  const Tensor mean = random<double>({6}, generator), variance = random<double>({6}, generator, 0.5, 2);
  std::vector<double> want;
  for (std::size_t i = 0; i < v.size(); ++i) {
    const std::size_t c = i / 5 % 6;
    want.push_back((v[i] - values(mean)[c]) / std::sqrt(values(variance)[c] + 0.01) * s[c] + b[c]);
  }
  expect_values(run(OpKind::BatchNormalization, {x, scale, bias, mean, variance}, epsilon), {2, 6, 5}, want,
                1e-12, 1e-12);
}

TEST(Normalization, LocalResponseAndNorms) {
  const Tensor x = tensor<double>({1, 4, 1}, {1, 2, 3, 4});
  const auto response = [](double value, double squares) {
    return value / std::pow(2 + 0.5 / 3 * squares, 0.75);
  };
  expect_values(run(OpKind::LRN, {x}, {{"size", std::int64_t{3}}, {"alpha", 0.5}, {"bias", 2.0}}), {1, 4, 1},
                {response(1, 5), response(2, 14), response(3, 29), response(4, 25)}, 1e-12);
  expect_values(run(OpKind::LpNormalization, {tensor<double>({2, 2}, {3, 4, 0, 0})}), {2, 2},
                {0.6, 0.8, 0, 0}, 1e-14);
  expect_values(run(OpKind::LpNormalization, {tensor<double>({1, 2}, {-1, 3})}, {{"p", std::int64_t{1}}}),
                {1, 2}, {-0.25, 0.75}, 1e-14);
}

TEST(Quantization, QuantizeTies) {
  const Tensor x = tensor({7}, {-1000, -3, -1, 1, 3, 5, kInf});
  expect_values(run(OpKind::QuantizeLinear, {x, tensor({}, {2}), exact<std::uint8_t>({}, {128})}), {7},
                {0, 126, 128, 128, 130, 130, 255});
  expect_values(run(OpKind::QuantizeLinear, {x, tensor({}, {2})}), {7}, {0, 0, 0, 0, 2, 2, 255});
  expect_values(run(OpKind::DequantizeLinear, {exact<std::uint8_t>({3}, {0, 128, 255}), tensor({}, {2}),
                                               exact<std::uint8_t>({}, {128})}),
                {3}, {-256, 0, 254});
}

TEST(Quantization, SaturatesPackedTypes) {
  Tensor zero(DType::I4, {});
  const Tensor y =
      run(OpKind::QuantizeLinear, {tensor({5}, {-100, -7.5, 2.5, 100, 3.5}), tensor({}, {1}), zero});
  EXPECT_EQ(y.dtype(), DType::I4);
  expect_values(run(OpKind::Cast, {y}, {{"to", std::int64_t{static_cast<int>(DType::I8)}}}), {5},
                {-8, -8, 2, 7, 4});
}

// The zero point is added, so that -0 becomes 0.
TEST(Quantization, FourBitFloats) {
  Tensor zero(DType::F4E2M1, {});
  const Tensor y = run(OpKind::QuantizeLinear, {tensor({4}, {-0.0, 2.5, -30, -0.7}), tensor({}, {2}), zero});
  EXPECT_EQ(y.data()[0], std::byte{0x20});
  EXPECT_EQ(y.data()[1], std::byte{0x9f});
}

TEST(Quantization, PerAxisAndBlocked) {
  const Tensor x = exact<std::int8_t>({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  expect_values(run(OpKind::DequantizeLinear, {x, tensor({2}, {1, 10}), exact<std::int8_t>({2}, {0, 1})},
                    {{"axis", std::int64_t{0}}}),
                {2, 4}, {1, 2, 3, 4, 40, 50, 60, 70});
  expect_values(run(OpKind::DequantizeLinear, {x, tensor({2, 2}, {1, 10, 100, 1000})},
                    {{"axis", std::int64_t{1}}, {"block_size", std::int64_t{2}}}),
                {2, 4}, {1, 2, 30, 40, 500, 600, 7000, 8000});
}

TEST(Quantization, Dynamic) {
  const std::vector<Tensor> y = run_all(OpKind::DynamicQuantizeLinear, {tensor({4}, {-1, 0, 1, 4.1})}, {}, 3);
  EXPECT_FLOAT_EQ(y[1].as<float>()[0], 5.1f / 255);
  expect_values(y[0], {4}, {0, 50, 100, 255});
  expect_values(y[2], {}, {50});
}

}  // namespace
}  // namespace kiln::reference
