// Convolutions and pooling against plain loops. All arrays are NHWC.
#include <array>
#include <cmath>

#include "tests/ir/tile/paper_testing.h"

namespace kiln::tile {
namespace {

// 3x3, padding 1.
Array<double> plain_convolution(Floats& x, Floats& w, std::int64_t stride) {
  const std::int64_t height = x.extents[1], width = x.extents[2];
  Array<double> y({x.extents[0], (height - 1) / stride + 1, (width - 1) / stride + 1, w.extents[3]});
  for (std::int64_t n = 0; n < y.extents[0]; ++n) {
    for (std::int64_t h = 0; h < y.extents[1]; ++h) {
      for (std::int64_t v = 0; v < y.extents[2]; ++v) {
        for (int tap = 0; tap < 9; ++tap) {
          const std::int64_t row = h * stride + tap / 3 - 1, column = v * stride + tap % 3 - 1;
          if (row < 0 || row >= height || column < 0 || column >= width) continue;
          for (std::int64_t c = 0; c < x.extents[3]; ++c) {
            for (std::int64_t k = 0; k < w.extents[3]; ++k) {
              y(n, h, v, k) += static_cast<double>(x(n, row, column, c)) * w(tap / 3, tap % 3, c, k);
            }
          }
        }
      }
    }
  }
  return y;
}

Floats like(const Array<double>& array) { return Floats(array.extents, 99); }

TEST(PaperWindows, Convolution) {
  const Kernel kernel = paper_kernel("conv3x3", "conv3x3", {{"TH", 2}, {"TW", 3}, {"BN", 48}, {"BC", 24}});
  Floats x = random_floats({2, 5, 4, 64}, 1), w = random_floats({3, 3, 64, 128}, 2);
  const Array<double> want = plain_convolution(x, w, 1);
  Floats y = like(want);
  run(kernel, {x, w, y});
  expect_close(y, want, 2e-5);
}

TEST(PaperWindows, ConvolutionOfStride2) {
  const Kernel kernel = paper_kernel("conv3x3_stride2", "conv3x3_stride2");
  for (const auto& [height, width, channels] :
       {std::array<std::int64_t, 3>{1, 1, 1}, {7, 8, 5}, {6, 13, 4}}) {
    Floats x = random_floats({2, height, width, channels}, 3), w = random_floats({3, 3, channels, 9}, 4);
    const Array<double> want = plain_convolution(x, w, 2);
    Floats y = like(want);
    run(kernel, {x, w, y});
    expect_close(y, want, 1e-5);
  }
}

TEST(PaperWindows, WinogradOfFourKernels) {
  for (const auto& [height, width, channels] : {std::array<std::int64_t, 3>{1, 1, 1}, {6, 8, 5}, {5, 7, 9}}) {
    Floats x = random_floats({2, height, width, channels}, 5), w = random_floats({3, 3, channels, 10}, 6);
    const std::int64_t rows = (height + 1) / 2, columns = (width + 1) / 2;
    Floats u({4, 4, channels, 10}), v({4, 4, 2, rows, columns, channels}), m({4, 4, 2, rows, columns, 10});
    const Array<double> want = plain_convolution(x, w, 1);
    Floats y = like(want);
    run(paper_kernel("winograd", "winograd_weights"), {w, u});
    run(paper_kernel("winograd", "winograd_input"), {x, v});
    run(paper_kernel("winograd", "winograd_product"), {v, u, m});
    run(paper_kernel("winograd", "winograd_output"), {m, y});
    expect_close(y, want, 1e-5);
  }
}

TEST(PaperWindows, Depthwise) {
  const Kernel kernel = paper_kernel("depthwise", "depthwise");
  for (const auto& [height, width, channels] : {std::array<std::int64_t, 3>{1, 1, 1}, {4, 5, 9}, {3, 7, 8}}) {
    Floats x = random_floats({2, height, width, channels}, 7), w = random_floats({3, 3, channels}, 8),
           y(x.extents, 99);
    run(kernel, {x, w, y});
    Array<double> want(x.extents);
    for (std::int64_t n = 0; n < 2; ++n) {
      for (std::int64_t h = 0; h < height; ++h) {
        for (std::int64_t v = 0; v < width; ++v) {
          for (std::int64_t c = 0; c < channels; ++c) {
            for (int tap = 0; tap < 9; ++tap) {
              const std::int64_t row = h + tap / 3 - 1, column = v + tap % 3 - 1;
              if (row < 0 || row >= height || column < 0 || column >= width) continue;
              want(n, h, v, c) += static_cast<double>(x(n, row, column, c)) * w(tap / 3, tap % 3, c);
            }
          }
        }
      }
    }
    expect_close(y, want, 1e-5);
  }
}

TEST(PaperWindows, MaxPoolWithIndices) {
  const Kernel kernel = paper_kernel("max_pool", "max_pool");
  for (const auto& [height, width, channels] : {std::array<std::int64_t, 3>{1, 1, 1}, {6, 7, 5}, {5, 8, 4}}) {
    Floats x = random_floats({2, height, width, channels}, 9);
    for (float& value : x.data) value = std::round(value * 3);  // ties
    const std::int64_t rows = (height - 1) / 2 + 1, columns = (width - 1) / 2 + 1;
    Floats y({2, rows, columns, channels}), want(y.extents);
    Array<std::int64_t> index(y.extents, -1), want_index(y.extents);
    run(kernel, {x, y, index});
    for (std::int64_t n = 0; n < 2; ++n) {
      for (std::int64_t h = 0; h < rows; ++h) {
        for (std::int64_t v = 0; v < columns; ++v) {
          for (std::int64_t c = 0; c < channels; ++c) {
            float best = -INFINITY;
            for (int tap = 0; tap < 9; ++tap) {
              const std::int64_t row = h * 2 + tap / 3 - 1, column = v * 2 + tap % 3 - 1;
              if (row < 0 || row >= height || column < 0 || column >= width || x(n, row, column, c) <= best)
                continue;
              best = x(n, row, column, c);
              want_index(n, h, v, c) = row * width + column;
            }
            want(n, h, v, c) = best;
          }
        }
      }
    }
    EXPECT_EQ(y.data, want.data);
    EXPECT_EQ(index.data, want_index.data);
  }
}

}  // namespace
}  // namespace kiln::tile
