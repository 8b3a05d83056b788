// Grids, sampling, regions, and windows put back.
#include <cmath>

#include "tests/kernels_ref/support.h"

namespace kiln::reference {
namespace {

using graph::OpKind;
using Ints = std::vector<std::int64_t>;

graph::Attribute number(std::int64_t value) { return value; }
graph::Attribute words(const char* value) { return std::string(value); }

// --- grids

TEST(AffineGrid, IsTheImageOfEvenCoordinates) {
  // x' = 2x + y + 0.5, y' = -y
  const Tensor theta = tensor<double>({1, 2, 3}, {2, 1, 0.5, 0, -1, 0});
  for (const bool align : {false, true}) {
    const Tensor y =
        run(OpKind::AffineGrid, {theta, integers({1, 7, 2, 3})}, {{"align_corners", number(align)}});
    const std::vector<double> xs =
        align ? std::vector<double>{-1, 0, 1} : std::vector<double>{-2.0 / 3, 0, 2.0 / 3};
    const std::vector<double> ys = align ? std::vector<double>{-1, 1} : std::vector<double>{-0.5, 0.5};
    std::vector<double> want;
    for (const double v : ys)
      for (const double u : xs) want.insert(want.end(), {2 * u + v + 0.5, -v});
    expect_values(y, {1, 2, 3, 2}, want, 1e-15, 1e-15);
  }
  // In space the order is x, y, z; an axis of one element lies in the middle.
  std::vector<double> matrix = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
  const Tensor space = run(OpKind::AffineGrid, {tensor({1, 3, 4}, matrix), integers({1, 1, 1, 1, 2})},
                           {{"align_corners", number(1)}});
  expect_values(space, {1, 1, 1, 2, 3}, {-1, 0, 0, 1, 0, 0});
}

TEST(AffineGrid, BadInputIsAnError) {
  const Tensor theta = tensor({1, 2, 3}, {1, 0, 0, 0, 1, 0});
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_EQ(error_of(OpKind::AffineGrid, {theta, integers({1, 1, huge, huge})}), ErrorCode::LimitExceeded);
  EXPECT_EQ(error_of(OpKind::AffineGrid, {theta, integers({1, 1, -1, 2})}), ErrorCode::InvalidArgument);
  EXPECT_EQ(error_of(OpKind::AffineGrid, {theta, integers({2, 1, 2, 2})}), ErrorCode::ShapeMismatch);
  EXPECT_EQ(error_of(OpKind::AffineGrid, {theta, integers({1, 1, 2, 2, 2})}), ErrorCode::ShapeMismatch);
  expect_values(run(OpKind::AffineGrid, {theta, integers({1, 1, 0, 2})}), {1, 0, 2, 2}, {});
}

struct Padded {
  const std::vector<double>& plane;
  std::int64_t height, width;
  std::string padding;
  bool align;

  static std::int64_t reflected(std::int64_t i, std::int64_t n, bool align) {
    // The period of 0 1 2 1 0 ... or 0 1 2 2 1 0 0 ...
    const std::int64_t period = align ? std::max<std::int64_t>(2 * n - 2, 1) : 2 * n;
    i = ((i % period) + period) % period;
    return i < n ? i : period - i - (align ? 0 : 1);
  }
  double at(std::int64_t y, std::int64_t x) const {
    if (padding == "zeros" && (y < 0 || x < 0 || y >= height || x >= width)) return 0;
    if (padding == "reflection") {
      y = reflected(y, height, align);
      x = reflected(x, width, align);
    }
    y = std::clamp<std::int64_t>(y, 0, height - 1);
    x = std::clamp<std::int64_t>(x, 0, width - 1);
    return plane[static_cast<std::size_t>(y * width + x)];
  }
};

double cubic(double d) {
  d = std::abs(d);
  if (d <= 1) return (1.25 * d - 2.25) * d * d + 1;
  return d < 2 ? -0.75 * (((d - 5) * d + 8) * d - 4) : 0;
}

// Samples inside the image or near it, where padding of coordinates and of elements agree.
TEST(GridSample, MatchesPlainInterpolation) {
  std::mt19937 generator(5);
  const Tensor x = random<double>({1, 1, 4, 5}, generator);
  const std::vector<double> plane = values(x);
  for (const char* padding : {"zeros", "border", "reflection"}) {
    for (const bool align : {false, true}) {
      const Tensor grid = random<double>({1, 3, 7, 2}, generator);
      const std::vector<double> points = values(grid);
      for (const std::string mode : {"linear", "cubic", "nearest"}) {
        const Padded image{plane, 4, 5, padding, align};
        std::vector<double> want;
        for (std::size_t i = 0; i < points.size(); i += 2) {
          const auto place = [&](double n, double extent) {
            return align ? (n + 1) / 2 * (extent - 1) : ((n + 1) * extent - 1) / 2;
          };
          const double px = place(points[i], 5), py = place(points[i + 1], 4);
          if (mode == "nearest") {
            want.push_back(image.at(std::llround(py), std::llround(px)));
            continue;
          }
          double sum = 0;
          for (std::int64_t r = -3; r < 8; ++r)
            for (std::int64_t c = -3; c < 9; ++c) {
              const double dy = std::abs(py - static_cast<double>(r)),
                           dx = std::abs(px - static_cast<double>(c));
              const double weight =
                  mode == "cubic" ? cubic(dy) * cubic(dx) : std::max(1 - dy, 0.0) * std::max(1 - dx, 0.0);
              sum += weight * image.at(r, c);
            }
          want.push_back(sum);
        }
        const Tensor y =
            run(OpKind::GridSample, {x, grid},
                {{"mode", mode}, {"padding_mode", words(padding)}, {"align_corners", number(align)}});
        expect_values(y, {1, 1, 3, 7}, want, 1e-12, 1e-12);
      }
    }
  }
}

TEST(GridSample, FarCoordinatesArePadded) {
  const Tensor x = tensor<double>({1, 1, 1, 3}, {1, 2, 4});
  // Pixel coordinates -4.5, 5.5, then far and infinite ones.
  const Tensor grid = tensor<double>({1, 1, 5, 2}, {-11.0 / 3, 0, 3, 0, 1e30, 0, -kInf, 0, kInf, 0});
  const auto sample = [&](const char* padding, const char* mode) {
    return values(
        run(OpKind::GridSample, {x, grid}, {{"padding_mode", words(padding)}, {"mode", words(mode)}}));
  };
  for (const char* mode : {"linear", "nearest", "cubic"}) {
    expect_near(sample("zeros", mode), {0, 0, 0, 0, 0});
    expect_near(sample("border", mode), {1, 4, 4, 1, 4});
  }
  // ... 4 4 2 1 | 1 2 4 | 4 2 1 1 2: -4.5 lies between 2 and 4's mirror, 5.5 on an edge.
  const std::vector<double> reflected = sample("reflection", "linear");
  EXPECT_NEAR(reflected[0], 3, 1e-12);  // -4.5 mirrors to 3.5 - 0.5 ... between 4 and 2
  EXPECT_NEAR(reflected[1], 1, 1e-12);
  for (const double value : reflected) EXPECT_TRUE(value >= 1 && value <= 4);
}

TEST(GridSample, TiesAndTypes) {
  // Positions 0.5, 1.5, 2.5 of a row go to even.
  const Tensor row = tensor({1, 1, 1, 4}, {10, 11, 12, 13});
  const Tensor grid = tensor({1, 1, 3, 2}, {-0.5, 0, 0, 0, 0.5, 0});
  const graph::Attributes nearest = {{"mode", words("nearest")}};
  expect_values(run(OpKind::GridSample, {row, grid}, nearest), {1, 1, 1, 3}, {10, 12, 12});
  const Tensor volume = tensor({1, 1, 1, 1, 4}, {10, 11, 12, 13});
  const Tensor points = tensor({1, 1, 1, 3, 3}, {-0.5, 0, 0, 0, 0, 0, 0.5, 0, 0});
  expect_values(run(OpKind::GridSample, {volume, points}, nearest), {1, 1, 1, 1, 3}, {10, 12, 12});
  // Whole numbers are truncated, strings and complex numbers are moved.
  expect_values(run(OpKind::GridSample, {tensor<std::int32_t>({1, 1, 1, 4}, {10, 11, 12, -13}), grid}),
                {1, 1, 1, 3}, {10, 11, 0});
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  const Tensor text = run(OpKind::GridSample, {exact<std::string>({1, 1, 1, 4}, names), grid}, nearest);
  EXPECT_EQ(text.as<std::string>()[1], "c");
  const std::vector<float> numbers = {1, -1, 2, -2, 3, -3, 4, -4};
  Tensor complex(DType::C64, {1, 1, 1, 4});
  std::copy(numbers.begin(), numbers.end(), reinterpret_cast<float*>(complex.mutable_data()));
  const Tensor mixed = run(OpKind::GridSample, {complex, grid});
  EXPECT_FLOAT_EQ(reinterpret_cast<const float*>(mixed.data())[0], 1.5F);
  EXPECT_FLOAT_EQ(reinterpret_cast<const float*>(mixed.data())[1], -1.5F);
  EXPECT_EQ(run(OpKind::GridSample, {tensor<BFloat16>({1, 1, 1, 4}, {1, 2, 3, 4}), grid}).dtype(),
            DType::BF16);
}

TEST(GridSample, NanCoordinateGivesNan) {
  const Tensor x = tensor({1, 1, 1, 2}, {1, 2});
  const Tensor grid = tensor({1, 1, 1, 2}, {kNan, 0});
  EXPECT_TRUE(std::isnan(values(run(OpKind::GridSample, {x, grid}))[0]));
  EXPECT_EQ(values(run(OpKind::GridSample, {x, grid}, {{"mode", words("nearest")}}))[0], 0);
  EXPECT_EQ(values(run(OpKind::GridSample, {x, grid},
                       {{"mode", words("nearest")}, {"padding_mode", words("border")}}))[0],
            1);
  EXPECT_EQ(error_of(OpKind::GridSample, {tensor({1, 1, 0, 2}, {}), grid}), ErrorCode::ShapeMismatch);
  EXPECT_EQ(run(OpKind::GridSample, {tensor({1, 0, 1, 2}, {}), grid}).extents(), (Extents{1, 0, 1, 1}));
}

// --- regions

TEST(RoiAlign, AveragesSamples) {
  // f(y, x) = 10 y + x is its own linear interpolation, so a bin has the value at its middle.
  std::vector<double> plane;
  for (int i = 0; i < 36; ++i) {
    const int row = i / 6;
    plane.push_back(10 * row + i % 6);
  }
  const Tensor x = tensor<double>({1, 1, 6, 6}, plane);
  const Tensor rois = tensor<double>({1, 4}, {2, 4, 10, 8});  // x 1..5, y 2..4 at scale 1/2
  for (const std::int64_t ratio : {0, 1, 3}) {
    const Tensor y = run(OpKind::RoiAlign, {x, rois, integers({0})},
                         {{"output_height", number(2)},
                          {"output_width", number(2)},
                          {"sampling_ratio", ratio},
                          {"spatial_scale", 0.5}});
    // Middles: y 2.5 3.5, x 2 4, less the shift by 0.5.
    expect_values(y, {1, 1, 2, 2}, {21.5, 23.5, 31.5, 33.5}, 1e-12, 0);
  }
  const Tensor unshifted = run(OpKind::RoiAlign, {x, rois, integers({0})},
                               {{"spatial_scale", 0.5},
                                {"sampling_ratio", number(2)},
                                {"coordinate_transformation_mode", words("output_half_pixel")}});
  expect_values(unshifted, {1, 1, 1, 1}, {33}, 1e-12, 0);
}

TEST(RoiAlign, EdgesAndErrors) {
  const Tensor x = tensor<double>({2, 1, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto align = [&](const std::vector<double>& box, std::int64_t image,
                         graph::Attributes attributes = {}) {
    return run(OpKind::RoiAlign, {x, tensor<double>({1, 4}, box), integers({image})}, std::move(attributes));
  };
  expect_values(align({100, 100, 101, 101}, 1), {1, 1, 1, 1}, {0});
  // A huge box: the mean is over all its samples, only those in the image count.
  const double sum = values(align({-1e6, -1e6, 1e6, 1e6}, 0))[0];
  EXPECT_GT(sum, 0);
  EXPECT_LT(sum, 1e-10);
  // An empty box has no samples, unless it is widened to one element.
  expect_values(align({1, 1, 1, 1}, 0), {1, 1, 1, 1}, {0});
  EXPECT_GT(
      values(align({0, 0, 0, 0}, 0, {{"coordinate_transformation_mode", words("output_half_pixel")}}))[0], 0);
  EXPECT_EQ(run(OpKind::RoiAlign, {x, tensor<double>({0, 4}, {}), integers({})}).extents(),
            (Extents{0, 1, 1, 1}));
  const auto error = [&](const std::vector<double>& box, std::int64_t image) {
    return error_of(OpKind::RoiAlign, {x, tensor<double>({1, 4}, box), integers({image})});
  };
  EXPECT_EQ(error({0, 0, 1, 1}, 2), ErrorCode::IndexOutOfRange);
  EXPECT_EQ(error({0, 0, 1, 1}, -1), ErrorCode::IndexOutOfRange);
  EXPECT_EQ(error({0, 0, kNan, 1}, 0), ErrorCode::InvalidArgument);
  EXPECT_EQ(error({0, 0, kInf, 1}, 0), ErrorCode::InvalidArgument);
  EXPECT_EQ(error_of(OpKind::RoiAlign, {x, tensor<double>({1, 4}, {0, 0, 1, 1}), integers({0})},
                     {{"spatial_scale", 1e300}}),
            ErrorCode::InvalidArgument);
  EXPECT_TRUE(std::isnan(values(run(
      OpKind::RoiAlign,
      {tensor<double>({1, 1, 2, 2}, {1, kNan, 3, 4}), tensor<double>({1, 4}, {0, 0, 2, 2}), integers({0})},
      {{"mode", words("max")}}))[0]));
}

TEST(MaxRoiPool, TakesTheGreatestOfEachBin) {
  std::vector<double> plane;
  for (int i = 0; i < 30; ++i) plane.push_back((i * 7) % 30);
  const Tensor x = tensor({1, 1, 5, 6}, plane);
  // x 1..4, y 0..3 inclusive: bins of 2 x 2.
  const Tensor y =
      run(OpKind::MaxRoiPool, {x, tensor({1, 5}, {0, 1, 0, 4, 3})}, {{"pooled_shape", Ints{2, 2}}});
  std::vector<double> want;
  for (const int r : {0, 2})
    for (const int c : {1, 3}) {
      const auto at = [&](int i, int k) { return plane[static_cast<std::size_t>((r + i) * 6 + c + k)]; };
      want.push_back(std::max(std::max(at(0, 0), at(0, 1)), std::max(at(1, 0), at(1, 1))));
    }
  expect_values(y, {1, 1, 2, 2}, want);
  // Corners round half away from zero: 1.5 -> 2; outside there is 0.
  const Tensor one = run(OpKind::MaxRoiPool, {x, tensor({2, 5}, {0, 3, 3, 3, 3, 0, 90, 90, 99, 99})},
                         {{"pooled_shape", Ints{1, 1}}, {"spatial_scale", 0.5}});
  expect_values(one, {2, 1, 1, 1}, {plane[2 * 6 + 2], 0});
  EXPECT_EQ(
      error_of(OpKind::MaxRoiPool, {x, tensor({1, 5}, {1, 0, 0, 1, 1})}, {{"pooled_shape", Ints{1, 1}}}),
      ErrorCode::IndexOutOfRange);
}

TEST(CropAndResize, SamplesNormalisedBoxes) {
  const Tensor x = tensor<double>({1, 1, 3, 3}, {0, 1, 2, 10, 11, 12, 20, 21, 22});
  const Tensor size = exact<std::int32_t>({2}, {2, 3}), image = exact<std::int32_t>({1}, {0});
  const auto crop = [&](const std::vector<double>& box, const char* mode) {
    return run(OpKind::CropAndResize, {x, tensor<double>({1, 4}, box), image, size},
               {{"mode", words(mode)}, {"extrapolation_value", -1.0}});
  };
  expect_values(crop({0, 0, 1, 1}, "bilinear"), {1, 1, 2, 3}, {0, 1, 2, 20, 21, 22}, 1e-12, 1e-12);
  expect_values(crop({0.25, 0.25, 0.75, 0.75}, "bilinear"), {1, 1, 2, 3}, {5.5, 6, 6.5, 15.5, 16, 16.5},
                1e-12, 1e-12);
  expect_values(crop({-0.5, 0, 1, 1}, "nearest"), {1, 1, 2, 3}, {-1, -1, -1, 20, 21, 22});
  EXPECT_EQ(error_of(OpKind::CropAndResize, {x, tensor<double>({1, 4}, {0, 0, 1, 1}), image,
                                             exact<std::int32_t>({2}, {INT32_MAX, INT32_MAX})}),
            ErrorCode::LimitExceeded);
}

// --- windows put back

TEST(MaxUnpool, UndoesMaxPool) {
  std::mt19937 generator(6);
  const Tensor x = random({2, 3, 6, 8}, generator, 1, 2);
  const graph::Attributes pool = {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
  const std::vector<Tensor> pooled = run_all(OpKind::MaxPool, {x}, pool, 2);
  const Tensor y = run(OpKind::MaxUnpool, {pooled[0], pooled[1]}, pool);
  ASSERT_EQ(y.extents(), x.extents());
  const std::vector<double> before = values(x), after = values(y);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (after[i] != 0) {
      EXPECT_EQ(after[i], before[i]);
      ++kept;
    }
  }
  EXPECT_EQ(kept, before.size() / 4);
  // More at the ends.
  const Tensor wider = run(OpKind::MaxUnpool, {pooled[0], pooled[1], integers({2, 3, 7, 9})}, pool);
  const Tensor back = run(OpKind::Slice, {wider, integers({0, 0}), integers({6, 8}), integers({2, 3})});
  expect_values(back, x.extents(), after);
}

TEST(MaxUnpool, BadInputIsAnError) {
  const graph::Attributes pool = {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}};
  const Tensor x = tensor({1, 1, 2}, {1, 2});
  const auto error = [&](const std::vector<std::int64_t>& at, std::optional<Tensor> shape) {
    return error_of(OpKind::MaxUnpool, {x, exact<std::int64_t>({1, 1, 2}, at), std::move(shape)}, pool);
  };
  EXPECT_EQ(error({0, 3}, std::nullopt), std::nullopt);
  EXPECT_EQ(error({0, 4}, std::nullopt), ErrorCode::IndexOutOfRange);
  EXPECT_EQ(error({-1, 3}, std::nullopt), ErrorCode::IndexOutOfRange);
  EXPECT_EQ(error({0, 3}, integers({1, 1, 3})), ErrorCode::IndexOutOfRange);
  EXPECT_EQ(error({0, 3}, integers({1, 1, std::int64_t{1} << 50})), ErrorCode::LimitExceeded);
  EXPECT_EQ(error({0, 3}, integers({1, 1, -4})), ErrorCode::InvalidArgument);
  EXPECT_EQ(error({0, 3}, integers({2, 1, 4})), ErrorCode::ShapeMismatch);
}

TEST(Col2Im, SumsWindowsWhereTheyOverlap) {
  std::mt19937 generator(7);
  const std::int64_t height = 5, width = 6, kh = 2, kw = 3, sh = 2, sw = 1, dh = 2, dw = 1, pt = 1, pl = 0,
                     pb = 0, pr = 2;
  const std::int64_t oh = (height + pt + pb - (kh - 1) * dh - 1) / sh + 1,
                     ow = (width + pl + pr - (kw - 1) * dw - 1) / sw + 1;
  const Tensor x = random<double>({2, 3 * kh * kw, oh * ow}, generator);
  const std::vector<double> columns = values(x);
  std::vector<double> want(static_cast<std::size_t>(2 * 3 * height * width));
  for (std::int64_t plane = 0; plane < 6; ++plane)
    for (std::int64_t p = 0; p < kh; ++p)
      for (std::int64_t q = 0; q < kw; ++q)
        for (std::int64_t i = 0; i < oh; ++i)
          for (std::int64_t j = 0; j < ow; ++j) {
            const std::int64_t r = i * sh + p * dh - pt, c = j * sw + q * dw - pl;
            if (r < 0 || r >= height || c < 0 || c >= width) continue;
            want[static_cast<std::size_t>((plane * height + r) * width + c)] +=
                columns[static_cast<std::size_t>(((plane * kh + p) * kw + q) * oh * ow + i * ow + j)];
          }
  const graph::Attributes attributes = {
      {"strides", Ints{sh, sw}}, {"dilations", Ints{dh, dw}}, {"pads", Ints{pt, pl, pb, pr}}};
  const Tensor y = run(OpKind::Col2Im, {x, integers({height, width}), integers({kh, kw})}, attributes);
  expect_values(y, {2, 3, height, width}, want, 1e-12, 1e-12);
  EXPECT_EQ(error_of(OpKind::Col2Im, {x, integers({height, width + 1}), integers({kh, kw})}, attributes),
            ErrorCode::ShapeMismatch);
  const Tensor bytes = run(
      OpKind::Col2Im, {tensor<std::uint8_t>({1, 2, 2}, {200, 100, 100, 7}), integers({3}), integers({2})});
  expect_values(bytes, {1, 1, 3}, {200, 200, 7});
  const Tensor flags =
      run(OpKind::Col2Im, {tensor<Boolean>({1, 2, 2}, {0, 1, 0, 1}), integers({3}), integers({2})});
  expect_values(flags, {1, 1, 3}, {0, 1, 1});
  EXPECT_EQ(error_of(OpKind::Col2Im, {x, integers({std::int64_t{1} << 40, 1 << 20}), integers({kh, kw})}),
            ErrorCode::LimitExceeded);
}

TEST(DeformConv, WithoutOffsetsIsConv) {
  std::mt19937 generator(8);
  const Tensor x = random<double>({2, 4, 5, 6}, generator), w = random<double>({6, 2, 3, 2}, generator);
  const Tensor bias = random<double>({6}, generator);
  const graph::Attributes common = {
      {"group", number(2)}, {"pads", Ints{1, 0, 2, 1}}, {"strides", Ints{2, 1}}, {"dilations", Ints{1, 2}}};
  const Tensor want = run(OpKind::Conv, {x, w, bias}, common);
  graph::Attributes deform = common;
  deform["offset_group"] = number(2);
  const Extents& out = want.extents();
  const Tensor still(DType::F64, {2, 2 * 6 * 2, out[2], out[3]});
  const Tensor y = run(OpKind::DeformConv, {x, w, still, bias}, deform);
  expect_values(y, out, values(want), 1e-12, 1e-12);
  // A mask scales the taps: all by 3 without bias.
  Tensor mask(DType::F64, {2, 2 * 6, out[2], out[3]});
  for (double& element : mask.as_mutable<double>()) element = 3;
  std::vector<double> thrice = values(run(OpKind::Conv, {x, w}, common));
  for (double& value : thrice) value *= 3;
  expect_values(run(OpKind::DeformConv, {x, w, still, std::nullopt, mask}, deform), out, thrice, 1e-12,
                1e-12);
}

TEST(DeformConv, OffsetsMoveTheTaps) {
  // One tap on a plane that is linear, so that interpolation is exact: f = 10 y + x.
  std::vector<double> plane;
  for (int i = 0; i < 25; ++i) {
    const int row = i / 5;
    plane.push_back(10 * row + i % 5);
  }
  const Tensor x = tensor<double>({1, 1, 5, 5}, plane), w = tensor<double>({1, 1, 1, 1}, {1});
  std::vector<double> offsets(50), want;
  for (std::size_t i = 0; i < 25; ++i) {
    offsets[i] = i / 5 < 4 ? 0.25 : 0;       // y
    offsets[25 + i] = i % 5 > 0 ? -0.5 : 0;  // x
    want.push_back(plane[i] + 10 * offsets[i] + offsets[25 + i]);
  }
  expect_values(run(OpKind::DeformConv, {x, w, tensor<double>({1, 2, 5, 5}, offsets)}), {1, 1, 5, 5}, want,
                1e-12, 1e-12);
  // Half an element outside, half of the edge; far outside and NaN, nothing.
  const Tensor dot = tensor<double>({1, 1, 1, 1}, {8});
  const auto at = [&](double dy, double dx) {
    return values(run(OpKind::DeformConv, {dot, w, tensor<double>({1, 2, 1, 1}, {dy, dx})}))[0];
  };
  EXPECT_EQ(at(-0.5, 0), 4);
  EXPECT_EQ(at(0.5, 0.5), 2);
  EXPECT_EQ(at(1e30, 0), 0);
  EXPECT_EQ(at(0, kNan), 0);
  EXPECT_EQ(error_of(OpKind::DeformConv, {x, w, tensor<double>({1, 2, 1, 1}, {0, 0})}),
            ErrorCode::ShapeMismatch);
}

// One and three spatial axes.
TEST(DeformConv, AnyNumberOfAxes) {
  std::mt19937 generator(9);
  for (const Extents& space : {Extents{7}, Extents{3, 4, 5}}) {
    Extents xe = {1, 2}, we = {3, 2}, oe = {1, 0};
    std::int64_t taps = 1;
    for (const std::int64_t extent : space) {
      xe.push_back(extent);
      we.push_back(2);
      oe.push_back(extent - 1);
      taps *= 2;
    }
    oe[1] = taps * static_cast<std::int64_t>(space.size());
    const Tensor x = random<double>(xe, generator), w = random<double>(we, generator);
    const Tensor want = run(OpKind::Conv, {x, w});
    expect_values(run(OpKind::DeformConv, {x, w, Tensor(DType::F64, oe)}), want.extents(), values(want),
                  1e-12, 1e-12);
  }
}

TEST(CenterCropPad, HalvesWhatIsTooMuchOrMissing) {
  const Tensor x = tensor({2, 5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  expect_values(run(OpKind::CenterCropPad, {x, integers({5, 2})}), {5, 2}, {0, 0, 1, 2, 6, 7, 0, 0, 0, 0});
  expect_values(run(OpKind::CenterCropPad, {x, exact<std::int32_t>({1}, {8})}, {{"axes", Ints{-1}}}), {2, 8},
                {0, 0, 1, 2, 3, 4, 0, 0, 0, 5, 6, 7, 8, 9, 0, 0});
  const Tensor names = run(OpKind::CenterCropPad, {exact<std::string>({1}, {"a"}), integers({3})});
  EXPECT_EQ(names.as<std::string>()[0], "");
  EXPECT_EQ(names.as<std::string>()[1], "a");
  EXPECT_EQ(run(OpKind::CenterCropPad, {x, integers({0, 3})}).extents(), (Extents{0, 3}));
  EXPECT_EQ(error_of(OpKind::CenterCropPad, {x, integers({-1, 3})}), ErrorCode::InvalidArgument);
  EXPECT_EQ(error_of(OpKind::CenterCropPad, {x, integers({std::int64_t{1} << 40, 3})}),
            ErrorCode::LimitExceeded);
}

// Results without elements take neither time nor memory, however long their other axes.
TEST(Images, NothingAlongALongAxis) {
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_EQ(run(OpKind::CenterCropPad, {tensor({0, 2}, {}), integers({huge, 0})}).extents(),
            (Extents{huge, 0}));
  EXPECT_EQ(
      run(OpKind::CropAndResize, {tensor({1, 1, 2, 2}, {1, 2, 3, 4}), tensor({1, 4}, {0, 0, 1, 1}),
                                  exact<std::int32_t>({1}, {0}), exact<std::int32_t>({2}, {INT32_MAX, 0})})
          .extents(),
      (Extents{1, 1, INT32_MAX, 0}));
  EXPECT_EQ(run(OpKind::RoiAlign, {tensor({1, 0, 2, 2}, {}), tensor({1, 4}, {0, 0, 1, 1}), integers({0})},
                {{"output_height", number(INT32_MAX)}})
                .extents(),
            (Extents{1, 0, INT32_MAX, 1}));
  EXPECT_EQ(run(OpKind::TensorScatter, {Tensor(DType::F32, {huge, 2, 0}), Tensor(DType::F32, {huge, 1, 0})})
                .extents(),
            (Extents{huge, 2, 0}));
  EXPECT_EQ(error_of(OpKind::Unique, {Tensor(DType::F32, {huge, 0})}, {{"axis", number(0)}}),
            ErrorCode::LimitExceeded);
  EXPECT_EQ(error_of(OpKind::Det, {Tensor(DType::F32, {huge, 0, 0})}), ErrorCode::LimitExceeded);
}

}  // namespace
}  // namespace kiln::reference
