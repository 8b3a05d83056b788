#include <algorithm>
#include <utility>
#include <vector>

#include "ir/graph/operands.h"
#include "kernels_ref/arguments.h"
#include "kernels_ref/resize_taps.h"
#include "runtime/passes/decompositions.h"

namespace kiln::runtime {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::OpKind;
using graph::ValueId;

constexpr std::int64_t kMaxExtent = 1 << 20;
constexpr std::size_t kMaxTaps = 16;

// An axis whose elements change.
struct Resized {
  std::size_t axis = 0;
  std::int64_t extent = 0;  // before
  std::vector<reference::ResizeTaps> taps;
};

// A constant that lies along `axis` and broadcasts over all others.
ValueId constant_along(Graph& graph, DType dtype, const std::vector<double>& numbers, std::size_t axis,
                       std::size_t rank) {
  Extents extents(rank - axis, 1);
  extents[0] = static_cast<std::int64_t>(numbers.size());
  Tensor tensor(dtype, std::move(extents));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (dtype == DType::F64) {
      tensor.as_mutable<double>()[i] = numbers[i];
    } else if (dtype == DType::F32) {
      tensor.as_mutable<float>()[i] = static_cast<float>(numbers[i]);
    } else {
      tensor.as_mutable<std::uint8_t>()[i] = numbers[i] != 0;
    }
  }
  return graph.add_constant(std::move(tensor));
}

ValueId gather_along(Graph& graph, ValueId data, std::size_t axis, const std::vector<std::int64_t>& indices) {
  return graph.add(OpKind::Gather, {data, graph.add_constant(Tensor::from_integers(indices))},
                   {{"axis", static_cast<std::int64_t>(axis)}});
}

ValueId nearest_along(Graph& graph, ValueId data, const Resized& along) {
  std::vector<std::int64_t> indices;
  for (const reference::ResizeTaps& taps : along.taps) indices.push_back(taps.first);
  return gather_along(graph, data, along.axis, indices);
}

// The elements of the input with their weights, at least one.
std::vector<std::pair<std::int64_t, double>> weights_of(const reference::ResizeTaps& taps,
                                                        std::int64_t extent) {
  std::vector<std::pair<std::int64_t, double>> weights;
  for (std::size_t k = 0; k < taps.weights.size(); ++k) {
    const std::int64_t index =
        std::clamp<std::int64_t>(taps.first + static_cast<std::int64_t>(k), 0, extent - 1);
    if (taps.weights[k] != 0) weights.emplace_back(index, taps.weights[k]);
  }
  if (weights.empty()) weights.emplace_back(0, 0);
  return weights;
}

// A sum of as many weighted gathers as the longest list of taps needs. A shorter one has a tap in halves
// rather than one of weight 0, which would make NaN of an infinity.
ValueId weighted_along(Graph& graph, ValueId data, const Resized& along) {
  std::vector<std::vector<std::pair<std::int64_t, double>>> taps;
  std::size_t most = 1;
  for (const reference::ResizeTaps& t : along.taps) {
    taps.push_back(weights_of(t, along.extent));
    most = std::max(most, taps.back().size());
  }
  for (auto& list : taps) {
    while (list.size() < most) {
      list.back().second /= 2;
      list.push_back(list.back());
    }
  }
  const DType dtype = graph.value(data).dtype;
  const std::size_t rank = graph.value(data).shape->size();
  ValueId sum = ValueId::none();
  for (std::size_t k = 0; k < most; ++k) {
    std::vector<std::int64_t> indices;
    std::vector<double> weights;
    for (const auto& list : taps) {
      indices.push_back(list[k].first);
      weights.push_back(list[k].second);
    }
    const ValueId term = graph.add(OpKind::Mul, {gather_along(graph, data, along.axis, indices),
                                                 constant_along(graph, dtype, weights, along.axis, rank)});
    sum = sum ? graph.add(OpKind::Add, {term, sum}) : term;
  }
  return sum;
}

// Elements outside the region that is cropped have a value of their own.
ValueId extrapolated(Graph& graph, ValueId data, const Resized& along, double value) {
  std::vector<double> inside;
  for (const reference::ResizeTaps& taps : along.taps) inside.push_back(taps.outside ? 0 : 1);
  if (std::ranges::count(inside, 0.0) == 0) return data;
  const std::size_t rank = graph.value(data).shape->size();
  const DType dtype = graph.value(data).dtype;
  return graph.add(OpKind::Where, {constant_along(graph, DType::I1, inside, along.axis, rank), data,
                                   constant_along(graph, dtype, {value}, rank - 1, rank)});
}

bool stays(const Resized& along) {
  for (std::size_t i = 0; i < along.taps.size(); ++i) {
    const auto weights = weights_of(along.taps[i], along.extent);
    const auto& [index, weight] = weights.front();
    if (along.taps[i].outside || weights.size() != 1 || index != static_cast<std::int64_t>(i) || weight != 1)
      return false;
  }
  return static_cast<std::int64_t>(along.taps.size()) == along.extent;
}

// The axes whose elements change; nothing if an extent, scale or region that counts is not constant.
std::optional<std::vector<Resized>> resized_axes(const Graph& graph, const Node& node) {
  const graph::Shape &from = *graph.value(node.inputs[0]).shape, &to = *graph.value(node.outputs[0]).shape;
  const auto axes = integers(node, "axes");
  const auto given = [&](std::size_t operand) {
    return operand < node.inputs.size() && node.inputs[operand] &&
           graph.value(node.inputs[operand]).shape != graph::Shape{Dim(0)};
  };
  const bool crops = text(node, "coordinate_transformation_mode") == "tf_crop_and_resize";
  reference::ResizeOperands operands;
  for (const std::size_t operand : {1, 2}) {
    if (!given(operand) || (operand == 1 && !crops)) continue;
    const auto& constant = graph.value(node.inputs[operand]).constant;
    if (!constant) return std::nullopt;
    (operand == 1 ? operands.roi : operands.scales) = reference::to_numbers(*constant);
  }
  // An axis of unknown extent that stays as it is counts as one of a single element.
  Extents extents;
  for (const Dim& dim : from) extents.push_back(dim.is_constant() ? dim.constant() : 1);
  const bool by_scales = !operands.scales.empty();
  const bool stretches = text(node, "keep_aspect_ratio_policy") == "stretch";
  const auto sizes = constant_elements(graph, node, 3);
  if (!by_scales && !stretches && !sizes) return std::nullopt;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const auto axis = static_cast<std::size_t>(axes[k]);
    const bool is_constant = from[axis].is_constant() && to[axis].is_constant();
    const bool is_whole =
        operands.roi.empty() || (operands.roi[k] == 0 && operands.roi[k + axes.size()] == 1);
    const bool is_kept = from[axis] == to[axis] && is_whole && (!by_scales || operands.scales[k] == 1);
    if (!is_constant && (!is_kept || (!by_scales && !stretches))) return std::nullopt;
    if (by_scales) continue;
    operands.sizes.push_back(!stretches ? (*sizes)[k] : is_constant ? to[axis].constant() : 1);
  }
  const std::vector<reference::ResizeAxis> described = reference::resize_axes(node, extents, operands);
  std::vector<Resized> result;
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    const auto& [input, output] = std::pair(described[axis].input, described[axis].output);
    if (!to[axis].is_constant()) continue;
    if (to[axis] != Dim(output) || input < 1 || output < 1 || input > kMaxExtent || output > kMaxExtent)
      return std::nullopt;
    Resized along{axis, input, reference::resize_taps(node, described[axis])};
    if (!stays(along)) result.push_back(std::move(along));
  }
  return result;
}

// True if element i of the result shows element i / factor, for a whole factor.
bool repeats(const Resized& along) {
  const std::int64_t factor = static_cast<std::int64_t>(along.taps.size()) / along.extent;
  if (factor * along.extent != static_cast<std::int64_t>(along.taps.size())) return false;
  for (std::size_t i = 0; i < along.taps.size(); ++i) {
    if (along.taps[i].outside || along.taps[i].first != static_cast<std::int64_t>(i) / factor) return false;
  }
  return true;
}

// The form of Resize that repeats elements: by scales, element i showing element floor(i / scale).
std::optional<ValueId> as_repeats(Graph& graph, const Node& node, const graph::Shape& from,
                                  const graph::Shape& to) {
  if (text(node, "coordinate_transformation_mode") == "asymmetric" && text(node, "nearest_mode") == "floor" &&
      node.inputs.size() > 2 && node.inputs[2]) {
    return std::nullopt;
  }
  Tensor scales(DType::F32, {static_cast<std::int64_t>(from.size())});
  for (std::size_t i = 0; i < from.size(); ++i) {
    const bool same = from[i] == to[i];
    const std::int64_t scale = same ? 1 : to[i].constant() / from[i].constant();
    scales.as_mutable<float>()[i] = static_cast<float>(scale);
  }
  return graph.add(OpKind::Resize, {node.inputs[0], ValueId::none(), graph.add_constant(std::move(scales))},
                   {{"mode", std::string("nearest")},
                    {"coordinate_transformation_mode", std::string("asymmetric")},
                    {"nearest_mode", std::string("floor")}});
}

// The type that elements are weighted in; integers in one that holds most of them exactly.
DType weighted_dtype(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16 || dtype == DType::F32 ? DType::F32 : DType::F64;
}

}  // namespace

std::optional<ValueId> resize_as_gathers(Graph& graph, const Node& node) {
  const DType dtype = graph.value(node.inputs[0]).dtype;
  if (!graph.value(node.inputs[0]).shape || !graph.value(node.outputs[0]).shape) return std::nullopt;
  const auto resized = resized_axes(graph, node);
  if (!resized) return std::nullopt;
  const bool nearest = text(node, "mode") == "nearest";
  if (nearest && std::ranges::all_of(*resized, repeats)) {
    const graph::Shape from = *graph.value(node.inputs[0]).shape, to = *graph.value(node.outputs[0]).shape;
    return as_repeats(graph, node, from, to);
  }
  const bool extrapolates = std::ranges::any_of(*resized, [](const Resized& along) {
    return std::ranges::any_of(along.taps, [](const reference::ResizeTaps& taps) { return taps.outside; });
  });
  const DType inner = nearest ? dtype : weighted_dtype(dtype);
  if ((!nearest && !is_selectable(dtype)) || (extrapolates && inner != DType::F32 && inner != DType::F64))
    return std::nullopt;
  for (const Resized& along : *resized) {
    for (const reference::ResizeTaps& taps : along.taps) {
      if (weights_of(taps, along.extent).size() > kMaxTaps) return std::nullopt;
    }
  }
  ValueId result = cast(graph, node.inputs[0], inner);
  for (const Resized& along : *resized)
    result = nearest ? nearest_along(graph, result, along) : weighted_along(graph, result, along);
  for (const Resized& along : *resized)
    result = extrapolated(graph, result, along, number(node, "extrapolation_value"));
  return cast(graph, result, dtype);
}

}  // namespace kiln::runtime
