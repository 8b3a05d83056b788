#include "ir/templates/chosen_places.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ir/base/errors.h"
#include "ir/templates/node_emitter.h"

namespace kiln::templates {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::OpKind;
using graph::Problem;
using graph::Shape;
using tile::Expr;
using tile::Indices;
using tile::Operand;

// Element by element: coordinates are those of the index, but along `axis`.
ChosenPlaces places_of_elements(const Graph& graph, const Node& node, const graph::Value& target) {
  const graph::Value& indices = graph.value(node.inputs[1]);
  const auto axis = static_cast<std::size_t>(integer(node, "axis"));
  ChosenPlaces places{.shape = *indices.shape,
                      .steps = target.layout->strides,
                      .indices = {},
                      .reversed = {},
                      .ordered = {static_cast<int>(axis)}};
  places.steps[axis] = 0;
  places.indices.push_back({.operand = node.inputs[1],
                            .strides = indices.layout->strides,
                            .extent = (*target.shape)[axis],
                            .step = target.layout->strides[axis]});
  return places;
}

// Rows of indices, the last axis of which holds one for each of `depth` axes of the target.
ChosenPlaces places_of_rows(const Graph& graph, const Node& node, const graph::Value& target,
                            std::size_t batch_axes) {
  const graph::Value& indices = graph.value(node.inputs[1]);
  const auto depth = static_cast<std::size_t>(indices.shape->back().constant());
  const std::size_t rows = indices.shape->size() - 1;
  ChosenPlaces places;
  for (std::size_t i = 0; i < rows; ++i) {
    places.shape.push_back((*indices.shape)[i]);
    places.steps.push_back(i < batch_axes ? target.layout->strides[i] : Dim(0));
    places.ordered.push_back(static_cast<int>(i));
  }
  for (std::size_t i = batch_axes + depth; i < target.shape->size(); ++i) {
    places.shape.push_back((*target.shape)[i]);
    places.steps.push_back(target.layout->strides[i]);
  }
  const std::vector<Dim>& strides = indices.layout->strides;
  for (std::size_t k = 0; k < depth; ++k) {
    ChosenPlaces::Index index{.operand = node.inputs[1],
                              .strides = {strides.begin(), strides.end() - 1},
                              .offset = Dim(static_cast<std::int64_t>(k)) * strides.back(),
                              .extent = (*target.shape)[batch_axes + k],
                              .step = target.layout->strides[batch_axes + k]};
    index.strides.resize(places.shape.size(), Dim(0));
    places.indices.push_back(std::move(index));
  }
  return places;
}

ChosenPlaces places_of_reversal(const Graph& graph, const Node& node, const graph::Value& target) {
  const auto batch = static_cast<std::size_t>(integer(node, "batch_axis"));
  const auto time = static_cast<std::size_t>(integer(node, "time_axis"));
  ChosenPlaces places{.shape = *target.shape,
                      .steps = target.layout->strides,
                      .indices = {},
                      .reversed = time,
                      .ordered = {}};
  places.steps[time] = 0;
  ChosenPlaces::Index length{.operand = node.inputs[1],
                             .strides = std::vector<Dim>(target.shape->size(), Dim(0)),
                             .extent = (*target.shape)[time],
                             .step = target.layout->strides[time]};
  length.strides[batch] = graph.value(node.inputs[1]).layout->strides[0];
  places.indices.push_back(std::move(length));
  return places;
}

bool has_known_sign(const Dim& stride) { return stride.is_constant() || stride.is_at_least(0); }
bool runs_backwards(const Dim& stride) { return stride.is_constant() && stride.constant() < 0; }

}  // namespace

std::optional<std::string> why_no_places(const Problem& problem) {
  const Graph& graph = problem.graph;
  const Node& node = graph.node(problem.root);
  for (const graph::ValueId input : node.inputs) {
    if (!input_number(problem, input)) return "an operand is not in memory";
  }
  const graph::Value &data = graph.value(node.inputs[0]), &indices = graph.value(node.inputs[1]);
  if (!data.shape || !indices.shape) return "the rank is unknown before running";
  if (!is_computable(data.dtype)) return fmt::format("elements of {}", name(data.dtype));
  const bool by_rows = node.op == OpKind::GatherND || node.op == OpKind::ScatterND;
  if (by_rows && (!indices.shape->back().is_constant() || indices.shape->back() == Dim(0)))
    return "the number of axes that it indexes is not known";
  if (node.op == OpKind::ReverseSequence) {
    const std::int64_t batch = integer(node, "batch_axis"), time = integer(node, "time_axis");
    if (std::min(batch, time) != 0 || std::max(batch, time) != 1 || data.shape->size() < 2)
      return "its axes are not the first two";
    if (*indices.shape != Shape{(*data.shape)[static_cast<std::size_t>(batch)]})
      return "the number of its lengths may differ from that of its sequences";
  }
  const bool scatters = node.op == OpKind::ScatterElements || node.op == OpKind::ScatterND;
  const graph::Value& target = graph.value(scatters ? node.outputs[0] : node.inputs[0]);
  if (!std::ranges::all_of(target.layout->strides, has_known_sign))
    return "the direction in which its data lies is not known";
  return std::nullopt;
}

ChosenPlaces chosen_places(const Problem& problem) {
  const Graph& graph = problem.graph;
  const Node& node = graph.node(problem.root);
  const graph::Value &data = graph.value(node.inputs[0]), &result = graph.value(node.outputs[0]);
  switch (node.op) {
    case OpKind::GatherElements:
      return places_of_elements(graph, node, data);
    case OpKind::ScatterElements:
      return places_of_elements(graph, node, result);
    case OpKind::GatherND:
      return places_of_rows(graph, node, data, static_cast<std::size_t>(integer(node, "batch_dims")));
    case OpKind::ScatterND:
      return places_of_rows(graph, node, result, 0);
    case OpKind::ReverseSequence:
      return places_of_reversal(graph, node, data);
    default:
      throw_bug("{} chooses no places", name(node.op));
  }
}

std::vector<std::vector<Dim>> place_strides(const ChosenPlaces& places) {
  std::vector<std::vector<Dim>> strides;
  for (const ChosenPlaces::Index& index : places.indices) strides.push_back(index.strides);
  strides.push_back(places.steps);
  strides.emplace_back(places.shape.size(), Dim(0));
  if (places.reversed) strides.back()[*places.reversed] = 1;
  return strides;
}

PlaceTable::PlaceTable(ProgramBuilder& program, ProgramBuilder::Launch& launch, const Problem& problem,
                       const ChosenPlaces& places, const IterationSpace& space, std::size_t lanes)
    : launch_(launch),
      k_(launch.builder()),
      space_(space),
      lanes_(lanes),
      reverses_(places.reversed),
      start_(0),
      span_(0) {
  const std::size_t count = places.indices.size();
  const std::vector<Dim>&steps = space.strides[count], &reversed = space.strides[count + 1];
  const auto turned = std::ranges::find(reversed, Dim(1));
  if (reverses_ && turned != reversed.end()) reversed_ = static_cast<std::size_t>(turned - reversed.begin());
  runs_ = reversed_ != lanes;
  for (std::size_t k = 0; k < count; ++k) runs_ = runs_ && space.strides[k][lanes] == Dim(0);

  Dim start = 0, span = 1;
  const auto reach = [&](const Dim& extent, const Dim& step) {
    const Dim distance = (extent - Dim(1)) * (runs_backwards(step) ? Dim(0) - step : step);
    span = span + distance;
    if (runs_backwards(step)) start = start + distance;
  };
  for (std::size_t axis = 0; axis < space.rank(); ++axis) {
    steps_.push_back(bound(fmt::format("step{}", axis), steps[axis]));
    if (!runs_ || axis != lanes) reach(space.extents[axis], steps[axis]);
  }
  for (std::size_t k = 0; k < count; ++k) {
    const ChosenPlaces::Index& index = places.indices[k];
    index_views_.push_back(launch.input(fmt::format("i{}", k),
                                        program.input(*input_number(problem, index.operand)), space.extents,
                                        space.strides[k], index.offset));
    chosen_.push_back({.extent = bound(fmt::format("extent{}", k), index.extent),
                       .step = bound(fmt::format("chosen_step{}", k), index.step)});
    reach(index.extent, index.step);
  }
  // Nothing may be chosen from nothing.
  span = max(span, 0);
  start_ = bound("start", start);
  span_ = bound("span", span);
  target_ = {.extents = {span}, .strides = {1}, .offset = Dim(0) - start};
  if (runs_) {
    target_.extents.push_back(space.extents[lanes]);
    target_.strides.push_back(steps[lanes]);
  }
}

Operand PlaceTable::bound(const std::string& name, const Dim& dim) {
  if (dim.is_constant()) return dim.constant();
  return launch_.scalar(name, dim);
}

void PlaceTable::reserve(std::vector<std::int64_t> box) {
  box_ = std::move(box);
  if (runs_) run_ = std::exchange(box_[lanes_], 1);
  std::int64_t elements = 1;
  Indices shape;
  for (const std::int64_t extent : box_) {
    elements *= extent;
    shape.emplace_back(extent);
  }
  table_ = k_.local(DType::I64, shape, elements);
}

tile::View PlaceTable::choose(const tile::View& target, const Indices& at) {
  table_.store(Indices(box_.size(), 0), k_.broadcast(places(at), box_));
  // Lanes beyond the end have no place.
  Indices live;
  for (std::size_t axis = 0; axis < box_.size(); ++axis) {
    const std::int64_t extent = box_[axis];
    const bool is_whole = extent == 1 || space_.extents[axis] == Dim(extent);
    if (is_whole) {
      live.emplace_back(extent);
    } else {
      live.emplace_back(min(index_views_[0].dim(static_cast<int>(axis)) - at[axis].expr, extent));
    }
  }
  return target.gather(0, table_.slice(Indices(box_.size(), 0), live));
}

Indices PlaceTable::from(const Indices& at) const {
  Indices from(box_.size(), 0);
  if (runs_) from.push_back(at[lanes_]);
  return from;
}

std::vector<std::int64_t> PlaceTable::extents() const {
  std::vector<std::int64_t> extents = box_;
  if (runs_) extents.push_back(run_);
  return extents;
}

Expr PlaceTable::coordinate(std::size_t axis, const Indices& at) const {
  if (box_[axis] == 1) return at[axis].expr;
  std::vector<std::int64_t> extents(box_.size(), 1);
  extents[axis] = box_[axis];
  return k_.iota(DType::I64, extents, static_cast<int>(axis)) + at[axis].expr;
}

// An index out of range gets a place beyond the last, which the gather reports.
Expr PlaceTable::places(const Indices& at) const {
  Expr place = k_.index(0) + start_, bad;
  for (std::size_t k = 0; k < chosen_.size(); ++k) {
    std::vector<std::int64_t> box = box_;
    for (std::size_t axis = 0; axis < box.size(); ++axis) {
      if (space_.strides[k][axis] == Dim(0)) box[axis] = 1;
    }
    const auto& [extent, step] = chosen_[k];
    Expr index = index_views_[k].load(at, box);
    if (index.type().element != DType::I64) index = k_.cast(index, DType::I64);
    Expr position, outside;
    if (reverses_) {
      const Expr time = reversed_ ? coordinate(*reversed_, at) : k_.index(0);
      position = select(time < index, index - 1 - time, time);
      outside = (index < 0) | (index > extent);
    } else {
      position = select(index < 0, index + extent, index);
      outside = (position < 0) | (position >= extent);
    }
    place = place + position * step;
    bad = bad ? bad | outside : outside;
  }
  for (std::size_t axis = 0; axis < box_.size(); ++axis) {
    const bool counts = space_.strides[chosen_.size()][axis] != Dim(0) && !(runs_ && axis == lanes_);
    if (counts) place = place + coordinate(axis, at) * steps_[axis];
  }
  return select(bad, span_, place);
}

}  // namespace kiln::templates
