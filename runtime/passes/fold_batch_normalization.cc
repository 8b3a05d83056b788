#include <cmath>
#include <optional>
#include <vector>

#include "runtime/passes/passes.h"

namespace kiln::runtime {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::OpKind;
using graph::ValueId;

// y = x * scale + shift per channel: what inference-mode BatchNormalization says.
struct Affine {
  std::vector<double> scale, shift;
};

std::optional<Affine> constant_affine(const Graph& graph, const Node& node) {
  for (std::size_t i = 1; i < 5; ++i) {
    const auto& constant = graph.value(node.inputs[i]).constant;
    if (!constant || constant->dtype() != DType::F32) return std::nullopt;
  }
  const auto parameter = [&](int index) { return graph.value(node.inputs[index]).constant->as<float>(); };
  const auto scale = parameter(1), bias = parameter(2), mean = parameter(3), variance = parameter(4);
  const double epsilon = number(node, "epsilon");
  Affine affine;
  for (std::size_t c = 0; c < scale.size(); ++c) {
    affine.scale.push_back(double{scale[c]} / std::sqrt(double{variance[c]} + epsilon));
    affine.shift.push_back(double{bias[c]} - double{mean[c]} * affine.scale[c]);
  }
  return affine;
}

Tensor as_f32(const std::vector<double>& values, Extents extents) {
  Tensor tensor(DType::F32, std::move(extents));
  auto out = tensor.as_mutable<float>();
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = static_cast<float>(values[i]);
  return tensor;
}

// Folds into the weights and bias of the Conv that makes the input, if that Conv has no other reader.
bool fold_into_convolution(Graph& graph, const Node& norm, const Affine& affine,
                           const std::vector<std::vector<NodeId>>& consumers) {
  const ValueId input = norm.inputs[0];
  const NodeId producer = graph.value(input).producer;
  if (!producer || graph.node(producer).op != OpKind::Conv || consumers[input.index].size() != 1 ||
      graph.is_output(input)) {
    return false;
  }
  const Node& convolution = graph.node(producer);
  const auto& weights = graph.value(convolution.inputs[1]).constant;
  if (!weights || weights->dtype() != DType::F32) return false;
  const bool has_bias = static_cast<bool>(convolution.inputs[2]);
  if (has_bias && !graph.value(convolution.inputs[2]).constant) return false;

  const std::size_t channels = affine.scale.size();
  Tensor scaled(DType::F32, weights->extents());
  const auto from = weights->as<float>();
  auto to = scaled.as_mutable<float>();
  const std::size_t per_channel = channels == 0 ? 0 : from.size() / channels;
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[i] = static_cast<float>(double{from[i]} * affine.scale[i / per_channel]);
  }
  std::vector<double> bias = affine.shift;
  if (has_bias) {
    const auto old = graph.value(convolution.inputs[2]).constant->as<float>();
    for (std::size_t c = 0; c < channels; ++c) bias[c] += double{old[c]} * affine.scale[c];
  }
  const ValueId new_weights = graph.add_constant(std::move(scaled));
  const ValueId new_bias = graph.add_constant(as_f32(bias, {static_cast<std::int64_t>(channels)}));
  graph.set_input(producer, 1, new_weights);
  graph.set_input(producer, 2, new_bias);
  return true;
}

ValueId apply_affine(Graph& graph, ValueId input, const Affine& affine) {
  // Channels are axis 1: [C, 1, 1, ...] broadcasts over the rest.
  Extents extents(graph.value(input).shape->size() - 1, 1);
  extents[0] = static_cast<std::int64_t>(affine.scale.size());
  const ValueId scale = graph.add_constant(as_f32(affine.scale, extents));
  const ValueId shift = graph.add_constant(as_f32(affine.shift, extents));
  return graph.add(OpKind::Add, {graph.add(OpKind::Mul, {input, scale}), shift});
}

}  // namespace

void fold_batch_normalization(Graph& graph) {
  const auto consumers = graph.consumers();
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    if (node.op != OpKind::BatchNormalization || integer(node, "training_mode") != 0) continue;
    const ValueId input = node.inputs[0], output = node.outputs[0];
    const auto& shape = graph.value(input).shape;
    if (!shape || shape->size() < 2 || graph.value(input).dtype != DType::F32) continue;
    const auto affine = constant_affine(graph, node);
    if (!affine) continue;
    const bool folded = fold_into_convolution(graph, node, *affine, consumers);
    graph.replace_uses(output, folded ? input : apply_affine(graph, input, *affine));
    graph.remove_node(id);
  }
}

}  // namespace kiln::runtime
