#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "ir/base/errors.h"
#include "kernels_ref/reference.h"
#include "runtime/operands.h"
#include "runtime/passes/decompositions.h"

namespace kiln::runtime {
namespace {

using graph::Graph;
using graph::Node;
using graph::OpKind;
using graph::ValueId;

constexpr std::int64_t kMaxExtent = 1 << 20;

// For each output index along one axis, the place on the input axis that it shows. The reference kernel
// tells: it resizes a ramp.
std::vector<double> places_along(const Graph& graph, const Node& node, std::size_t axis, std::int64_t input,
                                 std::int64_t output) {
  Tensor ramp(DType::F64, {input});
  for (std::int64_t i = 0; i < input; ++i)
    ramp.as_mutable<double>()[static_cast<std::size_t>(i)] = static_cast<double>(i);
  Tensor scale(DType::F32, {1});
  const Tensor size = Tensor::from_integers(std::array{output});
  const bool by_scales = node.inputs.size() > 2 && node.inputs[2];
  if (by_scales) scale.as_mutable<float>()[0] = graph.value(node.inputs[2]).constant->as<float>()[axis];
  Node along = node;
  along.attributes.erase("axes");
  const Datum x(ramp), by(by_scales ? scale : size);
  const std::array<const Datum*, 4> inputs{&x, nullptr, by_scales ? &by : nullptr, by_scales ? nullptr : &by};
  reference::Call call{.node = along, .inputs = inputs, .outputs = std::vector<Datum>(1)};
  reference::find(OpKind::Resize)(call);
  const auto places = call.outputs[0].tensor().as<double>();
  return {places.begin(), places.end()};
}

// A constant that lies along `axis` and broadcasts over all others.
ValueId weights_along(Graph& graph, DType dtype, const std::vector<double>& weights, std::size_t axis,
                      std::size_t rank) {
  Extents extents(rank - axis, 1);
  extents[0] = static_cast<std::int64_t>(weights.size());
  Tensor tensor(dtype, std::move(extents));
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (dtype == DType::F64) {
      tensor.as_mutable<double>()[i] = weights[i];
    } else {
      tensor.as_mutable<float>()[i] = static_cast<float>(weights[i]);
    }
  }
  return graph.add_constant(std::move(tensor));
}

ValueId gather_along(Graph& graph, ValueId data, std::size_t axis, const std::vector<std::int64_t>& indices) {
  return graph.add(OpKind::Gather, {data, graph.add_constant(Tensor::from_integers(indices))},
                   {{"axis", static_cast<std::int64_t>(axis)}});
}

ValueId nearest_along(Graph& graph, ValueId data, std::size_t axis, const std::vector<double>& places) {
  std::vector<std::int64_t> indices;
  for (const double place : places) indices.push_back(static_cast<std::int64_t>(place));
  return gather_along(graph, data, axis, indices);
}

ValueId linear_along(Graph& graph, ValueId data, std::size_t axis, std::int64_t extent,
                     const std::vector<double>& places) {
  const graph::Value& value = graph.value(data);
  const DType dtype = value.dtype;
  const std::size_t rank = value.shape->size();
  std::vector<std::int64_t> below, above;
  std::vector<double> below_weight, above_weight;
  for (const double place : places) {
    below.push_back(static_cast<std::int64_t>(std::floor(place)));
    above.push_back(std::min(below.back() + 1, extent - 1));
    above_weight.push_back(place - static_cast<double>(below.back()));
    below_weight.push_back(1 - above_weight.back());
  }
  const auto weighted = [&](const std::vector<std::int64_t>& indices, const std::vector<double>& weights) {
    const ValueId taps = gather_along(graph, data, axis, indices);
    return graph.add(OpKind::Mul, {taps, weights_along(graph, dtype, weights, axis, rank)});
  };
  const ValueId first = weighted(below, below_weight);
  return graph.add(OpKind::Add, {weighted(above, above_weight), first});
}

bool can_be_gathers(const Graph& graph, const Node& node) {
  const graph::Value& data = graph.value(node.inputs[0]);
  const std::string& mode = text(node, "mode");
  if (!data.shape || !graph.value(node.outputs[0]).shape || integer(node, "antialias") != 0 ||
      text(node, "coordinate_transformation_mode") == "tf_crop_and_resize" ||
      text(node, "keep_aspect_ratio_policy") != "stretch") {
    return false;
  }
  if (mode != "nearest" && !(mode == "linear" && (data.dtype == DType::F32 || data.dtype == DType::F64)))
    return false;
  const bool by_scales = node.inputs.size() > 2 && node.inputs[2];
  return !by_scales || graph.value(node.inputs[2]).constant;
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

}  // namespace

std::optional<ValueId> resize_as_gathers(Graph& graph, const Node& node) {
  if (!can_be_gathers(graph, node)) return std::nullopt;
  const graph::Shape from = *graph.value(node.inputs[0]).shape, to = *graph.value(node.outputs[0]).shape;
  std::vector<std::size_t> axes;
  if (has(node, "axes")) {
    for (const std::int64_t axis : integers(node, "axes"))
      axes.push_back(
          static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(from.size()) : axis));
  } else {
    for (std::size_t i = 0; i < from.size(); ++i) axes.push_back(i);
  }
  struct Resized {
    std::size_t axis;
    std::int64_t extent;
    std::vector<double> places;
  };
  std::vector<Resized> resized;
  const bool nearest = text(node, "mode") == "nearest";
  bool repeats_all = true;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const std::size_t axis = axes[k];
    const bool by_scales = node.inputs.size() > 2 && node.inputs[2];
    const bool is_one = !by_scales || graph.value(node.inputs[2]).constant->as<float>()[k] == 1;
    if (from[axis] == to[axis] && is_one) continue;
    if (!from[axis].is_constant() || !to[axis].is_constant()) return std::nullopt;
    const std::int64_t input = from[axis].constant(), output = to[axis].constant();
    if (input < 1 || output < 1 || input > kMaxExtent || output > kMaxExtent) return std::nullopt;
    std::vector<double> places = places_along(graph, node, k, input, output);
    for (std::int64_t i = 0; i < output; ++i) {
      const std::int64_t repeated = i / std::max<std::int64_t>(output / input, 1);
      repeats_all = repeats_all && output % input == 0 &&
                    places[static_cast<std::size_t>(i)] == static_cast<double>(repeated);
    }
    resized.push_back({axis, input, std::move(places)});
  }
  if (nearest && repeats_all) return as_repeats(graph, node, from, to);
  ValueId result = node.inputs[0];
  for (const Resized& along : resized) {
    result = nearest ? nearest_along(graph, result, along.axis, along.places)
                     : linear_along(graph, result, along.axis, along.extent, along.places);
  }
  return result;
}

}  // namespace kiln::runtime
