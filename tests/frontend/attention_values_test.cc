// Attention of com.microsoft and its kin, run by the reference kernels and compared with plain loops.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "kernels_ref/reference.h"
#include "tests/frontend/model_builder.h"

namespace kiln::frontend {
namespace {

using testing::ModelBuilder;
using testing::set;
using testing::set_number;
using testing::set_text;

using Floats = std::vector<float>;
using Optional = std::optional<Tensor>;
using Configure = std::function<void(onnx::NodeProto& node)>;

constexpr const char* kMicrosoft = "com.microsoft";

std::mt19937& generator() {
  static std::mt19937 engine(17);
  return engine;
}

Tensor random(const Extents& extents) {
  Tensor result(DType::F32, extents);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (float& x : result.as_mutable<float>()) x = uniform(generator());
  return result;
}

Tensor floats(const Extents& extents, const Floats& values) {
  return Tensor::from(DType::F32, extents, std::span(values));
}

Tensor ints(const Extents& extents, const std::vector<std::int32_t>& values) {
  return Tensor::from(DType::I32, extents, std::span(values));
}

Tensor longs(const Extents& extents, const std::vector<std::int64_t>& values) {
  return Tensor::from(DType::I64, extents, std::span(values));
}

int onnx_type(DType dtype) {
  switch (dtype) {
    case DType::I32:
      return onnx::TensorProto::INT32;
    case DType::I64:
      return onnx::TensorProto::INT64;
    case DType::U8:
      return onnx::TensorProto::UINT8;
    case DType::I8:
      return onnx::TensorProto::INT8;
    default:
      return onnx::TensorProto::FLOAT;
  }
}

// The outputs of a model of one node, as loaded with `options`. An input that is absent has no tensor.
std::vector<Tensor> run(
    const std::string& op, const std::string& domain, const std::vector<Optional>& inputs,
    const Configure& configure = [](onnx::NodeProto&) {}, std::size_t outputs = 1,
    const LoadOptions& options = {}) {
  ModelBuilder builder(domain.empty() ? 27 : 17, domain);
  std::vector<std::string> names, results;
  std::vector<Tensor> given;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    names.push_back(inputs[i] ? "x" + std::to_string(i) : "");
    if (!inputs[i]) continue;
    std::vector<testing::DimSpec> dims;
    for (const std::int64_t extent : inputs[i]->extents()) dims.emplace_back(static_cast<int>(extent));
    builder.input(names.back(), dims, onnx_type(inputs[i]->dtype()));
    given.push_back(*inputs[i]);
  }
  for (std::size_t i = 0; i < outputs; ++i) results.push_back("y" + std::to_string(i));
  configure(builder.node(op, names, results, domain));
  for (const std::string& result : results) builder.output(result);
  return reference::evaluate(builder.load(options), given, {});
}

LoadOptions hiding(bool rank) {
  LoadOptions options;
  options.hide_dims = true;
  options.hide_rank = rank;
  return options;
}

// The same whether shapes are known at load, or only ranks, or nothing.
std::vector<Tensor> run_everywhere(
    const std::string& op, const std::string& domain, const std::vector<Optional>& inputs,
    const Configure& configure = [](onnx::NodeProto&) {}, std::size_t outputs = 1) {
  std::vector<Tensor> result = run(op, domain, inputs, configure, outputs);
  const std::vector<Tensor> dynamic = run(op, domain, inputs, configure, outputs, hiding(false));
  for (std::size_t i = 0; i < outputs; ++i) {
    EXPECT_EQ(dynamic[i].extents(), result[i].extents()) << "output " << i;
    for (std::int64_t k = 0; k < result[i].elements() && result[i].dtype() == DType::F32; ++k) {
      const auto at = static_cast<std::size_t>(k);
      EXPECT_NEAR(dynamic[i].as<float>()[at], result[i].as<float>()[at], 1e-5)
          << "output " << i << " at " << k;
    }
  }
  const std::vector<Tensor> hidden = run(op, domain, inputs, configure, outputs, hiding(true));
  for (std::size_t i = 0; i < outputs; ++i) EXPECT_EQ(hidden[i], dynamic[i]) << "output " << i;
  return result;
}

void expect_near(const Tensor& got, const Extents& extents, const Floats& want, float tolerance = 1e-5F) {
  ASSERT_EQ(got.extents(), extents);
  ASSERT_EQ(got.as<float>().size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got.as<float>()[i], want[i], tolerance * (1 + std::abs(want[i]))) << "at " << i;
  }
}

// Heads as they lie in memory: element (b, h, t, i) of [batch, length, columns] is at column h * size + i.
struct Sequence {
  std::vector<double> values;
  std::int64_t length, columns;

  Sequence(const Tensor& tensor)  // NOLINT(google-explicit-constructor)
      : values(tensor.as<float>().begin(), tensor.as<float>().end()),
        length(tensor.extents()[1]),
        columns(tensor.extents()[2]) {}
  double at(std::int64_t b, std::int64_t t, std::int64_t column) const {
    return values[static_cast<std::size_t>((b * length + t) * columns + column)];
  }
};

using Bias = std::function<double(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t t)>;

// [batch, length, heads * size of v]
Floats attend(
    const Sequence& q, const Sequence& k, const Sequence& v, std::int64_t batch, std::int64_t heads,
    const Bias& bias = [](auto...) { return 0.0; }) {
  const std::int64_t size = q.columns / heads, width = v.columns / heads;
  Floats y(static_cast<std::size_t>(batch * q.length * v.columns));
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t s = 0; s < q.length; ++s) {
        std::vector<double> row;
        for (std::int64_t t = 0; t < k.length; ++t) {
          double dot = 0;
          for (std::int64_t i = 0; i < size; ++i) dot += q.at(b, s, h * size + i) * k.at(b, t, h * size + i);
          row.push_back(dot / std::sqrt(static_cast<double>(size)) + bias(b, h, s, t));
        }
        const double peak = *std::max_element(row.begin(), row.end());
        double sum = 0;
        for (double& x : row) sum += x = std::exp(x - peak);
        for (std::int64_t j = 0; j < width; ++j) {
          double total = 0;
          for (std::int64_t t = 0; t < k.length; ++t)
            total += row[static_cast<std::size_t>(t)] / sum * v.at(b, t, h * width + j);
          y[static_cast<std::size_t>((b * q.length + s) * v.columns + h * width + j)] =
              static_cast<float>(total);
        }
      }
    }
  }
  return y;
}

// x + vector, from element `offset` of it on.
Tensor biased(const Tensor& x, const Tensor& vector, std::int64_t offset) {
  Tensor result(DType::F32, x.extents());
  const std::int64_t columns = x.extents().back();
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    result.as_mutable<float>()[static_cast<std::size_t>(i)] =
        x.as<float>()[static_cast<std::size_t>(i)] +
        vector.as<float>()[static_cast<std::size_t>(offset + i % columns)];
  }
  return result;
}

// [batch, length, heads * size] -> [batch, heads, length, size]
Tensor apart(const Tensor& x, std::int64_t heads) {
  const Extents& e = x.extents();
  const std::int64_t size = e[2] / heads;
  Tensor result(DType::F32, {e[0], heads, e[1], size});
  for (std::int64_t i = 0; i < result.elements(); ++i) {
    const std::int64_t b = i / (heads * e[1] * size), h = i / (e[1] * size) % heads, t = i / size % e[1];
    result.as_mutable<float>()[static_cast<std::size_t>(i)] =
        x.as<float>()[static_cast<std::size_t>((b * e[1] + t) * e[2] + h * size + i % size)];
  }
  return result;
}

// a and b, [batch, length, columns], one after the other.
Tensor after(const Tensor& a, const Tensor& b) {
  const Extents& e = a.extents();
  Tensor result(DType::F32, {e[0], e[1] + b.extents()[1], e[2]});
  float* to = result.as_mutable<float>().data();
  for (std::int64_t n = 0; n < e[0]; ++n) {
    for (const Tensor* part : {&a, &b}) {
      const std::int64_t count = part->extents()[1] * e[2];
      to = std::copy_n(part->as<float>().data() + n * count, count, to);
    }
  }
  return result;
}

Configure heads(std::int64_t count) {
  return [count](onnx::NodeProto& node) { set(node, "num_heads", count); };
}

TEST(MultiHeadAttention, QueriesKeysAndValues) {
  for (const std::int64_t length : {1, 4}) {
    const Tensor q = random({2, length, 6}), k = random({2, 5, 6}), v = random({2, 5, 9});
    const Floats want = attend(q, k, v, 2, 3);
    expect_near(run_everywhere("MultiHeadAttention", kMicrosoft, {q, k, v}, heads(3))[0], {2, length, 9},
                want);
    // Keys and values with their heads apart.
    expect_near(run_everywhere("MultiHeadAttention", kMicrosoft, {q, apart(k, 3), apart(v, 3)}, heads(3))[0],
                {2, length, 9}, want);
    const Tensor bias = random({21});
    expect_near(run_everywhere("MultiHeadAttention", kMicrosoft, {q, k, v, bias}, heads(3))[0],
                {2, length, 9}, attend(biased(q, bias, 0), biased(k, bias, 6), biased(v, bias, 12), 2, 3));
  }
}

TEST(MultiHeadAttention, PackedForms) {
  const Tensor q = random({2, 4, 6}), k = random({2, 4, 6}), v = random({2, 4, 6}), bias = random({18});
  const std::int64_t size = 2;
  // [batch, length, heads, parts, size]
  const auto packed = [&](std::initializer_list<const Tensor*> parts) {
    Tensor result(DType::F32, {2, 4, 3, static_cast<std::int64_t>(parts.size()), size});
    float* to = result.as_mutable<float>().data();
    for (std::int64_t row = 0; row < 2 * 4 * 3; ++row) {
      for (const Tensor* part : parts) to = std::copy_n(part->as<float>().data() + row * size, size, to);
    }
    return result;
  };
  const Floats want = attend(q, k, v, 2, 3);
  const Floats want_biased = attend(biased(q, bias, 0), biased(k, bias, 6), biased(v, bias, 12), 2, 3);
  expect_near(run_everywhere("MultiHeadAttention", kMicrosoft, {packed({&q, &k, &v})}, heads(3))[0],
              {2, 4, 6}, want);
  expect_near(run_everywhere("MultiHeadAttention", kMicrosoft, {q, packed({&k, &v})}, heads(3))[0], {2, 4, 6},
              want);
  expect_near(
      run_everywhere("MultiHeadAttention", kMicrosoft, {packed({&q, &k, &v}), {}, {}, bias}, heads(3))[0],
      {2, 4, 6}, want_biased);
  expect_near(run_everywhere("MultiHeadAttention", kMicrosoft, {q, packed({&k, &v}), {}, bias}, heads(3))[0],
              {2, 4, 6}, want_biased);
}

TEST(MultiHeadAttention, MasksAddTheirFilter) {
  const Tensor q = random({2, 3, 4}), k = random({2, 3, 4}), v = random({2, 3, 4});
  const auto expect_mask = [&](const Tensor& mask, double filter,
                               const std::function<bool(int, int, int)>& taken) {
    const auto configure = [&](onnx::NodeProto& node) {
      set(node, "num_heads", 2);
      set_number(node, "mask_filter_value", static_cast<float>(filter));
    };
    expect_near(
        run_everywhere("MultiHeadAttention", kMicrosoft, {q, k, v, {}, mask}, configure)[0], {2, 3, 4},
        attend(q, k, v, 2, 2,
               [&](auto b, auto, auto s, auto t) {
                 return taken(static_cast<int>(b), static_cast<int>(s), static_cast<int>(t)) ? 0 : filter;
               }),
        filter < -1000 ? 1e-3F : 1e-5F);  // f32 keeps few digits of a score beside -10000
  };
  for (const double filter : {-1.5, -10000.0}) {
    const std::vector<std::int32_t> flat = {1, 0, 1, 0, 0, 0};  // nothing is left of the second sequence
    expect_mask(ints({2, 3}, flat), filter,
                [&](int b, int, int t) { return flat[static_cast<std::size_t>(b * 3 + t)] != 0; });
    const std::vector<std::int32_t> square = {1, 0, 0, 1, 1, 0, 1, 1, 1, 0, 1, 1, 0, 0, 1, 0, 1, 0};
    expect_mask(ints({2, 3, 3}, square), filter, [&](int b, int s, int t) {
      return square[static_cast<std::size_t>((b * 3 + s) * 3 + t)] != 0;
    });
    expect_mask(ints({2}, {2, 3}), filter, [](int b, int, int t) { return t < (b == 0 ? 2 : 3); });
    expect_mask(ints({4}, {2, 3, 1, 0}), filter, [](int b, int, int t) { return b == 0 ? t == 1 : t < 3; });
  }
}

TEST(MultiHeadAttention, PastAndCausalAndBias) {
  const Tensor q = random({2, 3, 4}), k = random({2, 3, 4}), v = random({2, 3, 4});
  const Tensor past_k = random({2, 2, 4}), past_v = random({2, 2, 4}), bias = random({2, 2, 3, 5});
  const Tensor all_k = after(past_k, k), all_v = after(past_v, v);
  const auto configure = [](onnx::NodeProto& node) {
    set(node, "num_heads", 2);
    set(node, "unidirectional", 1);
  };
  const auto got = run_everywhere("MultiHeadAttention", kMicrosoft,
                                  {q, k, v, {}, {}, bias, apart(past_k, 2), apart(past_v, 2)}, configure, 3);
  expect_near(
      got[0], {2, 3, 4}, attend(q, all_k, all_v, 2, 2, [&](auto b, auto h, auto s, auto t) {
        if (t > s + 2) return -std::numeric_limits<double>::infinity();
        return static_cast<double>(bias.as<float>()[static_cast<std::size_t>(((b * 2 + h) * 3 + s) * 5 + t)]);
      }));
  EXPECT_EQ(got[1], apart(all_k, 2));
  EXPECT_EQ(got[2], apart(all_v, 2));
}

TEST(DecoderMaskedMultiHeadAttention, WritesIntoItsBuffer) {
  const Tensor q = random({2, 1, 4}), k = random({2, 1, 4}), v = random({2, 1, 4});
  const Tensor buffer_k = random({2, 5, 4}), buffer_v = random({2, 5, 4});
  const auto first = [](const Tensor& x, std::int64_t count) {
    Tensor result(DType::F32, {2, count, 4});
    for (std::int64_t b = 0; b < 2; ++b) {
      std::copy_n(x.as<float>().data() + b * x.extents()[1] * 4, count * 4,
                  result.as_mutable<float>().data() + b * count * 4);
    }
    return result;
  };
  const auto configure = [](onnx::NodeProto& node) {
    set(node, "num_heads", 2);
    set(node, "past_present_share_buffer", 1);
  };
  const auto got =
      run_everywhere("DecoderMaskedMultiHeadAttention", kMicrosoft,
                     {q, k, v, {}, {}, apart(buffer_k, 2), apart(buffer_v, 2), ints({1}, {3})}, configure, 3);
  expect_near(got[0], {2, 1, 4}, attend(q, after(first(buffer_k, 3), k), after(first(buffer_v, 3), v), 2, 2));
  Tensor want = Tensor::from(DType::F32, {2, 5, 4}, buffer_k.as<float>());
  for (std::int64_t b = 0; b < 2; ++b) {
    std::copy_n(k.as<float>().data() + b * 4, 4, want.as_mutable<float>().data() + (b * 5 + 3) * 4);
  }
  EXPECT_EQ(got[1], apart(want, 2));
}

// input x weights + bias, as [batch, length, columns from `begin` to `end`].
Tensor projected(const Tensor& x, const Tensor& weights, const Tensor& bias, std::int64_t begin,
                 std::int64_t end) {
  const std::int64_t depth = x.extents()[2], columns = weights.extents()[1], rows = x.elements() / depth;
  Tensor y(DType::F32, {x.extents()[0], x.extents()[1], end - begin});
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = begin; j < end; ++j) {
      double sum = bias.as<float>()[static_cast<std::size_t>(j)];
      for (std::int64_t l = 0; l < depth; ++l) {
        sum += static_cast<double>(x.as<float>()[static_cast<std::size_t>(i * depth + l)]) *
               weights.as<float>()[static_cast<std::size_t>(l * columns + j)];
      }
      y.as_mutable<float>()[static_cast<std::size_t>(i * (end - begin) + j - begin)] =
          static_cast<float>(sum);
    }
  }
  return y;
}

TEST(AttentionOfMicrosoft, ProjectsAndRemembers) {
  const Tensor x = random({2, 3, 5}), weights = random({5, 16}), bias = random({16});
  const Tensor q = projected(x, weights, bias, 0, 6), k = projected(x, weights, bias, 6, 12),
               v = projected(x, weights, bias, 12, 16);
  const auto configure = [](onnx::NodeProto& node) {
    set(node, "num_heads", 2);
    testing::set_integers(node, "qkv_hidden_sizes", {6, 6, 4});
  };
  expect_near(run_everywhere("Attention", kMicrosoft, {x, weights, bias}, configure)[0], {2, 3, 4},
              attend(q, k, v, 2, 2));
  // Equal sizes, with a past, causal, and a mask that leaves one key out.
  const Tensor even = random({5, 12}), even_bias = random({12}), past_k = random({2, 2, 4}),
               past_v = random({2, 2, 4});
  const Tensor q2 = projected(x, even, even_bias, 0, 4),
               k2 = after(past_k, projected(x, even, even_bias, 4, 8)),
               v2 = after(past_v, projected(x, even, even_bias, 8, 12));
  Tensor past(DType::F32, {2, 2, 2, 2, 2});
  const Tensor heads_k = apart(past_k, 2), heads_v = apart(past_v, 2);
  std::copy_n(heads_k.as<float>().data(), 16, past.as_mutable<float>().data());
  std::copy_n(heads_v.as<float>().data(), 16, past.as_mutable<float>().data() + 16);
  const auto causal = [](onnx::NodeProto& node) {
    set(node, "num_heads", 2);
    set(node, "unidirectional", 1);
  };
  const auto got =
      run_everywhere("Attention", kMicrosoft,
                     {x, even, even_bias, ints({2, 5}, {0, 1, 1, 1, 1, 1, 1, 1, 1, 1}), past}, causal, 2);
  expect_near(got[0], {2, 3, 4}, attend(q2, k2, v2, 2, 2, [](auto b, auto, auto s, auto t) {
                return t > s + 2 || (b == 0 && t == 0) ? -1e9 : 0;
              }));
  ASSERT_EQ(got[1].extents(), (Extents{2, 2, 2, 5, 2}));
  const Tensor present_k = apart(k2, 2);
  for (std::size_t i = 0; i < 40; ++i) EXPECT_NEAR(got[1].as<float>()[i], present_k.as<float>()[i], 1e-5);
}

TEST(AttentionOfMicrosoft, RotaryTurnsQueriesAndKeys) {
  const Tensor x = random({1, 4, 5}), weights = random({5, 24}), bias = random({24});
  const auto turned = [](Tensor y) {  // heads of size 4: pairs (0, 2) and (1, 3)
    for (std::int64_t t = 0; t < 4; ++t) {
      for (std::int64_t h = 0; h < 2; ++h) {
        float* head = y.as_mutable<float>().data() + t * 8 + h * 4;
        for (std::int64_t i = 0; i < 2; ++i) {
          const double angle = static_cast<double>(t) * std::pow(10000.0, -static_cast<double>(i) / 2);
          const double a = head[i], b = head[i + 2];
          head[i] = static_cast<float>(a * std::cos(angle) - b * std::sin(angle));
          head[i + 2] = static_cast<float>(a * std::sin(angle) + b * std::cos(angle));
        }
      }
    }
    return y;
  };
  const auto configure = [](onnx::NodeProto& node) {
    set(node, "num_heads", 2);
    set(node, "do_rotary", 1);
  };
  expect_near(run_everywhere("Attention", kMicrosoft, {x, weights, bias}, configure)[0], {1, 4, 8},
              attend(turned(projected(x, weights, bias, 0, 8)), turned(projected(x, weights, bias, 8, 16)),
                     projected(x, weights, bias, 16, 24), 1, 2));
}

TEST(QAttention, IsAttentionOnExactProducts) {
  const std::vector<std::uint8_t> levels = {3, 250, 0, 128, 77, 200, 1, 9, 40, 255, 130, 128};
  std::vector<std::int8_t> weight_levels;
  Floats weight_values, input_values;
  for (int i = 0; i < 4 * 12; ++i) {
    weight_levels.push_back(static_cast<std::int8_t>((i * 53) % 256 - 128));
    weight_values.push_back(0.01F * static_cast<float>(weight_levels.back() - 3));
  }
  for (const std::uint8_t level : levels) input_values.push_back(0.02F * static_cast<float>(level - 100));
  const Tensor bias = random({12});
  const Tensor x = floats({1, 3, 4}, input_values), w = floats({4, 12}, weight_values);
  const Floats want =
      attend(projected(x, w, bias, 0, 4), projected(x, w, bias, 4, 8), projected(x, w, bias, 8, 12), 1, 2);
  const auto got = run_everywhere("QAttention", kMicrosoft,
                                  {Tensor::from<std::uint8_t>(DType::U8, {1, 3, 4}, levels),
                                   Tensor::from<std::int8_t>(DType::I8, {4, 12}, weight_levels),
                                   bias,
                                   floats({1}, {0.02F}),
                                   floats({1}, {0.01F}),
                                   {},
                                   Tensor::from<std::uint8_t>(DType::U8, {1}, std::vector<std::uint8_t>{100}),
                                   Tensor::from<std::int8_t>(DType::I8, {1}, std::vector<std::int8_t>{3})},
                                  heads(2));
  expect_near(got[0], {1, 3, 4}, want, 1e-4F);
}

// A mask of one key: all of them in version 23, the first alone from 24 on.
TEST(Attention, MasksOfOneKey) {
  const Tensor q = random({1, 2, 4}), k = random({1, 3, 4}), v = random({1, 3, 4}), mask = random({2, 1});
  const auto run_version = [&](std::int64_t opset, const LoadOptions& options = {}) {
    ModelBuilder builder(opset);
    builder.input("q", {1, 2, 4}).input("k", {1, 3, 4}).input("v", {1, 3, 4}).input("mask", {2, 1});
    onnx::NodeProto& node = builder.node("Attention", {"q", "k", "v", "mask"}, {"y"});
    set(node, "q_num_heads", 2);
    set(node, "kv_num_heads", 2);
    builder.output("y");
    return reference::evaluate(builder.load(options), std::vector<Tensor>{q, k, v, mask}, {})[0];
  };
  for (const LoadOptions& options : {LoadOptions(), hiding(false), hiding(true)}) {
    expect_near(run_version(23, options), {1, 2, 4}, attend(q, k, v, 1, 2));  // the same for every key
  }
  Floats first = {v.as<float>().begin(), v.as<float>().begin() + 4};
  for (std::size_t i = 0; i < 4; ++i) first.push_back(first[i]);
  expect_near(run_version(24), {1, 2, 4}, first);
}

TEST(RotaryEmbedding, TurnsPairs) {
  const Tensor x = random({2, 3, 12}), cosines = random({7, 2}), sines = random({7, 2});
  const std::vector<std::int64_t> ids = {0, 6, 2, 3, 3, 1};
  for (const bool interleaved : {false, true}) {
    for (const std::int64_t dimension : {0, 4}) {
      // Heads of 4 are turned whole, of 6 in part.
      const std::int64_t count = dimension == 0 ? 3 : 2, size = 12 / count;
      Floats want(x.as<float>().begin(), x.as<float>().end());
      for (std::size_t row = 0; row < 6; ++row) {
        for (std::int64_t h = 0; h < count; ++h) {
          float* head = want.data() + static_cast<std::int64_t>(row) * 12 + h * size;
          for (std::int64_t i = 0; i < 2; ++i) {
            float &a = head[interleaved ? 2 * i : i], &b = head[interleaved ? 2 * i + 1 : i + 2];
            const auto at = static_cast<std::size_t>(ids[row] * 2 + i);
            const double c = cosines.as<float>()[at], s = sines.as<float>()[at], first = a, second = b;
            a = static_cast<float>(first * c - second * s);
            b = static_cast<float>(first * s + second * c);
          }
        }
      }
      const auto configure = [&](onnx::NodeProto& node) {
        set(node, "interleaved", interleaved ? 1 : 0);
        set(node, "num_heads", count);
        set(node, "rotary_embedding_dim", dimension);
      };
      const Tensor at = longs({2, 3}, ids);
      expect_near(run_everywhere("RotaryEmbedding", "", {x, cosines, sines, at}, configure)[0], {2, 3, 12},
                  want);
      expect_near(run_everywhere("RotaryEmbedding", kMicrosoft, {x, at, cosines, sines}, configure)[0],
                  {2, 3, 12}, want);
      // With heads apart, and caches that are gathered already.
      const auto gathered = [&](const Tensor& cache) {
        Floats rows;
        for (const std::int64_t id : ids) {
          for (std::int64_t i = 0; i < 2; ++i)
            rows.push_back(cache.as<float>()[static_cast<std::size_t>(id * 2 + i)]);
        }
        return floats({2, 3, 2}, rows);
      };
      const auto unnumbered = [&](onnx::NodeProto& node) {
        set(node, "interleaved", interleaved ? 1 : 0);
        set(node, "rotary_embedding_dim", dimension);
      };
      const Tensor want_apart = apart(floats({2, 3, 12}, want), count);
      expect_near(run_everywhere("RotaryEmbedding", "", {apart(x, count), gathered(cosines), gathered(sines)},
                                 unnumbered)[0],
                  want_apart.extents(), Floats(want_apart.as<float>().begin(), want_apart.as<float>().end()));
    }
  }
}

TEST(CausalConvWithState, SeesOnlyTheBefore) {
  for (const std::int64_t taps : {1, 3}) {
    for (const bool with_state : {false, true}) {
      const Tensor x = random({2, 3, 4}), weight = random({3, 1, taps}), bias = random({3});
      const Tensor state = with_state ? random({2, 3, taps - 1}) : Tensor(DType::F32, {2, 3, taps - 1});
      Floats want, next;
      for (std::int64_t row = 0; row < 6; ++row) {
        Floats line(state.as<float>().begin() + row * (taps - 1),
                    state.as<float>().begin() + (row + 1) * (taps - 1));
        line.insert(line.end(), x.as<float>().begin() + row * 4, x.as<float>().begin() + (row + 1) * 4);
        for (std::int64_t t = 0; t < 4; ++t) {
          double sum = bias.as<float>()[static_cast<std::size_t>(row % 3)];
          for (std::int64_t i = 0; i < taps; ++i) {
            sum += static_cast<double>(line[static_cast<std::size_t>(t + i)]) *
                   weight.as<float>()[static_cast<std::size_t>(row % 3 * taps + i)];
          }
          want.push_back(static_cast<float>(sum / (1 + std::exp(-sum))));
        }
        next.insert(next.end(), line.end() - (taps - 1), line.end());
      }
      const auto got = run_everywhere(
          "CausalConvWithState", "", {x, weight, bias, with_state ? Optional(state) : std::nullopt},
          [](onnx::NodeProto& node) { set_text(node, "activation", "silu"); }, 2);
      expect_near(got[0], {2, 3, 4}, want);
      expect_near(got[1], {2, 3, taps - 1}, next, 0);
    }
  }
}

TEST(EmbedLayerNormalization, SumsAndNormalises) {
  const Tensor word = random({9, 4}), position = random({6, 4}), segment = random({2, 4}),
               gamma = random({4}), beta = random({4});
  const std::vector<std::int32_t> ids = {8, 0, 3, 1, 1, 7}, segments = {0, 1, 1, 0, 0, 1};
  Floats sums, want;
  for (std::size_t row = 0; row < 6; ++row) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      sums.push_back(word.as<float>()[static_cast<std::size_t>(ids[row]) * 4 + i] +
                     position.as<float>()[row % 3 * 4 + i] +
                     segment.as<float>()[static_cast<std::size_t>(segments[row]) * 4 + i]);
      mean += static_cast<double>(sums.back()) / 4;
    }
    for (std::size_t i = 0; i < 4; ++i)
      variance += std::pow(static_cast<double>(sums[row * 4 + i]) - mean, 2) / 4;
    for (std::size_t i = 0; i < 4; ++i) {
      want.push_back(static_cast<float>((static_cast<double>(sums[row * 4 + i]) - mean) /
                                            std::sqrt(variance + 0.25) * gamma.as<float>()[i] +
                                        beta.as<float>()[i]));
    }
  }
  const auto got = run_everywhere(
      "EmbedLayerNormalization", kMicrosoft,
      {ints({2, 3}, ids), ints({2, 3}, segments), word, position, segment, gamma, beta,
       ints({2, 3}, {1, 1, 0, 1, 1, 1})},
      [](onnx::NodeProto& node) { set_number(node, "epsilon", 0.25F); }, 3);
  expect_near(got[0], {2, 3, 4}, want);
  EXPECT_EQ(got[1], ints({2}, {2, 3}));
  expect_near(got[2], {2, 3, 4}, sums, 1e-6F);
}

TEST(GroupNorm, ChannelsLastWithSkip) {
  const Tensor x = random({2, 2, 3, 4}), gamma = random({4}), beta = random({4}), skip = random({2, 4}),
               bias = random({4});
  Floats sums, want(48);
  for (std::size_t i = 0; i < 48; ++i)
    sums.push_back(x.as<float>()[i] + skip.as<float>()[i / 24 * 4 + i % 4] + bias.as<float>()[i % 4]);
  for (std::size_t item = 0; item < 2; ++item) {
    for (std::size_t group = 0; group < 2; ++group) {
      double mean = 0, variance = 0;
      const auto each = [&](const std::function<void(std::size_t)>& visit) {
        for (std::size_t pixel = 0; pixel < 6; ++pixel) {
          for (std::size_t c = 0; c < 2; ++c) visit(item * 24 + pixel * 4 + group * 2 + c);
        }
      };
      each([&](std::size_t i) { mean += static_cast<double>(sums[i]) / 12; });
      each([&](std::size_t i) { variance += std::pow(static_cast<double>(sums[i]) - mean, 2) / 12; });
      each([&](std::size_t i) {
        const double y =
            (static_cast<double>(sums[i]) - mean) / std::sqrt(variance + 1e-5) * gamma.as<float>()[i % 4] +
            beta.as<float>()[i % 4];
        want[i] = static_cast<float>(y / (1 + std::exp(-y)));
      });
    }
  }
  const auto configure = [](onnx::NodeProto& node) {
    set(node, "groups", 2);
    set(node, "activation", 1);
  };
  const auto got = run_everywhere("SkipGroupNorm", kMicrosoft, {x, gamma, beta, skip, bias}, configure, 2);
  expect_near(got[0], {2, 2, 3, 4}, want);
  expect_near(got[1], {2, 2, 3, 4}, sums, 1e-6F);
  expect_near(
      run_everywhere("GroupNorm", kMicrosoft, {floats({2, 2, 3, 4}, sums), gamma, beta}, configure)[0],
      {2, 2, 3, 4}, want);
}

TEST(BiasSoftmax, JoinsTheAxes) {
  const Tensor x = random({2, 3, 4}), bias = random({1, 3, 4});
  Floats want;
  for (std::size_t row = 0; row < 2; ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < 12; ++i) sum += std::exp(x.as<float>()[row * 12 + i] + bias.as<float>()[i]);
    for (std::size_t i = 0; i < 12; ++i) {
      want.push_back(static_cast<float>(std::exp(x.as<float>()[row * 12 + i] + bias.as<float>()[i]) / sum));
    }
  }
  expect_near(run_everywhere("BiasSoftmax", kMicrosoft, {x, bias},
                             [](onnx::NodeProto& node) {
                               set(node, "axis", 1);
                               set(node, "is_inner_broadcast", 0);
                             })[0],
              {2, 3, 4}, want);
}

TEST(BiasSplitGelu, GatesHalfOfTheChannels) {
  const Tensor x = random({2, 3, 6}), bias = random({6});
  Floats want;
  for (std::size_t row = 0; row < 6; ++row) {
    for (std::size_t i = 0; i < 3; ++i) {
      const double a = x.as<float>()[row * 6 + i] + bias.as<float>()[i],
                   b = x.as<float>()[row * 6 + 3 + i] + bias.as<float>()[3 + i];
      want.push_back(static_cast<float>(a * b * 0.5 * (1 + std::erf(b / std::sqrt(2.0)))));
    }
  }
  expect_near(run_everywhere("BiasSplitGelu", kMicrosoft, {x, bias})[0], {2, 3, 3}, want);
}

TEST(RelativePositionBias, Buckets) {
  const Tensor table = random({8, 2});
  // Distances below 2 (of 4 buckets), then 2 from 2 on and 3 from 2 * sqrt(4) = 4 on, of at most 8.
  const auto bucket = [](std::int64_t distance) { return distance < 2 ? distance : distance < 4 ? 2 : 3; };
  Floats want;
  for (std::size_t h = 0; h < 2; ++h) {
    for (std::int64_t q = 0; q < 7; ++q) {
      for (std::int64_t k = 0; k < 6; ++k) {
        const std::int64_t at = bucket(std::abs(k - q)) + (k > q ? 4 : 0);
        want.push_back(table.as<float>()[static_cast<std::size_t>(at) * 2 + h]);
      }
    }
  }
  const auto configure = [](onnx::NodeProto& node) {
    set(node, "max_distance", 8);
    set(node, "is_bidirectional", 1);
  };
  expect_near(run_everywhere("RelativePositionBias", kMicrosoft, {table, longs({1}, {7}), longs({1}, {6})},
                             configure)[0],
              {1, 2, 7, 6}, want, 0);
}

TEST(GatedRelativePositionBias, TwoGates) {
  const Tensor query = random({1, 2, 6}), query_bias = random({6}), positions = random({1, 2, 2, 2}),
               weight = random({3, 8}), bias = random({8}), eco = random({1, 2, 1, 1});
  Floats want;
  for (std::size_t h = 0; h < 2; ++h) {
    for (std::size_t s = 0; s < 2; ++s) {
      double gates[2] = {};
      for (std::size_t j = 0; j < 8; ++j) {
        double sum = bias.as<float>()[j];
        for (std::size_t i = 0; i < 3; ++i) {
          sum += (static_cast<double>(query.as<float>()[s * 6 + h * 3 + i]) +
                  query_bias.as<float>()[h * 3 + i]) *
                 weight.as<float>()[i * 8 + j];
        }
        gates[j / 4] += sum;
      }
      for (double& gate : gates) gate = 1 / (1 + std::exp(-gate));
      const double factor = gates[0] * (gates[1] * eco.as<float>()[h] - 1) + 2;
      for (std::size_t t = 0; t < 2; ++t) {
        want.push_back(static_cast<float>(factor * positions.as<float>()[(h * 2 + s) * 2 + t]));
      }
    }
  }
  expect_near(run_everywhere("GatedRelativePositionBias", kMicrosoft,
                             {query, query_bias, positions, weight, bias, eco}, heads(2))[0],
              {1, 2, 2, 2}, want);
}

TEST(SimplifiedLayerNormalization, GivesItsInverse) {
  const Tensor x = random({2, 3, 4}), scale = random({3, 4});
  Floats want, inverses;
  for (std::size_t row = 0; row < 2; ++row) {
    double squares = 0;
    for (std::size_t i = 0; i < 12; ++i)
      squares += std::pow(static_cast<double>(x.as<float>()[row * 12 + i]), 2) / 12;
    inverses.push_back(static_cast<float>(1 / std::sqrt(squares + 0.25)));
    for (std::size_t i = 0; i < 12; ++i) {
      want.push_back(
          static_cast<float>(x.as<float>()[row * 12 + i] / std::sqrt(squares + 0.25) * scale.as<float>()[i]));
    }
  }
  const auto configure = [](onnx::NodeProto& node) {
    set(node, "axis", 1);
    set_number(node, "epsilon", 0.25F);
  };
  const auto got = run("SimplifiedLayerNormalization", "", {x, scale}, configure, 2);
  expect_near(got[0], {2, 3, 4}, want);
  expect_near(got[1], {2, 1, 1}, inverses);
}

TEST(SkipLayerNormalization, GivesMeanAndInverse) {
  const Tensor x = random({1, 2, 4}), skip = random({1, 2, 4}), gamma = random({4}), beta = random({4});
  const auto got = run(
      "SkipLayerNormalization", kMicrosoft, {x, skip, gamma, beta},
      [](onnx::NodeProto& node) { set_number(node, "epsilon", 0.25F); }, 4);
  for (std::size_t row = 0; row < 2; ++row) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < 4; ++i) mean += static_cast<double>(got[3].as<float>()[row * 4 + i]) / 4;
    for (std::size_t i = 0; i < 4; ++i)
      variance += std::pow(static_cast<double>(got[3].as<float>()[row * 4 + i]) - mean, 2) / 4;
    EXPECT_NEAR(got[1].as<float>()[row], mean, 1e-6);
    EXPECT_NEAR(got[2].as<float>()[row], 1 / std::sqrt(variance + 0.25), 1e-5);
    EXPECT_NEAR(got[3].as<float>()[row * 4], x.as<float>()[row * 4] + skip.as<float>()[row * 4], 1e-6);
  }
}

}  // namespace
}  // namespace kiln::frontend
