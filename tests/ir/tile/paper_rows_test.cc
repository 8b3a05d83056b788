// Softmax, layer norm, cumulative sum and attention against plain loops.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/ir/tile/paper_testing.h"

namespace kiln::tile {
namespace {

TEST(PaperRows, Softmax) {
  for (const std::int64_t block : {128, 512}) {
    const Kernel kernel = paper_kernel("softmax", "softmax", {{"BLOCK", block}});
    for (const std::int64_t n : {1, 127, 128, 129, 509}) {
      Floats x = random_floats({3, n}, 1);
      for (float& v : x.data) v *= 20;
      if (n > 2) x(1, 1) = -std::numeric_limits<float>::infinity();
      Floats y({3, n}, -1);
      run(kernel, {x, y});
      Array<double> want({3, n});
      for (std::int64_t r = 0; r < 3; ++r) {
        double greatest = -INFINITY, sum = 0;
        for (std::int64_t j = 0; j < n; ++j) greatest = std::max(greatest, static_cast<double>(x(r, j)));
        for (std::int64_t j = 0; j < n; ++j) sum += std::exp(x(r, j) - greatest);
        for (std::int64_t j = 0; j < n; ++j) want(r, j) = std::exp(x(r, j) - greatest) / sum;
      }
      expect_close(y, want, 1e-5);
    }
  }
}

TEST(PaperRows, SoftmaxRefusesARowThatItsLocalCannotHold) {
  Floats x({1, 65537}), y({1, 65537});
  EXPECT_THROW(run(paper_kernel("softmax", "softmax"), {x, y}), Error);
}

TEST(PaperRows, LayerNorm) {
  const Kernel kernel = paper_kernel("layer_norm", "layer_norm");
  for (const std::int64_t n : {1, 15, 16, 17, 61}) {
    Floats x = random_floats({2, n}, 2), scale = random_floats({n}, 3), bias = random_floats({n}, 4),
           y({2, n});
    for (float& v : x.data) v += 3;
    run(kernel, {x, scale, bias, y, Literal::number(DType::F32, 1e-5)});
    Array<double> want({2, n});
    for (std::int64_t r = 0; r < 2; ++r) {
      double mean = 0, variance = 0;
      for (std::int64_t j = 0; j < n; ++j) mean += x(r, j) / static_cast<double>(n);
      for (std::int64_t j = 0; j < n; ++j)
        variance += (x(r, j) - mean) * (x(r, j) - mean) / static_cast<double>(n);
      for (std::int64_t j = 0; j < n; ++j) {
        want(r, j) = (x(r, j) - mean) / std::sqrt(variance + 1e-5) * scale(j) + bias(j);
      }
    }
    expect_close(y, want, 1e-4);
  }
}

TEST(PaperRows, CumulativeSum) {
  for (const std::int64_t n : {1, 7, 8, 9, 31}) {
    Floats x = random_floats({3, n}, 5), forward({3, n}), backward({3, n});
    run(paper_kernel("cumulative_sum", "cumulative_sum"), {x, forward});
    run(paper_kernel("cumulative_sum", "cumulative_sum_exclusive_reverse"), {x, backward});
    Array<double> want_forward({3, n}), want_backward({3, n});
    for (std::int64_t r = 0; r < 3; ++r) {
      double sum = 0;
      for (std::int64_t j = 0; j < n; ++j) want_forward(r, j) = sum += x(r, j);
      sum = 0;
      for (std::int64_t j = n; j-- > 0; sum += x(r, j)) want_backward(r, j) = sum;
    }
    expect_close(forward, want_forward, 1e-5);
    expect_close(backward, want_backward, 1e-5);
  }
}

Array<double> plain_attention(Floats& q, Floats& k, Floats& v) {
  const std::int64_t batch = q.extents[0], heads = q.extents[1], queries = q.extents[2], keys = k.extents[2];
  Array<double> y(q.extents);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < queries; ++i) {
        std::vector<double> scores(static_cast<std::size_t>(keys));
        double greatest = -INFINITY, sum = 0;
        for (std::int64_t j = 0; j < keys; ++j) {
          double& score = scores[static_cast<std::size_t>(j)];
          for (int d = 0; d < 64; ++d) score += static_cast<double>(q(b, h, i, d)) * k(b, h, j, d) / 8;
          greatest = std::max(greatest, score);
        }
        for (double& score : scores) sum += score = std::exp(score - greatest);
        for (std::int64_t j = 0; j < keys; ++j) {
          for (int d = 0; d < 64; ++d)
            y(b, h, i, d) += scores[static_cast<std::size_t>(j)] / sum * v(b, h, j, d);
        }
      }
    }
  }
  return y;
}

TEST(PaperRows, AttentionWithFullRowsAndOnline) {
  for (const std::int64_t keys : {1, 7, 8, 9, 17}) {
    Floats q = random_floats({2, 2, 5, 64}, 6), k = random_floats({2, 2, keys, 64}, 7),
           v = random_floats({2, 2, keys, 64}, 8);
    for (float& x : q.data) x *= 4;
    Floats full(q.extents), online(q.extents);
    run(paper_kernel("attention_full", "attention_full"), {q, k, v, full});
    run(paper_kernel("attention_online", "attention_online"), {q, k, v, online});
    const Array<double> want = plain_attention(q, k, v);
    expect_close(full, want, 1e-5);
    expect_close(online, want, 1e-5);
  }
}

}  // namespace
}  // namespace kiln::tile
