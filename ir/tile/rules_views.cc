// Typing rules of views and memory.
#include <algorithm>
#include <numeric>

#include "ir/base/checked_math.h"
#include "ir/tile/op_rule.h"
#include "ir/tile/verifier.h"

namespace kiln::tile {
namespace {

Type derived(const Type& view, std::vector<std::int64_t> extents) {
  return Type::derived_view(view.element, std::move(extents));
}

// Checks `(view, index..., extra)`: one index per axis.
const Type& indexed_view(const OpSite& site, std::size_t extra) {
  site.count_operands_at_least(1);
  const Type& view = site.view(0);
  const std::size_t rank = view.extents.size();
  if (site.operands.size() != 1 + rank + extra) {
    site.fail("got {} operands, expected the view, {} indices and {} more", site.operands.size(), rank,
              extra);
  }
  for (std::size_t axis = 0; axis < rank; ++axis) site.index(1 + axis);
  return view;
}

void check_same_element(const OpSite& site, const Type& view, const Type& value) {
  if (view.element != value.element) {
    site.fail("value is {} and view is {}, expected one dtype; cast the value", to_string(value),
              to_string(view));
  }
}

bool agree(std::int64_t a, std::int64_t b) { return a == b || a == kDynamic || b == kDynamic; }

}  // namespace

std::vector<std::int64_t> box_extents(const Type& value, int view_rank) {
  const int surplus = value.rank() - view_rank;
  for (int axis = 0; axis < surplus; ++axis) {
    if (value.extents[static_cast<std::size_t>(axis)] != 1) {
      throw_caller(
          ErrorCode::ShapeMismatch,
          "{} on a view of rank {}: shapes align from the right, expected extent 1 on the {} leading axes",
          to_string(value), view_rank, surplus);
    }
  }
  std::vector<std::int64_t> extents(static_cast<std::size_t>(view_rank), 1);
  std::copy(value.extents.begin() + std::max(surplus, 0), value.extents.end(),
            extents.begin() + std::max(-surplus, 0));
  return extents;
}

template <>
Types infer<Opcode::Dim>(const OpSite& site) {
  site.count_operands(1);
  site.only_axis(site.view(0).rank());
  return {Type::index()};
}

template <>
Types infer<Opcode::SliceView>(const OpSite& site) {
  site.count_operands_at_least(1);
  const Type& view = site.view(0);
  const std::size_t rank = view.extents.size();
  site.count_operands(1 + 2 * rank);
  site.indices_from(1);
  if (site.attributes.strides.size() != rank) {
    site.fail("got {} steps, expected {}", site.attributes.strides.size(), rank);
  }
  for (const std::int64_t step : site.attributes.strides) {
    if (step == 0) site.fail("a step is 0");
  }
  return {derived(view, std::vector<std::int64_t>(rank, kDynamic))};
}

template <>
Types infer<Opcode::TransposeView>(const OpSite& site) {
  site.count_operands(1);
  const Type& view = site.view(0);
  site.check_permutation(view.rank());
  std::vector<std::int64_t> extents;
  for (const std::int64_t axis : site.attributes.axes)
    extents.push_back(view.extents[static_cast<std::size_t>(axis)]);
  return {derived(view, extents)};
}

template <>
Types infer<Opcode::BroadcastView>(const OpSite& site) {
  site.count_operands_at_least(1);
  const Type& view = site.view(0);
  const std::vector<std::int64_t>& axes = site.attributes.axes;
  site.count_operands(1 + axes.size());
  site.indices_from(1);
  site.check_ascending(view.rank() + static_cast<int>(axes.size()));
  std::vector<std::int64_t> extents = view.extents;
  for (const std::int64_t axis : axes) extents.insert(extents.begin() + axis, kDynamic);
  return {derived(view, extents)};
}

template <>
Types infer<Opcode::MergeView>(const OpSite& site) {
  site.count_operands(1);
  const Type& view = site.view(0);
  const std::vector<std::int64_t>& axes = site.attributes.axes;
  site.check_ascending(view.rank());
  if (axes.size() < 2 || axes.back() - axes.front() != static_cast<std::int64_t>(axes.size()) - 1) {
    site.fail("axes [{}], expected two or more adjacent ones", fmt::join(axes, ", "));
  }
  const auto first = view.extents.begin() + axes.front();
  const auto last = view.extents.begin() + axes.back() + 1;
  std::int64_t merged = 1;
  for (auto extent = first; extent != last; ++extent) {
    const bool known = merged != kDynamic && *extent != kDynamic;
    merged = known ? checked_multiply(merged, *extent).value_or(kDynamic) : kDynamic;
  }
  std::vector<std::int64_t> extents(view.extents.begin(), first);
  extents.push_back(merged);
  extents.insert(extents.end(), last, view.extents.end());
  return {derived(view, extents)};
}

template <>
Types infer<Opcode::SplitView>(const OpSite& site) {
  site.count_operands_at_least(3);
  const Type& view = site.view(0);
  site.indices_from(1);
  const std::int64_t axis = site.only_axis(view.rank());
  std::vector<std::int64_t> extents = view.extents;
  extents[static_cast<std::size_t>(axis)] = kDynamic;
  extents.insert(extents.begin() + axis, site.operands.size() - 2, kDynamic);
  return {derived(view, extents)};
}

template <>
Types infer<Opcode::WindowView>(const OpSite& site) {
  site.count_operands_at_least(1);
  const Type& view = site.view(0);
  const Attributes& window = site.attributes;
  const std::size_t axes = window.axes.size();
  site.check_ascending(view.rank());
  if (axes == 0 || window.sizes.size() != axes || window.strides.size() != axes ||
      window.dilations.size() != axes) {
    site.fail(
        "got {} axes, {} kernel extents, {} strides and {} dilations, expected as many of each, at least 1",
        axes, window.sizes.size(), window.strides.size(), window.dilations.size());
  }
  site.count_operands(1 + 2 * axes);
  site.indices_from(1);
  for (std::size_t k = 0; k < axes; ++k) {
    constexpr std::int64_t kLimit = std::int64_t{1} << 31;
    const std::int64_t least = std::min({window.sizes[k], window.strides[k], window.dilations[k]});
    const std::int64_t greatest = std::max({window.sizes[k], window.strides[k], window.dilations[k]});
    if (least < 1 || greatest >= kLimit)
      site.fail("kernel, stride and dilation must be in 1 .. {}", kLimit - 1);
  }
  site.literal(view.element);
  std::vector<std::int64_t> extents = view.extents;
  for (const std::int64_t axis : window.axes) extents[static_cast<std::size_t>(axis)] = kDynamic;
  extents.insert(extents.begin() + window.axes.back() + 1, window.sizes.begin(), window.sizes.end());
  return {derived(view, extents)};
}

template <>
Types infer<Opcode::PadView>(const OpSite& site) {
  site.count_operands_at_least(1);
  const Type& view = site.view(0);
  const std::size_t rank = view.extents.size();
  site.count_operands(1 + 2 * rank);
  site.indices_from(1);
  if (site.attributes.pad_mode == PadMode::Constant) site.literal(view.element);
  return {derived(view, std::vector<std::int64_t>(rank, kDynamic))};
}

template <>
Types infer<Opcode::GatherView>(const OpSite& site) {
  site.count_operands(2);
  const Type& view = site.view(0);
  const Type& indices = site.view(1);
  if (!computes_integer(indices.element)) site.fail("indices are {}, expected integers", to_string(indices));
  const std::int64_t axis = site.only_axis(view.rank());
  std::vector<std::int64_t> extents = view.extents;
  extents.erase(extents.begin() + axis);
  extents.insert(extents.begin() + axis, indices.extents.begin(), indices.extents.end());
  return {derived(view, extents)};
}

template <>
Types infer<Opcode::ConcatView>(const OpSite& site) {
  site.count_operands(2);
  const Type& left = site.view(0);
  const Type& right = site.view(1);
  const auto axis = static_cast<std::size_t>(site.only_axis(left.rank()));
  if (left.rank() != right.rank() || left.element != right.element) {
    site.fail("{} and {}, expected the same rank and dtype", to_string(left), to_string(right));
  }
  std::vector<std::int64_t> extents = left.extents;
  for (std::size_t k = 0; k < extents.size(); ++k) {
    const std::int64_t other = right.extents[k];
    if (k == axis) {
      const bool known = extents[k] != kDynamic && other != kDynamic;
      extents[k] = known ? checked_add(extents[k], other).value_or(kDynamic) : kDynamic;
    } else if (!agree(extents[k], other)) {
      site.fail("{} and {} differ on axis {}", to_string(left), to_string(right), k);
    } else if (extents[k] == kDynamic) {
      extents[k] = other;
    }
  }
  return {derived(left, extents)};
}

template <>
Types infer<Opcode::Load>(const OpSite& site) {
  site.count_operands_at_least(1);
  const std::size_t rank = site.view(0).extents.size();
  const bool has_fill = site.operands.size() == rank + 2;
  const Type& view = indexed_view(site, has_fill ? 1 : 0);
  if (has_fill) site.scalar(1 + rank, view.element);
  const Type& result = site.wanted_value();
  check_same_element(site, view, result);
  box_extents(result, view.rank());
  return {result};
}

template <>
Types infer<Opcode::Store>(const OpSite& site) {
  const Type& view = indexed_view(site, 1);
  const Type& value = site.value(site.operands.size() - 1);
  check_same_element(site, view, value);
  box_extents(value, view.rank());
  return {};
}

template <>
Types infer<Opcode::AtomicAdd>(const OpSite& site) {
  const Types results = infer<Opcode::Store>(site);
  const DType element = site.operands[0].element;
  if (!computes_number(element) || bits(element) < 32) {
    site.fail("on {}, expected an integer or float of 32 or 64 bits", name(element));
  }
  return results;
}

template <>
Types infer<Opcode::Local>(const OpSite& site) {
  if (site.wanted.size() != 1 || site.wanted[0].kind != TypeKind::MemoryView) {
    site.fail("expected a memory view as the result type");
  }
  const Type& type = site.wanted[0];
  check_limits(site, type);
  Type row_major = Type::view(type.element, type.extents);
  row_major.alignment = type.alignment;
  if (type != row_major) site.fail("{} is not row-major", to_string(type));
  const auto dynamic =
      static_cast<std::size_t>(std::count(type.extents.begin(), type.extents.end(), kDynamic));
  site.count_operands(dynamic);
  site.indices_from(0);
  std::int64_t least = 1;
  for (const std::int64_t extent : type.extents) {
    if (extent != kDynamic) least = checked_multiply(least, extent).value_or(INT64_MAX);
  }
  constexpr std::int64_t kLimit = std::int64_t{1} << 31;
  const std::int64_t count = site.attributes.count;
  if (count < std::max<std::int64_t>(least, 1) || count > kLimit) {
    site.fail("max {} elements for {}, expected {} to {}", count, to_string(type),
              std::max<std::int64_t>(least, 1), kLimit);
  }
  return {type};
}

}  // namespace kiln::tile
