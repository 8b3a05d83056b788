// Translators: what stands round attention in optimised transformers and diffusion models.
#include <cmath>

#include "frontend/onnx/along_axis.h"
#include "frontend/onnx/shape_nodes.h"
#include "frontend/onnx/translators.h"
#include "ir/base/errors.h"

namespace kiln::frontend::translate {
namespace {

ValueId product(Translation& node, ValueId a, ValueId b) { return node.add(OpKind::Mul, {a, b}); }

ValueId scalar_like(Translation& node, ValueId value, double number) {
  return node.scalar(node.dtype(value), number);
}

// 1 / sqrt(mean of squares + epsilon) over the axes from `axis` on, in f32, as output `index`.
void finish_inverse_rms(Translation& node, std::size_t index, ValueId x, std::int64_t axis, double epsilon) {
  if (!node.wants(index)) return;
  ValueId axes = node.integers({axis});
  if (axis != -1) {
    const ValueId end = axis < 0 ? node.integer(0) : only_element(node, rank_of(node, x));
    axes = node.add(OpKind::Range, {node.integer(axis), end, node.integer(1)});
  }
  const ValueId wide = cast(node, x, wide_dtype(node.dtype(x)));
  const ValueId mean = node.add(OpKind::ReduceMean, {product(node, wide, wide), axes});
  const ValueId deviation = node.add(OpKind::Sqrt, {sum(node, mean, scalar_like(node, mean, epsilon))});
  node.finish_output(index, OpKind::Cast, {node.add(OpKind::Reciprocal, {deviation})}, to(DType::F32));
}

// Output 0 and, where they are wanted, mean and inverse deviation as outputs 1 and 2.
void finish_layer_norm(Translation& node, std::vector<ValueId> operands, const Attributes& attributes) {
  node.results.resize(std::max(node.results.size(), node.outputs.size()));
  const std::size_t count = std::min<std::size_t>(3, node.outputs.size());
  const graph::NodeId made = node.graph.add_node(OpKind::LayerNormalization, std::move(operands), attributes,
                                                 node.node, std::span(node.outputs).first(count));
  for (std::size_t i = 0; i < count; ++i) node.results[i] = node.graph.node(made).outputs[i];
}

}  // namespace

// X, scale -> Y, inv_std_var
void simplified_layer_normalization(Translation& node) {
  const ValueId x = node.input(0);
  const auto axis = node.attributes.find("axis");
  const auto* given = axis == node.attributes.end() ? nullptr : std::get_if<std::int64_t>(&axis->second);
  const double epsilon = node.take_number("epsilon", 1e-5);
  finish_inverse_rms(node, 1, x, given == nullptr ? -1 : *given, epsilon);
  node.attributes["epsilon"] = epsilon;
  node.finish_output(0, OpKind::RMSNormalization, {x, node.input(1)}, std::move(node.attributes));
}

// input, skip, gamma, beta (not in the simplified form), bias -> output, mean, inv_std_var, the sum
void skip_layer_normalization(Translation& node) {
  const bool simplified = node.op == "SkipSimplifiedLayerNormalization";
  const ValueId beta = simplified ? ValueId::none() : node.optional_input(3);
  const ValueId bias = node.optional_input(simplified ? 3 : 4);
  const auto add = [&](std::size_t output, ValueId a, ValueId b) {
    if (!node.wants(output)) return sum(node, a, b);
    node.finish_output(output, OpKind::Add, {a, b});
    return node.results[output];
  };
  constexpr std::size_t kNone = SIZE_MAX, kSum = 3;
  ValueId total = add(bias ? kNone : kSum, node.input(0), node.input(1));
  if (bias) total = add(kSum, total, bias);
  const double epsilon = node.take_number("epsilon", 1e-12);
  if (!simplified) return finish_layer_norm(node, {total, node.input(2), beta}, {{"epsilon", epsilon}});
  if (node.wants(1)) node.unsupported("it has no mean");
  finish_inverse_rms(node, 2, total, -1, epsilon);
  node.finish_output(0, OpKind::RMSNormalization, {total, node.input(2)}, {{"epsilon", epsilon}});
}

// input_ids, segment_ids, word, position and segment embeddings, gamma, beta, mask, position_ids -> output,
// number of ones in each row of the mask, sum of the embeddings
void embed_layer_normalization(Translation& node) {
  node.drop({"mask_index_type"});
  const ValueId ids = with_rank(node, node.input(0), 2);
  const ValueId word = node.add(OpKind::Gather, {node.input(2), ids});
  const ValueId position = node.has_input(8) ? node.add(OpKind::Gather, {node.input(3), node.input(8)})
                                             : sliced(node, with_rank(node, node.input(3), 2),
                                                      node.integers({0}), extent(node, ids, 1), 0);
  ValueId total = sum(node, word, position);
  if (node.has_input(1) && node.has_input(4)) {
    total = sum(node, total, node.add(OpKind::Gather, {node.input(4), node.input(1)}));
  }
  node.finish_output(0, OpKind::LayerNormalization, {total, node.input(5), node.input(6)},
                     {{"epsilon", node.take_number("epsilon", 1e-12)}});
  if (node.wants(2)) node.finish_output(2, OpKind::Identity, {total});
  if (!node.wants(1)) return;
  if (node.has_input(7)) {
    const ValueId one = cast(node, node.integers({1}), node.dtype(node.input(7)));
    const ValueId taken = cast(node, node.add(OpKind::Equal, {node.input(7), one}), DType::I32);
    node.finish_output(1, OpKind::ReduceSum, {taken, node.integers({1})}, {{"keepdims", std::int64_t{0}}});
  } else {
    node.finish_output(1, OpKind::ConstantOfShape, {extent(node, ids, 0)},
                       {{"value", Tensor(DType::I32, {1})}});
  }
}

namespace {

// x, channels last or second, normalised in groups and perhaps passed through x * sigmoid(x).
void finish_group_norm(Translation& node, ValueId x, ValueId gamma, ValueId beta) {
  const bool last = node.take_integer("channels_last", 1) != 0;
  const std::int64_t activation = node.take_integer("activation", 0);
  if (activation != 0 && activation != 1) {
    node.unsupported(fmt::format("attribute 'activation' is {}, expected 0 (none) or 1 (silu)", activation));
  }
  const DType type = node.dtype(x), wide = wide_dtype(type);
  ValueId y = with_rank(node, cast(node, x, wide), 4);
  if (last) y = transposed(node, y, {0, 3, 1, 2});
  y = node.add(
      OpKind::GroupNormalization, {y, cast(node, gamma, wide), cast(node, beta, wide)},
      {{"num_groups", node.take_integer("groups", 0)}, {"epsilon", node.take_number("epsilon", 1e-5)}});
  if (activation == 1) y = node.add(OpKind::Swish, {y});
  if (last) y = transposed(node, y, {0, 2, 3, 1});
  node.finish_output(0, OpKind::Cast, {y}, to(type));
}

}  // namespace

void group_norm(Translation& node) { finish_group_norm(node, node.input(0), node.input(1), node.input(2)); }

// X, gamma, beta, skip (like X, or one for each channel of an item), bias -> Y, the sum
void skip_group_norm(Translation& node) {
  const auto last = node.attributes.find("channels_last");
  const bool channels_last = last == node.attributes.end() || last->second != Attribute(std::int64_t{0});
  if (node.awaits_rank(node.input(3), 2, 4)) return;
  const auto over_space = [&](ValueId channels, std::int64_t leading) {
    if (node.rank(channels) != leading) return channels;
    if (leading == 2)
      return channels_last ? unsqueezed(node, channels, {1, 2}) : unsqueezed(node, channels, {2, 3});
    return channels_last ? channels : unsqueezed(node, channels, {1, 2});
  };
  ValueId total = sum(node, node.input(0), over_space(node.input(3), 2));
  if (node.has_input(4)) total = sum(node, total, over_space(with_rank(node, node.input(4), 1), 1));
  if (node.wants(1)) node.finish_output(1, OpKind::Identity, {total});
  finish_group_norm(node, total, node.input(1), node.input(2));
}

// Softmax over all axes from `axis` on, of data + bias.
void bias_softmax(Translation& node) {
  node.drop({"is_inner_broadcast"});
  node.inputs = {sum(node, node.input(0), node.input(1))};
  node.op = graph::name(OpKind::Softmax);
  softmax_flattened(node);
}

// The first half of the channels times Gelu of the second.
void bias_split_gelu(Translation& node) {
  const ValueId x = with_rank(node, sum(node, node.input(0), node.input(1)), 3);
  const std::vector<ValueId> halves =
      node.add_many(OpKind::Split, {x}, {{"axis", std::int64_t{2}}, {"num_outputs", std::int64_t{2}}}, 2);
  node.finish(OpKind::Mul, {halves[0], node.add(OpKind::Gelu, {halves[1]})}, {});
}

// Buckets of distances: exact up to half of them, then logarithmic up to max_distance.
void relative_position_bias(Translation& node) {
  const std::int64_t furthest = node.take_integer("max_distance", 0);
  const bool both = node.take_integer("is_bidirectional", 0) != 0;
  const ValueId table = with_rank(node, node.input(0), 2);
  const ValueId rows = extent(node, table, 0);
  const ValueId buckets = both ? quotient(node, rows, 2) : rows, exact = quotient(node, buckets, 2);
  const auto& known = node.graph.value(exact).elements;
  if (known && (known->front() == graph::Dim(0) || known->front().is_at_least(furthest))) {
    node.invalid(fmt::format("the number of buckets does not fit max_distance {}", furthest));
  }
  const auto length = [&](std::size_t index) {
    return node.add(OpKind::Reshape, {cast(node, node.input(index), DType::I64), node.integers({1})});
  };
  const ValueId query = unsqueezed(node, positions(node, length(1)), {1});
  const ValueId offset = node.add(OpKind::Sub, {positions(node, length(2)), query});
  const ValueId zero = node.integer(0);
  const ValueId distance =
      both ? node.add(OpKind::Abs, {offset}) : node.add(OpKind::Max, {node.add(OpKind::Neg, {offset}), zero});
  const ValueId wide_exact = cast(node, exact, DType::F64);
  const ValueId doublings =
      node.add(OpKind::Log,
               {node.add(OpKind::Div, {node.scalar(DType::F64, static_cast<double>(furthest)), wide_exact})});
  const ValueId factor =
      node.add(OpKind::Div, {cast(node, node.add(OpKind::Sub, {buckets, exact}), DType::F64), doublings});
  const ValueId ratio =
      node.add(OpKind::Div, {cast(node, distance, DType::F32), cast(node, exact, DType::F32)});
  const ValueId steps = product(node, node.add(OpKind::Log, {ratio}), cast(node, factor, DType::F32));
  const ValueId far = node.add(OpKind::Min, {sum(node, cast(node, steps, DType::I64), exact),
                                             node.add(OpKind::Sub, {buckets, node.integer(1)})});
  const ValueId near = node.add(OpKind::Less, {distance, exact});
  ValueId bucket = node.add(OpKind::Where, {near, distance, far});
  if (both) {
    const ValueId later = node.add(OpKind::Greater, {offset, zero});
    bucket = sum(node, bucket, node.add(OpKind::Where, {later, buckets, zero}));
  }
  const ValueId bias = node.add(OpKind::Gather, {table, bucket});
  node.finish(OpKind::Unsqueeze, {transposed(node, bias, {2, 0, 1}), node.integers({0})}, {});
}

// query_layer, query_bias, rel_pos, weight, bias, eco_a: the queries of each head make two gates that scale
// the bias of its positions.
void gated_relative_position_bias(Translation& node) {
  if (node.has_input(6)) node.unsupported("its input token_offset is not supported");
  const std::int64_t heads = node.take_integer("num_heads", 0);
  if (heads <= 0) node.invalid(fmt::format("attribute 'num_heads' is {}, expected a positive number", heads));
  const ValueId query = with_rank(node, sum(node, node.input(0), node.input(1)), 3);
  const ValueId size = node.add(OpKind::Div, {extent(node, query, 2), node.integers({heads})});
  const ValueId apart =
      reshaped(node, query, {extent(node, query, 0), extent(node, query, 1), node.integers({heads}), size});
  const ValueId q = transposed(node, apart, {0, 2, 1, 3});
  const ValueId linear = sum(node, node.add(OpKind::MatMul, {q, node.input(3)}), node.input(4));
  const ValueId half = node.add(OpKind::Div, {extent(node, linear, 3), node.integers({2})});
  const ValueId pairs = reshaped(
      node, linear,
      {extent(node, linear, 0), extent(node, linear, 1), extent(node, linear, 2), node.integers({2}), half});
  const ValueId gates =
      node.add(OpKind::Sigmoid,
               {node.add(OpKind::ReduceSum, {pairs, node.integers({4})}, {{"keepdims", std::int64_t{0}}})});
  const ValueId u = sliced(node, gates, node.integers({0}), node.integers({1}), 3);
  const ValueId r = sliced(node, gates, node.integers({1}), node.integers({2}), 3);
  const ValueId inner = node.add(OpKind::Sub, {product(node, r, node.input(5)), scalar_like(node, r, 1)});
  const ValueId gate = sum(node, product(node, u, inner), scalar_like(node, u, 2));
  node.finish(OpKind::Mul, {gate, node.input(2)}, {});
}

}  // namespace kiln::frontend::translate
