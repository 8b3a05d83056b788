// pool: max and average over a sliding window, with an elementwise epilogue. Vectors run along channels where
// they lie innermost, else along the last spatial axis of the output.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "ir/templates/epilogue.h"
#include "ir/templates/samples.h"
#include "ir/templates/template.h"
#include "ir/templates/window_geometry.h"

namespace kiln::templates {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::OpKind;
using graph::Problem;
using graph::Shape;
using graph::ValueId;
using tile::Expr;
using tile::Exprs;
using tile::Indices;

constexpr std::int64_t kUnrolledTaps = 49;
constexpr std::int64_t kMaxTaps = 4096;
constexpr std::int64_t kElements = 512, kPixels = 8;

std::optional<std::string> refuses(const Problem& problem, const Target&) {
  const Graph& graph = problem.graph;
  const Node& node = graph.node(problem.root);
  if (node.op != OpKind::MaxPool && node.op != OpKind::AveragePool)
    return "its root is no pool of this template";
  const graph::Value& x = graph.value(node.inputs[0]);
  if (!x.shape || x.shape->size() < 3 || x.shape->size() > 5) return "1 to 3 spatial axes are supported";
  if (!input_number(problem, node.inputs[0])) return "its input is a literal";
  const DType dtype = compute_dtype(x.dtype);
  if (node.op == OpKind::AveragePool && dtype != DType::F32 && dtype != DType::F64)
    return fmt::format("average of {}", name(x.dtype));
  if (x.dtype == DType::I1 || bits(x.dtype) < 8) return fmt::format("maximum of {}", name(x.dtype));
  if (window_geometry(graph, node).taps() > kMaxTaps) return "its window is too large";
  return why_no_epilogue(problem);
}

// Axes of views and tiles: [n, spatial..., c], or [n, c, spatial...] where channels do not lie innermost.
std::vector<std::size_t> axis_order(const Problem& problem) {
  const graph::Value& x = problem.graph.value(problem.graph.node(problem.root).inputs[0]);
  std::vector<std::size_t> order{0};
  const bool channels_last = x.layout->strides[1] == Dim(1) && (*x.shape)[1] != Dim(1);
  if (!channels_last) order.push_back(1);
  for (std::size_t i = 2; i < x.shape->size(); ++i) order.push_back(i);
  if (channels_last) order.push_back(1);
  return order;
}

template <typename List>
List reordered(const List& list, const std::vector<std::size_t>& order) {
  List result;
  for (const std::size_t i : order) result.push_back(list[i]);
  return result;
}

std::vector<VariantChoice> variants(const Problem& problem, const Target&) {
  const std::vector<std::size_t> order = axis_order(problem);
  const Shape& shape = *problem.graph.value(problem.graph.node(problem.root).outputs[0]).shape;
  const auto extent = [&](std::size_t from_end, std::int64_t limit) {
    const Dim& dim = shape[order[order.size() - from_end]];
    return dim.is_constant() ? std::clamp<std::int64_t>(dim.constant(), 1, limit) : limit;
  };
  return {{.name = "default",
           .guard = std::nullopt,
           .parameters = {{"inner", extent(1, kElements)}, {"outer", extent(2, kPixels)}}}};
}

double outside_value(const Node& node, DType dtype) {
  if (node.op == OpKind::AveragePool) return 0;
  if (is_float(dtype)) return -std::numeric_limits<double>::infinity();
  return is_signed_integer(dtype) ? -std::ldexp(1.0, bits(dtype) - 1) : 0;
}

class PoolKernel {
 public:
  PoolKernel(const Problem& problem, const Parameters& parameters)
      : problem_(problem),
        node_(problem.graph.node(problem.root)),
        window_(window_geometry(problem.graph, node_)),
        order_(axis_order(problem)),
        program_(problem),
        launch_(program_, "pool"),
        k_(launch_.builder()) {
    box_.assign(order_.size(), 1);
    box_.back() = parameters.at("inner");
    box_[box_.size() - 2] = parameters.at("outer");
    first_spatial_ = static_cast<std::size_t>(std::find(order_.begin(), order_.end(), 2) - order_.begin());
  }

  Program build() {
    const Graph& graph = problem_.graph;
    const graph::Value& x = graph.value(node_.inputs[0]);
    const auto number = static_cast<std::size_t>(
        std::find(graph.inputs.begin(), graph.inputs.end(), node_.inputs[0]) - graph.inputs.begin());
    const tile::View input = launch_.input("x", program_.input(number), reordered(*x.shape, order_),
                                           reordered(x.layout->strides, order_));
    patches_ =
        window_view(launch_, input, static_cast<int>(first_spatial_), window_, outside_value(node_, x.dtype));
    if (node_.op == OpKind::AveragePool) bind_count_parameters();
    const bool tells_places = node_.outputs.size() > 1 && node_.outputs[1];
    if (tells_places) bind_place_parameters();

    const Shape& shape = *graph.value(node_.outputs[0]).shape;
    IterationSpace space{.extents = reordered(shape, order_), .strides = {}, .axes = {}};
    for (const std::size_t i : epilogue_inputs(problem_)) {
      space.strides.push_back(reordered(broadcast_strides(graph.value(graph.inputs[i]), shape), order_));
    }
    for (const ValueId id : graph.outputs)
      space.strides.push_back(reordered(broadcast_strides(graph.value(id), shape), order_));
    Epilogue epilogue(program_, launch_, problem_, space, 0);
    at_ = blocked_grid(k_, epilogue.output(), box_);
    const DType dtype = compute_dtype(x.dtype);
    const Expr nothing = k_.full(dtype, box_, outside_value(node_, dtype));
    Expr result;
    if (tells_places) {
      const Exprs best = over_taps({nothing, k_.full(DType::I64, box_, -1)},
                                   [&](const Exprs& carried, Expr tap, const Indices& offsets) {
                                     return better_tap(carried, tap, offsets);
                                   });
      epilogue.define(node_.outputs[1], place_in_input(best[1]));
      result = best[0];
    } else {
      result = over_taps({nothing}, [&](const Exprs& carried, Expr tap, const Indices&) -> Exprs {
        return {node_.op == OpKind::MaxPool ? max(carried[0], tap) : carried[0] + tap};
      })[0];
    }
    if (node_.op == OpKind::AveragePool) result = result / tap_count(dtype);
    epilogue.finish(result, at_, box_);
    const std::int64_t elements = box_.back() * box_[box_.size() - 2];
    launch_.cost(elements * (window_.taps() + epilogue_flops(problem_)),
                 elements * (window_.taps() + epilogue_bytes(problem_)));
    program_.add(launch_);
    return program_.finish();
  }

 private:
  using Fold = std::function<Exprs(const Exprs& carried, Expr tap, const Indices& offsets)>;

  // Folds every tap of the window into `carried`: unrolled, or in loops where there are many.
  Exprs over_taps(const Exprs& carried, const Fold& fold) {
    Indices offsets;
    return over_axis(0, offsets, carried, fold);
  }

  Exprs over_axis(std::size_t axis, Indices& offsets, Exprs carried, const Fold& fold) {
    if (axis == window_.rank()) return fold(carried, load_tap(offsets), offsets);
    if (window_.taps() > kUnrolledTaps) {
      return k_.loop(0, window_.kernel[axis], 1, carried, [&](Expr offset, const Exprs& inner) -> Exprs {
        offsets.emplace_back(offset);
        Exprs result = over_axis(axis + 1, offsets, inner, fold);
        offsets.pop_back();
        return result;
      });
    }
    for (std::int64_t offset = 0; offset < window_.kernel[axis]; ++offset) {
      offsets.emplace_back(offset);
      carried = over_axis(axis + 1, offsets, std::move(carried), fold);
      offsets.pop_back();
    }
    return carried;
  }

  // The window puts its axes after the last spatial axis of the output.
  Expr load_tap(const Indices& offsets) {
    const std::size_t last_spatial = first_spatial_ + window_.rank();
    Indices at(at_.begin(), at_.begin() + static_cast<std::ptrdiff_t>(last_spatial));
    std::vector<std::int64_t> extents(box_.begin(), box_.begin() + static_cast<std::ptrdiff_t>(last_spatial));
    for (const tile::Index& offset : offsets) {
      at.push_back(offset);
      extents.push_back(1);
    }
    at.insert(at.end(), at_.begin() + static_cast<std::ptrdiff_t>(last_spatial), at_.end());
    extents.insert(extents.end(), box_.begin() + static_cast<std::ptrdiff_t>(last_spatial), box_.end());
    const Expr tap = k_.reshape(patches_.load(at, extents), box_);
    const DType dtype = compute_dtype(tap.type().element);
    return tap.type().element == dtype ? tap : k_.cast(tap, dtype);
  }

  // ---- how many taps an average is over

  bool counts_all_taps() const {
    const auto nothing_outside = [&](std::size_t i) {
      const Dim reach = (window_.output[i] - Dim(1)) * Dim(window_.strides[i]) +
                        Dim((window_.kernel[i] - 1) * window_.dilations[i] + 1) - window_.input[i] -
                        window_.low[i];
      const Dim room = include_pad() ? window_.high[i] : Dim(0);
      return (include_pad() || window_.low[i] == Dim(0)) && (room - reach).is_at_least(0);
    };
    for (std::size_t i = 0; i < window_.rank(); ++i) {
      if (!nothing_outside(i)) return false;
    }
    return true;
  }

  bool include_pad() const { return integer(node_, "count_include_pad") != 0; }

  void bind_count_parameters() {
    if (counts_all_taps()) return;
    for (std::size_t i = 0; i < window_.rank(); ++i) {
      const Dim low = include_pad() ? Dim(0) - window_.low[i] : Dim(0);
      const Dim high = include_pad() ? window_.input[i] + window_.high[i] : window_.input[i];
      count_low_.push_back(launch_.scalar(fmt::format("count_low{}", i), low));
      count_high_.push_back(launch_.scalar(fmt::format("count_high{}", i), high));
    }
    bind_first_taps();
  }

  void bind_first_taps() {
    for (std::size_t i = 0; i < window_.rank(); ++i)
      first_tap_.push_back(launch_.scalar(fmt::format("first_tap{}", i), Dim(0) - window_.low[i]));
  }

  // Where a tap lies on a spatial axis of the input: a tile along that axis.
  Expr position(std::size_t i, const tile::Index& offset) {
    const Expr start = coordinate(first_spatial_ + i) * window_.strides[i] + first_tap_[i];
    const tile::Operand tap = offset.expr ? tile::Operand(offset.expr * window_.dilations[i])
                                          : tile::Operand(offset.constant * window_.dilations[i]);
    return start + tap;
  }

  Expr coordinate(std::size_t axis) {
    std::vector<std::int64_t> extents(box_.size(), 1);
    extents[axis] = box_[axis];
    return k_.iota(DType::I64, extents, static_cast<int>(axis)) + at_[axis].expr;
  }

  Expr tap_count(DType dtype) {
    if (count_low_.empty()) return k_.constant(dtype, static_cast<double>(window_.taps()));
    Expr product;
    for (std::size_t i = 0; i < window_.rank(); ++i) {
      Expr count = k_.index(0);
      for (std::int64_t offset = 0; offset < window_.kernel[i]; ++offset) {
        const Expr at = position(i, offset);
        count = count + select((at >= count_low_[i]) & (at < count_high_[i]), k_.index(1), k_.index(0));
      }
      product = product ? product * count : count;
    }
    return k_.cast(product, dtype);
  }

  // ---- where a maximum lies

  void bind_place_parameters() {
    bind_first_taps();
    for (std::size_t i = 0; i < window_.rank(); ++i)
      extents_.push_back(launch_.scalar(fmt::format("extent{}", i), window_.input[i]));
    channels_ = launch_.scalar("channels", (*problem_.graph.value(node_.inputs[0]).shape)[1]);
  }

  // Carried: the greatest tap and its place in the plane, -1 before the first. The first of equal ones stays.
  Exprs better_tap(const Exprs& carried, Expr tap, const Indices& offsets) {
    Expr place, inside;
    // The axis in whose direction places follow each other comes last.
    const bool columns_first = integer(node_, "storage_order") != 0;
    for (std::size_t k = 0; k < window_.rank(); ++k) {
      const std::size_t i = columns_first ? window_.rank() - 1 - k : k;
      const Expr at = position(i, offsets[i]);
      const Expr is_inside = (at >= 0) & (at < extents_[i]);
      inside = inside ? inside & is_inside : is_inside;
      place = place ? place * extents_[i] + at : at;
    }
    Expr better = (carried[1] < 0) | (tap > carried[0]);
    if (is_float(tap.type().element)) better = better | (isnan(tap) & ~isnan(carried[0]));
    const Expr taken = inside & better;
    return {select(taken, tap, carried[0]), select(taken, place, carried[1])};
  }

  // In the whole input, whose planes follow each other.
  Expr place_in_input(Expr place) {
    const auto channel =
        static_cast<std::size_t>(std::find(order_.begin(), order_.end(), 1) - order_.begin());
    Expr plane = coordinate(0) * channels_ + coordinate(channel);
    for (const Expr& extent : extents_) plane = plane * extent;
    return select(place < 0, place, place + plane);
  }

  const Problem& problem_;
  const Node& node_;
  WindowGeometry window_;
  std::vector<std::size_t> order_;
  ProgramBuilder program_;
  ProgramBuilder::Launch launch_;
  tile::KernelBuilder& k_;
  std::vector<std::int64_t> box_;
  std::size_t first_spatial_ = 0;
  tile::View patches_;
  Indices at_;
  Exprs count_low_, count_high_, first_tap_, extents_;
  Expr channels_;
};

Program build(const Problem& problem, const Parameters& parameters, const Target&) {
  return PoolKernel(problem, parameters).build();
}

}  // namespace

extern const Template pool_template;
const Template pool_template{.name = "pool",
                             .version = 1,
                             .refuses = refuses,
                             .variants = variants,
                             .build = build,
                             .samples = pool_samples};

}  // namespace kiln::templates
