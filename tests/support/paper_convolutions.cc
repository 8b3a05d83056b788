#include "tests/support/paper_array.h"
#include "tests/support/paper_programs.h"

namespace kiln::tile {
namespace {

struct Image {
  std::int64_t batch, height, width, channels, filters;
};

std::int64_t output_extent(std::int64_t extent, std::int64_t stride) { return (extent + 2 - 3) / stride + 1; }

// 3x3, padding 1, NHWC, weights kh kw c k.
Array<double> convolution(const Array<float>& x, const Array<float>& w, std::int64_t stride) {
  const std::int64_t height = output_extent(x.extent(1), stride), width = output_extent(x.extent(2), stride);
  Array<double> y({x.extent(0), height, width, w.extent(3)});
  for (std::int64_t n = 0; n < x.extent(0); ++n) {
    for (std::int64_t oh = 0; oh < height; ++oh) {
      for (std::int64_t ow = 0; ow < width; ++ow) {
        for (std::int64_t kh = 0; kh < 3; ++kh) {
          for (std::int64_t kw = 0; kw < 3; ++kw) {
            const std::int64_t ih = oh * stride + kh - 1, iw = ow * stride + kw - 1;
            if (ih < 0 || ih >= x.extent(1) || iw < 0 || iw >= x.extent(2)) continue;
            for (std::int64_t c = 0; c < x.extent(3); ++c) {
              for (std::int64_t k = 0; k < w.extent(3); ++k) {
                y(n, oh, ow, k) += static_cast<double>(x(n, ih, iw, c)) * w(kh, kw, c, k);
              }
            }
          }
        }
      }
    }
  }
  return y;
}

std::string direct(const Executor& run, const std::string& file, std::int64_t stride, Image image,
                   const MetaBindings& blocks) {
  Array<float> x = Array<float>::random({image.batch, image.height, image.width, image.channels}, 1);
  Array<float> w = Array<float>::random({3, 3, image.channels, image.filters}, 2, 0.1);
  Array<float> y(
      {image.batch, output_extent(image.height, stride), output_extent(image.width, stride), image.filters});
  run(paper_kernels(file, blocks)[0], std::vector{x.argument(), w.argument(), y.argument()});
  return compare(y.data(), convolution(x, w, stride).data(), 1e-5);
}

std::string winograd(const Executor& run, Image image) {
  const std::int64_t rows = (image.height + 1) / 2, columns = (image.width + 1) / 2;
  Array<float> x = Array<float>::random({image.batch, image.height, image.width, image.channels}, 3);
  Array<float> w = Array<float>::random({3, 3, image.channels, image.filters}, 4, 0.1);
  Array<float> u({4, 4, image.channels, image.filters}),
      v({4, 4, image.batch, rows, columns, image.channels});
  Array<float> m({4, 4, image.batch, rows, columns, image.filters});
  Array<float> y({image.batch, image.height, image.width, image.filters});
  const std::vector<Kernel> kernels = paper_kernels("winograd", {{"BN", 8}, {"BC", 8}, {"BM", 8}});
  run(kernels[0], std::vector{w.argument(), u.argument()});
  run(kernels[1], std::vector{x.argument(), v.argument()});
  run(kernels[2], std::vector{v.argument(), u.argument(), m.argument()});
  run(kernels[3], std::vector{m.argument(), y.argument()});
  return compare(y.data(), convolution(x, w, 1).data(), 5e-5);
}

std::string depthwise(const Executor& run, Image image) {
  Array<float> x = Array<float>::random({image.batch, image.height, image.width, image.channels}, 5);
  Array<float> w = Array<float>::random({3, 3, image.channels}, 6);
  Array<float> y({image.batch, image.height, image.width, image.channels});
  run(paper_kernels("depthwise", {{"TH", 2}, {"TW", 3}, {"BC", 8}})[0],
      std::vector{x.argument(), w.argument(), y.argument()});
  // The diagonal of a full convolution.
  Array<float> full({3, 3, image.channels, image.channels});
  for (std::int64_t tap = 0; tap < 9; ++tap) {
    for (std::int64_t c = 0; c < image.channels; ++c) full(tap / 3, tap % 3, c, c) = w(tap / 3, tap % 3, c);
  }
  return compare(y.data(), convolution(x, full, 1).data(), 1e-5);
}

std::string max_pool(const Executor& run, Image image) {
  Array<float> x = Array<float>::random({image.batch, image.height, image.width, image.channels}, 7, 2);
  for (float& value : x.data()) value = std::nearbyint(value);  // ties
  if (x.data().size() > 20) x.data()[20] = NAN;
  const std::int64_t height = output_extent(image.height, 2), width = output_extent(image.width, 2);
  Array<float> y({image.batch, height, width, image.channels});
  Array<std::int64_t> index({image.batch, height, width, image.channels});
  run(paper_kernels("max_pool", {{"TW", 3}, {"BC", 4}})[0],
      std::vector{x.argument(), y.argument(), index.argument()});
  for (std::int64_t n = 0; n < image.batch; ++n) {
    for (std::int64_t oh = 0; oh < height; ++oh) {
      for (std::int64_t ow = 0; ow < width; ++ow) {
        for (std::int64_t c = 0; c < image.channels; ++c) {
          float best = -INFINITY;
          std::int64_t where = -1;
          for (std::int64_t tap = 0; tap < 9; ++tap) {
            const std::int64_t ih = oh * 2 - 1 + tap / 3, iw = ow * 2 - 1 + tap % 3;
            if (ih < 0 || ih >= image.height || iw < 0 || iw >= image.width) continue;
            const float value = x(n, ih, iw, c);
            if (where < 0 || value > best || (std::isnan(value) && !std::isnan(best))) {
              best = value;
              where = ih * image.width + iw;
            }
          }
          const bool same = y(n, oh, ow, c) == best || (std::isnan(best) && std::isnan(y(n, oh, ow, c)));
          if (!same || index(n, oh, ow, c) != where) {
            return fmt::format("pixel {}, {}, {}, {}: got {} at {}, expected {} at {}", n, oh, ow, c,
                               y(n, oh, ow, c), index(n, oh, ow, c), best, where);
          }
        }
      }
    }
  }
  return {};
}

}  // namespace

std::vector<PaperCase> paper_convolutions() {
  std::vector<PaperCase> cases;
  for (const Image image : {Image{1, 1, 1, 1, 1}, Image{1, 4, 6, 8, 8}, Image{2, 5, 7, 3, 9},
                            Image{1, 8, 3, 13, 5}, Image{0, 4, 4, 4, 4}}) {
    const auto add = [&](const std::string& name, auto function) {
      cases.push_back({fmt::format("{}_{}x{}x{}x{}_{}", name, image.batch, image.height, image.width,
                                   image.channels, image.filters),
                       [=](const Executor& run) { return function(run, image); }});
    };
    add("conv3x3_stride2", [](const Executor& run, Image i) {
      return direct(run, "conv3x3_stride2", 2, i, {{"TW", 4}, {"BN", 8}, {"BC", 4}});
    });
    add("winograd", winograd);
    add("depthwise", depthwise);
    add("max_pool", max_pool);
  }
  for (const Image image : {Image{1, 5, 6, 64, 128}, Image{2, 2, 9, 64, 128}}) {
    cases.push_back(
        {fmt::format("conv3x3_{}x{}x{}", image.batch, image.height, image.width), [=](const Executor& run) {
           return direct(run, "conv3x3", 1, image, {{"TH", 2}, {"TW", 4}, {"BN", 64}, {"BC", 32}});
         }});
  }
  return cases;
}

}  // namespace kiln::tile
