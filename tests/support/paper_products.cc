#include <algorithm>

#include "tests/support/paper_array.h"
#include "tests/support/paper_programs.h"

namespace kiln::tile {
namespace {

struct Size {
  std::int64_t m, n, k;
};

Array<double> product(const Array<float>& a, const Array<float>& b) {
  Array<double> c({a.extent(0), b.extent(1)});
  for (std::int64_t i = 0; i < a.extent(0); ++i) {
    for (std::int64_t k = 0; k < a.extent(1); ++k) {
      for (std::int64_t j = 0; j < b.extent(1); ++j) c(i, j) += static_cast<double>(a(i, k)) * b(k, j);
    }
  }
  return c;
}

std::string gemm(const Executor& run, const std::string& file, Size size, const MetaBindings& blocks) {
  Array<float> a = Array<float>::random({size.m, size.k}, 1, 1 / std::sqrt(static_cast<double>(size.k)));
  Array<float> b = Array<float>::random({size.k, size.n}, 2), bias = Array<float>::random({size.n}, 3);
  Array<float> c({size.m, size.n});
  run(paper_kernels(file, blocks)[0], std::vector{a.argument(), b.argument(), bias.argument(), c.argument()});
  Array<double> want = product(a, b);
  for (std::int64_t i = 0; i < size.m; ++i) {
    for (std::int64_t j = 0; j < size.n; ++j) want(i, j) = plain_gelu(want(i, j) + bias(j));
  }
  return compare(c.data(), want.data(), 1e-5);
}

// Three bf16 parts of each operand and six products: as exact as f32.
std::string split_gemm(const Executor& run, Size size) {
  Array<float> a = Array<float>::random({size.m, size.k}, 4), b = Array<float>::random({size.k, size.n}, 5);
  Array<BFloat16> parts({3, size.k, size.n});
  Array<float> c({size.m, size.n});
  const std::vector<Kernel> kernels = paper_kernels("split_gemm", {{"BM", 4}, {"BN", 8}, {"BK", 8}});
  run(kernels[0], std::vector{b.argument(), parts.argument()});
  for (std::int64_t i = 0; i < size.k * size.n; ++i) {
    double sum = 0;
    for (std::int64_t part = 0; part < 3; ++part) {
      sum += static_cast<double>(parts.data()[static_cast<std::size_t>(part * size.k * size.n + i)]);
    }
    if (sum != static_cast<double>(b.data()[static_cast<std::size_t>(i)])) {
      return fmt::format("three parts of element {} add up to {}", i, sum);
    }
  }
  run(kernels[1], std::vector{a.argument(), parts.argument(), c.argument()});
  return compare(c.data(), product(a, b).data(), 4e-6 * std::sqrt(static_cast<double>(size.k)));
}

std::string quantized_matmul(const Executor& run, Size size) {
  Array<float> a = Array<float>::random({size.m, size.k}, 6), scale({1}), b_scale({size.n}),
               y({size.m, size.n});
  Array<std::uint8_t> zero({1}), q({size.m, size.k});
  Array<std::int8_t> b = Array<std::int8_t>::random({size.k, size.n}, 7, 40);
  for (std::int64_t j = 0; j < size.n; ++j) b_scale(j) = 0.01f * static_cast<float>(j + 1);
  const std::vector<Kernel> kernels =
      paper_kernels("quantized_matmul", {{"BLOCK", 16}, {"BM", 4}, {"BN", 8}, {"BK", 16}});
  run(kernels[0], std::vector{a.argument(), scale.argument(), zero.argument()});
  run(kernels[1], std::vector{a.argument(), scale.argument(), zero.argument(), q.argument()});
  run(kernels[2], std::vector{q.argument(), scale.argument(), zero.argument(), b.argument(),
                              b_scale.argument(), y.argument()});
  // The same in plain f32 and exact integers: every bit is determined.
  float least = 0, greatest = 0;
  for (const float value : a.data()) {
    least = std::min(least, value);
    greatest = std::max(greatest, value);
  }
  const float range = (greatest - least) / 255;
  const float step = range == 0 ? 1 : range;
  const float zero_point = std::clamp(std::nearbyint(-least / step), 0.0f, 255.0f);
  if (scale(0) != step || static_cast<float>(zero(0)) != zero_point) return "scale or zero point differ";
  for (std::int64_t i = 0; i < size.m; ++i) {
    for (std::int64_t j = 0; j < size.n; ++j) {
      std::int32_t sum = 0;
      for (std::int64_t k = 0; k < size.k; ++k) {
        const float quantized = std::clamp(std::nearbyint(a(i, k) / step) + zero_point, 0.0f, 255.0f);
        sum += (static_cast<std::int32_t>(quantized) - zero(0)) * b(k, j);
      }
      const float want = static_cast<float>(sum) * (step * b_scale(j));
      if (y(i, j) != want) return fmt::format("element {}, {}: got {}, expected {}", i, j, y(i, j), want);
    }
  }
  return {};
}

std::string concat_pad_gemm(const Executor& run, Size size) {
  Array<float> x = Array<float>::random({size.m, size.k}, 8), y = Array<float>::random({size.m, 3}, 9);
  const std::int64_t rows = size.m + 2, depth = size.k + 3 + 5;
  Array<float> w = Array<float>::random({depth, size.n}, 10), c({rows, size.n}), padded({rows, depth});
  run(paper_kernels("concat_pad_gemm", {{"BM", 4}, {"BN", 8}, {"BK", 8}})[0],
      std::vector{x.argument(), y.argument(), w.argument(), c.argument()});
  for (float& value : padded.data()) value = 0.5f;
  for (std::int64_t i = 0; i < size.m; ++i) {
    for (std::int64_t k = 0; k < size.k; ++k) padded(i + 1, k + 2) = std::max(0.0f, x(i, k));
    for (std::int64_t k = 0; k < 3; ++k) padded(i + 1, size.k + k + 2) = std::max(0.0f, y(i, k));
  }
  return compare(c.data(), product(padded, w).data(), 1e-5);
}

}  // namespace

std::vector<PaperCase> paper_products() {
  std::vector<PaperCase> cases;
  for (const Size size : {Size{1, 1, 1}, Size{4, 16, 8}, Size{5, 17, 9}, Size{3, 15, 7}, Size{13, 37, 53},
                          Size{0, 8, 8}, Size{64, 64, 256}}) {
    const auto add = [&](const std::string& name, auto function) {
      cases.push_back({fmt::format("{}_{}x{}x{}", name, size.m, size.n, size.k),
                       [=](const Executor& run) { return function(run, size); }});
    };
    add("gemm_bias_gelu", [](const Executor& run, Size s) {
      return gemm(run, "gemm_bias_gelu", s, {{"BM", 4}, {"BN", 16}, {"BK", 8}});
    });
    add("split_gemm", split_gemm);
    add("quantized_matmul", quantized_matmul);
    add("concat_pad_gemm", concat_pad_gemm);
  }
  cases.push_back({"gemm_gelu_3x3072x768", [](const Executor& run) {
                     return gemm(run, "gemm_gelu", {3, 3072, 768}, {{"BM", 4}, {"BN", 256}, {"BK", 64}});
                   }});
  return cases;
}

}  // namespace kiln::tile
