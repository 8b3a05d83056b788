#include "tests/support/paper_array.h"
#include "tests/support/paper_programs.h"

namespace kiln::tile {
namespace {

std::string attention(const Executor& run, const std::string& file, std::int64_t batch, std::int64_t queries,
                      std::int64_t keys) {
  constexpr std::int64_t kHeads = 2, kDepth = 64;
  Array<float> q = Array<float>::random({batch, kHeads, queries, kDepth}, 1);
  Array<float> k = Array<float>::random({batch, kHeads, keys, kDepth}, 2);
  Array<float> v = Array<float>::random({batch, kHeads, keys, kDepth}, 3);
  Array<float> y({batch, kHeads, queries, kDepth});
  run(paper_kernels(file, {{"BM", 4}, {"BN", 8}})[0],
      std::vector{q.argument(), k.argument(), v.argument(), y.argument()});
  Array<double> want({batch, kHeads, queries, kDepth});
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t h = 0; h < kHeads; ++h) {
      for (std::int64_t i = 0; i < queries; ++i) {
        std::vector<double> score(static_cast<std::size_t>(keys), 0);
        double top = -INFINITY, sum = 0;
        for (std::int64_t j = 0; j < keys; ++j) {
          double& s = score[static_cast<std::size_t>(j)];
          for (std::int64_t d = 0; d < kDepth; ++d) s += static_cast<double>(q(b, h, i, d)) * k(b, h, j, d);
          s /= 8;
          top = std::max(top, s);
        }
        for (double& s : score) sum += s = std::exp(s - top);
        for (std::int64_t j = 0; j < keys; ++j) {
          for (std::int64_t d = 0; d < kDepth; ++d) {
            want(b, h, i, d) += score[static_cast<std::size_t>(j)] / sum * v(b, h, j, d);
          }
        }
      }
    }
  }
  return compare(y.data(), want.data(), 1e-5);
}

double plain_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

std::string lstm(const Executor& run, std::int64_t steps, std::int64_t batch, std::int64_t inputs,
                 std::int64_t hidden) {
  Array<float> x = Array<float>::random({steps, batch, inputs}, 4);
  Array<float> w = Array<float>::random({inputs, 4, hidden}, 5, 0.3);
  Array<float> r = Array<float>::random({hidden, 4, hidden}, 6, 0.3);
  Array<float> bias = Array<float>::random({4, hidden}, 7), y({steps, batch, hidden});
  run(paper_kernels("lstm", {{"BM", 3}, {"BH", 4}, {"BK", 4}})[0],
      std::vector{x.argument(), w.argument(), r.argument(), bias.argument(), y.argument()});
  Array<double> want({steps, batch, hidden}), c({batch, hidden}), h({batch, hidden});
  for (std::int64_t t = 0; t < steps; ++t) {
    Array<double> next({batch, hidden});
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t j = 0; j < hidden; ++j) {
        double gate[4];
        for (std::int64_t g = 0; g < 4; ++g) {
          gate[g] = bias(g, j);
          for (std::int64_t k = 0; k < inputs; ++k) gate[g] += static_cast<double>(x(t, b, k)) * w(k, g, j);
          for (std::int64_t k = 0; k < hidden; ++k) gate[g] += h(b, k) * r(k, g, j);
        }
        c(b, j) = plain_sigmoid(gate[2]) * c(b, j) + plain_sigmoid(gate[0]) * std::tanh(gate[3]);
        next(b, j) = plain_sigmoid(gate[1]) * std::tanh(c(b, j));
        want(t, b, j) = next(b, j);
      }
    }
    h = std::move(next);
  }
  return compare(y.data(), want.data(), 1e-5);
}

std::string embedding(const Executor& run, std::int64_t batch, std::int64_t length, std::int64_t width) {
  constexpr std::int64_t kRows = 11;
  Array<float> table = Array<float>::random({kRows, width}, 8), y({batch, length, width});
  Array<std::int64_t> ids({batch, length});
  for (std::size_t i = 0; i < ids.data().size(); ++i) {
    ids.data()[i] = static_cast<std::int64_t>(i * 7) % (2 * kRows) - kRows;  // from either end
  }
  const Kernel kernel = paper_kernels("embedding", {{"BS", 4}, {"BD", 8}})[0];
  run(kernel, std::vector{table.argument(), ids.argument(), y.argument()});
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t s = 0; s < length; ++s) {
      for (std::int64_t d = 0; d < width; ++d) {
        const std::int64_t id = ids(b, s) < 0 ? ids(b, s) + kRows : ids(b, s);
        if (y(b, s, d) != table(id, d)) return fmt::format("row {}, {}, element {} differs", b, s, d);
      }
    }
  }
  if (ids.data().empty() || width == 0) return {};
  for (const std::int64_t bad : {kRows, -kRows - 1, INT64_MAX, INT64_MIN}) {
    ids.data().back() = bad;
    try {
      run(kernel, std::vector{table.argument(), ids.argument(), y.argument()});
      return fmt::format("index {} of {} rows is no error", bad, kRows);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::IndexOutOfRange) return error.what();
    }
  }
  return {};
}

std::string scatter_add(const Executor& run, std::int64_t count, std::int64_t width) {
  constexpr std::int64_t kRows = 5;
  Array<std::int64_t> ids({count});
  Array<float> updates = Array<float>::random({count, width}, 9),
               y = Array<float>::random({kRows, width}, 10);
  Array<double> want({kRows, width});
  for (std::size_t i = 0; i < want.data().size(); ++i) want.data()[i] = y.data()[i];
  for (std::int64_t i = 0; i < count; ++i) {
    ids(i) = i * i % kRows;
    for (std::int64_t d = 0; d < width; ++d) want(ids(i), d) += updates(i, d);
  }
  run(paper_kernels("scatter_add", {{"BI", 4}, {"BD", 8}})[0],
      std::vector{ids.argument(), updates.argument(), y.argument()});
  return compare(y.data(), want.data(), 1e-5);
}

}  // namespace

std::vector<PaperCase> paper_sequences() {
  std::vector<PaperCase> cases;
  const auto add = [&](std::string name, std::function<std::string(const Executor&)> run) {
    cases.push_back({std::move(name), std::move(run)});
  };
  for (const std::string file : {"attention_full", "attention_online"}) {
    for (const auto& [queries, keys] : {std::pair{1, 1}, {4, 8}, {5, 9}, {17, 31}, {0, 3}}) {
      add(fmt::format("{}_{}_{}", file, queries, keys), [=, q = queries, k = keys](const Executor& run) {
        return attention(run, file, q == 17 ? 2 : 1, q, k);
      });
    }
  }
  for (const auto& [steps, batch, inputs, hidden] :
       {std::array{1, 1, 1, 1}, std::array{3, 4, 5, 6}, std::array{4, 3, 8, 4}, std::array{0, 2, 3, 4}}) {
    add(fmt::format("lstm_{}_{}_{}_{}", steps, batch, inputs, hidden),
        [s = steps, b = batch, i = inputs, h = hidden](const Executor& run) {
          return lstm(run, s, b, i, h);
        });
  }
  for (const auto& [batch, length, width] :
       {std::array{1, 1, 1}, std::array{2, 4, 8}, std::array{3, 7, 19}, std::array{1, 0, 4}}) {
    add(fmt::format("embedding_{}_{}_{}", batch, length, width),
        [b = batch, l = length, w = width](const Executor& run) { return embedding(run, b, l, w); });
  }
  for (const auto& [count, width] : {std::pair{1, 1}, {4, 8}, {13, 17}, {0, 3}}) {
    add(fmt::format("scatter_add_{}_{}", count, width),
        [c = count, w = width](const Executor& run) { return scatter_add(run, c, w); });
  }
  return cases;
}

std::vector<PaperCase> paper_cases() {
  std::vector<PaperCase> all;
  for (auto* part : {paper_rows, paper_products, paper_convolutions, paper_sequences}) {
    for (PaperCase& paper : part()) all.push_back(std::move(paper));
  }
  return all;
}

}  // namespace kiln::tile
