#include <cmath>

#include "tests/kernels_ref/support.h"

namespace kiln::reference {
namespace {

using graph::OpKind;

Tensor resized(const Tensor& x, const std::vector<std::int64_t>& sizes, graph::Attributes attributes) {
  return run(OpKind::Resize, {x, std::nullopt, std::nullopt, integers(sizes)}, std::move(attributes));
}
graph::Attributes modes(const char* mode, const char* transform = "half_pixel") {
  return {{"mode", std::string(mode)}, {"coordinate_transformation_mode", std::string(transform)}};
}

TEST(Resize, ResizeExact) {
  // Against integer arithmetic alone, over all pairs of small extents.
  for (std::int64_t in = 1; in <= 12; ++in) {
    Tensor x(DType::F32, {in});
    for (std::int64_t i = 0; i < in; ++i)
      x.as_mutable<float>()[static_cast<std::size_t>(i)] = static_cast<float>(i);
    for (std::int64_t out = 1; out <= 40; ++out) {
      std::vector<double> floors, halves;
      for (std::int64_t o = 0; o < out; ++o) {
        const std::int64_t floor = o * in / out;
        floors.push_back(static_cast<double>(floor));
        // round_prefer_floor of ((2 o + 1) in - out) / (2 out), clamped: the least n with 2 (2 o + 1) in <= 4
        // out (n + 1).
        std::int64_t n = 0;
        while (n + 1 < in && (2 * o + 1) * in > 2 * out * (n + 1)) ++n;
        halves.push_back(static_cast<double>(n));
      }
      graph::Attributes asymmetric = modes("nearest", "asymmetric");
      asymmetric["nearest_mode"] = std::string("floor");
      expect_values(resized(x, {out}, asymmetric), {out}, floors);
      expect_values(resized(x, {out}, modes("nearest")), {out}, halves);
    }
  }
}

// Work and memory are those of the elements that there are, not of each extent.
TEST(Resize, ALongAxisOfNothing) {
  const std::int64_t huge = std::int64_t{1} << 40;
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    EXPECT_EQ(resized(Tensor(DType::F32, {2, 0}), {huge, 0}, modes(mode)).extents(), (Extents{huge, 0}))
        << mode;
  }
}

TEST(Resize, LinearReproducesALine) {
  Tensor x(DType::F64, {2, 5});
  for (std::size_t i = 0; i < 10; ++i) {
    const std::size_t row = i / 5;
    x.as_mutable<double>()[i] = static_cast<double>(i % 5 * 3 + row);
  }
  const Tensor y = resized(x, {2, 9}, modes("linear", "align_corners"));
  std::vector<double> want;
  for (int row = 0; row < 2; ++row) {
    for (int o = 0; o < 9; ++o) want.push_back(o * 0.5 * 3 + row);
  }
  expect_values(y, {2, 9}, want, 1e-14, 1e-14);
  // Half-pixel centres, clamped at the edges.
  expect_values(resized(tensor<double>({2}, {0, 1}), {4}, modes("linear")), {4}, {0, 0.25, 0.75, 1}, 1e-14,
                1e-14);
}

TEST(Resize, KeepsConstants) {
  const Tensor x =
      run(OpKind::ConstantOfShape, {integers({1, 2, 7, 5})}, {{"value", tensor<double>({1}, {3.5})}});
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const char* transform :
         {"half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric"}) {
      for (const std::int64_t antialias : {0, 1}) {
        graph::Attributes attributes = modes(mode, transform);
        attributes["antialias"] = std::string(mode) == "nearest" ? std::int64_t{0} : antialias;
        attributes["exclude_outside"] = std::int64_t{std::string(mode) == "cubic"};
        const Tensor y = resized(x, {1, 2, 3, 11}, attributes);
        expect_values(y, {1, 2, 3, 11}, std::vector<double>(66, 3.5), 1e-12, 0);
      }
    }
  }
}

TEST(Resize, CropAndResizeExtrapolates) {
  graph::Attributes attributes = modes("linear", "tf_crop_and_resize");
  attributes["extrapolation_value"] = 9.0;
  const Tensor y = run(
      OpKind::Resize, {tensor({3}, {1, 2, 3}), tensor({2}, {0, 2}), std::nullopt, integers({3})}, attributes);
  expect_values(y, {3}, {1, 3, 9});
}

TEST(Resize, RefusesNonsense) {
  const Tensor x = tensor({3}, {1, 2, 3});
  EXPECT_EQ(error_of(OpKind::Resize, {Tensor(DType::F32, {0}), std::nullopt, std::nullopt, integers({3})}),
            ErrorCode::ShapeMismatch);
  EXPECT_EQ(error_of(OpKind::Resize, {x, std::nullopt, tensor({1}, {kNan})}), ErrorCode::InvalidArgument);
}

}  // namespace
}  // namespace kiln::reference
