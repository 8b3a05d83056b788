// Matrix products in their many forms against plain loops.
#include <algorithm>
#include <array>
#include <cmath>

#include "tests/ir/tile/paper_testing.h"

namespace kiln::tile {
namespace {

double plain_gelu(double x) { return x * (1 + std::erf(x / std::sqrt(2.0))) / 2; }
double plain_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// a · b in f64.
Array<double> plain_matmul(Floats& a, Floats& b) {
  Array<double> c({a.extents[0], b.extents[1]});
  for (std::int64_t i = 0; i < a.extents[0]; ++i) {
    for (std::int64_t k = 0; k < a.extents[1]; ++k) {
      for (std::int64_t j = 0; j < b.extents[1]; ++j) c(i, j) += static_cast<double>(a(i, k)) * b(k, j);
    }
  }
  return c;
}

struct Shape {
  std::int64_t m, n, k;
};
const std::vector<Shape> kShapes = {{1, 1, 1}, {3, 15, 7}, {4, 16, 8}, {5, 17, 9}, {13, 11, 29}};

TEST(PaperDot, GemmWithBiasAndGelu) {
  for (const MetaBindings& bindings :
       {MetaBindings{}, MetaBindings{{"BM", 16}, {"BN", 1}, {"BK", 1}}, MetaBindings{{"BM", 1}, {"BN", 7}}}) {
    const Kernel kernel = paper_kernel("gemm_bias_gelu", "gemm_bias_gelu", bindings);
    for (const Shape& s : kShapes) {
      Floats a = random_floats({s.m, s.k}, 1), b = random_floats({s.k, s.n}, 2),
             bias = random_floats({s.n}, 3), c({s.m, s.n}, 99);
      run(kernel, {a, b, bias, c});
      Array<double> want = plain_matmul(a, b);
      for (std::int64_t i = 0; i < s.m; ++i) {
        for (std::int64_t j = 0; j < s.n; ++j) want(i, j) = plain_gelu(want(i, j) + bias(j));
      }
      expect_close(c, want, 1e-5);
    }
  }
}

TEST(PaperDot, SplitIntoThreeBf16PartsIsAsGoodAsF32) {
  const Kernel prepare = paper_kernel("split_gemm", "split_weights"),
               multiply = paper_kernel("split_gemm", "split_gemm");
  for (const Shape& s : kShapes) {
    Floats a = random_floats({s.m, s.k}, 4), b = random_floats({s.k, s.n}, 5), c({s.m, s.n});
    Array<std::uint16_t> parts({3, s.k, s.n});
    run(prepare, {b, parts});
    run(multiply, {a, parts, c});
    expect_close(c, plain_matmul(a, b), 1e-6 * static_cast<double>(s.k));
  }
}

TEST(PaperDot, DynamicQuantisation) {
  const Kernel range = paper_kernel("quantized_matmul", "quantize_range"),
               quantize = paper_kernel("quantized_matmul", "quantize"),
               multiply = paper_kernel("quantized_matmul", "integer_matmul");
  for (const Shape& s : kShapes) {
    Floats a = random_floats({s.m, s.k}, 6), b_scale = random_floats({s.n}, 7), scale({1}), y({s.m, s.n});
    for (float& x : a.data) x = x * 3 + 1;
    Array<std::uint8_t> zero({1}), q({s.m, s.k});
    Array<std::int8_t> b({s.k, s.n});
    for (std::size_t i = 0; i < b.data.size(); ++i)
      b.data[i] = static_cast<std::int8_t>(static_cast<int>(i * 37 % 256) - 128);
    run(range, {a, scale, zero});
    run(quantize, {a, scale, zero, q});
    run(multiply, {q, scale, zero, b, b_scale, y});

    float least = 0, greatest = 0;
    for (const float x : a.data) {
      least = std::min(least, x);
      greatest = std::max(greatest, x);
    }
    const float step = (greatest - least) / 255.0f;
    EXPECT_EQ(scale(0), step);
    const float zero_point = std::min(std::max(std::nearbyint(-least / step), 0.0f), 255.0f);
    EXPECT_EQ(static_cast<float>(zero(0)), zero_point);
    Array<std::uint8_t> want_q({s.m, s.k});
    for (std::size_t i = 0; i < a.data.size(); ++i) {
      want_q.data[i] = static_cast<std::uint8_t>(
          std::min(std::max(std::nearbyint(a.data[i] / step) + zero_point, 0.0f), 255.0f));
    }
    EXPECT_EQ(q.data, want_q.data);
    Floats want({s.m, s.n});
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t j = 0; j < s.n; ++j) {
        std::int32_t sum = 0;
        for (std::int64_t k = 0; k < s.k; ++k)
          sum += (want_q(i, k) - static_cast<std::int32_t>(zero_point)) * b(k, j);
        want(i, j) = static_cast<float>(sum) * (step * b_scale(j));
      }
    }
    EXPECT_EQ(y.data, want.data);  // exact sums and one product: nothing to be tolerant of
  }
}

TEST(PaperDot, ConcatAndPadAreReadInPlace) {
  const Kernel kernel = paper_kernel("concat_pad_gemm", "concat_pad_gemm");
  for (const Shape& s : kShapes) {
    Floats x = random_floats({s.m, s.k}, 8), y = random_floats({s.m, 3}, 9);
    const std::int64_t rows = s.m + 2, depth = s.k + 3 + 5;
    Floats w = random_floats({depth, s.n}, 10), c({rows, s.n}), padded({rows, depth}, 0.5f);
    run(kernel, {x, y, w, c});
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t k = 0; k < s.k + 3; ++k) {
        padded(i + 1, k + 2) = std::max(0.0f, k < s.k ? x(i, k) : y(i, k - s.k));
      }
    }
    expect_close(c, plain_matmul(padded, w), 1e-5);
  }
}

TEST(PaperDot, LstmWithItsTimeLoop) {
  const Kernel kernel = paper_kernel("lstm", "lstm");
  for (const auto& [steps, batch, inputs, hidden] :
       {std::array<std::int64_t, 4>{1, 1, 1, 1}, {3, 4, 5, 6}, {4, 3, 4, 8}}) {
    Floats x = random_floats({steps, batch, inputs}, 11), w = random_floats({inputs, 4, hidden}, 12),
           r = random_floats({hidden, 4, hidden}, 13), bias = random_floats({4, hidden}, 14),
           y({steps, batch, hidden});
    run(kernel, {x, w, r, bias, y});
    Array<double> want({steps, batch, hidden}), h({batch, hidden}), c({batch, hidden});
    for (std::int64_t t = 0; t < steps; ++t) {
      Array<double> next({batch, hidden});
      for (std::int64_t b = 0; b < batch; ++b) {
        for (std::int64_t j = 0; j < hidden; ++j) {
          double gates[4];
          for (int g = 0; g < 4; ++g) {
            gates[g] = bias(g, j);
            for (std::int64_t k = 0; k < inputs; ++k)
              gates[g] += static_cast<double>(x(t, b, k)) * w(k, g, j);
            for (std::int64_t k = 0; k < hidden; ++k) gates[g] += h(b, k) * r(k, g, j);
          }
          c(b, j) = plain_sigmoid(gates[2]) * c(b, j) + plain_sigmoid(gates[0]) * std::tanh(gates[3]);
          want(t, b, j) = next(b, j) = plain_sigmoid(gates[1]) * std::tanh(c(b, j));
        }
      }
      h = next;
    }
    expect_close(y, want, 1e-5);
  }
}

}  // namespace
}  // namespace kiln::tile
