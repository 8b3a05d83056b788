#include "tests/support/paper_array.h"
#include "tests/support/paper_programs.h"

namespace kiln::tile {
namespace {

std::string softmax(const Executor& run, std::int64_t rows, std::int64_t columns, std::int64_t block) {
  Array<float> x = Array<float>::random({rows, columns}, 1, 4), y({rows, columns});
  if (rows > 1 && columns > 1) x(1, 0) = -INFINITY;
  run(paper_kernels("softmax", {{"BLOCK", block}})[0], std::vector{x.argument(), y.argument()});
  Array<double> want({rows, columns});
  for (std::int64_t r = 0; r < rows; ++r) {
    double top = -INFINITY, sum = 0;
    for (std::int64_t j = 0; j < columns; ++j) top = std::max(top, static_cast<double>(x(r, j)));
    for (std::int64_t j = 0; j < columns; ++j) sum += std::exp(x(r, j) - top);
    for (std::int64_t j = 0; j < columns; ++j) want(r, j) = std::exp(x(r, j) - top) / sum;
  }
  return compare(y.data(), want.data(), 1e-6);
}

// A row that its local memory cannot hold.
std::string softmax_too_long(const Executor& run) {
  Array<float> x({1, 65537}), y({1, 65537});
  try {
    run(paper_kernels("softmax", {})[0], std::vector{x.argument(), y.argument()});
  } catch (const Error& error) {
    return error.code() == ErrorCode::LimitExceeded ? "" : error.what();
  }
  return "no error";
}

std::string layer_norm(const Executor& run, std::int64_t rows, std::int64_t columns, std::int64_t block) {
  Array<float> x = Array<float>::random({rows, columns}, 2), y({rows, columns});
  Array<float> scale = Array<float>::random({columns}, 3), bias = Array<float>::random({columns}, 4);
  for (float& value : x.data()) value += 3;
  const float epsilon = 1e-5f;
  run(paper_kernels("layer_norm", {{"BLOCK", block}})[0],
      std::vector{x.argument(), scale.argument(), bias.argument(), y.argument(),
                  Argument(Literal::number(DType::F32, epsilon))});
  Array<double> want({rows, columns});
  for (std::int64_t r = 0; r < rows; ++r) {
    double mean = 0, variance = 0;
    for (std::int64_t j = 0; j < columns; ++j) mean += x(r, j);
    mean /= static_cast<double>(columns);
    for (std::int64_t j = 0; j < columns; ++j) variance += (x(r, j) - mean) * (x(r, j) - mean);
    variance /= static_cast<double>(columns);
    for (std::int64_t j = 0; j < columns; ++j) {
      want(r, j) = (x(r, j) - mean) / std::sqrt(variance + epsilon) * scale(j) + bias(j);
    }
  }
  return compare(y.data(), want.data(), 2e-5);
}

std::string cumulative_sum(const Executor& run, bool reverse, std::int64_t rows, std::int64_t columns,
                           std::int64_t block) {
  Array<float> x = Array<float>::random({rows, columns}, 5), y({rows, columns});
  run(paper_kernels("cumulative_sum", {{"BLOCK", block}})[reverse ? 1 : 0],
      std::vector{x.argument(), y.argument()});
  Array<double> want({rows, columns});
  for (std::int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int64_t at = reverse ? columns - 1 - j : j;
      if (reverse) want(r, at) = sum;
      sum += x(r, at);
      if (!reverse) want(r, at) = sum;
    }
  }
  return compare(y.data(), want.data(), 1e-5);
}

std::string bias_gelu(const Executor& run, std::int64_t rows, std::int64_t columns, std::int64_t block) {
  Array<float> x = Array<float>::random({rows, columns}, 6, 3), bias = Array<float>::random({columns}, 7);
  Array<float> y({rows, columns});
  run(paper_kernels("bias_gelu", {{"BLOCK", block}})[0],
      std::vector{x.argument(), bias.argument(), y.argument()});
  Array<double> want({rows, columns});
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < columns; ++j) want(r, j) = plain_gelu(x(r, j) + bias(j));
  }
  return compare(y.data(), want.data(), 1e-6);
}

}  // namespace

std::vector<PaperCase> paper_rows() {
  std::vector<PaperCase> cases;
  struct Size {
    std::int64_t rows, columns, block;
  };
  for (const auto [rows, columns, block] : {Size{1, 1, 8}, Size{3, 7, 8}, Size{2, 8, 8}, Size{5, 9, 8},
                                            Size{4, 131, 32}, Size{0, 5, 8}, Size{1, 300, 128}}) {
    const auto add = [&](std::string name, auto function) {
      cases.push_back(
          {fmt::format("{}_{}x{}_by_{}", name, rows, columns, block),
           [=, r = rows, c = columns, b = block](const Executor& run) { return function(run, r, c, b); }});
    };
    add("softmax", softmax);
    add("layer_norm", layer_norm);
    add("bias_gelu", bias_gelu);
    for (const bool reverse : {false, true}) {
      add(reverse ? "cumulative_sum_exclusive_reverse" : "cumulative_sum",
          [reverse](const Executor& run, std::int64_t r, std::int64_t c, std::int64_t b) {
            return cumulative_sum(run, reverse, r, c, b);
          });
    }
  }
  cases.push_back({"softmax_too_long", softmax_too_long});
  return cases;
}

}  // namespace kiln::tile
