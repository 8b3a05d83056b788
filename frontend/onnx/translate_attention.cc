// Translators: attention, rotary embeddings and causal convolution. Attention becomes two matrix products
// round a Softmax, for any lengths; f16 and bf16 are computed in f32 and rounded once.
#include <cmath>
#include <limits>
#include <optional>

#include "frontend/onnx/shape_nodes.h"
#include "frontend/onnx/tensor_reader.h"
#include "frontend/onnx/translators.h"
#include "ir/base/errors.h"

namespace kiln::frontend::translate {
namespace {

std::int64_t take_heads(Translation& node, std::string_view attribute) {
  const std::int64_t heads = node.take_integer(attribute, 0);
  if (heads <= 0)
    node.invalid(fmt::format("attribute '{}' is {}, expected a positive number", attribute, heads));
  return heads;
}

// [batch, length, heads * size] -> [batch, length, heads, size], where `size` is a vector of one.
ValueId with_heads_of(Translation& node, ValueId x, ValueId size) {
  x = with_rank(node, x, 3);
  const ValueId heads = node.add(OpKind::Div, {extent(node, x, 2), size});
  return reshaped(node, x, {extent(node, x, 0), extent(node, x, 1), heads, size});
}

ValueId with_heads(Translation& node, ValueId x, std::int64_t heads) {
  x = with_rank(node, x, 3);
  return reshaped(node, x,
                  {extent(node, x, 0), extent(node, x, 1), node.integers({heads}),
                   quotient(node, extent(node, x, 2), heads)});
}

// Swaps heads and positions, the second and third axis of four.
ValueId heads_first(Translation& node, ValueId x) { return transposed(node, x, {0, 2, 1, 3}); }

// [batch, heads, length, size] -> [batch, length, heads * size]
ValueId without_heads(Translation& node, ValueId x) {
  const ValueId columns = node.add(OpKind::Mul, {extent(node, x, 1), extent(node, x, 3)});
  return reshaped(node, heads_first(node, x), {extent(node, x, 0), extent(node, x, 2), columns});
}

// What an attention works on: [batch, heads, length, size] each, and what is added to the scores.
struct Attention {
  ValueId q, k, v;
  std::vector<ValueId> biases;
  std::optional<double> scale;  // absent: 1 / sqrt(size of the heads)
};

struct Attended {
  ValueId scores, probabilities, y;  // y is [batch, heads, length, size]; scores are those before Softmax
};

ValueId scale_of(Translation& node, const Attention& attention, DType type) {
  if (attention.scale) return node.scalar(type, *attention.scale);
  const auto& shape = node.graph.value(attention.q).shape;
  if (shape && shape->size() == 4 && (*shape)[3].is_constant()) {
    return node.scalar(type, 1 / std::sqrt(static_cast<double>((*shape)[3].constant())));
  }
  const ValueId size = cast(node, extent(node, attention.q, 3), type);
  return node.add(OpKind::Reciprocal, {node.add(OpKind::Sqrt, {size})});
}

Attended attend(Translation& node, const Attention& attention) {
  const DType type = node.dtype(attention.q), wide = wide_dtype(type);
  const ValueId q = cast(node, attention.q, wide), k = cast(node, attention.k, wide);
  Attended result;
  result.scores = node.add(OpKind::MatMul, {q, transposed(node, k, {0, 1, 3, 2})});
  result.scores = node.add(OpKind::Mul, {result.scores, scale_of(node, attention, wide)});
  for (const ValueId bias : attention.biases)
    result.scores = sum(node, result.scores, cast(node, bias, wide));
  result.probabilities = node.add(OpKind::Softmax, {result.scores}, {{"axis", std::int64_t{3}}});
  result.y = node.add(OpKind::MatMul, {result.probabilities, cast(node, attention.v, wide)});
  result.y = cast(node, result.y, type);
  return result;
}

// The lengths that masks speak of, as vectors of one.
struct Lengths {
  ValueId batch, queries, past, total;
};

ValueId zero_where(Translation& node, ValueId condition, double otherwise) {
  return node.add(OpKind::Where, {condition, node.scalar(DType::F32, 0), node.scalar(DType::F32, otherwise)});
}

// What a mask of i32 adds: `filter` to keys that it leaves out. It is the end of each sequence, or ends then
// starts; [batch, keys]; [batch, queries, keys]; or a square that holds all queries and keys at [batch, 1].
ValueId mask_bias(Translation& node, ValueId mask, const Lengths& lengths, double filter) {
  const auto rank = node.rank(mask);
  require(rank.has_value(), "a mask of unknown rank is translated");
  if (*rank == 1) {
    const auto column = [&](ValueId from, ValueId to, ValueId list) {
      return unsqueezed(node, cast(node, sliced(node, list, from, to, 0), DType::I64), {1});
    };
    // Without starts, zeros stand in for them.
    const ValueId zeros =
        node.add(OpKind::ConstantOfShape, {lengths.batch}, {{"value", Tensor(node.dtype(mask), {1})}});
    const ValueId padded = joined(node, {mask, zeros}, 0);
    const ValueId end = column(node.integers({0}), lengths.batch, padded);
    const ValueId start = column(lengths.batch, sum(node, lengths.batch, lengths.batch), padded);
    const ValueId key = positions(node, lengths.total);
    const ValueId taken = node.add(
        OpKind::And, {node.add(OpKind::Less, {key, end}), node.add(OpKind::GreaterOrEqual, {key, start})});
    return unsqueezed(node, zero_where(node, taken, filter), {1, 2});
  }
  if (*rank == 4) {
    mask = sliced(node, mask, lengths.past, sum(node, lengths.past, lengths.queries), 2);
    mask = sliced(node, mask, node.integers({0}), lengths.total, 3);
  }
  const ValueId zero = cast(node, node.integers({0}), node.dtype(mask));
  const ValueId bias = zero_where(node, node.add(OpKind::Greater, {mask, zero}), filter);
  if (*rank == 2) return unsqueezed(node, bias, {1, 2});
  return *rank == 3 ? unsqueezed(node, bias, {1}) : bias;
}

// Leaves out the keys that come after each query, by the least number and not by the filter of a mask: so
// these weigh nothing even where a mask filters all keys before them.
ValueId causal_bias(Translation& node, const Lengths& lengths) {
  const ValueId query = sum(node, positions(node, lengths.queries), lengths.past);
  const ValueId taken =
      node.add(OpKind::LessOrEqual, {positions(node, lengths.total), unsqueezed(node, query, {1})});
  return zero_where(node, taken, std::numeric_limits<float>::lowest());
}

// Keys or values of the past before those of now. The past may be a buffer of which only the first
// `past_length` positions count.
ValueId with_past(Translation& node, ValueId past, ValueId now, ValueId past_length) {
  if (!past) return now;
  past = with_rank(node, past, 4);
  if (past_length) past = sliced(node, past, node.integers({0}), past_length, 2);
  return joined(node, {past, now}, 2);
}

// The present state: what with_past() gave, followed by the rest of a buffer.
void finish_present(Translation& node, std::size_t output, ValueId present, ValueId past,
                    ValueId past_length) {
  if (!node.wants(output)) return;
  if (!past || !past_length) return node.finish_output(output, OpKind::Identity, {present});
  node.finish_output(output, OpKind::Concat, {present, sliced(node, past, extent(node, present, 2), {}, 2)},
                     {{"axis", std::int64_t{2}}});
}

struct MultiHead {
  ValueId query, key, value, bias, mask, attention_bias, past_key, past_value, past_length;
};

// query, key and value in one of their forms -> the heads of each, [batch, heads, length, size].
Attention multi_head_operands(Translation& node, const MultiHead& in, std::int64_t heads) {
  // The bias of operand `index` where all three are of one size, as [heads, size].
  const auto third = [&](std::int64_t index) {
    const std::vector<ValueId> parts = node.add_many(
        OpKind::Split, {in.bias}, {{"axis", std::int64_t{0}}, {"num_outputs", std::int64_t{3}}}, 3);
    const ValueId part = parts[static_cast<std::size_t>(index)];
    return reshaped(node, part, {node.integers({heads}), quotient(node, extent(node, part, 0), heads)});
  };
  // Operand `index` of those that are packed as [batch, length, heads, operands, size].
  const auto unpacked = [&](ValueId packed, std::int64_t index, std::int64_t bias_index) {
    const ValueId at = node.integer(index);
    ValueId x = node.add(OpKind::Gather, {with_rank(node, packed, 5), at}, {{"axis", std::int64_t{3}}});
    if (in.bias) x = sum(node, x, third(bias_index));
    return heads_first(node, x);
  };
  if (!in.key) {
    if (in.value) node.invalid("value is given without key");
    return {unpacked(in.query, 0, 0), unpacked(in.query, 1, 1), unpacked(in.query, 2, 2), {}, {}};
  }
  // A bias for the query, then the key, then the value, which may be of another size.
  ValueId start = node.integers({0});
  const auto biased = [&](ValueId x) {
    x = with_rank(node, x, 3);
    if (in.bias) {
      const ValueId end = sum(node, start, extent(node, x, 2));
      x = sum(node, x, sliced(node, in.bias, start, end, 0));
      start = end;
    }
    return heads_first(node, with_heads(node, x, heads));
  };
  if (!in.value) return {biased(in.query), unpacked(in.key, 0, 1), unpacked(in.key, 1, 2), {}, {}};
  if (node.rank(in.key) == 4) {
    return {biased(in.query), in.key, with_rank(node, in.value, 4), {}, {}};  // projected and biased before
  }
  const ValueId q = biased(in.query), k = biased(in.key);
  return {q, k, biased(in.value), {}, {}};
}

// -> output, present_key, present_value, scores
void finish_multi_head(Translation& node, const MultiHead& in) {
  if (node.awaits_rank(in.mask, 1, 4) || (in.value && node.awaits_rank(in.key, 3, 4))) return;
  const std::int64_t heads = take_heads(node, "num_heads");
  const double filter = node.take_number("mask_filter_value", -10000);
  const bool causal = node.take_integer("unidirectional", 0) != 0;
  Attention attention = multi_head_operands(node, in, heads);
  attention.scale = node.take_number("scale");
  if (attention.scale == 0.0) attention.scale.reset();
  attention.k = with_past(node, in.past_key, attention.k, in.past_length);
  attention.v = with_past(node, in.past_value, attention.v, in.past_length);
  const ValueId past = !in.past_key     ? node.integers({0})
                       : in.past_length ? in.past_length
                                        : extent(node, in.past_key, 2);
  const Lengths lengths = {extent(node, attention.q, 0), extent(node, attention.q, 2), past,
                           extent(node, attention.k, 2)};
  if (in.mask) attention.biases.push_back(mask_bias(node, in.mask, lengths, filter));
  if (causal) attention.biases.push_back(causal_bias(node, lengths));
  if (in.attention_bias) attention.biases.push_back(in.attention_bias);
  const Attended attended = attend(node, attention);
  node.finish_output(0, OpKind::Identity, {without_heads(node, attended.y)});
  finish_present(node, 1, attention.k, in.past_key, in.past_length);
  finish_present(node, 2, attention.v, in.past_value, in.past_length);
  if (node.wants(3)) {
    node.finish_output(3, OpKind::Cast, {attended.scores}, to(node.dtype(attention.q)));
  }
}

// A length that is given as a tensor of one element, as a vector of i64.
ValueId length_vector(Translation& node, ValueId length) {
  if (!length) return length;
  return node.add(OpKind::Reshape, {cast(node, length, DType::I64), node.integers({1})});
}

}  // namespace

void multi_head_attention(Translation& node) {
  if (node.has_input(9)) node.unsupported("its input cache_indirection is not supported");
  finish_multi_head(node, {.query = node.input(0),
                           .key = node.optional_input(1),
                           .value = node.optional_input(2),
                           .bias = node.optional_input(3),
                           .mask = node.optional_input(4),
                           .attention_bias = node.optional_input(5),
                           .past_key = node.optional_input(6),
                           .past_value = node.optional_input(7),
                           .past_length = length_vector(node, node.optional_input(8))});
}

void decoder_masked_multi_head_attention(Translation& node) {
  if (node.has_input(9)) node.unsupported("its input cache_indirection is not supported");
  node.drop({"output_qk"});
  const bool buffer = node.take_integer("past_present_share_buffer", 0) != 0;
  finish_multi_head(node,
                    {.query = node.input(0),
                     .key = node.optional_input(1),
                     .value = node.optional_input(2),
                     .bias = node.optional_input(10),
                     .mask = node.optional_input(3),
                     .attention_bias = node.optional_input(4),
                     .past_key = node.optional_input(5),
                     .past_value = node.optional_input(6),
                     .past_length = buffer ? length_vector(node, node.optional_input(7)) : ValueId::none()});
}

namespace {

bool same_heads(const Translation& node, ValueId a, ValueId b) {
  return (*node.graph.value(a).shape)[1] == (*node.graph.value(b).shape)[1];
}

// `left`, [batch, heads, length, n], times `right`, [batch, fewer heads, n, m], of which each head serves as
// many heads of `left` in turn.
ValueId grouped_product(Translation& node, ValueId left, ValueId right) {
  if (same_heads(node, left, right)) return node.add(OpKind::MatMul, {left, right});
  const ValueId batch = extent(node, left, 0), heads = extent(node, left, 1), length = extent(node, left, 2);
  const ValueId groups = extent(node, right, 1), group = node.add(OpKind::Div, {heads, groups});
  const ValueId grouped = reshaped(node, left, {batch, groups, group, length, extent(node, left, 3)});
  const ValueId product = node.add(OpKind::MatMul, {grouped, unsqueezed(node, right, {2})});
  return reshaped(node, product, {batch, heads, length, extent(node, right, 3)});
}

// What the graph in an attribute makes of a value of four axes: one of the same type and shape.
ValueId modified(Translation& node, ValueId value, std::string_view attribute) {
  if (!node.bodies->has(attribute)) return value;
  const std::vector<ValueId> results = node.bodies->inline_body(attribute, std::span(&value, 1));
  if (results.size() != 1 || !results[0]) {
    node.invalid(fmt::format("the graph '{}' has {} outputs, expected 1", attribute, results.size()));
  }
  if (const DType got = node.dtype(results[0]), want = node.dtype(value); got != want) {
    node.invalid(fmt::format("the graph '{}' gives {}, expected {}", attribute, name(got), name(want)));
  }
  return with_rank(node, results[0], 4);
}

}  // namespace

// Q, K, V, [batch, heads, length, size]. Scores and probabilities are of the type softmax_precision.
void flex_attention(Translation& node) {
  const DType type = node.dtype(node.input(0)), wide = wide_dtype(type);
  DType precision = wide;
  if (const auto number = node.take_integer("softmax_precision")) {
    precision = require_dtype(static_cast<std::int32_t>(*number), "attribute 'softmax_precision'");
    if (!is_float(precision)) {
      node.invalid(fmt::format("attribute 'softmax_precision' is {}, expected a floating-point type",
                               name(precision)));
    }
  }
  const auto operand = [&](std::size_t index) { return with_rank(node, node.input(index), 4); };
  const Attention attention = {operand(0), operand(1), operand(2), {}, node.take_number("scale")};
  const ValueId keys = transposed(node, cast(node, attention.k, wide), {0, 1, 3, 2});
  ValueId scores = grouped_product(node, cast(node, attention.q, wide), keys);
  scores = node.add(OpKind::Mul, {scores, scale_of(node, attention, wide)});
  scores = modified(node, cast(node, scores, precision), "score_mod");
  ValueId probabilities = node.add(OpKind::Softmax, {scores}, {{"axis", std::int64_t{3}}});
  probabilities = modified(node, probabilities, "prob_mod");
  const ValueId y = grouped_product(node, probabilities, cast(node, attention.v, precision));
  node.finish_with({cast(node, y, type)});
}

namespace {

// Cosines and sines, [length, dimension / 2], of the angles 10000^(-2i / dimension) * position. `dimension`
// is a vector of one.
std::pair<ValueId, ValueId> angles(Translation& node, ValueId at, ValueId dimension) {
  const auto wide = [&](ValueId value) { return cast(node, value, DType::F64); };
  const ValueId pair =
      node.add(OpKind::Div, {wide(positions(node, quotient(node, dimension, 2))), wide(dimension)});
  const ValueId exponent = node.add(OpKind::Mul, {pair, node.scalar(DType::F64, -2)});
  const ValueId frequency = node.add(OpKind::Pow, {node.scalar(DType::F64, 10000), exponent});
  const ValueId angle = node.add(
      OpKind::Mul, {unsqueezed(node, cast(node, at, DType::F32), {1}), cast(node, frequency, DType::F32)});
  return {node.add(OpKind::Cos, {angle}), node.add(OpKind::Sin, {angle})};
}

struct Rotation {
  ValueId cosines, sines;  // broadcast against [.., .., .., half of the rotated elements]
  std::int64_t dimension;  // elements of each head that are rotated; 0: all
  bool interleaved;        // pairs are neighbours, not half the dimension apart
};

// x has four axes, of which the last are the elements of a head.
ValueId rotated(Translation& node, ValueId x, const Rotation& rotation) {
  const DType type = node.dtype(x), wide = wide_dtype(type);
  const ValueId none, zero = node.integers({0});
  ValueId turning = cast(node, x, wide), rest;
  const auto& shape = node.graph.value(x).shape;
  const bool whole = rotation.dimension == 0 || (shape && shape->back() == graph::Dim(rotation.dimension));
  if (whole && shape && shape->back().is_constant() && shape->back().constant() % 2 != 0) {
    node.invalid(fmt::format("heads of {} elements have no pairs to rotate", shape->back().constant()));
  }
  const ValueId dimension = whole ? extent(node, x, 3) : node.integers({rotation.dimension});
  if (!whole) {
    rest = sliced(node, x, dimension, none, 3);
    turning = sliced(node, turning, zero, dimension, 3);
  }
  const ValueId half = quotient(node, dimension, 2);
  ValueId a, b;
  if (rotation.interleaved) {
    const auto every_second = [&](std::int64_t from) {
      return node.add(OpKind::Slice,
                      {turning, node.integers({from}), dimension, node.integers({3}), node.integers({2})});
    };
    a = every_second(0);
    b = every_second(1);
  } else {
    a = sliced(node, turning, zero, half, 3);
    b = sliced(node, turning, half, none, 3);
  }
  const auto cached = [&](ValueId cache) { return sliced(node, cast(node, cache, wide), zero, half, 3); };
  const ValueId cosines = cached(rotation.cosines), sines = cached(rotation.sines);
  const auto product = [&](ValueId p, ValueId q) { return node.add(OpKind::Mul, {p, q}); };
  ValueId real = node.add(OpKind::Sub, {product(a, cosines), product(b, sines)});
  ValueId imaginary = node.add(OpKind::Add, {product(a, sines), product(b, cosines)});
  real = cast(node, real, type);
  imaginary = cast(node, imaginary, type);
  std::vector<ValueId> parts = {real, imaginary};
  if (rotation.interleaved) {
    const ValueId pairs = joined(node, {unsqueezed(node, real, {4}), unsqueezed(node, imaginary, {4})}, 4);
    parts = {reshaped(node, pairs, {node.add(OpKind::Shape, {turning})})};
  }
  if (rest) parts.push_back(rest);
  return joined(node, std::move(parts), 3);
}

// Caches that already are [batch, length, half], applied to X, [batch, heads, length, size] or, `flat`,
// [batch, length, heads * size]. Without `heads` these are as wide as the caches say.
void finish_rotary(Translation& node, ValueId x, bool flat, ValueId cosines, ValueId sines,
                   std::int64_t heads) {
  const std::int64_t dimension = node.take_integer("rotary_embedding_dim", 0);
  if (dimension < 0 || dimension % 2 != 0) {
    node.invalid(fmt::format("rotary_embedding_dim is {}, expected an even number", dimension));
  }
  const bool interleaved = node.take_integer("interleaved", 0) != 0;
  const std::int64_t axis = flat ? 2 : 1;  // of the heads
  const Rotation rotation = {unsqueezed(node, cosines, {axis}), unsqueezed(node, sines, {axis}), dimension,
                             interleaved};
  if (!flat) return node.finish_with({rotated(node, with_rank(node, x, 4), rotation)});
  const ValueId half = extent(node, cosines, 2);
  const ValueId apart =
      heads > 0 ? with_heads(node, x, heads) : with_heads_of(node, x, sum(node, half, half));
  node.finish(OpKind::Reshape, {rotated(node, apart, rotation), node.add(OpKind::Shape, {x})},
              {{"allowzero", std::int64_t{1}}});
}

// Whether X, whose rank is known, has its heads in its last axis.
bool has_flat_heads(const Translation& node, ValueId x, std::int64_t heads) {
  if (heads < 0) node.invalid(fmt::format("attribute 'num_heads' is {}", heads));
  return node.rank(x) == 3;
}

}  // namespace

// In version 23 a mask of one key broadcasts to all; later ones leave out the keys that it does not reach.
void attention_23(Translation& node) {
  const ValueId mask = node.optional_input(3), key = node.input(1);
  const auto& shape = mask ? node.graph.value(mask).shape : std::nullopt;
  const bool one_per_key = shape && !shape->empty() && shape->back().is_at_least(2);
  if (mask && !one_per_key) {
    ValueId keys = extent(node, key, -2);
    if (node.has_input(4)) keys = sum(node, keys, extent(node, node.input(4), 2));
    node.inputs[3] =
        node.add(OpKind::Expand, {mask, joined(node, {extents_between(node, mask, 0, -1), keys}, 0)});
  }
  node.finish(OpKind::Attention, node.inputs);
}

// X, cos_cache, sin_cache, position_ids
void rotary_embedding(Translation& node) {
  if (node.awaits_rank(node.input(0), 3, 4)) return;
  const auto cached = [&](std::size_t index) {
    if (!node.has_input(3)) return with_rank(node, node.input(index), 3);
    return node.add(OpKind::Gather,
                    {with_rank(node, node.input(index), 2), with_rank(node, node.input(3), 2)});
  };
  const std::int64_t heads = node.take_integer("num_heads", 0);
  const bool flat = has_flat_heads(node, node.input(0), heads);
  if (flat && heads == 0) node.invalid("X has rank 3, so that attribute 'num_heads' is needed");
  finish_rotary(node, node.input(0), flat, cached(1), cached(2), heads);
}

// input, position_ids (of each position, or of the first), cos_cache, sin_cache
void rotary_embedding_microsoft(Translation& node) {
  node.expect_integer("is_packed_batching", 0, 0);
  if (const double scale = node.take_number("scale", 1); scale != 1) {
    node.unsupported(fmt::format("attribute 'scale' is {}, only 1 is supported", scale));
  }
  const ValueId x = node.input(0);
  if (node.awaits_rank(x, 3, 4) || node.awaits_rank(node.input(1), 1, 2)) return;
  const std::int64_t heads = node.take_integer("num_heads", 0);
  const bool flat = has_flat_heads(node, x, heads);
  ValueId ids = node.input(1);
  if (node.rank(ids) == 1) {
    ids = unsqueezed(node, sum(node, positions(node, extent(node, x, flat ? 1 : 2)), ids), {0});
  }
  const auto cached = [&](std::size_t index) {
    return node.add(OpKind::Gather, {with_rank(node, node.input(index), 2), ids});
  };
  finish_rotary(node, x, flat, cached(2), cached(3), heads);
}

namespace {

struct SelfAttention {
  ValueId projected;  // [batch, length, q then k then v]
  ValueId mask, past, attention_bias;
};

// -> output, present. The past and the present are [2, batch, heads, length, size].
void finish_self_attention(Translation& node, const SelfAttention& in) {
  const std::int64_t heads = take_heads(node, "num_heads");
  const double filter = node.take_number("mask_filter_value", -10000);
  const bool causal = node.take_integer("unidirectional", 0) != 0;
  const bool rotary = node.take_integer("do_rotary", 0) != 0;
  const std::int64_t rotary_dimension = node.take_integer("rotary_embedding_dim", 0);
  node.expect_integer("past_present_share_buffer", 0, 0);
  std::vector<ValueId> split = {in.projected};
  Attributes split_attributes = {{"axis", std::int64_t{2}}};
  if (const auto sizes = node.take_integers("qkv_hidden_sizes"); sizes && !sizes->empty()) {
    if (sizes->size() != 3) node.invalid("attribute 'qkv_hidden_sizes' has not three sizes");
    split.push_back(node.integers(*sizes));
  } else {
    split_attributes["num_outputs"] = std::int64_t{3};
  }
  const std::vector<ValueId> parts = node.add_many(OpKind::Split, split, split_attributes, 3);
  const auto operand = [&](std::size_t i) { return heads_first(node, with_heads(node, parts[i], heads)); };
  Attention attention = {operand(0), operand(1), operand(2), {}, node.take_number("scale")};
  if (attention.scale == 0.0) attention.scale.reset();
  ValueId past_length = node.integers({0});
  const ValueId past = in.past ? with_rank(node, in.past, 5) : in.past;
  if (past) past_length = extent(node, past, 3);
  if (rotary) {
    const ValueId at = sum(node, positions(node, extent(node, attention.q, 2)), past_length);
    const ValueId dimension =
        rotary_dimension != 0 ? node.integers({rotary_dimension}) : extent(node, attention.q, 3);
    const auto [cosines, sines] = angles(node, at, dimension);
    const Rotation rotation = {unsqueezed(node, cosines, {0, 1}), unsqueezed(node, sines, {0, 1}),
                               rotary_dimension, false};
    attention.q = rotated(node, attention.q, rotation);
    attention.k = rotated(node, attention.k, rotation);
  }
  if (past) {
    const auto half = [&](std::int64_t index) {
      const ValueId at = node.integer(index);
      return node.add(OpKind::Gather, {past, at}, {{"axis", std::int64_t{0}}});
    };
    attention.k = with_past(node, half(0), attention.k, {});
    attention.v = with_past(node, half(1), attention.v, {});
  }
  const Lengths lengths = {extent(node, attention.q, 0), extent(node, attention.q, 2), past_length,
                           extent(node, attention.k, 2)};
  if (in.mask) attention.biases.push_back(mask_bias(node, in.mask, lengths, filter));
  if (causal) attention.biases.push_back(causal_bias(node, lengths));
  if (in.attention_bias) attention.biases.push_back(in.attention_bias);
  node.finish_output(0, OpKind::Identity, {without_heads(node, attend(node, attention).y)});
  if (node.wants(1)) {
    node.finish_output(1, OpKind::Concat,
                       {unsqueezed(node, attention.k, {0}), unsqueezed(node, attention.v, {0})},
                       {{"axis", std::int64_t{0}}});
  }
}

}  // namespace

// input, weights, bias, mask_index, past, attention_bias, past_sequence_length
void attention_microsoft(Translation& node) {
  if (node.has_input(6)) node.unsupported("its input past_sequence_length is not supported");
  if (node.awaits_rank(node.optional_input(3), 1, 4)) return;
  ValueId projected = node.add(OpKind::MatMul, {with_rank(node, node.input(0), 3), node.input(1)});
  if (node.has_input(2)) projected = sum(node, projected, node.input(2));
  finish_self_attention(node,
                        {projected, node.optional_input(3), node.optional_input(4), node.optional_input(5)});
}

// input, weight, bias, input_scale, weight_scale, mask_index, input_zero_point, weight_zero_point, past
void qattention(Translation& node) {
  if (node.awaits_rank(node.optional_input(5), 1, 4)) return;
  const ValueId exact = node.add(OpKind::MatMulInteger, {with_rank(node, node.input(0), 3), node.input(1),
                                                         node.optional_input(6), node.optional_input(7)});
  const ValueId scale = node.add(OpKind::Mul, {node.input(3), node.input(4)});
  const ValueId product = node.add(OpKind::Mul, {cast(node, exact, node.dtype(node.input(3))), scale});
  finish_self_attention(
      node, {sum(node, product, node.input(2)), node.optional_input(5), node.optional_input(8), {}});
}

// The norms' weights follow the scales of quantised caches, which are not supported.
void group_query_attention(Translation& node) {
  for (const std::string_view name : {"k_quant_type", "v_quant_type"}) {
    if (const std::string type = node.take_text(name, "NONE"); type != "NONE") {
      node.unsupported(fmt::format("attribute '{}' is '{}', only 'NONE' is supported", name, type));
    }
  }
  if (node.has_input(12) || node.has_input(13)) node.unsupported("quantised caches are not supported");
  node.drop({"kv_cache_bit_width"});
  node.expect_integer("sliding_window_cache", 0, 0);
  const auto smooth = node.attributes.find("smooth_softmax");
  if (smooth != node.attributes.end() && smooth->second == Attribute(std::int64_t{-1}))
    node.drop({"smooth_softmax"});
  std::vector<ValueId> operands;
  for (std::size_t i = 0; i < 12; ++i) operands.push_back(node.optional_input(i));
  operands.push_back(node.optional_input(14));
  operands.push_back(node.optional_input(15));
  node.finish(OpKind::GroupQueryAttention, std::move(operands));
}

void linear_attention_microsoft(Translation& node) {
  node.expect_integer("state_window", 0, 0);
  node.finish(OpKind::LinearAttention, node.inputs);
}

// A convolution of each channel with the state before its input: the last elements of the call before.
void causal_conv_with_state(Translation& node) {
  node.expect_integer("ndim", 1, 1);
  node.expect_integer("state_window", 0, 0);
  const std::string activation = node.take_text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish") {
    node.invalid(fmt::format("activation is '{}', expected 'none', 'silu' or 'swish'", activation));
  }
  const ValueId x = with_rank(node, node.input(0), 3), weight = with_rank(node, node.input(1), 3);
  const ValueId taps = extent(node, weight, 2);
  ValueId state = node.optional_input(3);
  if (!state) {
    const ValueId before = node.add(OpKind::Sub, {taps, node.integers({1})});
    state =
        node.add(OpKind::ConstantOfShape, {joined(node, {extent(node, x, 0), extent(node, x, 1), before}, 0)},
                 {{"value", Tensor(node.dtype(x), {1})}});
  }
  const ValueId padded = joined(node, {state, x}, 2);
  const auto channels = [&]() -> std::optional<std::int64_t> {
    for (const auto& [value, axis] : {std::pair(weight, 0), std::pair(x, 1)}) {
      const auto& extent = (*node.graph.value(value).shape)[static_cast<std::size_t>(axis)];
      if (extent.is_constant()) return extent.constant();
    }
    return std::nullopt;
  }();
  ValueId y;
  if (channels) {
    y = node.add(OpKind::Conv, {padded, weight, node.optional_input(2)}, {{"group", *channels}});
  } else {
    // For each output its window, times the channel's weights.
    const ValueId starts = unsqueezed(node, positions(node, extent(node, x, 2)), {1});
    const ValueId windows = node.add(OpKind::Gather, {padded, sum(node, starts, positions(node, taps))},
                                     {{"axis", std::int64_t{2}}});
    const DType type = node.dtype(x), wide = wide_dtype(type);
    const ValueId column = transposed(node, cast(node, weight, wide), {0, 2, 1});
    y = node.add(OpKind::Squeeze,
                 {node.add(OpKind::MatMul, {cast(node, windows, wide), column}), node.integers({3})});
    if (node.has_input(2)) y = sum(node, y, unsqueezed(node, cast(node, node.input(2), wide), {1}));
    y = cast(node, y, type);
  }
  if (activation == "none") {
    node.finish_output(0, OpKind::Identity, {y});
  } else {
    node.finish_output(0, OpKind::Swish, {y}, {{"alpha", 1.0}});
  }
  node.finish_output(1, OpKind::Identity, {sliced(node, padded, extent(node, x, 2), {}, 2)});
}

}  // namespace kiln::frontend::translate
