#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/kernels_ref/support.h"

namespace kiln::reference {
namespace {

using graph::OpKind;
using Vector = std::vector<double>;

graph::Attribute number(std::int64_t value) { return value; }

// An element of [a, b, c, d].
double at(const Tensor& x, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  const Extents& e = x.extents();
  const auto index = static_cast<std::size_t>(((a * e[1] + b) * e[2] + c) * e[3] + d);
  return x.dtype() == DType::F64 ? x.as<double>()[index] : static_cast<double>(x.as<float>()[index]);
}

struct Options {
  double scale = 0;  // 0: 1 / sqrt(size)
  double softcap = 0;
  // What is added to a score.
  std::function<double(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t t)> bias = [](auto...) {
    return 0.0;
  };
};

struct Expected {
  Vector y, scaled, capped, biased, probabilities;
};

// Attention by loops over [batch, heads, length, size].
Expected attend(const Tensor& q, const Tensor& k, const Tensor& v, const Options& options = {}) {
  Expected result;
  const Extents& e = q.extents();
  const std::int64_t group = e[1] / k.extents()[1], keys = k.extents()[2];
  const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(e[3]));
  for (std::int64_t b = 0; b < e[0]; ++b) {
    for (std::int64_t h = 0; h < e[1]; ++h) {
      for (std::int64_t s = 0; s < e[2]; ++s) {
        Vector row;
        bool allowed = false;
        for (std::int64_t t = 0; t < keys; ++t) {
          double dot = 0;
          for (std::int64_t i = 0; i < e[3]; ++i) dot += at(q, b, h, s, i) * at(k, b, h / group, t, i);
          dot *= scale;
          result.scaled.push_back(dot);
          if (options.softcap > 0) dot = options.softcap * std::tanh(dot / options.softcap);
          result.capped.push_back(dot);
          const double bias = options.bias(b, h, s, t);
          allowed = allowed || bias != -kInf;
          result.biased.push_back(dot + bias);
          row.push_back(dot + bias);
        }
        double sum = 0;
        const double peak = row.empty() ? 0 : *std::max_element(row.begin(), row.end());
        for (double& x : row) sum += x = allowed ? std::exp(x - peak) : 0;
        for (double& x : row) x = allowed ? x / sum : 0;
        result.probabilities.insert(result.probabilities.end(), row.begin(), row.end());
        for (std::int64_t i = 0; i < v.extents()[3]; ++i) {
          double y = 0;
          for (std::int64_t t = 0; t < keys; ++t)
            y += row[static_cast<std::size_t>(t)] * at(v, b, h / group, t, i);
          result.y.push_back(y);
        }
      }
    }
  }
  return result;
}

struct Operands {
  Tensor q, k, v;
  Operands(Extents q_extents, Extents k_extents, std::int64_t v_size, std::uint32_t seed = 11) {
    std::mt19937 generator(seed);
    q = random<double>(std::move(q_extents), generator);
    k = random<double>(k_extents, generator);
    k_extents.back() = v_size;
    v = random<double>(std::move(k_extents), generator);
  }
};

// [batch, heads, length, size] -> [batch, length, heads * size]
Tensor flat(const Tensor& x) {
  const Extents& e = x.extents();
  const Tensor turned = run(OpKind::Transpose, {x}, {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}});
  return turned.reshaped({e[0], e[2], e[1] * e[3]});
}

void expect_attention(const Operands& o, const Inputs& rest, graph::Attributes attributes,
                      const Options& options, double tolerance = 1e-12) {
  const Expected want = attend(o.q, o.k, o.v, options);
  Inputs inputs = {o.q, o.k, o.v};
  inputs.insert(inputs.end(), rest.begin(), rest.end());
  const Extents& e = o.q.extents();
  const Vector* shown[] = {&want.scaled, &want.capped, &want.biased, &want.probabilities};
  for (std::int64_t mode = 0; mode < 4; ++mode) {
    attributes["qk_matmul_output_mode"] = mode;
    const auto got = run_all(OpKind::Attention, inputs, attributes, 4);
    expect_values(got[0], {e[0], e[1], e[2], o.v.extents()[3]}, want.y, tolerance, tolerance);
    expect_values(got[3], {e[0], e[1], e[2], o.k.extents()[2]}, *shown[mode], tolerance, tolerance);
  }
}

TEST(Attention, MatchesPlainLoops) {
  for (const auto& [queries, keys] : {std::pair(1, 1), std::pair(4, 4), std::pair(3, 7), std::pair(7, 3),
                                      std::pair(17, 300), std::pair(0, 3)}) {
    for (const std::int64_t key_heads : {4, 2, 1}) {
      const Operands o({2, 4, queries, 6}, {2, key_heads, keys, 6}, 5);
      expect_attention(o, {}, {}, {});
      expect_attention(o, {}, {{"scale", 0.3}, {"softcap", 0.5}}, {.scale = 0.3, .softcap = 0.5});
    }
  }
}

TEST(Attention, HeadsInTheLastAxis) {
  const Operands o({2, 4, 3, 6}, {2, 2, 5, 6}, 7);
  const Tensor want = run(OpKind::Attention, {o.q, o.k, o.v});
  const Tensor got = run(OpKind::Attention, {flat(o.q), flat(o.k), flat(o.v)},
                         {{"q_num_heads", number(4)}, {"kv_num_heads", number(2)}});
  EXPECT_EQ(got, flat(want));
  EXPECT_EQ(error_of(OpKind::Attention, {flat(o.q), flat(o.k), flat(o.v)}), ErrorCode::InvalidModel);
  const Operands three({2, 4, 3, 6}, {2, 3, 5, 6}, 7);
  EXPECT_EQ(error_of(OpKind::Attention, {three.q, three.k, three.v}), ErrorCode::InvalidModel);
}

TEST(Attention, MasksOfEveryForm) {
  const Operands o({2, 3, 4, 5}, {2, 3, 6, 5}, 5);
  std::mt19937 generator(4);
  for (const Extents& extents : {Extents{4, 6}, Extents{1, 6}, Extents{3, 4, 6}, Extents{2, 1, 4, 6},
                                 Extents{1, 3, 1, 6}, Extents{2, 3, 4, 6}}) {
    const Tensor mask = random<double>(extents, generator);
    const Tensor spread = run(OpKind::Expand, {mask, integers({2, 3, 4, 6})});
    expect_attention(o, {mask}, {},
                     {.bias = [&](auto b, auto h, auto s, auto t) { return at(spread, b, h, s, t); }});
  }
  // One that is shorter allows no key beyond it; numbers of any type are added.
  const Tensor shorter = exact<std::int32_t>({4, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  expect_attention(o, {shorter}, {}, {.bias = [&](auto, auto, auto s, auto t) {
                     return t < 2 ? static_cast<double>(2 * s + t) : -kInf;
                   }});
  EXPECT_EQ(error_of(OpKind::Attention, {o.q, o.k, o.v, tensor({4, 7}, Vector(28))}),
            ErrorCode::ShapeMismatch);
}

TEST(Attention, MaskedAttention) {
  const Operands o({1, 2, 3, 4}, {1, 2, 4, 4}, 3);
  Tensor mask(DType::I1, {3, 4});
  const std::uint8_t bits[] = {1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 0};
  std::copy(std::begin(bits), std::end(bits), mask.as_mutable<std::uint8_t>().begin());
  expect_attention(o, {mask}, {},
                   {.bias = [&](auto, auto, auto s, auto t) { return bits[s * 4 + t] ? 0 : -kInf; }});
  // A score of NaN does not reach such a row.
  Operands poisoned = o;
  for (double& x : poisoned.q.as_mutable<double>()) x = kNan;
  const auto got = values(run(OpKind::Attention, {poisoned.q, o.k, o.v, mask}));
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (i / 3 % 3 == 1) {
      EXPECT_EQ(got[i], 0);
    } else {
      EXPECT_TRUE(std::isnan(got[i]));
    }
  }
  // No keys at all.
  const Operands empty({1, 2, 3, 4}, {1, 2, 0, 4}, 3);
  expect_values(run(OpKind::Attention, {empty.q, empty.k, empty.v}), {1, 2, 3, 3}, Vector(18));
}

TEST(Attention, CausalAndWindows) {
  for (const auto& [queries, keys] : {std::pair(4, 4), std::pair(3, 6), std::pair(6, 3)}) {
    const Operands o({2, 2, queries, 3}, {2, 2, keys, 3}, 3);
    expect_attention(o, {}, {{"is_causal", number(1)}},
                     {.bias = [](auto, auto, auto s, auto t) { return t <= s ? 0 : -kInf; }});
    for (const std::int64_t left : {-1, 0, 2}) {
      for (const std::int64_t right : {-1, 0, 1}) {
        expect_attention(o, {}, {{"left_window_size", number(left)}, {"right_window_size", number(right)}},
                         {.bias = [&](auto, auto, auto s, auto t) {
                           return (left < 0 || t >= s - left) && (right < 0 || t <= s + right) ? 0 : -kInf;
                         }});
      }
    }
    expect_attention(o, {}, {{"left_window_size", number(1)}, {"is_causal", number(1)}},
                     {.bias = [](auto, auto, auto s, auto t) { return t <= s && t >= s - 1 ? 0 : -kInf; }});
  }
}

TEST(Attention, PastComesFirst) {
  const Operands o({2, 4, 3, 4}, {2, 2, 3, 4}, 5), past({2, 4, 1, 4}, {2, 2, 6, 4}, 5, 9);
  Operands whole = o;
  const auto joined = [](const Tensor& a, const Tensor& b) {
    return run(OpKind::Concat, {a, b}, {{"axis", number(2)}});
  };
  whole.k = joined(past.k, o.k);
  whole.v = joined(past.v, o.v);
  const Expected want = attend(whole.q, whole.k, whole.v,
                               {.bias = [](auto, auto, auto s, auto t) { return t <= s + 6 ? 0 : -kInf; }});
  const auto got =
      run_all(OpKind::Attention, {o.q, o.k, o.v, {}, past.k, past.v}, {{"is_causal", number(1)}}, 3);
  expect_values(got[0], {2, 4, 3, 5}, want.y, 1e-12, 1e-12);
  EXPECT_EQ(got[1], whole.k);
  EXPECT_EQ(got[2], whole.v);
  EXPECT_EQ(error_of(OpKind::Attention, {o.q, o.k, o.v, {}, past.v, past.v}), ErrorCode::ShapeMismatch);
}

TEST(Attention, PaddedCache) {
  const Operands o({3, 2, 2, 4}, {3, 2, 6, 4}, 4);
  const std::int64_t lengths[] = {6, 3, 0};
  const Tensor given = integers({6, 3, 0});
  expect_attention(o, {{}, {}, {}, given}, {},
                   {.bias = [&](auto b, auto, auto, auto t) { return t < lengths[b] ? 0 : -kInf; }});
  expect_attention(o, {{}, {}, {}, given}, {{"is_causal", number(1)}},
                   {.bias = [&](auto b, auto, auto s, auto t) {
                     return t < lengths[b] && t <= s + lengths[b] - 2 ? 0 : -kInf;
                   }});
}

TEST(Attention, HalvesRoundOnce) {
  const Operands o({1, 2, 5, 8}, {1, 2, 9, 8}, 8);
  const auto cast = [](const Tensor& x, DType dtype) {
    return run(OpKind::Cast, {x}, {{"to", static_cast<std::int64_t>(dtype)}});
  };
  for (const DType half : {DType::F16, DType::BF16}) {
    const Tensor q = cast(o.q, half), k = cast(o.k, half), v = cast(o.v, half);
    const Tensor want =
        run(OpKind::Attention, {cast(q, DType::F32), cast(k, DType::F32), cast(v, DType::F32)});
    EXPECT_EQ(run(OpKind::Attention, {q, k, v}), cast(want, half));
    // A mask takes the type of the scores: a number that is none there is -inf.
    Tensor mask(DType::F32, {5, 9});
    std::fill(mask.as_mutable<float>().begin(), mask.as_mutable<float>().end(), -1e9F);
    const auto masked = values(run(OpKind::Attention, {q, k, v, mask}));
    EXPECT_EQ(masked[0] == 0, half == DType::F16);
  }
}

Vector gqa(const Inputs& inputs, graph::Attributes attributes, std::size_t output = 0) {
  return values(run_all(OpKind::GroupQueryAttention, inputs, std::move(attributes), 3)[output]);
}

Vector flat_values(const Vector& y, const Extents& extents) {
  return values(flat(tensor<double>(extents, y)));
}

TEST(GroupQueryAttention, PromptThenDecode) {
  const std::int64_t batch = 2, heads = 4, groups = 2, size = 8, length = 5;
  const Operands o({batch, heads, length, size}, {batch, groups, length, size}, size);
  const graph::Attributes heads_given = {{"num_heads", number(heads)}, {"kv_num_heads", number(groups)}};
  const auto narrow = [](const Tensor& x) {
    return run(OpKind::Cast, {flat(x)}, {{"to", static_cast<std::int64_t>(DType::F32)}});
  };
  const auto causal = [](std::int64_t, std::int64_t, std::int64_t s, std::int64_t t) {
    return t <= s ? 0 : -kInf;
  };
  const Expected want = attend(o.q, o.k, o.v, {.bias = causal});
  const Inputs inputs = {narrow(o.q),
                         narrow(o.k),
                         narrow(o.v),
                         {},
                         {},
                         exact<std::int32_t>({2}, {4, 4}),
                         exact<std::int32_t>({1}, {5})};
  expect_near(gqa(inputs, heads_given), flat_values(want.y, {batch, heads, length, size}), 1e-5, 1e-5);
  // The same in two calls: three positions, then two, with a sequence of each length.
  const auto positions = [&](const Tensor& x, std::int64_t from, std::int64_t to) {
    return run(OpKind::Slice, {narrow(x), integers({from}), integers({to}), integers({1})});
  };
  auto first = run_all(OpKind::GroupQueryAttention,
                       {positions(o.q, 0, 3),
                        positions(o.k, 0, 3),
                        positions(o.v, 0, 3),
                        {},
                        {},
                        exact<std::int32_t>({2}, {2, 2}),
                        exact<std::int32_t>({1}, {3})},
                       heads_given, 3);
  const auto second = run_all(OpKind::GroupQueryAttention,
                              {positions(o.q, 3, 5), positions(o.k, 3, 5), positions(o.v, 3, 5), first[1],
                               first[2], exact<std::int32_t>({2}, {4, 4}), exact<std::int32_t>({1}, {5})},
                              heads_given, 3);
  const Tensor whole =
      tensor<double>({batch, length, heads * size}, flat_values(want.y, {batch, heads, length, size}));
  const Tensor tail = run(OpKind::Slice, {whole, integers({3}), integers({5}), integers({1})});
  expect_near(values(second[0]), values(tail), 1e-5, 1e-5);
  expect_near(values(second[1]), values(o.k), 1e-6, 1e-6);
  expect_near(values(second[2]), values(o.v), 1e-6, 1e-6);
}

TEST(GroupQueryAttention, WindowsSinksAndCaps) {
  const Operands o({1, 2, 6, 4}, {1, 2, 6, 4}, 4);
  const auto narrow = [](const Tensor& x) {
    return run(OpKind::Cast, {flat(x)}, {{"to", static_cast<std::int64_t>(DType::F32)}});
  };
  const Inputs inputs = {narrow(o.q),
                         narrow(o.k),
                         narrow(o.v),
                         {},
                         {},
                         exact<std::int32_t>({1}, {5}),
                         exact<std::int32_t>({1}, {6})};
  graph::Attributes attributes = {{"num_heads", number(2)}, {"kv_num_heads", number(2)}};
  attributes["local_window_size"] = number(2);
  attributes["softcap"] = 0.5;
  const auto window = [](std::int64_t, std::int64_t, std::int64_t s, std::int64_t t) {
    return t <= s && t > s - 2 ? 0 : -kInf;
  };
  const Expected want = attend(o.q, o.k, o.v, {.softcap = 0.5, .bias = window});
  expect_near(gqa(inputs, attributes), flat_values(want.y, {1, 2, 6, 4}), 1e-5, 1e-5);
  // A sink is one more key without a value: what Softmax gives it is lost.
  Inputs sunk = inputs;
  sunk.resize(11);
  sunk.push_back(tensor({2}, {0.5, -1}));
  Vector y;
  for (std::size_t i = 0; i < want.y.size(); ++i) {
    const std::size_t row = i / 4, head = i / 24;
    double kept = 0;
    for (std::size_t t = 0; t < 6; ++t) kept += std::exp(want.biased[row * 6 + t]);
    y.push_back(want.y[i] * kept / (kept + std::exp(head == 0 ? 0.5 : -1)));
  }
  expect_near(gqa(sunk, attributes), flat_values(y, {1, 2, 6, 4}), 1e-5, 1e-5);
}

TEST(GroupQueryAttention, BadLengthsAreErrors) {
  const Operands o({1, 2, 2, 4}, {1, 2, 2, 4}, 4);
  const auto narrow = [](const Tensor& x) {
    return run(OpKind::Cast, {flat(x)}, {{"to", static_cast<std::int64_t>(DType::F32)}});
  };
  const graph::Attributes attributes = {{"num_heads", number(2)}, {"kv_num_heads", number(2)}};
  for (const auto& [keys, total] : {std::pair(7, 2), std::pair(-2, 2), std::pair(3, 4), std::pair(1, 1)}) {
    EXPECT_EQ(error_of(OpKind::GroupQueryAttention,
                       {narrow(o.q),
                        narrow(o.k),
                        narrow(o.v),
                        {},
                        {},
                        exact<std::int32_t>({1}, {keys}),
                        exact<std::int32_t>({1}, {total})},
                       attributes),
              ErrorCode::InvalidArgument)
        << keys << " " << total;
  }
}

// The state recalls nothing at first; a delta rule with beta 1 and keys of length 1 recalls the last value of
// every key exactly.
TEST(LinearAttention, RulesByHand) {
  const Tensor q = tensor({1, 2, 2}, {1, 0, 0, 2}), k = tensor({1, 2, 2}, {1, 0, 0, 1}),
               v = tensor({1, 2, 1}, {3, 5});
  const auto run_rule = [&](const std::string& rule, std::optional<Tensor> decay,
                            std::optional<Tensor> beta) {
    return run_all(
        OpKind::LinearAttention, {q, k, v, {}, std::move(decay), std::move(beta)},
        {{"q_num_heads", number(1)}, {"kv_num_heads", number(1)}, {"update_rule", rule}, {"scale", 1.0}}, 2);
  };
  const auto linear = run_rule("linear", {}, {});
  expect_values(linear[0], {1, 2, 1}, {3, 10});
  expect_values(linear[1], {1, 1, 2, 1}, {3, 5});
  const double half = std::log(0.5);
  const auto gated = run_rule("gated", tensor({1, 2, 1}, {0, half}), {});
  expect_values(gated[1], {1, 1, 2, 1}, {1.5, 5}, 1e-6);
  const auto per_element = run_rule("gated", tensor({1, 2, 2}, {0, 0, half, 0}), {});
  expect_values(per_element[1], {1, 1, 2, 1}, {1.5, 5}, 1e-6);
  const auto delta = run_rule("delta", {}, tensor({1, 2, 1}, {1, 0.5}));
  expect_values(delta[0], {1, 2, 1}, {3, 5});
  expect_values(delta[1], {1, 1, 2, 1}, {3, 2.5});
  EXPECT_EQ(error_of(OpKind::LinearAttention, {q, k, v, {}, {}, {}},
                     {{"q_num_heads", number(1)}, {"kv_num_heads", number(1)}}),
            ErrorCode::InvalidModel);
}

TEST(LinearAttention, MatchesPlainLoops) {
  std::mt19937 generator(8);
  const std::int64_t batch = 2, steps = 5, heads = 4, groups = 2, size = 3, width = 2;
  const Tensor q = random({batch, steps, heads * size}, generator),
               k = random({batch, steps, groups * size}, generator),
               v = random({batch, steps, groups * width}, generator),
               decay = random({batch, steps, groups * size}, generator, -1, 0),
               beta = random({batch, steps, groups}, generator, 0, 1),
               past = random({batch, groups, size, width}, generator);
  const auto get = [](const Tensor& x, std::int64_t b, std::int64_t t, std::int64_t i) {
    return values(x)[static_cast<std::size_t>((b * x.extents()[1] + t) * x.extents()[2] + i)];
  };
  Vector y(static_cast<std::size_t>(batch * steps * heads * width)), last;
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t g = 0; g < groups; ++g) {
      Vector state;
      for (std::int64_t i = 0; i < size * width; ++i) state.push_back(at(past, b, g, i / width, i % width));
      const auto s = [&](std::int64_t i, std::int64_t j) -> double& {
        return state[static_cast<std::size_t>(i * width + j)];
      };
      for (std::int64_t t = 0; t < steps; ++t) {
        for (std::int64_t i = 0; i < size; ++i) {
          for (std::int64_t j = 0; j < width; ++j) s(i, j) *= std::exp(get(decay, b, t, g * size + i));
        }
        Vector change;
        for (std::int64_t j = 0; j < width; ++j) {
          double recalled = 0;
          for (std::int64_t i = 0; i < size; ++i) recalled += s(i, j) * get(k, b, t, g * size + i);
          change.push_back(get(beta, b, t, g) * (get(v, b, t, g * width + j) - recalled));
        }
        for (std::int64_t i = 0; i < size; ++i) {
          for (std::int64_t j = 0; j < width; ++j)
            s(i, j) += get(k, b, t, g * size + i) * change[static_cast<std::size_t>(j)];
        }
        for (std::int64_t h = 2 * g; h < 2 * g + 2; ++h) {
          for (std::int64_t j = 0; j < width; ++j) {
            double sum = 0;
            for (std::int64_t i = 0; i < size; ++i) sum += get(q, b, t, h * size + i) * s(i, j);
            y[static_cast<std::size_t>(((b * steps + t) * heads + h) * width + j)] = sum / std::sqrt(3.0);
          }
        }
      }
      last.insert(last.end(), state.begin(), state.end());
    }
  }
  const auto got = run_all(OpKind::LinearAttention, {q, k, v, past, decay, beta},
                           {{"q_num_heads", number(heads)}, {"kv_num_heads", number(groups)}}, 2);
  expect_values(got[0], {batch, steps, heads * width}, y, 1e-5, 1e-5);
  expect_values(got[1], {batch, groups, size, width}, last, 1e-5, 1e-5);
}

}  // namespace
}  // namespace kiln::reference
