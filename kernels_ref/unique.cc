// Distinct elements, or distinct slices along an axis. NaN equals NaN and comes after all numbers; slices
// compare by their first element that differs.
#include <algorithm>
#include <complex>
#include <numeric>
#include <string>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/element.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {
namespace {

// Negative, 0 or positive as `a` is before, equal to or after `b`.
template <typename T>
int compare(const T& a, const T& b) {
  if constexpr (kIsHalf<T>) {
    return compare(static_cast<float>(a), static_cast<float>(b));
  } else if constexpr (std::is_same_v<T, Boolean>) {
    return int{bool{a}} - int{bool{b}};
  } else if constexpr (std::is_floating_point_v<T>) {
    if (is_nan_element(a) || is_nan_element(b)) return int{is_nan_element(a)} - int{is_nan_element(b)};
    return int{a > b} - int{a < b};
  } else {
    return int{b < a} - int{a < b};
  }
}
template <typename T>
int compare(const std::complex<T>& a, const std::complex<T>& b) {
  const int real = compare(a.real(), b.real());
  return real != 0 ? real : compare(a.imag(), b.imag());
}

// Calls visitor.operator()<T>(), T an element type that compare() takes.
template <typename Visitor>
void dispatch_comparable(DType dtype, Visitor&& visitor) {
  if (dtype == DType::C64) return visitor.template operator()<std::complex<float>>();
  if (dtype == DType::C128) return visitor.template operator()<std::complex<double>>();
  dispatch(decltype(join(NumbersAndBooleans{}, Types<std::string>{})){}, dtype, visitor);
}

// Slices of equal content.
struct Group {
  std::int64_t first, count;
};

// The groups in order, and the group of each slice.
struct Grouping {
  std::vector<Group> groups;
  std::vector<std::int64_t> group_of;
};

// `order(a, b)` compares two of `count` slices.
template <typename Order>
Grouping group_slices(std::int64_t count, bool sorted, Order order) {
  std::vector<std::int64_t> slices(static_cast<std::size_t>(count));
  std::iota(slices.begin(), slices.end(), std::int64_t{0});
  std::stable_sort(slices.begin(), slices.end(),
                   [&](std::int64_t a, std::int64_t b) { return order(a, b) < 0; });
  Grouping result;
  result.group_of.resize(slices.size());
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (i == 0 || order(slices[i - 1], slices[i]) != 0) result.groups.push_back({slices[i], 0});
    ++result.groups.back().count;
    result.group_of[static_cast<std::size_t>(slices[i])] =
        static_cast<std::int64_t>(result.groups.size()) - 1;
  }
  if (sorted) return result;
  // By first appearance.
  std::vector<std::size_t> by_first(result.groups.size());
  std::iota(by_first.begin(), by_first.end(), std::size_t{0});
  std::sort(by_first.begin(), by_first.end(),
            [&](std::size_t a, std::size_t b) { return result.groups[a].first < result.groups[b].first; });
  std::vector<std::int64_t> place(by_first.size());
  std::vector<Group> groups;
  for (const std::size_t group : by_first) {
    place[group] = static_cast<std::int64_t>(groups.size());
    groups.push_back(result.groups[group]);
  }
  for (std::int64_t& group : result.group_of) group = place[static_cast<std::size_t>(group)];
  result.groups = std::move(groups);
  return result;
}

}  // namespace

void unique(Call& call) {
  const bool flat = !has(call.node, "axis");
  const Tensor x = flat ? call.input(0).reshaped({call.input(0).elements()}) : call.input(0);
  const std::size_t axis = flat ? 0 : normalized_axis(integer(call.node, "axis"), x.rank());
  const std::int64_t outer = product(x.extents(), 0, axis), count = x.extents()[axis];
  const std::int64_t inner = product(x.extents(), axis + 1, x.extents().size());
  expect_bounded(count, "the index of the slices");
  Grouping grouping;
  dispatch_comparable(x.dtype(), [&]<typename T>() {
    const T* data = reinterpret_cast<const T*>(x.data());
    grouping = group_slices(count, integer(call.node, "sorted") != 0, [&](std::int64_t a, std::int64_t b) {
      for (std::int64_t i = 0; i < outer * inner; ++i) {
        const T* row = data + i / inner * count * inner + i % inner;
        if (const int order = compare(row[a * inner], row[b * inner]); order != 0) return order;
      }
      return 0;
    });
  });
  const auto found = static_cast<std::int64_t>(grouping.groups.size());
  Extents extents = x.extents();
  extents[axis] = found;
  Tensor& y = call.output(0, x.dtype(), extents);
  dispatch_storage(x.dtype(), [&]<typename T>() {
    const T* from = x.as<T>().data();
    T* to = y.as_mutable<T>().data();
    for (std::int64_t i = 0; i < outer; ++i) {
      for (const Group& group : grouping.groups) {
        to = std::copy_n(from + (i * count + group.first) * inner, inner, to);
      }
    }
  });
  const auto give = [&](std::size_t index, std::int64_t size, auto element) {
    if (!call.wants(index)) return;
    auto to = call.output(index, DType::I64, {size}).as_mutable<std::int64_t>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = element(i);
  };
  give(1, found, [&](std::size_t i) { return grouping.groups[i].first; });
  give(2, count, [&](std::size_t i) { return grouping.group_of[i]; });
  give(3, found, [&](std::size_t i) { return grouping.groups[i].count; });
}

}  // namespace kiln::reference
