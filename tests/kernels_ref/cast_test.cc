#include <cstdint>

#include "ir/base/narrow_types.h"
#include "tests/kernels_ref/support.h"

namespace kiln::reference {
namespace {

Tensor cast(const Tensor& x, DType to, bool saturate = true) {
  return run(graph::OpKind::Cast, {x},
             {{"to", static_cast<std::int64_t>(to)}, {"saturate", std::int64_t{saturate}}});
}

TEST(Cast, FloatToInteger) {
  const Tensor x = tensor({8}, {2.9, -2.9, 1e30, -1e30, kNan, kInf, -kInf, 300});
  expect_values(cast(x, DType::I8), {8}, {2, -2, 127, -128, 0, 127, -128, 127});
  expect_values(cast(x, DType::U8), {8}, {2, 0, 255, 0, 0, 255, 0, 255});
  EXPECT_EQ(cast(x, DType::I64), integers({2, -2, INT64_MAX, INT64_MIN, 0, INT64_MAX, INT64_MIN, 300}));
  EXPECT_EQ(cast(tensor<double>({3}, {0x1p63, -0x1p63, 18446744073709549568.0}), DType::U64),
            exact<std::uint64_t>({3}, {std::uint64_t{1} << 63, 0, 18446744073709549568u}));
  expect_values(cast(tensor<Float16>({3}, {kInf, -1.5, kNan}), DType::I32), {3}, {INT32_MAX, -1, 0});
}

TEST(Cast, IntegerToInteger) {
  expect_values(cast(exact<std::int32_t>({3}, {257, -1, 128}), DType::U8), {3}, {1, 255, 128});
  expect_values(cast(exact<std::int32_t>({3}, {257, -129, 128}), DType::I8), {3}, {1, 127, -128});
  EXPECT_EQ(cast(exact<std::uint64_t>({1}, {UINT64_MAX}), DType::I64), integers({-1}));
}

TEST(Cast, ToBoolAndBack) {
  expect_values(cast(tensor({4}, {0, -0.0, 0.25, kNan}), DType::I1), {4}, {0, 0, 1, 1});
  expect_values(cast(tensor<Boolean>({2}, {0, 1}), DType::BF16), {2}, {0, 1});
}

TEST(Cast, ToHalfRoundsOnce) {
  // Just above the middle of 1 and 1 + 2^-10: through f32 it would round twice, to 1.
  expect_values(cast(tensor<double>({1}, {1 + 0x1p-11 + 0x1p-40}), DType::F16), {1}, {1 + 0x1p-10});
  expect_values(cast(tensor({2}, {65519, 65520}), DType::F16), {2}, {65504, kInf});
}

TEST(Cast, Text) {
  const Tensor text = cast(tensor({5}, {0.1f, 1e20f, kNan, kInf, -kInf}), DType::String);
  EXPECT_EQ(text, exact<std::string>({5}, {"0.1", "1e+20", "NaN", "INF", "-INF"}));
  expect_values(cast(text, DType::F32), {5}, {0.1f, 1e20f, kNan, kInf, -kInf});
  EXPECT_EQ(cast(exact<std::string>({2}, {"9223372036854775807", "-12"}), DType::I64),
            integers({INT64_MAX, -12}));
  expect_values(cast(exact<std::string>({4}, {" +1.5", "0x1p-3 ", "-infinity", "1e999"}), DType::F64), {4},
                {1.5, 0.125, -kInf, kInf});
  for (const std::string& wrong :
       {std::string("ten"), std::string(), std::string("1,5"), std::string("1\0", 2)}) {
    for (const DType dtype : {DType::F32, DType::I64, DType::U64}) {
      EXPECT_EQ(error_of(graph::OpKind::Cast, {exact<std::string>({1}, {wrong})},
                         {{"to", std::int64_t{static_cast<int>(dtype)}}}),
                ErrorCode::InvalidArgument)
          << wrong;
    }
  }
}

TEST(Cast, NarrowFloats) {
  const Tensor x = tensor({6}, {1.0625, 1.1875, 1e6, -kInf, kNan, -0.0});
  // Halves between 1, 1.125 and 1.25 go to the even neighbour.
  expect_values(cast(cast(x, DType::F8E4M3FN), DType::F32), {6}, {1, 1.25, 448, -448, kNan, 0});
  expect_values(cast(cast(x, DType::F8E4M3FN, false), DType::F32), {6}, {1, 1.25, kNan, kNan, kNan, 0});
  expect_values(cast(cast(x, DType::F8E5M2), DType::F32), {6}, {1, 1.25, 57344, -57344, kNan, 0});
  expect_values(cast(cast(x, DType::F8E5M2, false), DType::F32), {6}, {1, 1.25, kInf, -kInf, kNan, 0});
  expect_values(cast(cast(x, DType::F8E4M3FNUZ), DType::F32), {6}, {1, 1.25, 240, -240, kNan, 0});
  expect_values(cast(cast(x, DType::F8E5M2FNUZ, false), DType::F32), {6}, {1, 1.25, kNan, kNan, kNan, 0});
  expect_values(cast(cast(tensor({8}, {0.25, 0.75, 1.25, 2.5, 5, 7, -100, 0.26}), DType::F4E2M1), DType::F32),
                {8}, {0, 1, 1, 2, 4, 6, -6, 0.5});
}

TEST(Cast, EveryNarrowPatternRoundTrips) {
  for (const DType dtype :
       {DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ, DType::F8E8M0, DType::F4E2M1}) {
    for (int pattern = 0; pattern < (1 << bits(dtype)); ++pattern) {
      const auto byte = static_cast<std::uint8_t>(pattern);
      const double value = decode_narrow_float(dtype, byte);
      const std::uint8_t again = encode_narrow_float(dtype, value, false);
      if (std::isnan(value))
        EXPECT_TRUE(std::isnan(decode_narrow_float(dtype, again)));
      else
        EXPECT_EQ(again, byte) << name(dtype) << " " << value;
    }
  }
}

// The patterns that ONNX's data has, where a format has several NaN.
TEST(Cast, NarrowNanIsTheQuietOne) {
  EXPECT_EQ(encode_narrow_float(DType::F8E5M2, kNan, true), 0x7e);
  EXPECT_EQ(encode_narrow_float(DType::F8E4M3FN, kNan, true), 0x7f);
  EXPECT_EQ(encode_narrow_float(DType::F8E5M2FNUZ, kNan, true), 0x80);
  EXPECT_EQ(encode_narrow_float(DType::F8E4M3FNUZ, kNan, true), 0x80);
}

TEST(Cast, NarrowFloatsTakeTheNearestValue) {
  for (const DType dtype :
       {DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ, DType::F4E2M1}) {
    std::vector<double> grid;
    for (int pattern = 0; pattern < (1 << bits(dtype)); ++pattern) {
      const double value = decode_narrow_float(dtype, static_cast<std::uint8_t>(pattern));
      if (std::isfinite(value)) grid.push_back(value);
    }
    const double largest = *std::max_element(grid.begin(), grid.end());
    std::mt19937 generator(3);
    std::normal_distribution<double> normal(0, largest / 4);
    for (int i = 0; i < 2000; ++i) {
      const double x = i % 2 == 0 ? normal(generator) : normal(generator) * 0x1p-7 / largest;
      double best = kInf;
      for (const double value : grid) best = std::min(best, std::abs(value - x));
      const double got = decode_narrow_float(dtype, encode_narrow_float(dtype, x, true));
      EXPECT_EQ(std::abs(got - x), best) << name(dtype) << " " << x;
    }
  }
}

TEST(Cast, PackedIntegers) {
  const Tensor x = exact<std::int32_t>({5}, {7, -8, 3, -1, 9});
  const Tensor packed = cast(x, DType::I4);
  EXPECT_EQ(packed.byte_size(), 3);
  EXPECT_EQ(packed.data()[0], std::byte{0x87});
  expect_values(cast(packed, DType::I32), {5}, {7, -8, 3, -1, -7});
  expect_values(cast(cast(tensor({4}, {-9, 101.9, kNan, 2.7}), DType::U2), DType::F32), {4}, {3, 1, 0, 2});
  expect_values(cast(cast(packed, DType::I8), DType::F64), {5}, {7, -8, 3, -1, -7});
}

}  // namespace
}  // namespace kiln::reference
