#include "runtime/view_layout.h"

#include <algorithm>

#include "ir/graph/operands.h"
#include "ir/graph/slice.h"

namespace kiln::runtime {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Layout;
using graph::Node;
using graph::OpKind;
using graph::Shape;

std::int64_t normalised_axis(std::int64_t axis, std::size_t rank) {
  return axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis;
}

Layout with_strides(const Layout& input, std::vector<Dim> strides, Dim offset) {
  return {.storage = input.storage, .offset = std::move(offset), .strides = std::move(strides), .halo = {}};
}

std::optional<Layout> transpose_layout(const Graph& graph, const Node& node, const Layout& input) {
  const std::size_t rank = graph.value(node.inputs[0]).shape->size();
  std::vector<Dim> strides(rank);
  const bool given = has(node, "perm");
  for (std::size_t i = 0; i < rank; ++i) {
    strides[i] = input.strides[given ? static_cast<std::size_t>(integers(node, "perm")[i]) : rank - 1 - i];
  }
  return with_strides(input, std::move(strides), input.offset);
}

std::optional<Layout> reshape_layout(const Graph& graph, const Node& node, const Layout& input) {
  auto strides =
      reshape_strides(*graph.value(node.inputs[0]).shape, input.strides, *graph.value(node.outputs[0]).shape);
  if (!strides) return std::nullopt;
  return with_strides(input, std::move(*strides), input.offset);
}

std::optional<Layout> slice_layout(const Graph& graph, const Node& node, const Layout& input) {
  const Shape& shape = *graph.value(node.inputs[0]).shape;
  const auto starts = known_elements(graph, node, 1);
  if (!starts) return std::nullopt;
  auto axes = constant_elements(graph, node, 3);
  auto steps = constant_elements(graph, node, 4);
  const bool axes_absent = node.inputs.size() <= 3 || !node.inputs[3];
  const bool steps_absent = node.inputs.size() <= 4 || !node.inputs[4];
  if ((!axes && !axes_absent) || (!steps && !steps_absent)) return std::nullopt;
  Layout result = with_strides(input, input.strides, input.offset);
  for (std::size_t i = 0; i < starts->size(); ++i) {
    const std::int64_t axis = axes ? normalised_axis((*axes)[i], shape.size()) : static_cast<std::int64_t>(i);
    const std::int64_t step = steps ? (*steps)[i] : 1;
    const auto k = static_cast<std::size_t>(axis);
    const auto first = slice_first((*starts)[i], shape[k], step > 0);
    if (!first) return std::nullopt;
    result.offset = result.offset + *first * input.strides[k];
    result.strides[k] = input.strides[k] * slice_step(step, shape[k]);
  }
  return result;
}

std::optional<Layout> split_layout(const Graph& graph, const Node& node, std::size_t output,
                                   const Layout& input) {
  const auto axis = static_cast<std::size_t>(
      normalised_axis(integer(node, "axis"), graph.value(node.inputs[0]).shape->size()));
  Dim start = 0;
  for (std::size_t i = 0; i < output; ++i) {
    if (!node.outputs[i]) return std::nullopt;
    start = start + (*graph.value(node.outputs[i]).shape)[axis];
  }
  return with_strides(input, input.strides, input.offset + start * input.strides[axis]);
}

std::optional<Layout> expand_layout(const Graph& graph, const Node& node, const Layout& input) {
  const Shape& from = *graph.value(node.inputs[0]).shape;
  const Shape& to = *graph.value(node.outputs[0]).shape;
  std::vector<Dim> strides(to.size(), Dim(0));
  const std::size_t lead = to.size() - from.size();
  for (std::size_t i = 0; i < from.size(); ++i) {
    // min(extent - 1, 1) is 0 for a repeated axis and 1 for one that is read along, known only at run time.
    strides[lead + i] =
        from[i] == to[lead + i] ? input.strides[i] : input.strides[i] * min(from[i] - Dim(1), 1);
  }
  return with_strides(input, std::move(strides), input.offset);
}

// A Gather of one constant index is a slice without its axis.
std::optional<Layout> gather_layout(const Graph& graph, const Node& node, const Layout& input) {
  const auto indices = constant_elements(graph, node, 1);
  if (!indices || indices->size() != 1) return std::nullopt;
  const Shape& shape = *graph.value(node.inputs[0]).shape;
  const auto axis = static_cast<std::size_t>(normalised_axis(integer(node, "axis"), shape.size()));
  const std::int64_t index = (*indices)[0];
  const Dim position = index >= 0 ? Dim(index) : shape[axis] + Dim(index);
  // Out of range is an error at run time, which a view could not report.
  const Dim last = index >= 0 ? shape[axis] - Dim(index) - Dim(1) : position;
  if (!last.is_at_least(0)) return std::nullopt;
  std::vector<Dim> strides = input.strides;
  const std::size_t index_rank = graph.value(node.inputs[1]).shape->size();
  strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(axis));
  strides.insert(strides.begin() + static_cast<std::ptrdiff_t>(axis), index_rank, Dim(0));
  return with_strides(input, std::move(strides), input.offset + position * input.strides[axis]);
}

struct Axis {
  Dim extent, stride;
};

// Axes without those of extent 1, which lie anywhere.
std::vector<Axis> significant_axes(const Shape& shape, std::span<const Dim> strides) {
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != Dim(1)) axes.push_back({shape[i], strides[i]});
  }
  return axes;
}

// Adjacent axes that lie contiguously become one.
std::vector<Axis> merged_axes(const std::vector<Axis>& axes) {
  std::vector<Axis> merged;
  for (const Axis& axis : axes) {
    if (!merged.empty() && merged.back().stride == axis.stride * axis.extent) {
      merged.back() = {merged.back().extent * axis.extent, axis.stride};
    } else {
      merged.push_back(axis);
    }
  }
  return merged;
}

}  // namespace

std::optional<std::vector<Dim>> reshape_strides(const Shape& shape, std::span<const Dim> strides,
                                                const Shape& reshaped) {
  const std::vector<Axis> source = merged_axes(significant_axes(shape, strides));
  std::vector<Dim> result(reshaped.size(), Dim(0));
  std::size_t next = 0;  // the first axis of `reshaped` that has no stride yet
  for (std::size_t group = 0; group < source.size(); ++group) {
    // The last group takes all that is left; the others as many axes as make up their extent exactly.
    std::size_t end = next;
    if (group + 1 == source.size()) {
      end = reshaped.size();
    } else {
      Dim product = 1;
      while (end < reshaped.size() && product != source[group].extent) product = product * reshaped[end++];
      if (product != source[group].extent) return std::nullopt;
    }
    Dim stride = source[group].stride;
    for (std::size_t i = end; i-- > next;) {
      result[i] = stride;
      stride = stride * reshaped[i];
    }
    next = end;
  }
  return result;
}

bool is_view_operator(OpKind op) {
  switch (op) {
    case OpKind::Transpose:
    case OpKind::Reshape:
    case OpKind::Flatten:
    case OpKind::Squeeze:
    case OpKind::Unsqueeze:
    case OpKind::Slice:
    case OpKind::Split:
    case OpKind::Expand:
    case OpKind::Gather:
      return true;
    default:
      return false;
  }
}

std::optional<Layout> view_layout(const Graph& graph, const Node& node, std::size_t output,
                                  const Layout& input) {
  if (!graph.value(node.inputs[0]).shape || !node.outputs[output] ||
      !graph.value(node.outputs[output]).shape) {
    return std::nullopt;
  }
  switch (node.op) {
    case OpKind::Transpose:
      return transpose_layout(graph, node, input);
    case OpKind::Reshape:
    case OpKind::Flatten:
    case OpKind::Squeeze:
    case OpKind::Unsqueeze:
      return reshape_layout(graph, node, input);
    case OpKind::Slice:
      return slice_layout(graph, node, input);
    case OpKind::Split:
      return split_layout(graph, node, output, input);
    case OpKind::Expand:
      return expand_layout(graph, node, input);
    case OpKind::Gather:
      return gather_layout(graph, node, input);
    default:
      return std::nullopt;
  }
}

}  // namespace kiln::runtime
