#include <cmath>
#include <complex>
#include <numbers>

#include "tests/kernels_ref/support.h"

namespace kiln::reference {
namespace {

using graph::OpKind;
using Complex = std::complex<double>;

Tensor scalar(std::int64_t value) { return Tensor::from_integer(value); }

// The definition, term by term.
std::vector<Complex> transform(const std::vector<Complex>& x, bool inverse) {
  const auto n = static_cast<std::int64_t>(x.size());
  std::vector<Complex> y(x.size());
  for (std::int64_t k = 0; k < n; ++k) {
    for (std::int64_t i = 0; i < n; ++i) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(i * k % n) / static_cast<double>(n);
      y[static_cast<std::size_t>(k)] +=
          x[static_cast<std::size_t>(i)] * std::polar(1.0, inverse ? angle : -angle);
    }
    if (inverse) y[static_cast<std::size_t>(k)] /= static_cast<double>(n);
  }
  return y;
}

// Line (a, b) of a tensor of [A, n, B, parts] along axis 1, cut or filled with zeros.
std::vector<Complex> line(const Tensor& x, std::int64_t a, std::int64_t b, std::int64_t length) {
  const Extents& e = x.extents();
  const std::vector<double> all = values(x);
  std::vector<Complex> result(static_cast<std::size_t>(length));
  for (std::int64_t i = 0; i < std::min(length, e[1]); ++i) {
    const auto at = static_cast<std::size_t>(((a * e[1] + i) * e[2] + b) * e[3]);
    result[static_cast<std::size_t>(i)] = {all[at], e[3] == 2 ? all[at + 1] : 0};
  }
  return result;
}

TEST(Dft, MatchesTheDefinition) {
  std::mt19937 generator(1);
  for (const std::int64_t n : {1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 30, 64, 97}) {
    for (const std::int64_t parts : {1, 2}) {
      for (const bool inverse : {false, true}) {
        for (const std::int64_t length : {n, n + 3, std::max<std::int64_t>(n - 2, 1)}) {
          const Tensor x = random<double>({2, n, 3, parts}, generator);
          const Tensor y =
              run(OpKind::DFT, {x, scalar(length), scalar(1)}, {{"inverse", std::int64_t{inverse}}});
          ASSERT_EQ(y.extents(), (Extents{2, length, 3, 2}));
          for (std::int64_t a = 0; a < 2; ++a)
            for (std::int64_t b = 0; b < 3; ++b) {
              const std::vector<Complex> want = transform(line(x, a, b, length), inverse);
              const std::vector<Complex> got = line(y, a, b, length);
              for (std::size_t k = 0; k < want.size(); ++k) ASSERT_LT(std::abs(got[k] - want[k]), 1e-12) << n;
            }
        }
      }
    }
  }
}

TEST(Dft, OneSidedGivesHalfTheSpectrum) {
  std::mt19937 generator(2);
  for (const std::int64_t n : {1, 2, 5, 8, 11}) {
    const Tensor x = random<double>({3, n, 1}, generator);
    const Tensor y = run(OpKind::DFT, {x}, {{"onesided", std::int64_t{1}}});
    ASSERT_EQ(y.extents(), (Extents{3, n / 2 + 1, 2}));
    const std::vector<double> got = values(y);
    for (std::int64_t row = 0; row < 3; ++row) {
      std::vector<Complex> signal;
      for (std::int64_t i = 0; i < n; ++i) signal.push_back(values(x)[static_cast<std::size_t>(row * n + i)]);
      const std::vector<Complex> want = transform(signal, false);
      for (std::int64_t k = 0; k <= n / 2; ++k) {
        const auto at = static_cast<std::size_t>((row * (n / 2 + 1) + k) * 2);
        EXPECT_LT(std::abs(Complex(got[at], got[at + 1]) - want[static_cast<std::size_t>(k)]), 1e-12);
      }
    }
    // And back. Only the length tells an odd signal from an even one.
    const Tensor back =
        run(OpKind::DFT, {y, scalar(n)}, {{"onesided", std::int64_t{1}}, {"inverse", std::int64_t{1}}});
    expect_values(back, {3, n, 1}, values(x), 1e-12, 1e-12);
  }
  const Tensor even = tensor<double>({1, 3, 2}, {10, 0, -2, 2, -2, 0});  // of 1 2 3 4
  expect_values(run(OpKind::DFT, {even}, {{"onesided", std::int64_t{1}}, {"inverse", std::int64_t{1}}}),
                {1, 4, 1}, {1, 2, 3, 4}, 1e-15, 1e-15);
}

TEST(Dft, HalfRoundsOnceAndF64StaysF64) {
  const Tensor y = run(OpKind::DFT, {tensor<Float16>({1, 3, 1}, {1000, 3, 4})});
  EXPECT_EQ(y.dtype(), DType::F16);
  const auto exact_part = static_cast<double>(static_cast<float>(Float16(1000 - 3.5)));
  expect_values(y, {1, 3, 2}, {1007, 0, exact_part, 0.86602540378, exact_part, -0.86602540378}, 1e-3, 0);
  const Tensor promoted = run(OpKind::DFT, {tensor<float>({1, 3, 1}, {1, 0, 1e-9})}, {}, {.f64 = true});
  EXPECT_EQ(promoted.dtype(), DType::F64);
  EXPECT_NEAR(values(promoted)[0], 1 + 1e-9, 1e-15);
}

TEST(Dft, BadInputIsAnError) {
  const Tensor x = tensor({1, 4, 1}, {1, 2, 3, 4});
  EXPECT_EQ(error_of(OpKind::DFT, {x, scalar(0)}), ErrorCode::InvalidArgument);
  EXPECT_EQ(error_of(OpKind::DFT, {x, scalar(std::int64_t{1} << 60)}), ErrorCode::LimitExceeded);
  EXPECT_EQ(error_of(OpKind::DFT, {x, scalar(4), scalar(2)}), ErrorCode::InvalidArgument);
  EXPECT_EQ(error_of(OpKind::DFT, {x, scalar(4), scalar(3)}), ErrorCode::InvalidArgument);
  EXPECT_EQ(error_of(OpKind::DFT, {tensor({1, 1, 3}, {1, 2, 3})}), ErrorCode::ShapeMismatch);
  EXPECT_EQ(error_of(OpKind::DFT, {tensor({1, 1, 2}, {1, 2})}, {{"onesided", std::int64_t{1}}}),
            ErrorCode::ShapeMismatch);
  // One bin says nothing of the length.
  EXPECT_EQ(error_of(OpKind::DFT, {tensor({1, 1, 2}, {1, 2})},
                     {{"onesided", std::int64_t{1}}, {"inverse", std::int64_t{1}}}),
            ErrorCode::InvalidArgument);
  expect_values(run(OpKind::DFT, {tensor({0, 4, 1}, {})}), {0, 4, 2}, {});
}

TEST(Stft, MatchesFramesOfTheDft) {
  std::mt19937 generator(3);
  const Tensor window = random<double>({6}, generator);
  for (const std::int64_t parts : {1, 2}) {
    const Tensor x = random<double>({2, 17, parts}, generator);
    const std::vector<double> signal = values(x), weights = values(window);
    const bool onesided = parts == 1;
    const Tensor y =
        run(OpKind::STFT, {x, scalar(4), window, scalar(6)}, {{"onesided", std::int64_t{onesided}}});
    const std::int64_t bins = onesided ? 4 : 6;
    ASSERT_EQ(y.extents(), (Extents{2, 3, bins, 2}));
    const std::vector<double> got = values(y);
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t frame = 0; frame < 3; ++frame) {
        std::vector<Complex> piece;
        for (std::int64_t i = 0; i < 6; ++i) {
          const auto at = static_cast<std::size_t>((b * 17 + frame * 4 + i) * parts);
          const Complex value(signal[at], parts == 2 ? signal[at + 1] : 0);
          piece.push_back(value * weights[static_cast<std::size_t>(i)]);
        }
        const std::vector<Complex> want = transform(piece, false);
        for (std::int64_t k = 0; k < bins; ++k) {
          const auto at = static_cast<std::size_t>(((b * 3 + frame) * bins + k) * 2);
          EXPECT_LT(std::abs(Complex(got[at], got[at + 1]) - want[static_cast<std::size_t>(k)]), 1e-12);
        }
      }
  }
}

TEST(Stft, EdgesAndErrors) {
  const Tensor x = tensor({1, 5}, {1, 2, 3, 4, 5});
  EXPECT_EQ(run(OpKind::STFT, {x, scalar(1), std::nullopt, scalar(6)}).extents(), (Extents{1, 0, 4, 2}));
  // Neither window nor length: one frame of all.
  expect_values(run(OpKind::STFT, {x, scalar(1)}, {{"onesided", std::int64_t{1}}}), {1, 1, 3, 2},
                {15, 0, -2.5, 3.44095480, -2.5, 0.81229924}, 1e-6, 1e-6);
  EXPECT_EQ(error_of(OpKind::STFT, {x, scalar(0), std::nullopt, scalar(2)}), ErrorCode::InvalidArgument);
  EXPECT_EQ(error_of(OpKind::STFT, {x, scalar(1), std::nullopt, scalar(-2)}), ErrorCode::InvalidArgument);
  EXPECT_EQ(error_of(OpKind::STFT, {x, scalar(1), tensor({2}, {1, 1}), scalar(3)}), ErrorCode::ShapeMismatch);
  EXPECT_EQ(error_of(OpKind::STFT, {tensor({1, 2, 2}, {1, 2, 3, 4}), scalar(1), std::nullopt, scalar(2)}),
            ErrorCode::ShapeMismatch);
}

graph::Attributes dtype(DType type) { return {{"dtype", static_cast<std::int64_t>(type)}}; }

Tensor mel(std::int64_t bins, std::int64_t length, std::int64_t rate, float low, float high,
           DType type = DType::F32) {
  return run(OpKind::MelWeightMatrix,
             {scalar(bins), scalar(length), scalar(rate), exact<float>({}, {low}), exact<float>({}, {high})},
             dtype(type));
}

TEST(MelWeightMatrix, IsMadeOfTriangles) {
  // Corners at (17 * hertz / 8192) of 0 to 4096 Hz in mel, by the formula: 0 0 1 1 2 3 4 5 6 8 for 8 bins.
  const Tensor y = mel(8, 16, 8192, 0, 4096);
  ASSERT_EQ(y.extents(), (Extents{9, 8}));
  std::vector<std::int64_t> corner;
  const double top = 2595 * std::log10(1 + 4096.0 / 700);
  for (int i = 0; i < 10; ++i) {
    const double hertz = 700 * (std::pow(10, top * i / 10 / 2595) - 1);
    corner.push_back(static_cast<std::int64_t>(std::floor(17 * hertz / 8192)));
  }
  const std::vector<double> got = values(y);
  for (std::int64_t i = 0; i < 8; ++i)
    for (std::int64_t bin = 0; bin < 9; ++bin) {
      const auto left = corner[static_cast<std::size_t>(i)], peak = corner[static_cast<std::size_t>(i) + 1],
                 right = corner[static_cast<std::size_t>(i) + 2];
      double want = 0;
      if (bin == peak) {
        want = 1;
      } else if (bin > left && bin < peak) {
        want = static_cast<double>(bin - left) / static_cast<double>(peak - left);
      } else if (bin > peak && bin < right) {
        want = static_cast<double>(right - bin) / static_cast<double>(right - peak);
      }
      EXPECT_NEAR(got[static_cast<std::size_t>(bin * 8 + i)], want, 1e-6) << bin << " " << i;
    }
}

TEST(MelWeightMatrix, TypesEdgesAndErrors) {
  EXPECT_EQ(mel(0, 16, 8192, 0, 4096).extents(), (Extents{9, 0}));
  EXPECT_EQ(mel(3, 0, 8192, 0, 4096).extents(), (Extents{1, 3}));
  EXPECT_EQ(mel(3, 16, 8192, 0, 4096, DType::U8).dtype(), DType::U8);
  // Triangles beyond half the rate have no bins there.
  EXPECT_EQ(mel(4, 16, 8192, 0, 1e6F).extents(), (Extents{9, 4}));
  const auto error = [](std::int64_t bins, std::int64_t length, std::int64_t rate, float low, float high) {
    return error_of(
        OpKind::MelWeightMatrix,
        {scalar(bins), scalar(length), scalar(rate), exact<float>({}, {low}), exact<float>({}, {high})},
        dtype(DType::F32));
  };
  EXPECT_EQ(error(std::int64_t{1} << 40, 1 << 20, 8192, 0, 1), ErrorCode::LimitExceeded);
  EXPECT_EQ(error(INT64_MAX, INT64_MAX, 8192, 0, 1), ErrorCode::LimitExceeded);
  EXPECT_EQ(error(-1, 16, 8192, 0, 1), ErrorCode::InvalidArgument);
  EXPECT_EQ(error(2, 16, 0, 0, 1), ErrorCode::InvalidArgument);
  EXPECT_EQ(error(2, 16, 8192, 2, 1), ErrorCode::InvalidArgument);
  EXPECT_EQ(error(2, 16, 8192, 0, static_cast<float>(kNan)), ErrorCode::InvalidArgument);
}

}  // namespace
}  // namespace kiln::reference
