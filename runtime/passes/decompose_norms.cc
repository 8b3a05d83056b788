#include <algorithm>
#include <vector>

#include "runtime/passes/decompositions.h"

namespace kiln::runtime {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::OpKind;
using graph::Shape;
using graph::ValueId;

const graph::Attributes kKeep{{"keepdims", std::int64_t{1}}};

ValueId constant_number(Graph& graph, DType dtype, double number) {
  Tensor tensor(dtype, {});
  if (dtype == DType::F64) {
    tensor.as_mutable<double>()[0] = number;
  } else {
    tensor.as_mutable<float>()[0] = static_cast<float>(number);
  }
  return graph.add_constant(std::move(tensor));
}

// The shape of the data, if its rank is known and every node of a decomposition rounds as the whole operator
// does: 16-bit floats would be rounded between them.
std::optional<Shape> unrounded_shape(const Graph& graph, ValueId id) {
  const graph::Value& value = graph.value(id);
  return value.dtype == DType::F32 || value.dtype == DType::F64 ? value.shape : std::nullopt;
}

}  // namespace

std::optional<ValueId> mean_variance_as_reductions(Graph& graph, const Node& node) {
  const ValueId x = node.inputs[0];
  const auto list = integers(node, "axes");
  if (!unrounded_shape(graph, x) || list.empty()) return std::nullopt;
  const DType dtype = graph.value(x).dtype;
  const ValueId axes = graph.add_constant(Tensor::from_integers(list));
  const ValueId centred = graph.add(OpKind::Sub, {x, graph.add(OpKind::ReduceMean, {x, axes}, kKeep)});
  const ValueId squares = graph.add(OpKind::Mul, {centred, centred});
  const ValueId deviation = graph.add(OpKind::Sqrt, {graph.add(OpKind::ReduceMean, {squares, axes}, kKeep)});
  // As the reference: it only matters where the deviation is 0.
  const ValueId positive = graph.add(OpKind::Add, {deviation, constant_number(graph, dtype, 1e-9)});
  return graph.add(OpKind::Div, {centred, positive});
}

std::optional<ValueId> lp_normalization_as_rows(Graph& graph, const Node& node) {
  const ValueId x = node.inputs[0];
  if (!unrounded_shape(graph, x)) return std::nullopt;
  const ValueId axis = graph.add_constant(Tensor::from_integers(std::vector{integer(node, "axis")}));
  const ValueId norm =
      graph.add(integer(node, "p") == 1 ? OpKind::ReduceL1 : OpKind::ReduceL2, {x, axis}, kKeep);
  const ValueId zero = constant_number(graph, graph.value(x).dtype, 0);
  return graph.add(OpKind::Where,
                   {graph.add(OpKind::Equal, {norm, zero}), x, graph.add(OpKind::Div, {x, norm})});
}

std::optional<ValueId> batch_normalization_as_affine(Graph& graph, const Node& node) {
  const ValueId x = node.inputs[0];
  const auto shape = unrounded_shape(graph, x);
  if (!shape || shape->empty() || integer(node, "training_mode") != 0) return std::nullopt;
  const DType dtype = graph.value(x).dtype;
  bool all_constant = true;
  for (std::size_t i = 1; i < 5; ++i) {
    const graph::Value& parameter = graph.value(node.inputs[i]);
    all_constant = all_constant && parameter.constant;
    if (parameter.dtype != dtype || !parameter.shape) return std::nullopt;
  }
  if (all_constant && dtype == DType::F32 && shape->size() > 1) return std::nullopt;
  // Channels are axis 1; data of rank 1 has one.
  Shape along(std::max<std::size_t>(shape->size() - 1, 1), Dim(1));
  if (shape->size() > 1) along[0] = (*shape)[1];
  const ValueId scale = reshape(graph, node.inputs[1], along), shift = reshape(graph, node.inputs[2], along);
  const ValueId mean = reshape(graph, node.inputs[3], along),
                variance = reshape(graph, node.inputs[4], along);
  const ValueId epsilon = constant_number(graph, dtype, number(node, "epsilon"));
  const ValueId deviation = graph.add(OpKind::Sqrt, {graph.add(OpKind::Add, {variance, epsilon})});
  const ValueId centred = graph.add(OpKind::Sub, {x, mean});
  const ValueId scaled = graph.add(OpKind::Mul, {centred, graph.add(OpKind::Div, {scale, deviation})});
  return graph.add(OpKind::Add, {scaled, shift});
}

std::optional<ValueId> group_normalization_as_rows(Graph& graph, const Node& node) {
  const ValueId x = node.inputs[0];
  const auto shape = unrounded_shape(graph, x);
  const std::int64_t groups = integer(node, "num_groups");
  if (!shape || shape->size() < 2 || groups < 1 || !(*shape)[1].is_constant()) return std::nullopt;
  const std::int64_t channels = (*shape)[1].constant();
  if (channels % groups != 0) return std::nullopt;
  const DType dtype = graph.value(x).dtype;
  Shape grouped{(*shape)[0], groups, channels / groups};
  grouped.insert(grouped.end(), shape->begin() + 2, shape->end());
  Shape along(grouped.size() - 1, Dim(1));
  along[0] = groups;
  along[1] = channels / groups;
  const auto for_all_groups = [&](double number) {
    const ValueId one = constant_number(graph, dtype, number);
    return graph.add(OpKind::Expand, {one, shape_operand(graph, {Dim(groups)})});
  };
  const ValueId ones = for_all_groups(1), zeros = for_all_groups(0);
  ValueId y = graph.add(OpKind::InstanceNormalization, {reshape(graph, x, grouped), ones, zeros},
                        {{"epsilon", number(node, "epsilon")}});
  y = graph.add(OpKind::Mul, {y, reshape(graph, node.inputs[1], along)});
  y = graph.add(OpKind::Add, {y, reshape(graph, node.inputs[2], along)});
  return reshape(graph, y, *shape);
}

std::optional<ValueId> local_response_as_pool(Graph& graph, const Node& node) {
  const ValueId x = node.inputs[0];
  const auto shape = unrounded_shape(graph, x);
  const std::int64_t size = integer(node, "size");
  if (!shape || shape->size() < 2 || size < 1) return std::nullopt;
  const DType dtype = graph.value(x).dtype;
  Dim inner = 1;
  for (std::size_t i = 2; i < shape->size(); ++i) inner = inner * (*shape)[i];
  const Shape planes{(*shape)[0], Dim(1), (*shape)[1], inner};
  const std::int64_t before = (size - 1) / 2, after = size - 1 - before;
  const ValueId squares = reshape(graph, graph.add(OpKind::Mul, {x, x}), planes);
  const std::size_t guards = graph.guards.size();
  const ValueId means = graph.add(OpKind::AveragePool, {squares},
                                  {{"kernel_shape", std::vector<std::int64_t>{size, 1}},
                                   {"pads", std::vector<std::int64_t>{before, 0, after, 0}},
                                   {"count_include_pad", std::int64_t{1}}});
  graph.guards.resize(guards);  // a window for each element, of which there may be none
  const ValueId scaled = graph.add(
      OpKind::Mul, {reshape(graph, means, *shape), constant_number(graph, dtype, number(node, "alpha"))});
  const ValueId sum = graph.add(OpKind::Add, {scaled, constant_number(graph, dtype, number(node, "bias"))});
  const ValueId power = graph.add(OpKind::Pow, {sum, constant_number(graph, dtype, number(node, "beta"))});
  return graph.add(OpKind::Div, {x, power});
}

std::optional<ValueId> lp_pool_as_average(Graph& graph, const Node& node) {
  const ValueId x = node.inputs[0];
  const std::int64_t p = integer(node, "p");
  // What overhangs in ceil_mode counts in no average.
  if (!unrounded_shape(graph, x) || p < 1 || integer(node, "ceil_mode") != 0) return std::nullopt;
  const DType dtype = graph.value(x).dtype;
  double taps = 1;
  for (const std::int64_t extent : integers(node, "kernel_shape")) taps *= static_cast<double>(extent);
  graph::Attributes window = node.attributes;
  window.erase("p");
  window["count_include_pad"] = std::int64_t{1};
  const ValueId magnitude = p == 2 ? x : graph.add(OpKind::Abs, {x});
  const auto to_the = [&](ValueId base, double exponent) {
    return graph.add(OpKind::Pow, {base, constant_number(graph, dtype, exponent)});
  };
  const ValueId powers = p == 1 ? magnitude : to_the(magnitude, static_cast<double>(p));
  const ValueId means = graph.add(OpKind::AveragePool, {powers}, std::move(window));
  const ValueId sums = graph.add(OpKind::Mul, {means, constant_number(graph, dtype, taps)});
  if (p == 1) return sums;
  return p == 2 ? graph.add(OpKind::Sqrt, {sums}) : to_the(sums, 1 / static_cast<double>(p));
}

}  // namespace kiln::runtime
