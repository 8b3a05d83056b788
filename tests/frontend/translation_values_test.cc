// Old and foreign forms of operators, run by the reference kernels and compared with plain loops.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/frontend/single_node.h"

namespace kiln::frontend {
namespace {

using testing::set;
using testing::set_integers;
using testing::set_number;
using testing::set_numbers;
using testing::set_text;
using testing::SingleNode;

using Floats = std::vector<float>;

constexpr const char* kMicrosoft = "com.microsoft";

std::int64_t count(const Extents& extents) {
  std::int64_t product = 1;
  for (const std::int64_t extent : extents) product *= extent;
  return product;
}

// Numbers between -2 and 2 that repeat late.
Floats pattern(const Extents& extents, int seed = 0) {
  Floats values;
  for (std::int64_t i = 0; i < count(extents); ++i) {
    values.push_back(static_cast<float>((i * 37 + seed * 11 + 5) % 101) / 25.0F - 2.0F);
  }
  return values;
}

void expect_near(const Floats& got, const Floats& want, float tolerance = 1e-5F) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], tolerance * (1 + std::abs(want[i]))) << "at " << i;
  }
}

Floats mapped(const Floats& values, const std::function<double(double)>& function) {
  Floats result;
  for (const float value : values) result.push_back(static_cast<float>(function(double{value})));
  return result;
}

double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

// rows x inner times inner x columns
Floats product(const Floats& a, const Floats& b, int rows, int inner, int columns) {
  Floats c;
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) {
      double sum = 0;
      for (int k = 0; k < inner; ++k) {
        sum +=
            double{a[static_cast<std::size_t>(i * inner + k)]} * b[static_cast<std::size_t>(k * columns + j)];
      }
      c.push_back(static_cast<float>(sum));
    }
  }
  return c;
}

Floats transposed(const Floats& a, int rows, int columns) {
  Floats b;
  for (int j = 0; j < columns; ++j) {
    for (int i = 0; i < rows; ++i) b.push_back(a[static_cast<std::size_t>(i * columns + j)]);
  }
  return b;
}

std::vector<std::uint8_t> quantized(const Floats& values, float scale, int zero_point) {
  std::vector<std::uint8_t> result;
  for (const float value : values) {
    const double rounded = std::nearbyint(value / scale) + zero_point;
    result.push_back(static_cast<std::uint8_t>(std::clamp(rounded, 0.0, 255.0)));
  }
  return result;
}

Floats dequantized(const std::vector<std::uint8_t>& values, float scale, int zero_point) {
  Floats result;
  for (const int value : values) result.push_back(static_cast<float>(value - zero_point) * scale);
  return result;
}

std::vector<std::uint8_t> byte_pattern(std::int64_t size, int seed) {
  std::vector<std::uint8_t> values;
  for (std::int64_t i = 0; i < size; ++i) values.push_back(static_cast<std::uint8_t>((i * 53 + seed) % 256));
  return values;
}

TEST(Values, LegacyBroadcast) {
  SingleNode run(6, "Sub");
  set(run.node(), "broadcast", 1);
  set(run.node(), "axis", 1);
  const Floats a = pattern({2, 3, 4}), b = {1, 2, 3};
  Floats want;
  for (std::size_t i = 0; i < a.size(); ++i) want.push_back(a[i] - b[i / 4 % 3]);
  expect_near(run.floats({2, 3, 4}, a).floats({3}, b).result_floats(), want, 0);
}

TEST(Values, SoftmaxOverFlattenedAxes) {
  const Floats x = pattern({2, 3, 4});
  Floats want;
  for (std::size_t row = 0; row < 2; ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < 12; ++i) sum += std::exp(double{x[row * 12 + i]});
    for (std::size_t i = 0; i < 12; ++i)
      want.push_back(static_cast<float>(std::exp(double{x[row * 12 + i]}) / sum));
  }
  expect_near(SingleNode(11, "Softmax").floats({2, 3, 4}, x).result_floats(), want);
}

TEST(Values, BatchNormalizationOfEachElement) {
  SingleNode run(7, "BatchNormalization");
  set(run.node(), "spatial", 0);
  set_number(run.node(), "epsilon", 0.5F);
  const Floats x = pattern({2, 2, 3}), scale = pattern({2, 3}, 1), bias = pattern({2, 3}, 2),
               mean = pattern({2, 3}, 3),
               variance = mapped(pattern({2, 3}, 4), [](double v) { return v * v; });
  Floats want;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t j = i % 6;
    want.push_back((x[i] - mean[j]) / std::sqrt(variance[j] + 0.5F) * scale[j] + bias[j]);
  }
  run.floats({2, 2, 3}, x)
      .floats({2, 3}, scale)
      .floats({2, 3}, bias)
      .floats({2, 3}, mean)
      .floats({2, 3}, variance);
  expect_near(run.result_floats(), want);
}

TEST(Values, GroupNormalizationEighteen) {
  SingleNode run(18, "GroupNormalization");
  set(run.node(), "num_groups", 2);
  const Floats x = pattern({1, 4, 3}), scale = {2, 3}, bias = {-1, 1};
  Floats want;
  for (std::size_t group = 0; group < 2; ++group) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < 6; ++i) mean += x[group * 6 + i] / 6.0;
    for (std::size_t i = 0; i < 6; ++i) variance += std::pow(x[group * 6 + i] - mean, 2) / 6;
    for (std::size_t i = 0; i < 6; ++i) {
      want.push_back(static_cast<float>((x[group * 6 + i] - mean) / std::sqrt(variance + 1e-5)) *
                         scale[group] +
                     bias[group]);
    }
  }
  expect_near(run.floats({1, 4, 3}, x).floats({2}, scale).floats({2}, bias).result_floats(), want);
}

TEST(Values, UpsampleAndResizeTen) {
  SingleNode one(1, "Upsample");
  set_number(one.node(), "height_scale", 2);
  set_number(one.node(), "width_scale", 1);
  expect_near(one.floats({1, 1, 2, 2}, {1, 2, 3, 4}).result_floats(), {1, 2, 1, 2, 3, 4, 3, 4}, 0);
  SingleNode linear(7, "Upsample");
  set_numbers(linear.node(), "scales", {1, 2});
  set_text(linear.node(), "mode", "linear");
  expect_near(linear.floats({1, 3}, {1, 3, 7}).result_floats(), {1, 2, 3, 5, 7, 7});
  // Shrinking by 0.6 reads the elements 0 and 1 / 0.6 rounded up.
  SingleNode shrink(10, "Resize");
  expect_near(shrink.floats({1, 4}, {1, 2, 3, 4}).constant_floats({1, 0.6F}).result_floats(), {1, 3}, 0);
}

TEST(Values, OldForms) {
  SingleNode tile(1, "Tile");
  expect_near(tile.floats({1, 2}, {1, 2}).constant({3}).constant({1}).result_floats(), {1, 2, 1, 2, 1, 2}, 0);
  SingleNode top(9, "TopK");
  set(top.node(), "k", 2);
  top.output("indices");
  expect_near(top.floats({4}, {3, 9, 1, 7}).result_floats(), {9, 7}, 0);
  SingleNode pad(1, "Pad");
  set_integers(pad.node(), "paddings", {1, 0});
  set_number(pad.node(), "value", 5);
  expect_near(pad.floats({2}, {1, 2}).result_floats(), {5, 1, 2}, 0);
  SingleNode slope(6, "PRelu");
  expect_near(slope.floats({1, 2, 2}, {-1, -2, -3, 4}).floats({2}, {0.5F, 2}).result_floats(),
              {-0.5F, -1, -6, 4}, 0);
  SingleNode clip(6, "Clip");
  set_number(clip.node(), "min", 0);
  expect_near(clip.floats({3}, {-1, 0.5F, 9}).result_floats(), {0, 0.5F, 9}, 0);
  SingleNode pool(1, "GlobalLpPool");
  set_number(pool.node(), "p", 2);
  expect_near(pool.floats({1, 1, 2}, {3, 4}).result_floats(), {5});
}

TEST(Values, ExperimentalOperators) {
  const Floats x = pattern({1, 2, 3, 4});
  SingleNode scaler(8, "ImageScaler");
  set_number(scaler.node(), "scale", 0.5F);
  set_numbers(scaler.node(), "bias", {1, -1});
  Floats want;
  for (std::size_t i = 0; i < x.size(); ++i) want.push_back(x[i] * 0.5F + (i < 12 ? 1.0F : -1.0F));
  expect_near(scaler.floats({1, 2, 3, 4}, x).result_floats(), want);

  SingleNode window(7, "Crop");
  set_integers(window.node(), "border", {1, 1, 0, 0});
  set_integers(window.node(), "scale", {2, 3});
  SingleNode borders(7, "Crop");
  set_integers(borders.node(), "border", {1, 0, 1, 2});
  Floats inner, row;
  for (std::size_t c = 0; c < 2; ++c) {
    for (std::size_t h = 1; h < 3; ++h) {
      for (std::size_t w = 1; w < 4; ++w) inner.push_back(x[c * 12 + h * 4 + w]);
    }
    for (std::size_t w = 1; w < 3; ++w) row.push_back(x[c * 12 + w]);
  }
  expect_near(window.floats({1, 2, 3, 4}, x).result_floats(), inner, 0);
  expect_near(borders.floats({1, 2, 3, 4}, x).result_floats(), row, 0);

  for (const std::string op : {"Affine", "ParametricSoftplus", "ScaledTanh"}) {
    SingleNode run(7, op);
    set_number(run.node(), "alpha", 2);
    set_number(run.node(), "beta", 0.5F);
    expect_near(run.floats({24}, x).result_floats(), mapped(x, [&](double v) {
                  if (op == "Affine") return 2 * v + 0.5;
                  return op == "ScaledTanh" ? 2 * std::tanh(0.5 * v) : 2 * std::log1p(std::exp(0.5 * v));
                }));
  }
}

// --- com.microsoft

TEST(Values, MicrosoftActivations) {
  const Floats x = pattern({2, 5}), bias = pattern({5}, 1);
  Floats biased;
  for (std::size_t i = 0; i < x.size(); ++i) biased.push_back(x[i] + bias[i % 5]);
  expect_near(SingleNode(17, "Gelu", kMicrosoft).floats({2, 5}, x).result_floats(), mapped(x, gelu));
  expect_near(SingleNode(17, "BiasGelu", kMicrosoft).floats({2, 5}, x).floats({5}, bias).result_floats(),
              mapped(biased, gelu));
  expect_near(SingleNode(17, "FastGelu", kMicrosoft).floats({2, 5}, x).floats({5}, bias).result_floats(),
              mapped(biased, gelu_tanh));
  expect_near(SingleNode(17, "QuickGelu", kMicrosoft).floats({2, 5}, x).result_floats(),
              mapped(x, [](double v) { return v / (1 + std::exp(-1.702 * v)); }));
  const Floats w = pattern({5, 3}, 2);
  expect_near(SingleNode(17, "GemmFastGelu", kMicrosoft).floats({2, 5}, x).floats({5, 3}, w).result_floats(),
              mapped(product(x, w, 2, 5, 3), gelu_tanh));
  expect_near(SingleNode(17, "BiasAdd", kMicrosoft)
                  .floats({2, 5}, x)
                  .floats({5}, bias)
                  .floats({2, 5}, x)
                  .result_floats(),
              [&] {
                Floats sum = biased;
                for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += x[i];
                return sum;
              }());
}

TEST(Values, SkipLayerNormalization) {
  const Floats x = pattern({2, 4}), skip = pattern({2, 4}, 1), gamma = pattern({4}, 2),
               beta = pattern({4}, 3), bias = pattern({4}, 4);
  for (const bool simplified : {false, true}) {
    SingleNode run(17, simplified ? "SkipSimplifiedLayerNormalization" : "SkipLayerNormalization",
                   kMicrosoft);
    set_number(run.node(), "epsilon", 0.25F);
    run.output("").output("").output("sum").floats({2, 4}, x).floats({2, 4}, skip).floats({4}, gamma);
    if (!simplified) run.floats({4}, beta);
    run.floats({4}, bias);
    Floats sums, want;
    for (std::size_t i = 0; i < 8; ++i) sums.push_back(x[i] + skip[i] + bias[i % 4]);
    for (std::size_t row = 0; row < 2; ++row) {
      double mean = 0, squares = 0;
      for (std::size_t i = 0; i < 4; ++i) mean += sums[row * 4 + i] / 4.0;
      if (simplified) mean = 0;
      for (std::size_t i = 0; i < 4; ++i) squares += std::pow(sums[row * 4 + i] - mean, 2) / 4;
      for (std::size_t i = 0; i < 4; ++i) {
        const double unit = (sums[row * 4 + i] - mean) / std::sqrt(squares + 0.25);
        want.push_back(static_cast<float>(unit * gamma[i] + (simplified ? 0 : beta[i])));
      }
    }
    const std::vector<Tensor> results = run.run();
    ASSERT_EQ(results.size(), 2U);
    expect_near(SingleNode::elements<float>(results[0]), want);
    expect_near(SingleNode::elements<float>(results[1]), sums);
  }
}

TEST(Values, TileOfOneAxisByTensors) {
  EXPECT_EQ(
      SingleNode(1, "Tile").floats({2, 2}, {1, 2, 3, 4}).floats({1}, {2}).floats({1}, {1}).result_floats(),
      (Floats{1, 2, 1, 2, 3, 4, 3, 4}));
}

// Before opset 13 over all axes from the given one on.
TEST(Values, QuantisedSoftmaxOfOld) {
  const std::vector<std::uint8_t> x = {0, 20, 10, 30, 5, 40, 40, 1, 2, 3, 50, 50};
  for (const std::int64_t axis : {1, 2}) {
    SingleNode run(17, "QLinearSoftmax", kMicrosoft);
    set(run.node(), "axis", axis);
    set(run.node(), "opset", 12);
    run.bytes({2, 2, 3}, x).floats({}, {0.1F}).bytes({}, {10}).floats({}, {1.0F / 256}).bytes({}, {0});
    const std::vector<std::int64_t> got = run.result().to_integers();
    const std::size_t row = axis == 1 ? 6 : 3;
    for (std::size_t i = 0; i < x.size(); ++i) {
      double sum = 0;
      for (std::size_t k = 0; k < row; ++k) sum += std::exp(0.1 * x[i / row * row + k]);
      EXPECT_NEAR(static_cast<double>(got[i]), std::min(255.0, 256 * std::exp(0.1 * x[i]) / sum), 0.51) << i;
    }
  }
}

TEST(Values, FusedMatMul) {
  const Floats a = pattern({2, 3}), b = pattern({3, 4}, 1);
  Floats want = product(a, b, 2, 3, 4);
  for (float& value : want) value *= 0.5F;
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      SingleNode run(17, "FusedMatMul", kMicrosoft);
      set_number(run.node(), "alpha", 0.5F);
      set(run.node(), "transA", trans_a ? 1 : 0);
      set(run.node(), "transB", trans_b ? 1 : 0);
      trans_a ? run.floats({3, 2}, transposed(a, 2, 3)) : run.floats({2, 3}, a);
      trans_b ? run.floats({4, 3}, transposed(b, 3, 4)) : run.floats({3, 4}, b);
      expect_near(run.result_floats(), want);
    }
  }
  SingleNode vector(17, "FusedMatMul", kMicrosoft);  // has nothing to swap
  set(vector.node(), "transA", 1);
  expect_near(vector.floats({3}, {1, 2, -1}).floats({3, 4}, b).result_floats(),
              product({1, 2, -1}, b, 1, 3, 4));
  // transBatchA: x[row, batch, k].
  SingleNode batch(17, "FusedMatMul", kMicrosoft);
  set(batch.node(), "transBatchA", 1);
  const Floats x = pattern({2, 3, 4}), w = pattern({3, 4, 5}, 1);
  Floats batched;
  for (std::size_t n = 0; n < 3; ++n) {
    Floats rows, columns(w.begin() + static_cast<std::ptrdiff_t>(n * 20),
                         w.begin() + static_cast<std::ptrdiff_t>(n * 20 + 20));
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::size_t k = 0; k < 4; ++k) rows.push_back(x[i * 12 + n * 4 + k]);
    }
    const Floats part = product(rows, columns, 2, 4, 5);
    batched.insert(batched.end(), part.begin(), part.end());
  }
  expect_near(batch.floats({2, 3, 4}, x).floats({3, 4, 5}, w).result_floats(), batched);
}

TEST(Values, FusedConvAndGemm) {
  SingleNode conv(17, "FusedConv", kMicrosoft);
  set_text(conv.node(), "activation", "Clip");
  set_numbers(conv.node(), "activation_params", {-1, 1});
  const Floats x = pattern({1, 2, 3}), z = pattern({1, 1, 3}, 2);
  conv.floats({1, 2, 3}, x).floats({1, 2, 1}, {2, 3}).floats({1}, {0.5F}).floats({1, 1, 3}, z);
  Floats want;
  for (std::size_t i = 0; i < 3; ++i) {
    want.push_back(std::clamp(2 * x[i] + 3 * x[3 + i] + 0.5F + z[i], -1.0F, 1.0F));
  }
  expect_near(conv.result_floats(), want);

  SingleNode gemm(17, "FusedGemm", kMicrosoft);
  set_text(gemm.node(), "activation", "LeakyRelu");
  set_number(gemm.node(), "activation_alpha", 0.25F);
  set(gemm.node(), "transB", 1);
  const Floats a = pattern({2, 3}), b = pattern({4, 3}, 1);
  const Floats linear = product(a, transposed(b, 4, 3), 2, 3, 4);
  expect_near(gemm.floats({2, 3}, a).floats({4, 3}, b).result_floats(),
              mapped(linear, [](double v) { return v < 0 ? v * 0.25 : v; }));
}

TEST(Values, QuantizedElementwise) {
  const auto a = byte_pattern(12, 1), b = byte_pattern(12, 2);
  const Floats fa = dequantized(a, 0.05F, 120), fb = dequantized(b, 0.02F, 7);
  for (const std::string op : {"QLinearAdd", "QLinearMul"}) {
    SingleNode run(17, op, kMicrosoft);
    run.bytes({3, 4}, a).floats({}, {0.05F}).bytes({}, {120});
    run.bytes({3, 4}, b).floats({1}, {0.02F}).bytes({1}, {7});
    run.floats({}, {0.1F}).bytes({}, {100});
    Floats want;
    for (std::size_t i = 0; i < 12; ++i) want.push_back(op == "QLinearAdd" ? fa[i] + fb[i] : fa[i] * fb[i]);
    EXPECT_EQ(SingleNode::elements<std::uint8_t>(run.result()), quantized(want, 0.1F, 100)) << op;
  }
  SingleNode sigmoid(17, "QLinearSigmoid", kMicrosoft);
  sigmoid.bytes({12}, a).floats({}, {0.05F}).bytes({}, {120}).floats({}, {1 / 256.0F}).bytes({}, {0});
  EXPECT_EQ(SingleNode::elements<std::uint8_t>(sigmoid.result()),
            quantized(mapped(fa, [](double v) { return 1 / (1 + std::exp(-v)); }), 1 / 256.0F, 0));
  SingleNode concat(17, "QLinearConcat", kMicrosoft);
  set(concat.node(), "axis", 0);
  concat.floats({}, {0.1F}).bytes({}, {100});
  concat.bytes({12}, a)
      .floats({}, {0.05F})
      .bytes({}, {120})
      .bytes({12}, b)
      .floats({}, {0.02F})
      .bytes({}, {7});
  Floats both = fa;
  both.insert(both.end(), fb.begin(), fb.end());
  EXPECT_EQ(SingleNode::elements<std::uint8_t>(concat.result()), quantized(both, 0.1F, 100));
  SingleNode where(17, "QLinearWhere", kMicrosoft);
  where.with(DType::I1, onnx::TensorProto::BOOL, {2}, std::vector<std::uint8_t>{1, 0});
  where.bytes({2}, {10, 20})
      .floats({}, {1.0F})
      .bytes({}, {0})
      .bytes({2}, {30, 40})
      .floats({}, {2.0F})
      .bytes({}, {0});
  where.floats({}, {1.0F}).bytes({}, {5});
  EXPECT_EQ(SingleNode::elements<std::uint8_t>(where.result()), (std::vector<std::uint8_t>{15, 85}));
}

TEST(Values, QuantizedPoolingWithChannelsLast) {
  const auto x = byte_pattern(2 * 3 * 4, 3);  // 2 x 3 pixels of 4 channels
  const Floats fx = dequantized(x, 0.1F, 10);
  SingleNode run(17, "QLinearGlobalAveragePool", kMicrosoft);
  set(run.node(), "channels_last", 1);
  run.bytes({1, 2, 3, 4}, x).floats({}, {0.1F}).bytes({}, {10}).floats({}, {0.05F}).bytes({}, {3});
  Floats means(4);
  for (std::size_t i = 0; i < 24; ++i) means[i % 4] += fx[i] / 6;
  const Tensor result = run.result();
  EXPECT_EQ(result.extents(), (Extents{1, 1, 1, 4}));
  EXPECT_EQ(SingleNode::elements<std::uint8_t>(result), quantized(means, 0.05F, 3));
}

TEST(Values, QuantizedProducts) {
  const auto a = byte_pattern(6, 1), b = byte_pattern(12, 2);
  const Floats fa = dequantized(a, 0.5F, 10), fb = dequantized(b, 0.25F, 20);
  const Floats plain = product(fa, fb, 2, 3, 4), bias = pattern({4});
  Floats biased;
  for (std::size_t i = 0; i < 8; ++i) biased.push_back(plain[i] + bias[i % 4]);

  SingleNode to_float(17, "MatMulIntegerToFloat", kMicrosoft);
  to_float.bytes({2, 3}, a)
      .bytes({3, 4}, b)
      .floats({}, {0.5F})
      .floats({}, {0.25F})
      .bytes({}, {10})
      .bytes({}, {20});
  expect_near(to_float.floats({4}, bias).result_floats(), biased);

  // The bias is in units of the product of the scales.
  SingleNode gemm(17, "QGemm", kMicrosoft);
  set(gemm.node(), "transB", 1);
  std::vector<std::uint8_t> b_transposed;
  for (std::size_t j = 0; j < 4; ++j) {
    for (std::size_t k = 0; k < 3; ++k) b_transposed.push_back(b[k * 4 + j]);
  }
  gemm.bytes({2, 3}, a)
      .floats({}, {0.5F})
      .bytes({}, {10})
      .bytes({4, 3}, b_transposed)
      .floats({}, {0.25F})
      .bytes({}, {20});
  gemm.with(DType::I32, onnx::TensorProto::INT32, {4}, std::vector<std::int32_t>{8, 16, 24, 32});
  Floats shifted;
  for (std::size_t i = 0; i < 8; ++i) shifted.push_back(plain[i] + static_cast<float>(i % 4 + 1));
  expect_near(gemm.result_floats(), shifted);

  SingleNode dynamic(17, "DynamicQuantizeMatMul", kMicrosoft);
  const Floats x = {0, 255, 51, 102, 153, 204};  // exact with a scale of 1
  dynamic.floats({2, 3}, x).bytes({3, 4}, b).floats({}, {0.25F}).bytes({}, {20});
  expect_near(dynamic.result_floats(), product(x, fb, 2, 3, 4));
}

TEST(Values, SmallMicrosoftForms) {
  SingleNode expand(17, "ExpandDims", kMicrosoft);
  expand.floats({2, 3}, pattern({2, 3}))
      .with(DType::I32, onnx::TensorProto::INT32, {}, std::vector<std::int32_t>{1});
  EXPECT_EQ(expand.result().elements(), 6);
  EXPECT_EQ(expand.result().extents(), (Extents{2, 1, 3}));
  SingleNode range(17, "Range", kMicrosoft);
  expect_near(range.floats({}, {1}).floats({}, {4}).result_floats(), {1, 2, 3}, 0);
  SingleNode gather(17, "GatherND", kMicrosoft);
  gather.floats({2, 2}, {1, 2, 3, 4});
  expect_near(gather.with(DType::I32, onnx::TensorProto::INT32, {1, 2}, std::vector<std::int32_t>{1, 0})
                  .result_floats(),
              {3}, 0);
}

// --- signals, images, losses, random numbers

TEST(Values, WindowsOfConstantAndGivenSize) {
  struct Window {
    const char* op;
    double a0, a1, a2;
  };
  constexpr double kTurn = 2 * 3.14159265358979323846;
  for (const Window& window :
       {Window{"HannWindow", 0.5, 0.5, 0}, Window{"HammingWindow", 25.0 / 46, 21.0 / 46, 0},
        Window{"BlackmanWindow", 0.42, 0.5, 0.08}}) {
    for (const int size : {1, 2, 9}) {
      for (const bool periodic : {true, false}) {
        Floats want;
        for (int i = 0; i < size; ++i) {
          const double angle = kTurn * i / std::max(periodic ? size : size - 1, 1);
          want.push_back(
              static_cast<float>(window.a0 - window.a1 * std::cos(angle) + window.a2 * std::cos(2 * angle)));
        }
        SingleNode given(17, window.op);
        set(given.node(), "periodic", periodic ? 1 : 0);
        given.with<std::int32_t>(DType::I32, onnx::TensorProto::INT32, {}, {size});
        expect_near(given.result_floats(), want, 1e-6F);
        SingleNode constant(17, window.op);
        set(constant.node(), "periodic", periodic ? 1 : 0);
        expect_near(constant.constant({size}).result_floats(), want, 1e-6F);
      }
    }
  }
  SingleNode bytes(17, "HannWindow");
  set(bytes.node(), "output_datatype", onnx::TensorProto::INT8);
  EXPECT_EQ(SingleNode::elements<std::int8_t>(bytes.constant({4}).result()),
            (std::vector<std::int8_t>{0, 0, 1, 0}));
}

TEST(Values, DftAlongAnAttributeAxis) {
  SingleNode run(17, "DFT");
  expect_near(run.floats({1, 2, 2, 1}, {1, 2, 3, 4}).result_floats(), {4, 0, 6, 0, -2, 0, -2, 0});
  SingleNode last(17, "DFT");
  set(last.node(), "axis", 2);
  expect_near(last.floats({1, 2, 2, 1}, {1, 2, 3, 4}).result_floats(), {3, 0, -1, 0, 7, 0, -1, 0});
}

TEST(Values, RfftAndBack) {
  expect_near(SingleNode(1, "Rfft", kMicrosoft).floats({2, 4}, {1, 2, 3, 4, 0, 0, 0, 1}).result_floats(),
              {10, 0, -2, 2, -2, 0, 1, 0, 0, 1, -1, 0});
  SingleNode back(1, "Irfft", kMicrosoft);
  set(back.node(), "signal_ndim", 1);
  expect_near(back.floats({1, 3, 2}, {10, 0, -2, 2, -2, 0}).result_floats(), {1, 2, 3, 4});
}

TEST(Values, ComplexProducts) {
  // (1 + 2i) (3 - i) = 5 + 5i; with the conjugate 3 + i: 1 + 7i.
  expect_near(
      SingleNode(1, "ComplexMul", kMicrosoft).floats({1, 2}, {1, 2}).floats({1, 2}, {3, -1}).result_floats(),
      {5, 5});
  expect_near(SingleNode(1, "ComplexMulConj", kMicrosoft)
                  .floats({1, 2}, {1, 2})
                  .floats({1, 2}, {3, -1})
                  .result_floats(),
              {1, 7});
}

TEST(Values, DistancesBetweenRows) {
  SingleNode squares(1, "CDist", kMicrosoft);
  expect_near(squares.floats({2, 2}, {0, 0, 3, 4}).floats({1, 2}, {0, 1}).result_floats(), {1, 18});
  SingleNode roots(1, "CDist", kMicrosoft);
  set_text(roots.node(), "metric", "euclidean");
  expect_near(roots.floats({2, 2}, {0, 0, 3, 4}).floats({1, 2}, {0, 0}).result_floats(), {0, 5});
}

TEST(Values, UniqueInOrderOfAppearance) {
  SingleNode run(1, "Unique", kMicrosoft);
  const std::vector<Tensor> made = run.output("idx").output("counts").floats({4}, {2, 1, 2, 3}).run();
  EXPECT_EQ(SingleNode::elements<float>(made.at(0)), (Floats{2, 1, 3}));
  EXPECT_EQ(SingleNode::elements<std::int64_t>(made.at(1)), (std::vector<std::int64_t>{0, 1, 0, 2}));
  EXPECT_EQ(SingleNode::elements<std::int64_t>(made.at(2)), (std::vector<std::int64_t>{2, 1, 1}));
}

TEST(Values, GridSampleModesOfTwoDimensions) {
  for (const auto& [opset, domain] : {std::pair(16, ""), std::pair(1, kMicrosoft)}) {
    for (const char* mode : {"", "bilinear"}) {
      SingleNode run(opset, "GridSample", domain);
      if (*mode != 0) set_text(run.node(), "mode", mode);
      expect_near(run.floats({1, 1, 1, 2}, {1, 3}).floats({1, 1, 1, 2}, {0, 0}).result_floats(), {2});
    }
  }
}

TEST(Values, RoiAlignWithoutShift) {
  SingleNode run(10, "RoiAlign");
  set(run.node(), "sampling_ratio", 1);
  run.floats({1, 1, 1, 4}, {1, 2, 3, 4}).floats({1, 4}, {1, 0, 3, 0});
  run.with<std::int64_t>(DType::I64, onnx::TensorProto::INT64, {1}, {0});
  expect_near(run.result_floats(), {3});
}

TEST(Values, SwigluGatesWithAlpha) {
  SingleNode run(28, "SwiGLU");
  set_number(run.node(), "alpha", 0.5F);
  const Floats a = pattern({6}), b = pattern({6}, 3);
  Floats want;
  for (std::size_t i = 0; i < 6; ++i) {
    want.push_back(static_cast<float>(a[i] / (1 + std::exp(-0.5 * a[i])) * b[i]));
  }
  expect_near(run.floats({6}, a).floats({6}, b).result_floats(), want);
}

TEST(Values, SoftmaxCrossEntropyWithItsLogarithms) {
  SingleNode run(13, "SoftmaxCrossEntropyLoss");
  set_text(run.node(), "reduction", "sum");
  const Floats x = pattern({2, 3, 2});
  const std::vector<std::int64_t> labels = {2, 0, 1, 1};
  run.output("log_prob").floats({2, 3, 2}, x);
  run.with<std::int64_t>(DType::I64, onnx::TensorProto::INT64, {2, 2}, labels).floats({3}, {1, 2, 3});
  Floats logs(12);
  double loss = 0;
  for (std::size_t n = 0; n < 2; ++n)
    for (std::size_t i = 0; i < 2; ++i) {
      double sum = 0;
      for (std::size_t c = 0; c < 3; ++c) sum += std::exp(double{x[(n * 3 + c) * 2 + i]});
      for (std::size_t c = 0; c < 3; ++c) {
        logs[(n * 3 + c) * 2 + i] = static_cast<float>(x[(n * 3 + c) * 2 + i] - std::log(sum));
      }
      const auto label = static_cast<std::size_t>(labels[n * 2 + i]);
      loss -= static_cast<double>(label + 1) * double{logs[(n * 3 + label) * 2 + i]};
    }
  const std::vector<Tensor> made = run.run();
  expect_near(SingleNode::elements<float>(made.at(0)), {static_cast<float>(loss)});
  expect_near(SingleNode::elements<float>(made.at(1)), logs);
}

TEST(Values, BitCastByOnnxNumber) {
  SingleNode run(26, "BitCast");
  set(run.node(), "to", onnx::TensorProto::UINT32);
  EXPECT_EQ(SingleNode::elements<std::uint32_t>(run.floats({1}, {1.0F}).result()),
            (std::vector<std::uint32_t>{0x3f800000}));
}

TEST(Values, RandomShapesAndTypes) {
  SingleNode plain(1, "RandomUniform");
  set_integers(plain.node(), "shape", {2, 3});
  set_number(plain.node(), "low", 4);
  set_number(plain.node(), "high", 5);
  for (const float x : plain.result_floats()) EXPECT_TRUE(x >= 4 && x <= 5);
  EXPECT_EQ(plain.result().extents(), (Extents{2, 3}));
  SingleNode like(1, "RandomNormalLike");
  set(like.node(), "dtype", onnx::TensorProto::FLOAT16);
  EXPECT_EQ(like.floats({3, 1}, {1, 2, 3}).result().dtype(), DType::F16);
  EXPECT_EQ(SingleNode(1, "RandomUniformLike").floats({3, 1}, {1, 2, 3}).result().extents(), (Extents{3, 1}));
  const auto samples = SingleNode(7, "Multinomial").floats({1, 2}, {-1000, 0}).result();
  EXPECT_EQ(SingleNode::elements<std::int32_t>(samples), (std::vector<std::int32_t>{1}));
}

TEST(Values, BernoulliFollowsTheProbability) {
  SingleNode run(15, "Bernoulli");
  set(run.node(), "dtype", onnx::TensorProto::INT64);
  set_number(run.node(), "seed", 2);
  Floats probability(30000, 0.0F);
  std::fill(probability.begin() + 10000, probability.begin() + 20000, 0.25F);
  std::fill(probability.begin() + 20000, probability.end(), 1.0F);
  const auto drawn = SingleNode::elements<std::int64_t>(run.floats({30000}, probability).result());
  const auto ones = [&](int begin, int end) {
    return std::count(drawn.begin() + begin, drawn.begin() + end, 1);
  };
  EXPECT_EQ(ones(0, 10000), 0);
  EXPECT_NEAR(static_cast<double>(ones(10000, 20000)), 2500, 220);  // 5 standard deviations
  EXPECT_EQ(ones(20000, 30000), 10000);
}

TEST(Values, DropoutInTraining) {
  const Floats x(20000, 3.0F);
  for (const bool trains : {true, false}) {
    SingleNode run(13, "Dropout");
    run.output("mask").floats({20000}, x).floats({}, {0.25F});
    run.with<std::uint8_t>(DType::I1, onnx::TensorProto::BOOL, {}, {static_cast<std::uint8_t>(trains)});
    const std::vector<Tensor> made = run.run();
    const auto mask = made.at(1).as<std::uint8_t>();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      kept += mask[i];
      const float want = mask[i] == 0 ? 0 : trains ? 4 : 3;
      ASSERT_FLOAT_EQ(made.at(0).as<float>()[i], want);
    }
    EXPECT_NEAR(static_cast<double>(kept), trains ? 15000 : 20000, trains ? 310 : 0);
  }
}

TEST(Values, RanksMayBeUnknown) {
  const auto expect_same = [](const std::function<SingleNode()>& make) {
    make().run();  // compares
  };
  for (const int axis : {0, 1, -2}) {
    expect_same([&] {
      SingleNode run(6, "Sub");
      set(run.node(), "broadcast", 1);
      set(run.node(), "axis", axis);
      return run.floats({3, 3, 4}, pattern({3, 3, 4})).floats({3}, {1, 2, 3});
    });
  }
  expect_same([] {
    return SingleNode(6, "PRelu").floats({2, 3, 2, 2}, pattern({2, 3, 2, 2})).floats({3}, {1, 2, 3});
  });
  expect_same([] { return SingleNode(6, "PRelu").floats({2, 3}, pattern({2, 3})).floats({1}, {5}); });
  expect_same([] {
    SingleNode run(15, "BatchNormalization");
    set(run.node(), "training_mode", 1);
    run.output("mean").output("variance");
    return run.floats({2, 3, 2, 2}, pattern({2, 3, 2, 2}))
        .floats({3}, {1, 2, 3})
        .floats({3}, {4, 5, 6})
        .floats({3}, {0, 1, 0})
        .floats({3}, {1, 1, 2});
  });
  expect_same([] {  // a scale for each row
    return SingleNode(21, "QLinearMatMul")
        .bytes({2, 3}, byte_pattern(6, 1))
        .floats({2}, {0.5F, 0.25F})
        .bytes({2}, {3, 4})
        .bytes({3, 4}, byte_pattern(12, 2))
        .floats({}, {0.125F})
        .bytes({}, {7})
        .floats({}, {2})
        .bytes({}, {100});
  });
  expect_same([] {  // a scale for each output channel
    return SingleNode(10, "QLinearConv")
        .bytes({1, 2, 3, 3}, byte_pattern(18, 1))
        .floats({}, {0.5F})
        .bytes({}, {3})
        .bytes({2, 2, 2, 2}, byte_pattern(16, 2))
        .floats({2}, {0.125F, 0.5F})
        .bytes({}, {7})
        .floats({}, {64})
        .bytes({}, {100})
        .with<std::int32_t>(DType::I32, onnx::TensorProto::INT32, {2}, {100, -2000});
  });
}

}  // namespace
}  // namespace kiln::frontend
