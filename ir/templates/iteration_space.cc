#include "ir/templates/iteration_space.h"

#include <algorithm>
#include <utility>

#include "ir/base/errors.h"

namespace kiln::templates {
namespace {

using graph::Dim;
using graph::Shape;

// Axes from outermost to innermost as they lie in memory. Symbolic strides do not compare, so an axis counts
// as outside another when its stride is that other's stride times extent; the innermost of what is left is
// one that spans no other, the last of several.
std::vector<int> memory_order(std::vector<int> axes, const Shape& space, const std::vector<Dim>& strides) {
  std::vector<int> order;
  while (!axes.empty()) {
    const auto spans_another = [&](int axis) {
      const Dim& stride = strides[static_cast<std::size_t>(axis)];
      if (stride == Dim(0) || stride == Dim(1)) return false;
      return std::any_of(axes.begin(), axes.end(), [&](int inner) {
        const auto i = static_cast<std::size_t>(inner);
        if (inner == axis || strides[i] == Dim(0)) return false;
        if (stride == strides[i] * space[i]) return true;
        return stride.is_constant() && strides[i].is_constant() && stride.constant() > strides[i].constant();
      });
    };
    // A unit stride is innermost whatever else holds.
    auto innermost = std::find_if(axes.rbegin(), axes.rend(), [&](int axis) {
      return strides[static_cast<std::size_t>(axis)] == Dim(1);
    });
    if (innermost == axes.rend()) {
      innermost = std::find_if(axes.rbegin(), axes.rend(), [&](int axis) { return !spans_another(axis); });
    }
    if (innermost == axes.rend()) innermost = axes.rbegin();
    order.push_back(*innermost);
    axes.erase(std::next(innermost).base());
  }
  std::reverse(order.begin(), order.end());
  return order;
}

bool contiguous(const Shape& space, std::span<const std::vector<Dim>> strides, int outer, int inner) {
  const auto o = static_cast<std::size_t>(outer), i = static_cast<std::size_t>(inner);
  return std::all_of(strides.begin(), strides.end(),
                     [&](const std::vector<Dim>& operand) { return operand[o] == operand[i] * space[i]; });
}

// Appends the axes of one group, merged.
void append_group(IterationSpace& result, const std::vector<int>& ordered, const Shape& space,
                  std::span<const std::vector<Dim>> strides) {
  const std::size_t first = result.extents.size();
  for (const int axis : ordered) {
    const auto a = static_cast<std::size_t>(axis);
    const bool merges =
        result.extents.size() > first && contiguous(space, strides, result.axes.back().back(), axis);
    if (merges) {
      result.extents.back() = result.extents.back() * space[a];
      result.axes.back().push_back(axis);
      for (std::size_t k = 0; k < strides.size(); ++k) result.strides[k].back() = strides[k][a];
    } else {
      result.extents.push_back(space[a]);
      result.axes.push_back({axis});
      for (std::size_t k = 0; k < strides.size(); ++k) result.strides[k].push_back(strides[k][a]);
    }
  }
  if (result.extents.size() > first) return;
  result.extents.push_back(1);
  result.axes.emplace_back();
  for (std::size_t k = 0; k < strides.size(); ++k) result.strides[k].push_back(1);
}

}  // namespace

std::vector<Dim> broadcast_strides(const graph::Value& value, const Shape& space) {
  const Shape& shape = *value.shape;
  require(shape.size() <= space.size(), "value {} has more axes than its space", value.name);
  const std::size_t lead = space.size() - shape.size();
  std::vector<Dim> strides(space.size(), Dim(0));
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const Dim& stride = value.layout->strides[i];
    if (shape[i] == Dim(1)) continue;
    strides[lead + i] = shape[i] == space[lead + i] ? stride : stride * min(shape[i] - Dim(1), 1);
  }
  return strides;
}

IterationSpace collapse_groups(const Shape& space, std::span<const std::vector<Dim>> strides,
                               std::size_t order_by, std::span<const std::vector<int>> groups,
                               std::vector<int>& axes_per_group) {
  IterationSpace result;
  result.strides.resize(strides.size());
  axes_per_group.clear();
  for (const std::vector<int>& group : groups) {
    std::vector<int> axes;
    for (const int axis : group) {
      if (space[static_cast<std::size_t>(axis)] != Dim(1)) axes.push_back(axis);
    }
    const std::size_t before = result.extents.size();
    append_group(result, memory_order(std::move(axes), space, strides[order_by]), space, strides);
    axes_per_group.push_back(static_cast<int>(result.extents.size() - before));
  }
  return result;
}

IterationSpace collapse(const Shape& space, std::span<const std::vector<Dim>> strides, std::size_t order_by) {
  std::vector<int> all(space.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  std::vector<int> counts;
  const std::vector<std::vector<int>> groups{all};
  return collapse_groups(space, strides, order_by, groups, counts);
}

IterationSpace collapse_around(const Shape& space, std::span<const std::vector<Dim>> strides,
                               std::size_t order_by, const std::vector<bool>& apart,
                               std::vector<int>& apart_axis) {
  std::vector<int> all(space.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  std::vector<std::vector<int>> groups;
  bool open = false;  // whether the last group takes more axes
  for (const int axis : memory_order(std::move(all), space, strides[order_by])) {
    const bool joins = !apart[static_cast<std::size_t>(axis)];
    if (joins && open) {
      groups.back().push_back(axis);
    } else {
      groups.push_back({axis});
    }
    open = joins;
  }
  if (groups.empty()) groups.emplace_back();
  std::vector<int> counts;
  IterationSpace result = collapse_groups(space, strides, order_by, groups, counts);
  apart_axis.clear();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const bool is_apart = !groups[g].empty() && apart[static_cast<std::size_t>(groups[g][0])];
    apart_axis.insert(apart_axis.end(), static_cast<std::size_t>(counts[g]), is_apart ? groups[g][0] : -1);
  }
  return result;
}

CopyBlock copy_block(const IterationSpace& space) {
  const auto limited = [](const Dim& extent, std::int64_t unknown, std::int64_t limit) {
    return extent.is_constant() ? std::clamp<std::int64_t>(extent.constant(), 1, limit) : unknown;
  };
  const std::size_t rank = space.rank();
  CopyBlock block;
  block.inner =
      limited(space.extents[rank - 1], rank == 1 ? kCopiedElements : kCopiedElements / 4, kCopiedElements);
  const std::int64_t rows = std::max<std::int64_t>(1, kCopiedElements / block.inner);
  if (rank > 1) block.rows = limited(space.extents[rank - 2], rows, rows);
  return block;
}

std::int64_t static_extent(const Dim& dim) { return dim.is_constant() ? dim.constant() : tile::kDynamic; }

tile::Type view_type(DType dtype, std::span<const Dim> extents, std::span<const Dim> strides) {
  std::vector<std::int64_t> static_extents, static_strides;
  for (const Dim& extent : extents) static_extents.push_back(static_extent(extent));
  for (const Dim& stride : strides) static_strides.push_back(static_extent(stride));
  return tile::Type::view(dtype, std::move(static_extents), std::move(static_strides));
}

}  // namespace kiln::templates
