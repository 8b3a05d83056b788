// Nested loops over operands that are addressed by strides: broadcasting, transposition, slicing, reduction.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <kiln/tensor.h>

#include "ir/base/checked_math.h"
#include "kernels_ref/reference.h"

namespace kiln::reference {

// Runs body(begin, end) over [0, count), on the caller's threads if there are any and the work, `cost`
// elementary operations per item, is worth it.
template <typename Body>
void for_range(const Call& call, std::int64_t count, std::int64_t cost, Body&& body) {
  constexpr std::int64_t kGrainCost = 1 << 16;
  const std::int64_t grain = std::max<std::int64_t>(1, kGrainCost / std::max<std::int64_t>(1, cost));
  if (count <= 0) return;
  if (call.parallel == nullptr || count <= grain) {
    body(std::int64_t{0}, count);
  } else {
    (*call.parallel)(count, grain, body);
  }
}

// Strides by which a dense tensor of `from` is read under the broadcast shape `to`: 0 along repeated axes.
// Throws Error (caller, shape_mismatch) if it cannot be.
Extents broadcast_strides(const Extents& from, const Extents& to);

// The shape of two operands broadcast together. Throws Error (caller, shape_mismatch).
Extents broadcast_extents(const Extents& a, const Extents& b);

// N operands walked together over `extents`; strides in elements, one list per operand.
template <std::size_t N>
struct Nest {
  Extents extents;
  std::array<Extents, N> strides;
};

// The same elements in the same order with as few axes as possible, at least one.
template <std::size_t N>
Nest<N> coalesce(const Nest<N>& nest) {
  Nest<N> result;
  for (std::size_t axis = 0; axis < nest.extents.size(); ++axis) {
    const std::int64_t extent = nest.extents[axis];
    if (extent == 1) continue;
    bool merges = !result.extents.empty();
    for (std::size_t k = 0; merges && k < N; ++k) {
      merges = result.strides[k].back() == nest.strides[k][axis] * extent;
    }
    if (merges) {
      result.extents.back() *= extent;
      for (std::size_t k = 0; k < N; ++k) result.strides[k].back() = nest.strides[k][axis];
    } else {
      result.extents.push_back(extent);
      for (std::size_t k = 0; k < N; ++k) result.strides[k].push_back(nest.strides[k][axis]);
    }
  }
  if (result.extents.empty()) {
    result.extents.push_back(1);
    for (std::size_t k = 0; k < N; ++k) result.strides[k].push_back(0);
  }
  return result;
}

// Calls body(offsets, count) for runs along the innermost axis of a coalesced nest that cover the elements
// [begin, end) of its row-major order.
template <std::size_t N, typename Body>
void walk(const Nest<N>& nest, std::int64_t begin, std::int64_t end, Body&& body) {
  const std::size_t inner = nest.extents.size() - 1;
  Extents index(nest.extents.size());
  std::array<std::int64_t, N> offsets{};
  std::int64_t rest = begin;
  for (std::size_t axis = nest.extents.size(); axis-- > 0 && begin < end;) {
    index[axis] = rest % nest.extents[axis];
    rest /= nest.extents[axis];
    for (std::size_t k = 0; k < N; ++k) offsets[k] += index[axis] * nest.strides[k][axis];
  }
  while (begin < end) {
    const std::int64_t count = std::min(end - begin, nest.extents[inner] - index[inner]);
    body(std::as_const(offsets), count);
    begin += count;
    index[inner] += count;
    for (std::size_t k = 0; k < N; ++k) offsets[k] += count * nest.strides[k][inner];
    for (std::size_t axis = inner; axis > 0 && index[axis] == nest.extents[axis]; --axis) {
      for (std::size_t k = 0; k < N; ++k) {
        offsets[k] += nest.strides[k][axis - 1] - nest.extents[axis] * nest.strides[k][axis];
      }
      index[axis] = 0;
      ++index[axis - 1];
    }
  }
}

// walk() over the whole nest in pieces that may run on several threads.
template <std::size_t N, typename Body>
void walk_all(const Call& call, const Nest<N>& nest, std::int64_t cost, Body&& body) {
  for_range(call, element_count(nest.extents), cost,
            [&](std::int64_t begin, std::int64_t end) { walk(nest, begin, end, body); });
}

// Bytes from one element to the next in memory. Not for types packed several to a byte.
std::int64_t element_bytes(DType dtype);

// Copies elements of `dtype` (strings: assigns) along a nest of {destination, source}, whose
// offsets start at the given pointers.
void copy_elements(const Call& call, DType dtype, const Nest<2>& nest, std::byte* destination,
                   const std::byte* source);

}  // namespace kiln::reference
