// Translators: weights of few bits, packed into bytes, with a scale for each block of them.
#include <algorithm>
#include <array>

#include "frontend/onnx/translators.h"
#include "ir/base/errors.h"

namespace kiln::frontend::translate {
namespace {

Attributes last_axis() { return {{"axis", std::int64_t{-1}}}; }

ValueId byte(Translation& node, std::uint8_t value) {
  return node.graph.add_constant(Tensor::from(DType::U8, {}, std::span<const std::uint8_t>(&value, 1)));
}

ValueId reshape(Translation& node, ValueId value, std::initializer_list<std::int64_t> extents) {
  return node.add(OpKind::Reshape, {value, node.integers(extents)});
}

// The first `count` along the last axis.
ValueId first(Translation& node, ValueId value, ValueId count) {
  return node.add(OpKind::Slice, {value, node.integers({0}), count, node.integers({-1}), node.integers({1})});
}

ValueId last_extent(Translation& node, ValueId value) {
  return node.add(OpKind::Shape, {value}, {{"start", std::int64_t{-1}}});
}

// Numbers of `bits` bits along the last axis of bytes, each as a byte; those in low bits come first unless
// `high_first`. Bytes are halved until the parts have the width.
ValueId unpacked(Translation& node, ValueId bytes, std::int64_t bits, bool high_first = false) {
  const ValueId axis = node.integers({-1});
  for (std::int64_t half = 4; half >= bits; half /= 2) {
    const auto mask = static_cast<std::uint8_t>((1 << half) - 1);
    ValueId low = node.add(OpKind::BitwiseAnd, {bytes, byte(node, mask)});
    ValueId high = node.add(OpKind::BitShift, {bytes, byte(node, static_cast<std::uint8_t>(half))},
                            {{"direction", std::string("RIGHT")}});
    if (half < 4) high = node.add(OpKind::BitwiseAnd, {high, byte(node, mask)});
    if (high_first) std::swap(low, high);
    const ValueId pairs = node.add(
        OpKind::Concat, {node.add(OpKind::Unsqueeze, {low, axis}), node.add(OpKind::Unsqueeze, {high, axis})},
        last_axis());
    const ValueId outer =
        node.add(OpKind::Shape, {bytes}, {{"start", std::int64_t{0}}, {"end", std::int64_t{-1}}});
    const ValueId inner = node.add(OpKind::Mul, {last_extent(node, bytes), node.integers({2})});
    const ValueId shape = node.add(OpKind::Concat, {outer, inner}, {{"axis", std::int64_t{0}}});
    bytes = node.add(OpKind::Reshape, {pairs, shape}, {{"allowzero", std::int64_t{1}}});
  }
  return bytes;
}

std::int64_t take_bits(Translation& node) {
  const std::int64_t bits = node.take_integer("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8)
    node.unsupported(fmt::format("weights of {} bits; 2, 4 and 8 are supported", bits));
  return bits;
}

std::int64_t take_positive(Translation& node, std::string_view name) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  const std::int64_t value = node.take_integer(name, 0);
  if (value < 1 || value > kMost)
    node.invalid(fmt::format("attribute '{}' is {}, expected 1 to {}", name, value, kMost));
  return value;
}

std::int64_t blocks_of(std::int64_t count, std::int64_t size) { return (count - 1) / size + 1; }

}  // namespace

// A, B (N rows of blocks of bytes), scales, zero_points (packed like B, or floats), g_idx (the block of each
// row of the product's inner axis), bias: Y = A * transposed (B - zero_points) * scales + bias.
void matmul_n_bits(Translation& node) {
  const std::int64_t inner = take_positive(node, "K"), columns = take_positive(node, "N"),
                     bits = take_bits(node), block = take_positive(node, "block_size"),
                     blocks = blocks_of(inner, block);
  node.drop({"accuracy_level"});
  node.expect_integer("weight_prepacked", 0, 0);
  if (block * bits % 8 != 0)
    node.invalid(fmt::format("blocks of {} weights of {} bits are no whole bytes", block, bits));
  // Everything is computed in f32, so that 16-bit floats are rounded once.
  const auto as_f32 = [&](ValueId value) {
    return node.dtype(value) == DType::F32 ? value : node.add(OpKind::Cast, {value}, to(DType::F32));
  };
  const DType type = node.dtype(node.input(0));
  const ValueId a = as_f32(node.input(0));
  const bool permuted = node.has_input(4);
  // Scales and zero points [columns, blocks], beside the weights [columns, blocks, block] or [columns,
  // inner].
  const auto beside = [&](ValueId value) {
    if (permuted) return node.add(OpKind::Gather, {value, node.input(4)}, {{"axis", std::int64_t{1}}});
    return reshape(node, value, {columns, blocks, 1});
  };
  ValueId zero_points = node.scalar(DType::F32, static_cast<double>(1 << (bits - 1)));
  if (node.has_input(3)) {
    zero_points = node.input(3);
    if (node.dtype(zero_points) == DType::U8) {
      zero_points = unpacked(node, reshape(node, zero_points, {columns, blocks_of(blocks * bits, 8)}), bits);
      zero_points = first(node, zero_points, node.integers({blocks}));
    } else {
      zero_points = reshape(node, zero_points, {columns, blocks});
    }
    zero_points = as_f32(zero_points);
    zero_points = beside(zero_points);
  }
  ValueId w = unpacked(node, reshape(node, node.input(1), {columns, blocks, block * bits / 8}), bits);
  const auto as_matrix = [&] {
    w = reshape(node, w, {columns, blocks * block});
    if (blocks * block != inner) w = first(node, w, node.integers({inner}));
  };
  if (permuted) as_matrix();
  w = node.add(OpKind::Sub, {as_f32(w), zero_points});
  w = node.add(OpKind::Mul, {w, beside(reshape(node, as_f32(node.input(2)), {columns, blocks}))});
  if (!permuted) as_matrix();
  const ValueId transposed = node.add(OpKind::Transpose, {w}, {{"perm", std::vector<std::int64_t>{1, 0}}});
  ValueId y = node.add(OpKind::MatMul, {a, transposed});
  if (node.has_input(5)) y = node.add(OpKind::Add, {y, as_f32(node.input(5))});
  node.finish(OpKind::Cast, {y}, to(type));
}

// A, B (two weights a byte, the high one first), absmax: the scale of each block of the flattened weights,
// which are numbers in a table. Y = A * transposed weights.
void matmul_bnb4(Translation& node) {
  constexpr std::array<float, 16> kFp4 = {
      0.F,  0.005208333333F,  0.66666667F,  1.F,  0.33333333F,  0.5F,  0.16666667F,  0.25F,
      -0.F, -0.005208333333F, -0.66666667F, -1.F, -0.33333333F, -0.5F, -0.16666667F, -0.25F};
  constexpr std::array<float, 16> kNf4 = {-1.F,
                                          -0.6961928009986877F,
                                          -0.5250730514526367F,
                                          -0.39491748809814453F,
                                          -0.28444138169288635F,
                                          -0.18477343022823334F,
                                          -0.09105003625154495F,
                                          0.F,
                                          0.07958029955625534F,
                                          0.16093020141124725F,
                                          0.24611230194568634F,
                                          0.33791524171829224F,
                                          0.44070982933044434F,
                                          0.5626170039176941F,
                                          0.7229568362236023F,
                                          1.F};
  const std::int64_t inner = take_positive(node, "K"), columns = take_positive(node, "N"),
                     block = take_positive(node, "block_size"), kind = node.take_integer("quant_type", 0);
  node.expect_integer("transB", 1, 1);
  node.expect_integer("training_mode", 0, 0);
  if (kind != 0 && kind != 1)
    node.invalid(fmt::format("quant_type is {}, expected 0 (FP4) or 1 (NF4)", kind));
  const ValueId a = node.input(0);
  const DType type = node.dtype(a);
  const auto& values = kind == 0 ? kFp4 : kNf4;
  const ValueId table = node.numbers(type, {16}, std::vector<double>(values.begin(), values.end()));
  const std::int64_t count = inner * columns, blocks = blocks_of(count, block);
  const ValueId codes = unpacked(node, reshape(node, node.input(1), {blocks_of(count, 2)}), 4, true);
  ValueId w = node.add(OpKind::Gather, {table, node.add(OpKind::Cast, {codes}, to(DType::I32))},
                       {{"axis", std::int64_t{0}}});
  if (const std::int64_t missing = blocks * block - blocks_of(count, 2) * 2; missing > 0) {
    w = node.add(OpKind::Pad, {w, node.integers({0, missing})});
  } else if (missing < 0) {
    w = first(node, w, node.integers({count}));
  }
  w = node.add(OpKind::Mul, {reshape(node, w, {blocks, block}), reshape(node, node.input(2), {blocks, 1})});
  w = first(node, reshape(node, w, {blocks * block}), node.integers({count}));
  const ValueId transposed = node.add(OpKind::Transpose, {reshape(node, w, {columns, inner})},
                                      {{"perm", std::vector<std::int64_t>{1, 0}}});
  node.finish(OpKind::MatMul, {a, transposed});
}

// data, indices, scales, zero_points: rows are gathered as they are stored, then dequantised.
void gather_block_quantized(Translation& node) {
  constexpr std::int64_t kMostAxes = 6;
  if (node.awaits_rank(node.input(0), 1, kMostAxes)) return;
  const auto data_rank = node.rank(node.input(0));
  const auto axis = [&](std::string_view name, std::int64_t absent) {
    const std::int64_t given = node.take_integer(name, absent);
    if (given < -*data_rank || given >= *data_rank)
      node.invalid(fmt::format("{} is {} for data of rank {}", name, given, *data_rank));
    return given < 0 ? given + *data_rank : given;
  };
  const std::int64_t gathered = axis("gather_axis", 0), quantized = axis("quantize_axis", 1),
                     block = node.take_integer("block_size", 128), bits = take_bits(node);
  if (block < 1) node.invalid(fmt::format("block_size is {}, expected 1 or more", block));
  const DType stored = node.dtype(node.input(0));
  const bool packed = stored == DType::U8 && bits < 8;
  const ValueId scales = node.input(2);
  if (packed && (quantized != *data_rank - 1 || gathered == quantized)) {
    node.unsupported(
        "numbers packed in bytes must be quantised along the last axis and gathered along another");
  }
  ValueId indices = node.input(1);
  const auto gather = [&](ValueId value, ValueId at) {
    // The narrow types have no elements of their own to move.
    if (node.dtype(value) == DType::I4) value = node.add(OpKind::Cast, {value}, to(DType::I8));
    if (node.dtype(value) == DType::U4) value = node.add(OpKind::Cast, {value}, to(DType::U8));
    return node.add(OpKind::Gather, {value, at}, {{"axis", gathered}});
  };
  const auto numbers = [&](ValueId rows, ValueId count) {
    return packed ? first(node, unpacked(node, rows, bits), count) : rows;
  };
  // Without zero points bytes are centred, the 4-bit types are not.
  const auto centred = [&](ValueId x) {
    if (stored != DType::U8 || node.has_input(3)) return x;
    const std::int16_t middle = static_cast<std::int16_t>(1 << (bits - 1));
    const ValueId zero =
        node.graph.add_constant(Tensor::from(DType::I16, {}, std::span<const std::int16_t>(&middle, 1)));
    return node.add(OpKind::Sub, {node.add(OpKind::Cast, {x}, to(DType::I16)), zero});
  };
  if (gathered != quantized) {
    ValueId x = gather(node.input(0), indices), zero_points;
    if (packed) x = unpacked(node, x, bits);
    if (node.has_input(3)) zero_points = numbers(gather(node.input(3), indices), last_extent(node, scales));
    // What lies behind the gathered axis keeps its place from the back.
    const std::int64_t moved = quantized < gathered ? quantized : quantized - *data_rank;
    return node.finish(OpKind::DequantizeLinear, {centred(x), gather(scales, indices), zero_points},
                       {{"axis", moved}, {"block_size", block}});
  }
  // Along the quantised axis each index has the scale of its block.
  const ValueId extent =
      node.add(OpKind::Gather, {node.add(OpKind::Shape, {node.input(0)}), node.integer(gathered)},
               {{"axis", std::int64_t{0}}});
  indices = node.add(OpKind::Cast, {indices}, to(DType::I64));
  const ValueId from_back = node.add(OpKind::Less, {indices, node.integer(0)});
  indices = node.add(OpKind::Where, {from_back, node.add(OpKind::Add, {indices, extent}), indices});
  const ValueId places = node.add(OpKind::Div, {indices, node.integer(block)});
  const DType type = node.dtype(scales);
  ValueId x = node.add(OpKind::Cast, {centred(gather(node.input(0), indices))}, to(type));
  if (node.has_input(3)) {
    x = node.add(OpKind::Sub, {x, node.add(OpKind::Cast, {gather(node.input(3), places)}, to(type))});
  }
  node.finish(OpKind::Mul, {x, gather(scales, places)});
}

}  // namespace kiln::frontend::translate
