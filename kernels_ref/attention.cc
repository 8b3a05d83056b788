// ai.onnx Attention. Scores and their softmax are in f32 or better whatever the type of the operands; a row
// in which no key is allowed gives zeros.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/heads.h"
#include "kernels_ref/kernels.h"

namespace kiln::reference {
namespace {

// One operand with its heads apart: [batch, heads, length, size].
Tensor with_heads(const Call& call, std::string_view what, const Tensor& x,
                  std::string_view heads_attribute) {
  if (x.rank() == 4) return x;
  if (x.rank() != 3) {
    throw_caller(ErrorCode::ShapeMismatch, "{} must have rank 3 or 4, got {}", what, to_string(x.extents()));
  }
  if (!graph::has(call.node, heads_attribute)) {
    throw_caller(ErrorCode::InvalidModel, "{} has rank 3, so that attribute \"{}\" is needed", what,
                 heads_attribute);
  }
  const std::int64_t heads = graph::integer(call.node, heads_attribute);
  if (x.extents()[2] % heads != 0) {
    throw_caller(ErrorCode::ShapeMismatch, "{} is {}, expected a last extent of {} heads", what,
                 to_string(x.extents()), heads);
  }
  Tensor result(x.dtype(), {x.extents()[0], heads, x.extents()[1], x.extents()[2] / heads});
  copy_heads(call, x, result, 0);
  return result;
}

// `past` followed by `now` along the positions.
Tensor joined(const Call& call, std::string_view what, const Tensor& past, const Tensor& now) {
  Extents extents = now.extents();
  expect_rank(what, past, 4);
  extents[2] = past.extents()[2];
  expect_extents(what, past, extents);
  extents[2] += now.extents()[2];
  Tensor result(now.dtype(), extents);
  copy_heads(call, past, result, 0);
  copy_heads(call, now, result, past.extents()[2]);
  return result;
}

// What is added to the scores of ai.onnx Attention: attn_mask, and -inf where a key is not allowed.
class Bias {
 public:
  // `offset` is the position of the first query among the keys, if it is the same for the whole batch.
  Bias(const Call& call, DType dtype, const Extents& scores, std::int64_t past) : scores_(scores) {
    const graph::Node& node = call.node;
    if (call.has_input(3)) {
      const Tensor& mask = call.input(3);
      width_ = mask.rank() == 0 ? scores[3] : mask.extents().back();
      if (width_ > scores[3]) {
        throw_caller(ErrorCode::ShapeMismatch, "attn_mask is {} for {} keys", to_string(mask.extents()),
                     scores[3]);
      }
      Extents covered = scores;
      covered[3] = width_;
      strides_ = broadcast_strides(mask.extents(), covered);
      if (mask.dtype() == DType::I1) {
        for (const double taken : to_numbers(mask)) mask_.push_back(taken != 0 ? 0 : -kInfinity);
      } else {
        mask_ = to_numbers(converted(call, mask, dtype));
      }
    }
    const std::int64_t queries = scores[2];
    if (call.has_input(6)) {
      expect_extents("nonpad_kv_seqlen", call.input(6), {scores[0]});
      lengths_ = call.input(6).to_integers();
    }
    for (std::int64_t b = 0; b < scores[0]; ++b) {
      offsets_.push_back(
          call.has_input(6) && !call.has_input(4) ? lengths_[static_cast<std::size_t>(b)] - queries : past);
    }
    const bool causal = graph::integer(node, "is_causal") != 0;
    left_ = graph::integer(node, "left_window_size");
    right_ = graph::integer(node, "right_window_size");
    if (causal) right_ = 0;
  }

  double at(std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t key) const {
    if (!lengths_.empty() && key >= lengths_[static_cast<std::size_t>(batch)]) return -kInfinity;
    // Windows may be as wide as an i64.
    const std::int64_t distance = key - (query + offsets_[static_cast<std::size_t>(batch)]);
    if (right_ >= 0 && distance > right_) return -kInfinity;
    if (left_ >= 0 && -distance > left_) return -kInfinity;
    if (strides_.empty()) return 0;
    if (key >= width_) return -kInfinity;
    return mask_[static_cast<std::size_t>(batch * strides_[0] + head * strides_[1] + query * strides_[2] +
                                          key * strides_[3])];
  }

 private:
  Extents scores_;
  std::int64_t width_ = 0;  // keys that the mask covers; those beyond are not allowed
  Extents strides_;         // of the mask; empty: none
  std::vector<double> mask_;
  std::vector<std::int64_t> lengths_, offsets_;
  std::int64_t left_ = -1, right_ = -1;  // keys before and after the query's own position; negative: all
};

}  // namespace

void attention(Call& call) {
  enum Mode : std::int64_t { Scaled, Capped, Biased, Softmax };
  const DType dtype = call.input(0).dtype(), value_dtype = call.input(2).dtype();
  const bool flat = call.input(0).rank() == 3;
  const Tensor q = with_heads(call, "Q", call.input(0), "q_num_heads");
  Tensor k = with_heads(call, "K", call.input(1), "kv_num_heads");
  Tensor v = with_heads(call, "V", call.input(2), "kv_num_heads");
  const std::int64_t past = call.has_input(4) ? call.input(4).extents()[2] : 0;
  if (call.has_input(4)) k = joined(call, "past_key", call.input(4), k);
  if (call.has_input(5)) v = joined(call, "past_value", call.input(5), v);
  const std::int64_t batch = q.extents()[0], keys = k.extents()[2];
  expect_extents("K", k, {batch, k.extents()[1], keys, q.extents()[3]});
  expect_extents("V", v, {batch, k.extents()[1], keys, v.extents()[3]});
  store_output(call, 1, k, dtype);
  store_output(call, 2, v, value_dtype);
  const DType wide = dtype == DType::F64 || value_dtype == DType::F64 ? DType::F64 : DType::F32;
  const double scale = graph::has(call.node, "scale") ? graph::number(call.node, "scale")
                                                      : 1 / std::sqrt(static_cast<double>(q.extents()[3]));
  const double cap = graph::number(call.node, "softcap");
  const std::int64_t mode = graph::integer(call.node, "qk_matmul_output_mode");
  dispatch(WideFloats{}, wide, [&]<typename T>() {
    Tensor scores = scaled_scores<T>(call, converted(call, q, wide), converted(call, k, wide), keys, scale);
    const Bias bias(call, dtype, scores.extents(), past);
    Tensor shown;  // the scores as the caller wants to see them
    if (call.wants(3)) shown = Tensor(wide, scores.extents());
    const std::int64_t heads = q.extents()[1], queries = q.extents()[2];
    for_score_rows<T>(call, scores, [&](std::int64_t b, std::int64_t h, std::int64_t s, T* row) {
      const auto show = [&](Mode at) {
        if (!call.wants(3) || mode != at) return;
        std::copy_n(row, keys, shown.as_mutable<T>().data() + ((b * heads + h) * queries + s) * keys);
      };
      show(Scaled);
      if (cap > 0) softcap_row(row, keys, cap);
      show(Capped);
      double greatest = -kInfinity;
      for (std::int64_t t = 0; t < keys; ++t) {
        const double added = bias.at(b, h, s, t);
        greatest = larger(greatest, added);
        row[t] = static_cast<T>(static_cast<double>(row[t]) + added);
      }
      show(Biased);
      if (greatest == -kInfinity) {
        std::fill_n(row, keys, T{0});
      } else {
        softmax_row(row, keys);
      }
      show(Softmax);
    });
    const Tensor y = weighted_values<T>(call, scores, converted(call, v, wide));
    store_output(call, 0, flat ? without_heads(call, y) : y, dtype);
    store_output(call, 3, shown, dtype);
  });
}

}  // namespace kiln::reference
