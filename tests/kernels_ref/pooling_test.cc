#include <algorithm>
#include <cmath>

#include "tests/kernels_ref/support.h"

namespace kiln::reference {
namespace {

using graph::OpKind;
using Ints = std::vector<std::int64_t>;

struct PoolCase {
  Extents x;
  Ints kernel, strides, dilations, pads;
  bool ceil = false;
};

// Values of each window of a plane, and how many taps lie in the input or its padding.
struct Window {
  std::vector<double> taps;
  std::vector<std::int64_t> offsets;
  std::int64_t padded = 0;
};

std::vector<Window> windows(const Tensor& x, const PoolCase& c, Extents& out) {
  const auto count = [&](std::size_t k) {
    const std::int64_t room =
        x.extents()[k + 2] + c.pads[k] + c.pads[k + 2] - ((c.kernel[k] - 1) * c.dilations[k] + 1);
    std::int64_t n = room / c.strides[k] + 1;
    if (c.ceil && room % c.strides[k] != 0 && n * c.strides[k] < x.extents()[k + 2] + c.pads[k]) ++n;
    return n;
  };
  out = {x.extents()[0], x.extents()[1], count(0), count(1)};
  const std::int64_t height = x.extents()[2], width = x.extents()[3];
  const std::vector<double> all = values(x);
  std::vector<Window> result;
  for (std::int64_t plane = 0; plane < out[0] * out[1]; ++plane)
    for (std::int64_t i = 0; i < out[2]; ++i)
      for (std::int64_t j = 0; j < out[3]; ++j) {
        Window window;
        for (std::int64_t p = 0; p < c.kernel[0]; ++p)
          for (std::int64_t q = 0; q < c.kernel[1]; ++q) {
            const std::int64_t h = i * c.strides[0] + p * c.dilations[0] - c.pads[0];
            const std::int64_t v = j * c.strides[1] + q * c.dilations[1] - c.pads[1];
            if (h < height + c.pads[2] && v < width + c.pads[3]) ++window.padded;
            if (h < 0 || h >= height || v < 0 || v >= width) continue;
            window.offsets.push_back((plane * height + h) * width + v);
            window.taps.push_back(all[static_cast<std::size_t>(window.offsets.back())]);
          }
        result.push_back(window);
      }
  return result;
}

TEST(Pooling, MatchesTheDefinition) {
  std::mt19937 generator(12);
  const std::vector<PoolCase> cases = {{{1, 1, 4, 4}, {2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}},
                                       {{2, 3, 7, 9}, {3, 2}, {2, 1}, {1, 1}, {1, 0, 1, 1}},
                                       {{1, 2, 8, 7}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, true},
                                       {{1, 1, 11, 5}, {3, 2}, {3, 3}, {2, 3}, {0, 0, 0, 0}, true},
                                       {{1, 1, 2, 2}, {2, 2}, {3, 3}, {1, 1}, {1, 1, 1, 1}, true},
                                       {{1, 5, 1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}}};
  for (const PoolCase& c : cases) {
    const Tensor x = random<double>(c.x, generator);
    Extents extents;
    const std::vector<Window> all = windows(x, c, extents);
    std::vector<double> maxima, means, padded_means, norms, positions;
    for (const Window& w : all) {
      const auto best = std::max_element(w.taps.begin(), w.taps.end());
      double sum = 0, cubes = 0;
      for (const double v : w.taps) {
        sum += v;
        cubes += std::abs(v * v * v);
      }
      maxima.push_back(*best);
      positions.push_back(static_cast<double>(w.offsets[static_cast<std::size_t>(best - w.taps.begin())]));
      means.push_back(sum / static_cast<double>(w.taps.size()));
      padded_means.push_back(sum / static_cast<double>(w.padded));
      norms.push_back(std::cbrt(cubes));
    }
    const graph::Attributes attributes = {{"kernel_shape", c.kernel},
                                          {"strides", c.strides},
                                          {"dilations", c.dilations},
                                          {"pads", c.pads},
                                          {"ceil_mode", std::int64_t{c.ceil}}};
    const auto with = [&](const char* key, std::int64_t value) {
      graph::Attributes extended = attributes;
      extended[key] = value;
      return extended;
    };
    const std::vector<Tensor> max = run_all(OpKind::MaxPool, {x}, attributes, 2);
    expect_values(max[0], extents, maxima);
    expect_values(max[1], extents, positions);
    expect_values(run(OpKind::AveragePool, {x}, attributes), extents, means, 1e-12, 1e-12);
    expect_values(run(OpKind::AveragePool, {x}, with("count_include_pad", 1)), extents, padded_means, 1e-12,
                  1e-12);
    expect_values(run(OpKind::LpPool, {x}, with("p", 3)), extents, norms, 1e-12, 1e-12);
  }
}

TEST(Pooling, NanTiesAndIntegers) {
  const graph::Attributes pairs = {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}};
  const std::vector<Tensor> y =
      run_all(OpKind::MaxPool, {tensor({1, 1, 6}, {3, 3, kNan, 1, 2, kNan})}, pairs, 2);
  expect_values(y[0], {1, 1, 3}, {3, kNan, kNan});
  expect_values(y[1], {1, 1, 3}, {0, 2, 5});
  expect_values(run(OpKind::MaxPool, {exact<std::int8_t>({1, 1, 4}, {-128, -5, 7, 127})}, pairs), {1, 1, 2},
                {-5, 127});
  // Column-major indices of the maximum of a 2 x 3 plane.
  const std::vector<Tensor> z =
      run_all(OpKind::MaxPool, {tensor({1, 1, 2, 3}, {0, 0, 9, 0, 0, 0})},
              {{"kernel_shape", Ints{2, 3}}, {"storage_order", std::int64_t{1}}}, 2);
  expect_values(z[1], {1, 1, 1, 1}, {4});
}

TEST(Pooling, Global) {
  const Tensor x = tensor({1, 2, 2, 2}, {1, -2, 3, -4, 0, 5, 0, 12});
  expect_values(run(OpKind::GlobalAveragePool, {x}), {1, 2, 1, 1}, {-0.5, 4.25});
  expect_values(run(OpKind::GlobalMaxPool, {x}), {1, 2, 1, 1}, {3, 12});
  expect_values(run(OpKind::GlobalLpPool, {x}), {1, 2, 1, 1}, {std::sqrt(30.0), 13}, 1e-6);
}

}  // namespace
}  // namespace kiln::reference
