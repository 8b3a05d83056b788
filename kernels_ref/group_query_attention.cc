// GroupQueryAttention of com.microsoft: a cache of keys and values whose sequences have lengths of their own.
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/heads.h"
#include "kernels_ref/kernels.h"

namespace kiln::reference {
namespace {

// Rotates the pairs of the first elements of every head of x, [batch, heads, length, size], by the angles of
// its position.
template <typename T>
void rotate(const Call& call, Tensor& x, const Tensor& cosines, const Tensor& sines, bool interleaved,
            const std::function<std::int64_t(std::int64_t batch, std::int64_t index)>& position) {
  const std::int64_t half = cosines.extents().back(), size = x.extents()[3], length = x.extents()[2];
  expect_extents("sin_cache", sines, cosines.extents());
  if (cosines.rank() != 2 || 2 * half > size) {
    throw_caller(ErrorCode::ShapeMismatch, "cos_cache is {}, expected positions x at most {}",
                 to_string(cosines.extents()), size / 2);
  }
  const T *cosine = cosines.as<T>().data(), *sine = sines.as<T>().data();
  T* data = x.as_mutable<T>().data();
  for_range(call, x.extents()[0] * x.extents()[1] * length, 4 * size,
            [&](std::int64_t begin, std::int64_t end) {
              for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t at = position(row / length / x.extents()[1], row % length);
                if (at < 0 || at >= cosines.extents()[0]) {
                  throw_caller(ErrorCode::IndexOutOfRange, "position {} is outside the {} of cos_cache", at,
                               cosines.extents()[0]);
                }
                T* head = data + row * size;
                for (std::int64_t i = 0; i < half; ++i) {
                  T& first = head[interleaved ? 2 * i : i];
                  T& second = head[interleaved ? 2 * i + 1 : i + half];
                  const double c = static_cast<double>(cosine[at * half + i]),
                               s = static_cast<double>(sine[at * half + i]);
                  const double a = static_cast<double>(first), b = static_cast<double>(second);
                  first = static_cast<T>(a * c - b * s);
                  second = static_cast<T>(a * s + b * c);
                }
              }
            });
}

// Every head divided by its root mean square.
template <typename T>
void normalize_heads(const Call& call, Tensor& x, const Tensor& weight, double epsilon) {
  const std::int64_t size = x.extents()[3];
  expect_extents("a norm's weight", weight, {size});
  const T* scale = weight.as<T>().data();
  T* data = x.as_mutable<T>().data();
  for_range(call, x.elements() / std::max<std::int64_t>(size, 1), 3 * size,
            [&](std::int64_t begin, std::int64_t end) {
              for (std::int64_t row = begin; row < end; ++row) {
                T* head = data + row * size;
                double squares = 0;
                for (std::int64_t i = 0; i < size; ++i)
                  squares += static_cast<double>(head[i]) * static_cast<double>(head[i]);
                const double inverse = 1 / std::sqrt(squares / static_cast<double>(size) + epsilon);
                for (std::int64_t i = 0; i < size; ++i) {
                  head[i] =
                      static_cast<T>(static_cast<double>(head[i]) * inverse * static_cast<double>(scale[i]));
                }
              }
            });
}

// How long the sequences of GroupQueryAttention are: item b has total[b] keys, of which past[b] are old.
struct CacheLengths {
  std::int64_t longest, room;  // of the keys to attend to, and of the present state
  bool first;                  // nothing is cached yet, and sequences may end early
  std::vector<std::int64_t> past, total;

  CacheLengths(const Call& call, std::int64_t batch, std::int64_t length)
      : longest(to_integer(call.input(6))), room(longest), first(longest == length) {
    const std::int64_t old_room = call.has_input(3) ? call.input(3).extents()[2] : 0;
    room = std::max(longest, old_room);
    total = call.input(5).to_integers();
    if (static_cast<std::int64_t>(total.size()) != batch) {
      throw_caller(ErrorCode::ShapeMismatch, "seqlens_k has {} elements, expected the batch of {}",
                   total.size(), batch);
    }
    if (longest < length) {
      throw_caller(ErrorCode::InvalidArgument,
                   "total_sequence_length is {}, expected at least the {} of the query", longest, length);
    }
    for (std::int64_t& keys : total) {
      ++keys;
      const std::int64_t old = first ? 0 : keys - length;
      if (keys < 0 || keys > longest || old < 0 || old > old_room) {
        throw_caller(ErrorCode::InvalidArgument,
                     "a sequence has {} keys, expected from {} to {} with at most {} in the past", keys,
                     first ? 0 : length, longest, old_room);
      }
      past.push_back(old);
    }
  }
};

// The present state: each sequence's past, then its new positions, then zeros.
Tensor updated_cache(const Call& call, std::size_t past_index, const Tensor& now,
                     const CacheLengths& lengths) {
  const Extents& e = now.extents();
  const std::int64_t row_bytes = e[3] * element_bytes(now.dtype());
  Tensor result(now.dtype(), {e[0], e[1], lengths.room, e[3]});
  if (call.has_input(past_index)) {
    const Tensor& past = call.input(past_index);
    expect_rank("a past state", past, 4);
    expect_extents("a past state", past, {e[0], e[1], past.extents()[2], e[3]});
    if (past.dtype() != now.dtype()) {
      throw_caller(ErrorCode::TypeMismatch, "a past state is {}, expected {}", name(past.dtype()),
                   name(now.dtype()));
    }
  }
  for (std::int64_t head = 0; head < e[0] * e[1]; ++head) {
    const std::int64_t old = lengths.past[static_cast<std::size_t>(head / e[1])];
    std::byte* to = result.mutable_data() + head * lengths.room * row_bytes;
    if (old > 0) {
      const Tensor& past = call.input(past_index);
      std::copy_n(past.data() + head * past.extents()[2] * row_bytes, old * row_bytes, to);
    }
    std::copy_n(now.data() + head * e[2] * row_bytes, e[2] * row_bytes, to + old * row_bytes);
  }
  return result;
}

}  // namespace

void group_query_attention(Call& call) {
  const graph::Node& node = call.node;
  const Tensor& query = call.input(0);
  if (computed_in_f32(call, query.dtype(), group_query_attention, {0, 1, 2, 3})) return;
  const bool packed = !call.has_input(1);
  const std::int64_t heads = graph::integer(node, "num_heads"),
                     key_heads = graph::integer(node, "kv_num_heads");
  expect_rank("query", query, 3);
  const std::int64_t batch = query.extents()[0], length = query.extents()[1];
  const std::int64_t columns = packed ? heads + 2 * key_heads : heads;
  const std::int64_t size = query.extents()[2] / columns;
  expect_extents("query", query, {batch, length, columns * size});
  const CacheLengths lengths(call, batch, length);
  const DType dtype = query.dtype();
  Tensor q(dtype, {batch, heads, length, size}), k(dtype, {batch, key_heads, length, size}),
      v(dtype, k.extents());
  copy_heads(call, query, q, 0);
  if (packed) {
    copy_heads(call, query, k, 0, heads * size);
    copy_heads(call, query, v, 0, (heads + key_heads) * size);
  } else {
    expect_extents("key", call.input(1), {batch, length, key_heads * size});
    expect_extents("value", call.input(2), {batch, length, key_heads * size});
    copy_heads(call, call.input(1), k, 0);
    copy_heads(call, call.input(2), v, 0);
  }
  const bool causal = graph::integer(node, "causal") != 0;
  const std::int64_t window = graph::integer(node, "local_window_size"),
                     shown_at = graph::integer(node, "qk_output");
  const double cap = graph::number(node, "softcap");
  const double scale = graph::has(node, "scale") && graph::number(node, "scale") != 0
                           ? graph::number(node, "scale")
                           : 1 / std::sqrt(static_cast<double>(size));
  std::vector<double> sinks;
  if (call.has_input(11)) {
    expect_extents("head_sink", call.input(11), {heads});
    sinks = to_numbers(call.input(11));
  } else if (graph::integer(node, "smooth_softmax") > 0) {
    sinks.assign(static_cast<std::size_t>(heads), 0);
  }
  dispatch(WideFloats{}, dtype, [&]<typename T>() {
    const double epsilon = graph::number(node, "qk_norm_epsilon");
    if (call.has_input(12)) normalize_heads<T>(call, q, call.input(12), epsilon);
    if (call.has_input(13)) normalize_heads<T>(call, k, call.input(13), epsilon);
    if (graph::integer(node, "do_rotary") != 0) {
      const std::vector<std::int64_t> given = optional_integers(call, 9);
      if (call.has_input(9)) expect_extents("position_ids", call.input(9), {batch, length});
      // On the first call only the first of all position_ids counts.
      const auto position = [&](std::int64_t b, std::int64_t s) {
        if (given.empty()) return lengths.past[static_cast<std::size_t>(b)] + s;
        return lengths.first ? given[0] + s : given[static_cast<std::size_t>(b * length + s)];
      };
      const bool interleaved = graph::integer(node, "rotary_interleaved") != 0;
      rotate<T>(call, q, call.input(7), call.input(8), interleaved, position);
      rotate<T>(call, k, call.input(7), call.input(8), interleaved, position);
    }
    const Tensor keys = updated_cache(call, 3, k, lengths), values = updated_cache(call, 4, v, lengths);
    Tensor scores = scaled_scores<T>(call, q, keys, lengths.longest, scale);
    Extents bias_strides;
    if (call.has_input(10)) bias_strides = broadcast_strides(call.input(10).extents(), scores.extents());
    Tensor shown;
    if (call.wants(3)) shown = Tensor(dtype, scores.extents());
    for_score_rows<T>(call, scores, [&](std::int64_t b, std::int64_t h, std::int64_t s, T* row) {
      const std::int64_t old = lengths.past[static_cast<std::size_t>(b)],
                         total = lengths.total[static_cast<std::size_t>(b)];
      const std::int64_t end = causal ? std::min(old + s + 1, total) : total;
      const std::int64_t begin = window > 0 ? std::clamp<std::int64_t>(old + s + 1 - window, 0, end) : 0;
      if (cap > 0) softcap_row(row, lengths.longest, cap);
      for (std::int64_t t = 0; !bias_strides.empty() && t < lengths.longest; ++t) {
        row[t] += call.input(10).as<T>()[static_cast<std::size_t>(b * bias_strides[0] + h * bias_strides[1] +
                                                                  s * bias_strides[2] + t * bias_strides[3])];
      }
      const auto show = [&](std::int64_t at) {
        if (!call.wants(3) || shown_at != at) return;
        std::copy_n(row, lengths.longest,
                    shown.as_mutable<T>().data() + ((b * heads + h) * length + s) * lengths.longest);
      };
      show(1);
      std::fill(row, row + begin, T{0});
      std::fill(row + end, row + lengths.longest, T{0});
      softmax_row(row + begin, end - begin,
                  sinks.empty() ? std::nullopt : std::optional(sinks[static_cast<std::size_t>(h)]));
      show(2);
    });
    store_output(call, 0, without_heads(call, weighted_values<T>(call, scores, values)), dtype);
    store_output(call, 1, keys, dtype);
    store_output(call, 2, values, dtype);
    if (call.wants(3)) store_output(call, 3, shown, dtype);
  });
}

}  // namespace kiln::reference
