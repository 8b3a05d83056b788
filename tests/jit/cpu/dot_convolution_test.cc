// Convolutions as a dot over a window view: padding, stride, dilation, partial blocks, channel counts large
// and tiny, against plain loops.
#include "tests/jit/cpu/dot_testing.h"

namespace kiln {
namespace {

using namespace dot_testing;
using tile::Expr;
using tile::Exprs;
using tile::Indices;
using tile::kDynamic;
using tile::Kernel;
using tile::KernelBuilder;
using tile::Schedule;
using tile::Type;
using tile::View;

struct Convolution {
  std::int64_t height = 9, width = 11, channels = 16, filters = 20;
  std::int64_t kernel = 3, stride = 1, dilation = 1, low = 1, high = 1;
  std::int64_t block_height = 2, block_width = 4, block_filters = 32, block_channels = 16;
  bool merged = false;          // kernel axes inside one block of the contraction
  bool channels_first = false;  // [n, c, h, w], contracted over channels first

  std::int64_t output(std::int64_t extent) const {
    return (extent + low + high - dilation * (kernel - 1) - 1) / stride + 1;
  }

  Kernel build() const {
    KernelBuilder k("convolution");
    const View input = k.input(
        "x", Type::view(DType::F32, channels_first ? std::vector{kDynamic, channels, kDynamic, kDynamic}
                                                   : std::vector{kDynamic, kDynamic, kDynamic, channels}));
    const View x = channels_first ? input.transpose({0, 2, 3, 1}) : input;
    const View w = k.input("w", Type::view(DType::F32, {kernel, kernel, channels, filters}));
    const View bias = k.input("bias", Type::view(DType::F32, {filters}));
    const View y = k.output("y", Type::view(DType::F32, {kDynamic, kDynamic, kDynamic, filters}));
    const auto blocks = [](Expr extent, std::int64_t by) {
      return (extent + static_cast<double>(by - 1)) / static_cast<double>(by);
    };
    k.grid([&] {
      return Indices{y.dim(0), blocks(y.dim(1), block_height), blocks(y.dim(2), block_width),
                     (filters + block_filters - 1) / block_filters};
    });
    View::Window window;
    window.axes = {1, 2};
    window.kernel = {kernel, kernel};
    window.strides = {stride, stride};
    window.dilations = {dilation, dilation};
    window.low = {low, low};
    window.high = {high, high};
    const View p = x.window(window);
    const Expr n = k.program_id(0), h = k.program_id(1) * static_cast<double>(block_height),
               v = k.program_id(2) * static_cast<double>(block_width),
               j = k.program_id(3) * static_cast<double>(block_filters);
    const Expr zero = k.zeros(DType::F32, {block_height, block_width, block_filters});
    Expr sum;
    if (merged) {
      const std::int64_t depth = kernel * kernel * channels;
      const View rows = w.merge({0, 1, 2});
      sum = k.dot(
          zero,
          k.reshape(p.load({n, h, v, 0, 0, 0}, {1, block_height, block_width, kernel, kernel, channels}),
                    {block_height, block_width, depth}),
          rows.load({0, j}, {depth, block_filters}));
    } else {
      sum = k.contract(
          {kernel, kernel, channels}, {1, 1, block_channels}, {zero},
          [&](const Exprs& at, const Exprs& carried) -> Exprs {
            return {k.dot(
                carried[0],
                p.load({n, h, v, at[0], at[1], at[2]}, {1, block_height, block_width, 1, 1, block_channels}),
                w.load({at[0], at[1], at[2], j}, {1, 1, block_channels, block_filters}))};
          })[0];
    }
    const Expr shifted = sum + bias.load({j}, {block_filters});
    y.store({n, h, v, j}, tile::apply(tile::Function::Max, {shifted, k.constant(DType::F32, 0)}));
    return k.finish();
  }

  void check(std::int64_t batch = 2, const Schedule& schedule = {}) const {
    const Kernel built = build();
    const std::int64_t oh = output(height), ow = output(width);
    for (const Isa isa : isas()) {
      SCOPED_TRACE(fmt::format("{}x{}x{} -> {}, kernel {}, stride {}, dilation {}, pads {} {} {}", height,
                               width, channels, filters, kernel, stride, dilation, low, high, name(isa)));
      Array x = Array::random(DType::F32,
                              channels_first ? std::vector{batch, channels, height, width}
                                             : std::vector{batch, height, width, channels},
                              3);
      Array w = Array::random(DType::F32, {kernel, kernel, channels, filters}, 4);
      Array bias = Array::random(DType::F32, {filters}, 5);
      Array y(DType::F32, {batch, oh, ow, filters});
      run_compiled(built, schedule, isa, {&x, &w, &bias, &y});
      Expected want(y.elements());
      for (std::int64_t out = 0; out < y.elements(); ++out) {
        const std::int64_t f = out % filters, c = out / filters % ow, r = out / filters / ow % oh,
                           n = out / filters / ow / oh;
        want.add(out, bias.at(f), 1);
        for (std::int64_t kh = 0; kh < kernel; ++kh) {
          for (std::int64_t kw = 0; kw < kernel; ++kw) {
            const std::int64_t row = r * stride + kh * dilation - low,
                               column = c * stride + kw * dilation - low;
            if (row < 0 || row >= height || column < 0 || column >= width) continue;
            for (std::int64_t i = 0; i < channels; ++i) {
              want.add(out,
                       x.at(channels_first ? ((n * channels + i) * height + row) * width + column
                                           : ((n * height + row) * width + column) * channels + i),
                       w.at(((kh * kernel + kw) * channels + i) * filters + f));
            }
          }
        }
        double& value = want.values[static_cast<std::size_t>(out)];
        value = std::max(value, 0.0);
      }
      expect_near(y, want, kernel * kernel * channels);
    }
  }
};

TEST(DotConvolution, PaddingStrideAndDilation) {
  for (const std::int64_t stride : {1, 2}) {
    for (const std::int64_t dilation : {1, 2}) {
      for (const auto& [low, high] : {std::pair{0, 0}, {1, 1}, {0, 1}, {2, 3}}) {
        Convolution convolution;
        convolution.stride = stride;
        convolution.dilation = dilation;
        convolution.low = low;
        convolution.high = high;
        convolution.check();
      }
    }
  }
}

TEST(DotConvolution, OneByOne) {
  Convolution convolution;
  convolution.kernel = 1;
  convolution.low = convolution.high = 0;
  convolution.check();
  convolution.stride = 2;
  convolution.check();
}

TEST(DotConvolution, ChannelsOfAllSizes) {
  for (const std::int64_t channels : {1, 3, 15, 16, 17, 40}) {
    Convolution convolution;
    convolution.channels = channels;
    convolution.check(1);
    convolution.block_channels = 8;
    convolution.check(1);
  }
}

TEST(DotConvolution, BlocksLargerThanTheImage) {
  Convolution convolution;
  convolution.height = convolution.width = 4;
  convolution.block_height = 7;
  convolution.block_width = 7;
  convolution.check(3);
}

TEST(DotConvolution, LargeKernelOverFewChannels) {
  Convolution convolution;
  convolution.kernel = 7;
  convolution.stride = 2;
  convolution.low = convolution.high = 3;
  convolution.channels = 3;
  convolution.block_channels = 3;
  convolution.height = 21;
  convolution.width = 18;
  convolution.check();
  convolution.width = 5;  // a window reaches over both edges
  convolution.check();
  convolution.dilation = 2;
  convolution.check();
  convolution.dilation = 1;
  convolution.merged = true;
  convolution.check();
}

TEST(DotConvolution, ChannelsFirst) {
  Convolution convolution;
  convolution.channels_first = true;
  convolution.channels = 5;
  convolution.check();
  convolution.stride = 2;
  convolution.low = 2;
  convolution.check();
  convolution.dilation = 2;
  convolution.check();
  convolution.channels = 100;  // more segments than one product takes
  convolution.check(1);
}

TEST(DotConvolution, KernelAxesMergedIntoOneBlock) {
  Convolution convolution;
  convolution.merged = true;
  convolution.channels = 5;
  convolution.check();
}

TEST(DotConvolution, Schedules) {
  for (const bool pack_a : {false, true}) {
    for (const bool pack_b : {false, true}) {
      for (const std::int64_t contract_block : {0, 8}) {
        Convolution convolution;
        convolution.channels = 33;
        convolution.filters = 70;
        convolution.block_filters = 64;
        Schedule schedule;
        schedule.pack_a = pack_a;
        schedule.pack_b = pack_b;
        schedule.contract_block = contract_block;
        convolution.check(1, schedule);
      }
    }
  }
}

}  // namespace
}  // namespace kiln
