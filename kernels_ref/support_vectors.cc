// Support vector machines in f64, as libsvm defines them.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/element.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {
namespace {

using Vector = std::span<const double>;
using VectorKernel = std::function<double(Vector, Vector)>;

double dot(Vector a, Vector b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

VectorKernel vector_kernel(const graph::Node& node) {
  double gamma = 0, offset = 0, degree = 0;
  if (has(node, "kernel_params") && !numbers(node, "kernel_params").empty()) {
    const auto parameters = numbers(node, "kernel_params");
    gamma = parameters[0], offset = parameters[1], degree = parameters[2];
  }
  const std::string& type = text(node, "kernel_type");
  if (type == "LINEAR") return dot;
  if (type == "POLY") return [=](Vector a, Vector b) { return std::pow(gamma * dot(a, b) + offset, degree); };
  if (type == "SIGMOID") return [=](Vector a, Vector b) { return std::tanh(gamma * dot(a, b) + offset); };
  return [=](Vector a, Vector b) {
    double squares = 0;
    for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
    return std::exp(-gamma * squares);
  };
}

// The input's rows beside the support vectors, which are rows of the same length.
struct Problem {
  Problem(Call& call, std::size_t vector_count)
      : x(to_numbers(call.input(0))), vectors(numbers(call.node, "support_vectors")), count(vector_count) {
    const Tensor& input = call.input(0);
    features = count == 0 ? 0 : vectors.size() / count;
    const auto width = static_cast<std::size_t>(input.rank() == 0 ? 0 : input.extents().back());
    if (input.rank() < 1 || input.rank() > 2 || width != features) {
      throw_caller(ErrorCode::ShapeMismatch, "expected an input of [N, {0}] or [{0}], got {1}", features,
                   to_string(input.extents()));
    }
    rows = input.rank() == 2 ? input.extents()[0] : 1;
  }

  // The kernel of row `row` with every support vector.
  std::vector<double> similarities(std::int64_t row, const VectorKernel& kernel) const {
    std::vector<double> result;
    const Vector sample = Vector(x).subspan(static_cast<std::size_t>(row) * features, features);
    for (std::size_t i = 0; i < count; ++i) {
      result.push_back(kernel(sample, vectors.subspan(i * features, features)));
    }
    return result;
  }

  std::vector<double> x;
  Vector vectors;
  std::size_t count, features = 0;
  std::int64_t rows = 1;
};

// The probabilities of `n` classes that fit best to those of each pair, r[i * n + j] for i against j: the
// second method of Wu, Lin and Weng (2004), with libsvm's bounds.
std::vector<double> coupled(const std::vector<double>& r, std::size_t n) {
  std::vector<double> q(n * n), qp(n), p(n, 1.0 / static_cast<double>(n));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (j == i) continue;
      q[i * n + i] += r[j * n + i] * r[j * n + i];
      q[i * n + j] = -r[j * n + i] * r[i * n + j];
    }
  }
  const double tolerance = 0.005 / static_cast<double>(n);
  for (std::size_t round = 0; round < std::max<std::size_t>(100, n); ++round) {
    double pqp = 0, worst = 0;
    for (std::size_t i = 0; i < n; ++i) {
      qp[i] = dot(Vector(q).subspan(i * n, n), p);
      pqp += p[i] * qp[i];
    }
    for (std::size_t i = 0; i < n; ++i) worst = std::max(worst, std::abs(qp[i] - pqp));
    if (worst < tolerance) break;
    for (std::size_t i = 0; i < n; ++i) {
      const double step = (pqp - qp[i]) / q[i * n + i], scale = 1 + step;
      p[i] += step;
      pqp = (pqp + step * (step * q[i * n + i] + 2 * qp[i])) / scale / scale;
      for (std::size_t j = 0; j < n; ++j) {
        qp[j] = (qp[j] + step * q[i * n + j]) / scale;
        p[j] /= scale;
      }
    }
  }
  return p;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

void write(Tensor& y, std::int64_t row, const std::vector<double>& values) {
  dispatch(WideFloats{}, y.dtype(), [&]<typename T>() {
    T* to = y.as_mutable<T>().data() + row * static_cast<std::int64_t>(values.size());
    for (const double value : values) *to++ = static_cast<T>(value);
  });
}

}  // namespace

void svm_classifier(Call& call) {
  const graph::Node& node = call.node;
  const auto sizes = integers(node, "vectors_per_class");
  const std::size_t classes = sizes.size(), pairs = classes * (classes - 1) / 2;
  std::vector<std::size_t> first = {0};  // number of each class's first support vector
  for (const std::int64_t size : sizes) first.push_back(first.back() + static_cast<std::size_t>(size));
  const Problem problem(call, first.back());
  const Vector coefficients = numbers(node, "coefficients"), rho = numbers(node, "rho");
  const bool probabilities = has(node, "prob_a") && !numbers(node, "prob_a").empty();
  const VectorKernel kernel = vector_kernel(node);

  std::int64_t* labels = call.output(0, DType::I64, {problem.rows}).as_mutable<std::int64_t>().data();
  Tensor& scores_out = call.output(
      1, call.input(0).dtype(), {problem.rows, static_cast<std::int64_t>(probabilities ? classes : pairs)});
  const auto work = static_cast<std::int64_t>(problem.count * problem.features);
  for_range(call, problem.rows, 4 * work, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::vector<double> similar = problem.similarities(row, kernel);
      // Row c of the coefficients: against class c for the vectors of later classes, c + 1 for those up to c.
      const auto part = [&](std::size_t against, std::size_t owner) {
        double sum = 0;
        for (std::size_t i = first[owner]; i < first[owner + 1]; ++i) {
          sum += coefficients[against * problem.count + i] * similar[i];
        }
        return sum;
      };
      std::vector<double> scores, pairwise(classes * classes);
      std::vector<std::int64_t> votes(classes);
      for (std::size_t i = 0; i < classes; ++i) {
        for (std::size_t j = i + 1; j < classes; ++j) {
          const std::size_t pair = scores.size();
          const double score = part(j - 1, i) + part(i, j) + rho[pair];
          scores.push_back(score);
          ++votes[score > 0 ? i : j];
          if (!probabilities) continue;
          constexpr double kLeast = 1e-7;
          const double chance =
              1 - sigmoid(score * numbers(node, "prob_a")[pair] + numbers(node, "prob_b")[pair]);
          pairwise[i * classes + j] = std::clamp(chance, kLeast, 1 - kLeast);
          pairwise[j * classes + i] = 1 - pairwise[i * classes + j];
        }
      }
      labels[row] = std::max_element(votes.begin(), votes.end()) - votes.begin();
      write(scores_out, row, probabilities ? coupled(pairwise, classes) : scores);
    }
  });
}

void svm_regressor(Call& call) {
  const graph::Node& node = call.node;
  const Problem problem(call, static_cast<std::size_t>(integer(node, "n_supports")));
  const Vector coefficients = numbers(node, "coefficients");
  const VectorKernel kernel = vector_kernel(node);
  Tensor& y = call.output(0, call.input(0).dtype(), {problem.rows, 1});
  const auto work = static_cast<std::int64_t>(problem.count * problem.features);
  for_range(call, problem.rows, 4 * work, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      write(y, row, {dot(problem.similarities(row, kernel), coefficients) + numbers(node, "rho")[0]});
    }
  });
}

}  // namespace kiln::reference
