// Where a plain kernel would lose digits: against the same model in f64, on generated and on reference
// kernels.
#include <cmath>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <kiln/kiln.h>

#include "ir/base/float_types.h"
#include "tests/e2e/session_support.h"
#include "tests/frontend/model_builder.h"
#include "tests/support/zoo.h"

namespace kiln {
namespace {

using frontend::testing::ModelBuilder;
using frontend::testing::set;
using frontend::testing::set_integers;

std::vector<double> uniform(std::size_t count, double low, double high) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> distribution(low, high);
  std::vector<double> values(count);
  for (double& value : values) value = distribution(random);
  return values;
}

double error_of_first_output(const ModelBuilder& builder, const Tensor& input, KernelChoice kernels) {
  const auto run = [&](KernelChoice choice) {
    const Session session = e2e::load(builder, {.kernels = choice});
    std::vector<Tensor> outputs = session.run({{session.inputs()[0].name, input}});
    EXPECT_EQ(session.stats().fallback_nodes, 0);
    return outputs[0];
  };
  return testing::relative_error(run(kernels), run(KernelChoice::Reference64));
}

class Accuracy : public ::testing::TestWithParam<KernelChoice> {};

// Sums of a million numbers near 30: in f32 throughout, the mean would be off by 1e-4 of the deviation.
TEST_P(Accuracy, ALongRowIsSummedInMoreThanF32) {
  for (const bool channels_last : {false, true}) {
    ModelBuilder builder(17);
    const std::string data = channels_last ? "t" : "x";
    builder.input("x", channels_last ? std::vector<frontend::testing::DimSpec>{1, 1024, 1024, 2}
                                     : std::vector<frontend::testing::DimSpec>{1, 2, 1024, 1024});
    if (channels_last) set_integers(builder.node("Transpose", {"x"}, {"t"}), "perm", {0, 3, 1, 2});
    builder.floats("s", {2}, {1, 1}).floats("b", {2}, {0, 0});
    builder.node("InstanceNormalization", {data, "s", "b"}, {"y"});
    builder.output("y");
    Tensor x(DType::F32, channels_last ? Extents{1, 1024, 1024, 2} : Extents{1, 2, 1024, 1024});
    const std::vector<double> values = uniform(static_cast<std::size_t>(x.elements()), 29, 31);
    std::copy(values.begin(), values.end(), x.as_mutable<float>().begin());
    EXPECT_LE(error_of_first_output(builder, x, GetParam()), 1e-5) << channels_last;
  }
}

// Logits of 16 with 11 bits would leave an error of 2e-3: they stay in f32 from where they are summed,
// through scale, bias and views.
TEST_P(Accuracy, TheArgumentOfASoftmaxIsNotRoundedToSixteenBits) {
  for (const bool pooled : {true, false}) {
    ModelBuilder builder(17);
    builder.input("x", {"n", 100, 5, 5}, onnx::TensorProto::FLOAT16);
    auto& three = builder.initializer("three", {}, onnx::TensorProto::FLOAT16);
    three.add_int32_data(Float16(3.0F).bits);
    if (pooled) {
      builder.node("GlobalAveragePool", {"x"}, {"p"});
    } else {
      builder.integers("matrix", {3}, {0, 100, 25}).integers("row", {4}, {0, 100, 25, 1});
      builder.node("Reshape", {"x", "matrix"}, {"a"});
      auto& ones = builder.initializer("ones", {25, 25}, onnx::TensorProto::FLOAT16);
      for (int i = 0; i < 625; ++i) ones.add_int32_data(Float16(0.04F).bits);
      builder.node("MatMul", {"a", "ones"}, {"m"});
      builder.node("Reshape", {"m", "row"}, {"p"});
    }
    builder.node("Mul", {"p", "three"}, {"scaled"});
    set(builder.node("Softmax", {"scaled"}, {"s"}), "axis", 1);
    set(builder.node("Cast", {"s"}, {"y"}), "to", onnx::TensorProto::FLOAT);
    builder.output("y");
    Tensor x(DType::F16, {2, 100, 5, 5});
    const std::vector<double> values = uniform(static_cast<std::size_t>(x.elements()), 3, 8);
    for (std::size_t i = 0; i < values.size(); ++i)
      x.as_mutable<Float16>()[i] = Float16(static_cast<float>(values[i]));
    EXPECT_LE(error_of_first_output(builder, x, GetParam()), 5e-4) << pooled;
  }
}

// 8-bit operands of 2048 products each, constant or not, with scales and zero points for each output channel
// or for all. What is left are the roundings of the scales' product, of its product with the sum and of the
// bias.
TEST_P(Accuracy, SumsOfDequantisedOperandsAreExact) {
  constexpr int kDepth = 2048, kChannels = 24;
  for (const char* op : {"Conv", "MatMul", "Gemm", "MatMul of inputs"}) {
    const bool is_convolution = op == std::string("Conv"), is_gemm = op == std::string("Gemm");
    const bool has_weights = op != std::string("MatMul of inputs");
    ModelBuilder builder(17);
    if (is_convolution) {
      builder.input("x", {"n", kDepth, 3, 3}, onnx::TensorProto::UINT8);
    } else {
      builder.input("x", {"n", kDepth}, onnx::TensorProto::UINT8);
    }
    builder.floats("xs", {}, {0.0173F});
    builder.initializer("xz", {}, onnx::TensorProto::UINT8).add_int32_data(113);
    builder.node("DequantizeLinear", {"x", "xs", "xz"}, {"a"});
    if (has_weights) {
      const std::vector<std::int64_t> extents = is_convolution
                                                    ? std::vector<std::int64_t>{kChannels, kDepth, 1, 1}
                                                : is_gemm ? std::vector<std::int64_t>{kChannels, kDepth}
                                                          : std::vector<std::int64_t>{kDepth, kChannels};
      auto& weights = builder.initializer("w", extents, onnx::TensorProto::INT8);
      for (const double value : uniform(kDepth * kChannels, -128, 128))
        weights.add_int32_data(static_cast<int>(std::floor(value)));
      std::vector<float> scales;
      auto& zeros = builder.initializer("wz", {kChannels}, onnx::TensorProto::INT8);
      for (int c = 0; c < kChannels; ++c) {
        scales.push_back(0.0031F + 0.0007F * static_cast<float>(c));
        zeros.add_int32_data(c - 11);
      }
      builder.floats("ws", {kChannels}, scales);
      builder.floats("bias", {kChannels}, std::vector<float>(kChannels, 0.0117F));
      set(builder.node("DequantizeLinear", {"w", "ws", "wz"}, {"b"}), "axis",
          is_convolution || is_gemm ? 0 : 1);
    } else {
      builder.node("Transpose", {"x"}, {"t"});
      builder.node("DequantizeLinear", {"t", "xs", "xz"}, {"b"});
    }
    if (is_convolution) {
      builder.node("Conv", {"a", "b", "bias"}, {"y"});
    } else if (is_gemm) {
      set(builder.node("Gemm", {"a", "b", "bias"}, {"y"}), "transB", 1);
    } else {
      builder.node("MatMul", {"a", "b"}, {"y"});
    }
    builder.output("y");
    Tensor x(DType::U8, is_convolution ? Extents{2, kDepth, 3, 3} : Extents{19, kDepth});
    const std::vector<double> values = uniform(static_cast<std::size_t>(x.elements()), 0, 256);
    for (std::size_t i = 0; i < values.size(); ++i)
      x.as_mutable<std::uint8_t>()[i] = static_cast<std::uint8_t>(values[i]);
    EXPECT_LE(error_of_first_output(builder, x, GetParam()), 1e-7) << op;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Accuracy, ::testing::Values(KernelChoice::Generated, KernelChoice::Reference),
                         [](const auto& test) {
                           return test.param == KernelChoice::Generated ? "generated" : "reference";
                         });

}  // namespace
}  // namespace kiln
