#include <cmath>

#include "tests/kernels_ref/support.h"

namespace kiln::reference {
namespace {

using graph::OpKind;

// a[i, k] * b[k, j] by three loops, with element offsets given by functions.
template <typename A, typename B>
std::vector<double> product(std::int64_t rows, std::int64_t columns, std::int64_t depth, A a, B b) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      double total = 0;
      for (std::int64_t k = 0; k < depth; ++k) total += a(i, k) * b(k, j);
      result.push_back(total);
    }
  }
  return result;
}

TEST(MatMul, MatchesThreeLoopsAtTileEdges) {
  std::mt19937 generator(6);
  const std::vector<Extents> sizes = {{1, 1, 1},     {4, 8, 256},   {5, 9, 257},  {3, 7, 0},
                                      {0, 5, 3},     {2, 0, 3},     {255, 3, 31}, {257, 129, 7},
                                      {13, 127, 65}, {1, 131, 300}, {67, 1, 513}};
  for (const Extents& size : sizes) {
    const std::int64_t m = size[0], n = size[1], k = size[2];
    const Tensor a = random<double>({m, k}, generator), b = random<double>({k, n}, generator);
    const auto want = product(
        m, n, k, [&](auto i, auto l) { return a.as<double>()[static_cast<std::size_t>(i * k + l)]; },
        [&](auto l, auto j) { return b.as<double>()[static_cast<std::size_t>(l * n + j)]; });
    expect_values(run(OpKind::MatMul, {a, b}), {m, n}, want, 1e-12, 1e-12);
    const Tensor narrow =
        run(OpKind::MatMul, {run(OpKind::Cast, {a}, {{"to", std::int64_t{static_cast<int>(DType::F32)}}}),
                             run(OpKind::Cast, {b}, {{"to", std::int64_t{static_cast<int>(DType::F32)}}})});
    expect_values(narrow, {m, n}, want, 1e-4, 1e-4);
    for (int turned = 0; turned < 4; ++turned) {
      const Tensor left = turned & 1 ? run(OpKind::Transpose, {a}) : a,
                   right = turned & 2 ? run(OpKind::Transpose, {b}) : b;
      std::vector<double> scaled;
      for (const double v : want) scaled.push_back(0.5 * v - 2.0 * 3);
      expect_values(run(OpKind::Gemm, {left, right, tensor<double>({}, {3})},
                        {{"transA", std::int64_t{turned & 1}},
                         {"transB", std::int64_t{turned >> 1}},
                         {"alpha", 0.5},
                         {"beta", -2.0}}),
                    {m, n}, scaled, 1e-12, 1e-12);
    }
  }
}

TEST(MatMul, BroadcastsBatchesAndVectors) {
  std::mt19937 generator(7);
  const Tensor a = random<double>({2, 1, 3, 4}, generator), b = random<double>({5, 4, 2}, generator);
  const Tensor y = run(OpKind::MatMul, {a, b});
  ASSERT_EQ(y.extents(), (Extents{2, 5, 3, 2}));
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 5; ++j) {
      const auto want = product(
          3, 2, 4,
          [&](auto r, auto k) { return a.as<double>()[static_cast<std::size_t>(i * 12 + r * 4 + k)]; },
          [&](auto k, auto c) { return b.as<double>()[static_cast<std::size_t>(j * 8 + k * 2 + c)]; });
      for (std::size_t e = 0; e < 6; ++e)
        EXPECT_NEAR(y.as<double>()[static_cast<std::size_t>((i * 5 + j) * 6) + e], want[e], 1e-14);
    }
  }
  expect_values(run(OpKind::MatMul, {tensor({2}, {1, 2}), tensor({2}, {3, 4})}), {}, {11});
  expect_values(run(OpKind::MatMul, {tensor({2}, {1, 2}), tensor({2, 3}, {1, 2, 3, 4, 5, 6})}), {3},
                {9, 12, 15});
  expect_values(run(OpKind::MatMul, {tensor({3, 2}, {1, 2, 3, 4, 5, 6}), tensor({2}, {1, -1})}), {3},
                {-1, -1, -1});
  EXPECT_EQ(error_of(OpKind::MatMul, {tensor({2}, {1, 2}), tensor({3}, {1, 2, 3})}),
            ErrorCode::ShapeMismatch);
}

TEST(MatMul, IntegersWrap) {
  expect_values(
      run(OpKind::MatMul, {exact<std::int32_t>({1, 2}, {INT32_MAX, 1}), exact<std::int32_t>({2, 1}, {1, 1})}),
      {1, 1}, {INT32_MIN});
  EXPECT_EQ(
      run(OpKind::MatMul, {exact<std::int64_t>({1, 2}, {-3, 5}), exact<std::int64_t>({2, 1}, {7, -11})}),
      exact<std::int64_t>({1, 1}, {-76}));
  const Tensor a = exact<std::uint8_t>({2, 3}, {11, 7, 3, 10, 6, 2}),
               b = exact<std::int8_t>({3, 2}, {1, -4, 2, 5, -3, 6});
  expect_values(
      run(OpKind::MatMulInteger, {a, b, exact<std::uint8_t>({}, {12}), exact<std::int8_t>({}, {0})}), {2, 2},
      {16, -75, 16, -82});
  expect_values(run(OpKind::MatMulInteger,
                    {a, b, exact<std::uint8_t>({2}, {11, 10}), exact<std::int8_t>({2}, {1, -4})}),
                {2, 2}, {28, -116, 28, -116});
}

struct ConvCase {
  Extents x, w;
  std::int64_t group;
  std::vector<std::int64_t> strides, dilations, pads;
};

// One output element at a time, straight from the definition, for two spatial axes.
std::vector<double> convolve(const Tensor& x, const Tensor& w, const Tensor& bias, const ConvCase& c,
                             Extents& out) {
  const auto &xe = x.extents(), &we = w.extents();
  const auto extent = [&](std::size_t k) {
    return (xe[k + 2] + c.pads[k] + c.pads[k + 2] - ((we[k + 2] - 1) * c.dilations[k] + 1)) / c.strides[k] +
           1;
  };
  out = {xe[0], we[0], extent(0), extent(1)};
  std::vector<double> result;
  const std::vector<double> xv = values(x), wv = values(w), bv = values(bias);
  for (std::int64_t n = 0; n < out[0]; ++n)
    for (std::int64_t o = 0; o < out[1]; ++o)
      for (std::int64_t i = 0; i < out[2]; ++i)
        for (std::int64_t j = 0; j < out[3]; ++j) {
          double total = bv[static_cast<std::size_t>(o)];
          const std::int64_t group = o / (we[0] / c.group);
          for (std::int64_t ch = 0; ch < we[1]; ++ch)
            for (std::int64_t p = 0; p < we[2]; ++p)
              for (std::int64_t q = 0; q < we[3]; ++q) {
                const std::int64_t h = i * c.strides[0] + p * c.dilations[0] - c.pads[0];
                const std::int64_t v = j * c.strides[1] + q * c.dilations[1] - c.pads[1];
                if (h < 0 || h >= xe[2] || v < 0 || v >= xe[3]) continue;
                total +=
                    xv[static_cast<std::size_t>(((n * xe[1] + group * we[1] + ch) * xe[2] + h) * xe[3] + v)] *
                    wv[static_cast<std::size_t>(((o * we[1] + ch) * we[2] + p) * we[3] + q)];
              }
          result.push_back(total);
        }
  return result;
}

const std::vector<ConvCase>& conv_cases() {
  static const std::vector<ConvCase> cases = {
      {{1, 1, 5, 5}, {1, 1, 3, 3}, 1, {1, 1}, {1, 1}, {1, 1, 1, 1}},
      {{2, 3, 7, 11}, {5, 3, 3, 2}, 1, {2, 3}, {1, 2}, {0, 1, 2, 3}},
      {{1, 6, 9, 8}, {4, 3, 3, 3}, 2, {1, 1}, {2, 2}, {2, 2, 2, 2}},
      {{1, 7, 13, 5}, {7, 1, 5, 5}, 7, {1, 1}, {1, 1}, {2, 2, 2, 2}},
      {{3, 4, 1, 17}, {8, 4, 1, 1}, 1, {1, 1}, {1, 1}, {0, 0, 0, 0}},
      {{1, 2, 3, 3}, {2, 2, 3, 3}, 1, {3, 3}, {1, 1}, {4, 4, 4, 4}},
      {{1, 8, 19, 23}, {9, 8, 3, 3}, 1, {2, 2}, {1, 1}, {1, 1, 0, 0}},
      {{1, 300, 4, 3}, {2, 300, 1, 1}, 1, {1, 1}, {1, 1}, {0, 0, 0, 0}}};
  return cases;
}

graph::Attributes attributes_of(const ConvCase& c) {
  return {{"strides", c.strides}, {"dilations", c.dilations}, {"pads", c.pads}, {"group", c.group}};
}

TEST(Conv, MatchesTheDefinition) {
  std::mt19937 generator(8);
  for (const ConvCase& c : conv_cases()) {
    const Tensor x = random<double>(c.x, generator), w = random<double>(c.w, generator),
                 b = random<double>({c.w[0]}, generator);
    Extents extents;
    const auto want = convolve(x, w, b, c, extents);
    expect_values(run(OpKind::Conv, {x, w, b}, attributes_of(c)), extents, want, 1e-12, 1e-12);
  }
}

TEST(Conv, PaddedTaps) {
  // Non-finite weights: elements whose tap is in the padding stay finite.
  std::mt19937 generator(9);
  for (const ConvCase& c : conv_cases()) {
    const Tensor x = random<double>(c.x, generator, 0.5, 1), b = random<double>({c.w[0]}, generator);
    Tensor w = random<double>(c.w, generator, 0.5, 1);
    w.as_mutable<double>()[0] = kInf;
    w.as_mutable<double>()[static_cast<std::size_t>(w.elements() - 1)] = kNan;
    Extents extents;
    const auto want = convolve(x, w, b, c, extents);
    expect_values(run(OpKind::Conv, {x, w, b}, attributes_of(c)), extents, want, 1e-12, 1e-12);
  }
}

TEST(Conv, OtherRanksAndAutoPad) {
  std::mt19937 generator(10);
  const Tensor x = random<double>({2, 3, 9}, generator), w = random<double>({4, 3, 3}, generator);
  const ConvCase flat{{2, 3, 9, 1}, {4, 3, 3, 1}, 1, {2, 1}, {1, 1}, {1, 0, 1, 0}};
  Extents extents;
  const auto want = convolve(x.reshaped(flat.x), w.reshaped(flat.w), Tensor(DType::F64, {4}), flat, extents);
  const Tensor y = run(OpKind::Conv, {x, w},
                       {{"strides", std::vector<std::int64_t>{2}}, {"auto_pad", std::string("SAME_UPPER")}});
  expect_values(y, {2, 4, 5}, want, 1e-12, 1e-12);
  const Tensor cube = random<double>({1, 2, 3, 4, 5}, generator),
               one = random<double>({3, 2, 1, 1, 1}, generator);
  const Tensor z = run(OpKind::Conv, {cube, one});
  const Tensor same = run(OpKind::Conv, {cube.reshaped({1, 2, 12, 5}), one.reshaped({3, 2, 1, 1})});
  EXPECT_EQ(z, same.reshaped({1, 3, 3, 4, 5}));
}

TEST(Conv, TransposeIsTheAdjoint) {
  // <conv(x), y> = <x, conv_transpose(y)> for every x and y.
  std::mt19937 generator(11);
  for (const ConvCase& c : conv_cases()) {
    const Tensor x = random<double>(c.x, generator), w = random<double>(c.w, generator);
    const Tensor forward = run(OpKind::Conv, {x, w}, attributes_of(c));
    const Tensor y = random<double>(forward.extents(), generator);
    graph::Attributes attributes = attributes_of(c);
    attributes["output_shape"] = std::vector<std::int64_t>{c.x[2], c.x[3]};
    // What the forward strides skip at the end.
    std::vector<std::int64_t> extra;
    for (std::size_t k = 0; k < 2; ++k) {
      extra.push_back((c.x[k + 2] + c.pads[k] + c.pads[k + 2] - ((c.w[k + 2] - 1) * c.dilations[k] + 1)) %
                      c.strides[k]);
    }
    attributes.erase("output_shape");
    attributes["output_padding"] = extra;
    const Tensor back = run(OpKind::ConvTranspose, {y, w}, attributes);
    ASSERT_EQ(back.extents(), x.extents());
    double left = 0, right = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(y.elements()); ++i)
      left += forward.as<double>()[i] * y.as<double>()[i];
    for (std::size_t i = 0; i < static_cast<std::size_t>(x.elements()); ++i)
      right += back.as<double>()[i] * x.as<double>()[i];
    EXPECT_NEAR(left, right, 1e-9);
  }
}

TEST(Conv, IntegerSubtractsZeroPoints) {
  const Tensor x = exact<std::uint8_t>({1, 1, 3, 3}, {2, 3, 4, 5, 6, 7, 8, 9, 10}),
               w = exact<std::uint8_t>({1, 1, 2, 2}, {1, 1, 1, 1});
  expect_values(run(OpKind::ConvInteger, {x, w, exact<std::uint8_t>({}, {1})}), {1, 1, 2, 2},
                {12, 16, 24, 28});
  expect_values(run(OpKind::ConvInteger, {x, w, exact<std::uint8_t>({}, {1})},
                    {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}}),
                {1, 1, 4, 4}, {1, 3, 5, 3, 5, 12, 16, 9, 11, 24, 28, 15, 7, 15, 17, 9});
}

}  // namespace
}  // namespace kiln::reference
