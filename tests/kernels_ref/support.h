// Runs one operator on the reference kernels, and makes and compares tensors.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <kiln/tensor.h>

#include "ir/graph/graph.h"
#include "kernels_ref/element.h"
#include "kernels_ref/reference.h"

namespace kiln::reference {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A tensor of any numeric dtype from f64 values, converted by plain casts where exact.
template <typename T = float>
Tensor tensor(Extents extents, const std::vector<double>& values) {
  Tensor result(kDType<T>, std::move(extents));
  EXPECT_EQ(result.elements(), static_cast<std::int64_t>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i)
    result.as_mutable<T>()[i] = T(static_cast<Compute<T>>(values[i]));
  return result;
}

template <typename T>
Tensor exact(Extents extents, const std::vector<T>& values) {
  return Tensor::from(kDType<T>, std::move(extents), std::span<const T>(values));
}

inline Tensor integers(const std::vector<std::int64_t>& values) { return Tensor::from_integers(values); }

// Elements of any numeric tensor as f64.
inline std::vector<double> values(const Tensor& tensor) {
  std::vector<double> result;
  dispatch(NumbersAndBooleans{}, tensor.dtype(), [&]<typename T>() {
    for (const T x : tensor.as<T>()) result.push_back(static_cast<double>(static_cast<Compute<T>>(x)));
  });
  return result;
}

template <typename T = float>
Tensor random(Extents extents, std::mt19937& generator, double low = -1, double high = 1) {
  Tensor result(kDType<T>, std::move(extents));
  std::uniform_real_distribution<double> uniform(low, high);
  for (T& x : result.as_mutable<T>()) x = T(static_cast<Compute<T>>(uniform(generator)));
  return result;
}

using Inputs = std::vector<std::optional<Tensor>>;

// All outputs of `op` on `inputs`.
inline std::vector<Tensor> run_all(graph::OpKind op, const Inputs& inputs, graph::Attributes attributes = {},
                                   std::size_t outputs = 1, const EvaluateOptions& options = {}) {
  graph::Graph graph;
  std::vector<graph::ValueId> ids;
  std::vector<Tensor> given;
  for (const std::optional<Tensor>& input : inputs) {
    if (!input) {
      ids.push_back({});
      continue;
    }
    graph::Shape shape;
    for (const std::int64_t extent : input->extents()) shape.emplace_back(extent);
    graph::Value value;
    value.name = "x" + std::to_string(ids.size());
    value.dtype = input->dtype();
    value.shape = shape;
    ids.push_back(graph.add_value(value));
    graph.inputs.push_back(ids.back());
    given.push_back(*input);
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < outputs; ++i) names.push_back("y" + std::to_string(i));
  const graph::NodeId node = graph.add_node(op, ids, std::move(attributes), "node", names);
  const std::vector<graph::ValueId>& made = graph.node(node).outputs;
  graph.outputs.assign(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(outputs));
  return evaluate(graph, given, options);
}

inline Tensor run(graph::OpKind op, const Inputs& inputs, graph::Attributes attributes = {},
                  const EvaluateOptions& options = {}) {
  return run_all(op, inputs, std::move(attributes), 1, options)[0];
}

// The code of the Error that running throws, or nothing.
inline std::optional<ErrorCode> error_of(graph::OpKind op, const Inputs& inputs,
                                         graph::Attributes attributes = {}, std::size_t outputs = 1) {
  try {
    run_all(op, inputs, std::move(attributes), outputs);
  } catch (const Error& error) {
    return error.code();
  }
  return std::nullopt;
}

// |got - want| <= absolute + relative * |want|, NaN equal to NaN, infinities to themselves.
inline void expect_near(const std::vector<double>& got, const std::vector<double>& want,
                        double relative = 1e-6, double absolute = 1e-6) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << "at " << i << ": " << got[i];
    } else if (std::isinf(want[i])) {
      EXPECT_EQ(got[i], want[i]) << "at " << i;
    } else {
      EXPECT_LE(std::abs(got[i] - want[i]), absolute + relative * std::abs(want[i]))
          << "at " << i << ": " << got[i] << " for " << want[i];
    }
  }
}
inline void expect_values(const Tensor& got, const Extents& extents, const std::vector<double>& want,
                          double relative = 0, double absolute = 0) {
  EXPECT_EQ(got.extents(), extents);
  expect_near(values(got), want, relative, absolute);
}

}  // namespace kiln::reference
