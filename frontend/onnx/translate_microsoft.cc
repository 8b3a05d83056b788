// Translators: operators of com.microsoft that are chains of modern ones.
#include <algorithm>

#include "frontend/onnx/channels_last.h"
#include "frontend/onnx/shape_nodes.h"
#include "frontend/onnx/translators.h"
#include "ir/base/errors.h"

namespace kiln::frontend::translate {
namespace {

// What an operator has fused behind it.
struct Activation {
  std::string name;  // empty: none
  std::vector<double> parameters;

  double parameter(std::size_t index, double absent) const {
    return index < parameters.size() ? parameters[index] : absent;
  }
};

Activation take_activation(Translation& node) {
  Activation activation;
  activation.name = node.take_text("activation", "");
  if (const auto list = node.take_numbers("activation_params")) activation.parameters = *list;
  for (const std::string_view name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    if (const auto value = node.take_number(name)) activation.parameters.push_back(*value);
  }
  return activation;
}

void finish_activation(Translation& node, ValueId x, const Activation& activation) {
  const DType type = node.dtype(x);
  if (activation.name.empty()) return node.finish_with({x});
  if (activation.name == "Clip") {
    const auto bound = [&](std::size_t index) {
      return index < activation.parameters.size() ? node.scalar(type, activation.parameters[index])
                                                  : ValueId::none();
    };
    return node.finish(OpKind::Clip, {x, bound(0), bound(1)}, {});
  }
  if (activation.name == "LeakyRelu") {
    return node.finish(OpKind::LeakyRelu, {x}, {{"alpha", activation.parameter(0, 0.01)}});
  }
  if (activation.name == "HardSigmoid") {
    return node.finish(OpKind::HardSigmoid, {x},
                       {{"alpha", activation.parameter(0, 0.2)}, {"beta", activation.parameter(1, 0.5)}});
  }
  for (const OpKind kind :
       {OpKind::Relu, OpKind::Sigmoid, OpKind::Tanh, OpKind::HardSwish, OpKind::Softmax}) {
    if (activation.name == graph::name(kind)) return node.finish(kind, {x}, {});
  }
  node.unsupported(fmt::format("activation '{}' is not supported", activation.name));
}

// Moves the first axis behind the other batch axes, and swaps the last two. A vector stays.
ValueId transposed_operand(Translation& node, ValueId value, bool batch, bool matrix) {
  if (!batch && !matrix) return value;
  const auto rank = node.rank(value);
  if (!rank && batch) {
    const ValueId last = extent(node, value, -1), leading = extents_between(node, value, 0, -1);
    const ValueId one = node.integers({1});
    const ValueId first = sliced(node, leading, node.integers({0}), one, 0);
    const ValueId middle = sliced(node, leading, one, {}, 0);
    if (matrix) return with_groups_in_order(node, value, {first, middle, last}, {1, 2, 0});
    return with_groups_in_order(node, value, {first, middle, last}, {1, 0, 2});
  }
  if (!rank) {
    return with_groups_in_order(
        node, value,
        {extents_between(node, value, 0, -2), extents_between(node, value, -2, -1), extent(node, value, -1)},
        {0, 2, 1});
  }
  if (*rank < 2) return value;
  std::vector<std::int64_t> permutation;
  for (std::int64_t axis = 0; axis < *rank; ++axis) permutation.push_back(axis);
  if (batch) std::rotate(permutation.begin(), permutation.begin() + 1, permutation.end() - 1);
  if (matrix) std::swap(permutation[permutation.size() - 2], permutation.back());
  return transposed(node, value, std::move(permutation));
}

Attributes tanh_approximation() { return {{"approximate", std::string("tanh")}}; }

}  // namespace

void bias_add(Translation& node) {
  const ValueId biased = node.add(OpKind::Add, {node.input(0), node.input(1)});
  node.finish(OpKind::Add, {biased, node.input(2)});
}

void bias_gelu(Translation& node) {
  node.finish(OpKind::Gelu, {node.add(OpKind::Add, {node.input(0), node.input(1)})});
}

void fast_gelu(Translation& node) {
  ValueId x = node.input(0);
  if (node.has_input(1)) x = node.add(OpKind::Add, {x, node.input(1)});
  node.finish(OpKind::Gelu, {x}, tanh_approximation());
}

void gemm_fast_gelu(Translation& node) {
  ValueId x = node.add(OpKind::MatMul, {node.input(0), node.input(1)});
  if (node.has_input(2)) x = node.add(OpKind::Add, {x, node.input(2)});
  node.finish(OpKind::Gelu, {x}, tanh_approximation());
}

void quick_gelu(Translation& node) {
  node.attributes.try_emplace("alpha", 1.702);
  node.finish(OpKind::Swish, node.inputs);
}

void fused_conv(Translation& node) {
  const Activation activation = take_activation(node);
  ValueId y = node.add(OpKind::Conv, {node.input(0), node.input(1), node.optional_input(2)},
                       std::move(node.attributes));
  if (node.has_input(3)) y = node.add(OpKind::Add, {y, node.input(3)});
  finish_activation(node, y, activation);
}

// The filters have their channels last too, [M, spatial ..., C].
void nhwc_conv(Translation& node) {
  const ValueId x = channels_second(node, node.input(0)), w = channels_second(node, node.input(1));
  const ValueId y = node.add(OpKind::Conv, {x, w, node.optional_input(2)}, std::move(node.attributes));
  node.finish_with({channels_second(node, y, true)});
}

// Only X, the sum Z and Y have their channels last.
void nhwc_fused_conv(Translation& node) {
  const Activation activation = take_activation(node);
  ValueId y =
      node.add(OpKind::Conv, {channels_second(node, node.input(0)), node.input(1), node.optional_input(2)},
               std::move(node.attributes));
  y = channels_second(node, y, true);
  if (node.has_input(3)) y = node.add(OpKind::Add, {y, node.input(3)});
  finish_activation(node, y, activation);
}

void nhwc_max_pool(Translation& node) {
  const ValueId y =
      node.add(OpKind::MaxPool, {channels_second(node, node.input(0))}, std::move(node.attributes));
  node.finish_with({channels_second(node, y, true)});
}

void fused_gemm(Translation& node) {
  const Activation activation = take_activation(node);
  finish_activation(node, node.add(OpKind::Gemm, node.inputs, std::move(node.attributes)), activation);
}

void fused_matmul(Translation& node) {
  Activation activation = take_activation(node);
  const auto axis = node.take_integer("activation_axis");
  if (axis && activation.name == "Softmax" && *axis != -1)
    node.unsupported("a Softmax behind it must be on the last axis");
  const auto flag = [&](std::string_view name) { return node.take_integer(name, 0) != 0; };
  const ValueId a = transposed_operand(node, node.input(0), flag("transBatchA"), flag("transA"));
  const ValueId b = transposed_operand(node, node.input(1), flag("transBatchB"), flag("transB"));
  const double alpha = node.take_number("alpha", 1);
  const ValueId product = node.add(OpKind::MatMul, {a, b});
  if (alpha == 1) return finish_activation(node, product, activation);
  const ValueId factor = node.scalar(node.dtype(product), alpha);
  if (activation.name.empty()) return node.finish(OpKind::Mul, {product, factor});
  finish_activation(node, node.add(OpKind::Mul, {product, factor}), activation);
}

// The distinct elements in order of appearance, for each element its place among them, and their counts.
void unique_microsoft(Translation& node) {
  const std::vector<ValueId> made =
      node.add_many(OpKind::Unique, {node.input(0)}, {{"sorted", std::int64_t{0}}}, 4);
  node.finish_with({made[0], made[2], made[3]});
}

// Distances between the rows of A and those of B.
void cdist(Translation& node) {
  const std::string metric = node.take_text("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean") {
    node.unsupported(fmt::format("metric '{}' is not supported, expected sqeuclidean or euclidean", metric));
  }
  const ValueId a = node.add(OpKind::Unsqueeze, {node.input(0), node.integers({1})});
  const ValueId b = node.add(OpKind::Unsqueeze, {node.input(1), node.integers({0})});
  node.finish(metric == "euclidean" ? OpKind::ReduceL2 : OpKind::ReduceSumSquare,
              {node.add(OpKind::Sub, {a, b}), node.integers({2})}, {{"keepdims", std::int64_t{0}}});
}

}  // namespace kiln::frontend::translate
