#include "ir/graph/slice.h"

#include <algorithm>

namespace kiln::graph {
namespace {

// Counted from the front, inside [low, extent + high].
std::optional<Dim> clamped(const Dim& given, const Dim& extent, std::int64_t low, std::int64_t high) {
  Dim bound = given;
  if (bound.is_constant()) {
    // What lies this far outside is at the end, and its arithmetic might not stay in 64 bits.
    const std::int64_t far = extent.is_constant() ? extent.constant() + 1 : std::int64_t{1} << 40;
    // The standard recommends INT_MAX and INT_MIN for the ends of an extent that is not known.
    if (!extent.is_constant() && bound.constant() == INT32_MAX) bound = far;
    if (!extent.is_constant() && bound.constant() <= -INT32_MAX && bound.constant() >= INT32_MIN)
      bound = -far;
    if (bound.constant() >= far) return extent + high;
    if (bound.constant() <= -far) return low;
  }
  if (bound.is_at_least(0)) return min(bound, extent + high);
  if ((Dim(-1) - bound).is_at_least(0)) return max(bound + extent, low);
  return std::nullopt;
}

}  // namespace

std::optional<Dim> slice_first(const Dim& start, const Dim& extent, bool forward) {
  if (forward) return clamped(start, extent, 0, 0);
  const std::optional<Dim> first = clamped(start, extent, 0, -1);
  // Counted from the back it is at least 0, also where there is no element.
  return first && !start.is_at_least(0) ? std::optional(min(*first, extent - 1)) : first;
}

Dim slice_step(std::int64_t step, const Dim& extent) {
  if (step >= -INT32_MAX && step <= INT32_MAX) return step;
  const Dim longest = max(extent, 1);
  return step > 0 ? min(step, longest) : Dim(0) - min(-std::max(step, -INT64_MAX), longest);
}

std::optional<Dim> slice_count(const Dim& start, const Dim& end, const Dim& extent, std::int64_t step) {
  const bool forward = step > 0;
  const std::optional<Dim> first = slice_first(start, extent, forward);
  const std::optional<Dim> beyond = forward ? clamped(end, extent, 0, 0) : clamped(end, extent, -1, -1);
  if (!first || !beyond) return std::nullopt;
  const Dim size = slice_step(step, extent);
  // extent - min(start, extent), in the form that an end counted from the back gets.
  if (forward && *beyond == extent && start.is_at_least(0)) return ceildiv(max(extent - start, 0), size);
  if (forward) return max(ceildiv(*beyond - *first, size), 0);
  return max(ceildiv(*first - *beyond, Dim(0) - size), 0);
}

}  // namespace kiln::graph
