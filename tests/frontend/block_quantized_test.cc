// Weights of few bits in com.microsoft, against loops that read them bit by bit; and operators with channels
// last.
#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/frontend/single_node.h"

namespace kiln::frontend {
namespace {

using testing::set;
using testing::set_integers;
using testing::set_text;
using testing::SingleNode;

using Bytes = std::vector<std::uint8_t>;
using Floats = std::vector<float>;

SingleNode model(const std::string& op) { return {21, op, "com.microsoft"}; }

Bytes byte_pattern(std::int64_t size, int seed) {
  Bytes bytes;
  for (std::int64_t i = 0; i < size; ++i)
    bytes.push_back(static_cast<std::uint8_t>((i * 73 + seed * 29 + i / 7) % 256));
  return bytes;
}

Floats float_pattern(std::int64_t size, int seed) {
  Floats values;
  for (std::int64_t i = 0; i < size; ++i)
    values.push_back(static_cast<float>((i * 37 + seed * 11 + 5) % 101) / 25 - 2);
  return values;
}

// Number `index` of `bits` bits in bytes, low bits first.
int number_at(const Bytes& bytes, std::int64_t start_byte, std::int64_t index, std::int64_t bits) {
  const std::int64_t bit = index * bits;
  return bytes[static_cast<std::size_t>(start_byte + bit / 8)] >> (bit % 8) & ((1 << bits) - 1);
}

void expect_near(const Tensor& got, const Extents& extents, const Floats& want, float tolerance = 1e-5F) {
  ASSERT_EQ(got.extents(), extents);
  const auto values = got.as<float>();
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(values[i], want[i], tolerance * (1 + std::abs(want[i]))) << "at " << i;
  }
}

enum class ZeroPoints : std::uint8_t { None, Packed, Floats };

struct Packing {
  std::int64_t inner, columns, block, bits;
  ZeroPoints zero_points;
  bool permuted = false, bias = false;
};

void check_matmul(const Packing& p) {
  constexpr std::int64_t kRows = 3;
  const std::int64_t blocks = (p.inner + p.block - 1) / p.block, blob = p.block * p.bits / 8,
                     zero_bytes = (blocks * p.bits + 7) / 8;
  const Floats a = float_pattern(kRows * p.inner, 1), scales = float_pattern(p.columns * blocks, 2),
               zeros = float_pattern(p.columns * blocks, 3), bias = float_pattern(p.columns, 4);
  const Bytes b = byte_pattern(p.columns * blocks * blob, 5),
              packed_zeros = byte_pattern(p.columns * zero_bytes, 6);
  std::vector<std::int32_t> groups;
  for (std::int64_t k = 0; k < p.inner; ++k) {
    groups.push_back(static_cast<std::int32_t>(p.permuted ? k * 5 % blocks : k / p.block));
  }
  Floats want;
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t column = 0; column < p.columns; ++column) {
      double sum = p.bias ? bias[static_cast<std::size_t>(column)] : 0.0F;
      for (std::int64_t k = 0; k < p.inner; ++k) {
        const auto group = static_cast<std::size_t>(column * blocks + groups[static_cast<std::size_t>(k)]);
        double zero = 1 << (p.bits - 1);
        if (p.zero_points == ZeroPoints::Packed) {
          zero = number_at(packed_zeros, column * zero_bytes, groups[static_cast<std::size_t>(k)], p.bits);
        } else if (p.zero_points == ZeroPoints::Floats) {
          zero = zeros[group];
        }
        const int code = number_at(b, (column * blocks + k / p.block) * blob, k % p.block, p.bits);
        sum += a[static_cast<std::size_t>(row * p.inner + k)] * (code - zero) * scales[group];
      }
      want.push_back(static_cast<float>(sum));
    }
  }
  auto run = model("MatMulNBits");
  set(run.node(), "K", p.inner);
  set(run.node(), "N", p.columns);
  set(run.node(), "bits", p.bits);
  set(run.node(), "block_size", p.block);
  run.floats({kRows, p.inner}, a).bytes({p.columns, blocks, blob}, b).floats({p.columns * blocks}, scales);
  if (p.zero_points == ZeroPoints::None) run.absent();
  if (p.zero_points == ZeroPoints::Packed) run.bytes({p.columns, zero_bytes}, packed_zeros);
  if (p.zero_points == ZeroPoints::Floats) run.floats({p.columns, blocks}, zeros);
  if (p.permuted) {
    run.with(DType::I32, onnx::TensorProto::INT32, {p.inner}, groups);
  } else {
    run.absent();
  }
  if (p.bias) run.floats({p.columns}, bias);
  expect_near(run.run()[0], {kRows, p.columns}, want, 2e-5F);
}

TEST(BlockQuantized, MatMulNBits) {
  for (const std::int64_t bits : {2, 4, 8}) {
    for (const ZeroPoints zero_points : {ZeroPoints::None, ZeroPoints::Packed, ZeroPoints::Floats}) {
      check_matmul({32, 5, 16, bits, zero_points});
      check_matmul({40, 3, 16, bits, zero_points, false, true});
      check_matmul({71, 2, 32, bits, zero_points, true});
      check_matmul({1, 1, 16, bits, zero_points, true, true});
    }
  }
}

TEST(BlockQuantized, MatMulNBitsRefusesWhatItCannotRead) {
  const auto error_with = [](std::int64_t bits, std::int64_t block, std::int64_t inner) {
    auto run = model("MatMulNBits");
    set(run.node(), "K", inner);
    set(run.node(), "N", 1);
    set(run.node(), "bits", bits);
    set(run.node(), "block_size", block);
    return run.floats({1, 16}, Floats(16)).bytes({1, 1, 8}, Bytes(8)).floats({1}, {1}).load_error();
  };
  EXPECT_EQ(error_with(4, 16, 16), std::nullopt);
  EXPECT_EQ(error_with(3, 16, 16), ErrorCode::Unsupported);
  EXPECT_EQ(error_with(4, 0, 16), ErrorCode::InvalidModel);
  EXPECT_EQ(error_with(4, 3, 16), ErrorCode::InvalidModel);
  EXPECT_EQ(error_with(4, 16, -1), ErrorCode::InvalidModel);
}

// The tables' values at a few codes, from the definition of the formats: NF4 from -1 over 0 at 7 to 1, FP4
// with its sign in the high bit.
TEST(BlockQuantized, MatMulBnb4) {
  const auto run = [](std::int64_t kind) {
    auto product = model("MatMulBnb4");
    set(product.node(), "K", 3);
    set(product.node(), "N", 3);
    set(product.node(), "block_size", 4);
    set(product.node(), "quant_type", kind);
    // Weights [3, 3] as codes 0 7 15 | 3 11 2 | 5 13 1, high ones first, in blocks of four with scales 1,
    // 2, 10.
    return product.floats({1, 3}, {1, 10, 100})
        .bytes({5}, {0x07, 0xf3, 0xb2, 0x5d, 0x10})
        .floats({3}, {1, 2, 10})
        .run()[0];
  };
  constexpr float kTiny = 0.005208333F, kThird = 0.33333333F;
  expect_near(
      run(0), {1, 3},
      {0 + 2.5F - 25, 1 - 10 * 2 + 100 * 2 * 2 * kThird, 2 * 0.5F - 10 * 2 * 0.5F + 100 * 10 * kTiny});
  constexpr float kNf1 = -0.6961928F, kNf2 = -0.5250731F, kNf3 = -0.3949175F, kNf5 = -0.1847734F,
                  kNf11 = 0.3379152F, kNf13 = 0.562617F;
  expect_near(run(1), {1, 3},
              {-1 + 0 + 100, kNf3 + 20 * kNf11 + 200 * kNf2, 2 * kNf5 + 20 * kNf13 + 1000 * kNf1});
}

TEST(BlockQuantized, GatherOfPackedRows) {
  constexpr std::int64_t kRows = 4, kWidth = 40, kBlock = 16, kBlocks = 3;
  for (const std::int64_t bits : {2, 4, 8}) {
    for (const bool with_zeros : {false, true}) {
      const std::int64_t row_bytes = kWidth * bits / 8, zero_bytes = (kBlocks * bits + 7) / 8;
      const Bytes data = byte_pattern(kRows * row_bytes, 1), zeros = byte_pattern(kRows * zero_bytes, 2);
      const Floats scales = float_pattern(kRows * kBlocks, 3);
      const std::vector<std::int64_t> indices = {3, 0, -1, 2};
      Floats want;
      for (const std::int64_t index : indices) {
        const std::int64_t row = index < 0 ? index + kRows : index;
        for (std::int64_t i = 0; i < kWidth; ++i) {
          const int zero =
              with_zeros ? number_at(zeros, row * zero_bytes, i / kBlock, bits) : 1 << (bits - 1);
          want.push_back(static_cast<float>(number_at(data, row * row_bytes, i, bits) - zero) *
                         scales[static_cast<std::size_t>(row * kBlocks + i / kBlock)]);
        }
      }
      auto run = model("GatherBlockQuantized");
      set(run.node(), "bits", bits);
      set(run.node(), "block_size", kBlock);
      run.bytes({kRows, row_bytes}, data).integers({2, 2}, indices).floats({kRows, kBlocks}, scales);
      if (with_zeros) run.bytes({kRows, zero_bytes}, zeros);
      expect_near(run.run()[0], {2, 2, kWidth}, want, 1e-6F);
    }
  }
}

TEST(BlockQuantized, GatherAlongTheQuantizedAxis) {
  // i4 data [20, 2], blocks of 16 rows.
  const Bytes data = byte_pattern(20, 4);
  const Floats scales = {1, 2, 3, 4};
  const std::vector<std::int64_t> indices = {15, 16, -1};
  Floats want;
  for (const std::int64_t index : {15, 16, 19}) {
    for (std::int64_t column = 0; column < 2; ++column) {
      const int code = number_at(data, 0, index * 2 + column, 4);
      want.push_back(static_cast<float>(code < 8 ? code : code - 16) *
                     scales[static_cast<std::size_t>(index / 16 * 2 + column)]);
    }
  }
  testing::ModelBuilder builder(21, "com.microsoft");
  auto& packed = builder.initializer("data", {20, 2}, 22);
  packed.set_raw_data(std::string(data.begin(), data.end()));
  builder.input("indices", {3}, onnx::TensorProto::INT64).floats("scales", {2, 2}, scales);
  auto& node = builder.node("GatherBlockQuantized", {"data", "indices", "scales"}, {"y"}, "com.microsoft");
  set(node, "gather_axis", 0);
  set(node, "quantize_axis", 0);
  set(node, "block_size", 16);
  builder.output("y");
  const Tensor fed = Tensor::from_integers(indices);
  expect_near(reference::evaluate(builder.load(), std::span(&fed, 1), {})[0], {3, 2}, want);
}

TEST(IntegerProducts, WrapIn32Bits) {
  auto run = model("MatMulInteger16");
  const std::vector<std::int16_t> a = {-32768, 32767, 2, 3}, b = {-32768, 1, 32767, -1};
  run.with(DType::I16, onnx::TensorProto::INT16, {2, 2}, a)
      .with(DType::I16, onnx::TensorProto::INT16, {2, 2}, b);
  const Tensor y = run.run()[0];
  EXPECT_EQ(y.dtype(), DType::I32);
  EXPECT_EQ(y.to_integers(),
            (std::vector<std::int64_t>{static_cast<std::int32_t>(32768U * 32768U + 32767U * 32767U), -65535,
                                       32765, -1}));

  auto multiply = model("MulInteger");
  multiply.bytes({3}, {0, 10, 255}).bytes({}, {10}).bytes({1}, {200}).bytes({}, {255});
  EXPECT_EQ(multiply.run()[0].to_integers(), (std::vector<std::int64_t>{550, 0, -13475}));
}

// Spatial extents [4, 3], two channels.
TEST(ChannelsLast, ConvolutionAndPooling) {
  const Floats x = float_pattern(24, 1), w = float_pattern(3 * 2 * 2 * 2, 2), bias = {1, 2, 3};
  Floats want;  // [1, 3, 2, 3]
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 2; ++j) {
      for (std::int64_t m = 0; m < 3; ++m) {
        double sum = bias[static_cast<std::size_t>(m)];
        for (std::int64_t p = 0; p < 2; ++p) {
          for (std::int64_t q = 0; q < 2; ++q) {
            for (std::int64_t c = 0; c < 2; ++c) {
              sum += x[static_cast<std::size_t>(((i + p) * 3 + j + q) * 2 + c)] *
                     w[static_cast<std::size_t>(((m * 2 + p) * 2 + q) * 2 + c)];
            }
          }
        }
        want.push_back(static_cast<float>(sum));
      }
    }
  }
  expect_near(model("NhwcConv").floats({1, 4, 3, 2}, x).floats({3, 2, 2, 2}, w).floats({3}, bias).run()[0],
              {1, 3, 2, 3}, want);

  Floats w_channels_second(w.size());
  for (std::size_t m = 0; m < 3; ++m) {
    for (std::size_t tap = 0; tap < 4; ++tap) {
      for (std::size_t c = 0; c < 2; ++c) w_channels_second[(m * 2 + c) * 4 + tap] = w[(m * 4 + tap) * 2 + c];
    }
  }
  const Floats added = float_pattern(18, 5);
  Floats rectified;
  for (std::size_t i = 0; i < want.size(); ++i) rectified.push_back(std::max(0.0F, want[i] + added[i]));
  auto fused = model("NhwcFusedConv");
  set_text(fused.node(), "activation", "Relu");
  expect_near(fused.floats({1, 4, 3, 2}, x)
                  .floats({3, 2, 2, 2}, w_channels_second)
                  .floats({3}, bias)
                  .floats({1, 3, 2, 3}, added)
                  .run()[0],
              {1, 3, 2, 3}, rectified);

  auto pool = model("NhwcMaxPool");
  set_integers(pool.node(), "kernel_shape", {2, 3});
  EXPECT_EQ(pool.bytes({1, 2, 3, 2}, {1, 9, 2, 8, 3, 7, 4, 6, 5, 5, 6, 4}).run()[0].to_integers(),
            (std::vector<std::int64_t>{6, 9}));
}

}  // namespace
}  // namespace kiln::frontend
