#include "runtime/memory_plan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/base/checked_math.h"
#include "ir/base/errors.h"

namespace kiln::runtime {
namespace {

// Memory that one or several requests share.
struct Storage {
  std::int64_t bytes = 0;  // aligned
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t last_begin = 0;  // when the last of its requests begins
  int tenant = 0;               // that request, or kGroup
  std::int64_t offset = 0;
};
constexpr int kGroup = -1;

bool meet(const Storage& a, const Storage& b) { return a.first <= b.last && b.first <= a.last; }

// The quadratic search (1 ms at this number) is tried where the sweep leaves more than a twentieth to gain.
constexpr std::size_t kQuadraticLimit = 1024;
constexpr std::int64_t kWorthwhile = 20;

[[noreturn]] void too_large() {
  throw_caller(ErrorCode::LimitExceeded, "the memory plan exceeds 2^63 bytes; use smaller inputs");
}

std::int64_t add(std::int64_t a, std::int64_t b) {
  const auto sum = checked_add(a, b);
  if (!sum) too_large();
  return *sum;
}

std::int64_t aligned(std::int64_t bytes) { return add(bytes, kBufferAlignment - 1) & -kBufferAlignment; }

// Requests to Storages, and the Storage of each request (-1 for empty ones).
struct Sharing {
  std::vector<Storage> storages;
  std::vector<int> storage_of;
  int in_place = 0;
};

// The memory that request `i` wishes for, if it may have it.
Storage* storage_to_take_over(std::span<const BufferRequest> requests, Sharing& sharing, std::size_t i) {
  const BufferRequest& request = requests[i];
  if (request.in_place_of < 0) return nullptr;
  require(request.in_place_of < static_cast<int>(i),
          "buffer {} is in place of {}, expected an earlier buffer", i, request.in_place_of);
  const int index = sharing.storage_of[static_cast<std::size_t>(request.in_place_of)];
  if (index < 0) return nullptr;
  Storage& storage = sharing.storages[static_cast<std::size_t>(index)];
  if (storage.tenant != kGroup && storage.tenant != request.in_place_of) return nullptr;
  // What the same step writes cannot be what it reads.
  if (storage.last != request.first_step || storage.last_begin >= request.first_step) return nullptr;
  const std::int64_t bytes = aligned(request.bytes);
  return bytes <= storage.bytes && bytes >= storage.bytes / 2 ? &storage : nullptr;
}

Sharing share(std::span<const BufferRequest> requests) {
  Sharing result;
  result.storage_of.assign(requests.size(), -1);
  std::unordered_map<int, int> group_storage;
  for (const BufferRequest& request : requests) {
    require(request.bytes >= 0 && request.first_step <= request.last_step,
            "got a buffer of {} bytes live in steps {} to {}", request.bytes, request.first_step,
            request.last_step);
    if (request.alias_group == 0 || request.bytes == 0) continue;
    const Storage own = {aligned(request.bytes), request.first_step, request.last_step, request.first_step,
                         kGroup};
    const auto [entry, is_new] =
        group_storage.try_emplace(request.alias_group, static_cast<int>(result.storages.size()));
    if (is_new) {
      result.storages.push_back(own);
      continue;
    }
    Storage& storage = result.storages[static_cast<std::size_t>(entry->second)];
    storage.bytes = std::max(storage.bytes, own.bytes);
    storage.first = std::min(storage.first, own.first);
    storage.last = std::max(storage.last, own.last);
    storage.last_begin = std::max(storage.last_begin, own.last_begin);
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const BufferRequest& request = requests[i];
    if (request.bytes == 0) continue;
    if (request.alias_group != 0) {
      result.storage_of[i] = group_storage.at(request.alias_group);
      continue;
    }
    if (Storage* storage = storage_to_take_over(requests, result, i)) {
      storage->last = request.last_step;
      storage->last_begin = request.first_step;
      storage->tenant = static_cast<int>(i);
      result.storage_of[i] = static_cast<int>(storage - result.storages.data());
      ++result.in_place;
      continue;
    }
    result.storage_of[i] = static_cast<int>(result.storages.size());
    result.storages.push_back({aligned(request.bytes), request.first_step, request.last_step,
                               request.first_step, static_cast<int>(i)});
  }
  return result;
}

std::int64_t most_live(std::span<const Storage> storages) {
  std::vector<std::pair<std::int64_t, std::int64_t>> changes;  // step, bytes
  changes.reserve(2 * storages.size());
  for (const Storage& storage : storages) {
    changes.emplace_back(storage.first, storage.bytes);
    if (storage.last != std::numeric_limits<std::int64_t>::max())
      changes.emplace_back(storage.last + 1, -storage.bytes);
  }
  std::ranges::sort(changes);  // at equal steps, ends come before beginnings
  std::int64_t live = 0;
  std::int64_t most = 0;
  for (const auto& [step, bytes] : changes) most = std::max(most, live = add(live, bytes));
  return most;
}

// Places Storages in the given order, each into the smallest gap between those already placed that it meets.
// Close to optimal when the large come first; quadratic.
std::int64_t place_in_gaps(std::vector<Storage>& storages, std::span<const std::uint32_t> order) {
  std::vector<std::uint32_t> placed;  // by offset
  placed.reserve(storages.size());
  std::int64_t total = 0;
  for (const std::uint32_t index : order) {
    Storage& storage = storages[index];
    std::int64_t end = 0;  // of what has been passed
    std::int64_t best = -1;
    std::int64_t best_gap = std::numeric_limits<std::int64_t>::max();
    for (const std::uint32_t other_index : placed) {
      const Storage& other = storages[other_index];
      if (!meet(storage, other)) continue;
      const std::int64_t gap = other.offset - end;
      if (gap >= storage.bytes && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, other.offset + other.bytes);
    }
    storage.offset = best >= 0 ? best : end;
    total = std::max(total, add(storage.offset, storage.bytes));
    const auto by_offset = [&](std::uint32_t a, std::int64_t offset) { return storages[a].offset < offset; };
    placed.insert(std::lower_bound(placed.begin(), placed.end(), storage.offset, by_offset), index);
  }
  return total;
}

// Plays the run: memory is taken from the smallest free piece that fits when a Storage begins, and given back
// when it ends. n log n.
std::int64_t place_in_time(std::vector<Storage>& storages) {
  std::vector<std::uint32_t> begins(storages.size());
  std::iota(begins.begin(), begins.end(), 0u);
  std::vector<std::uint32_t> ends = begins;
  std::ranges::sort(begins, [&](std::uint32_t a, std::uint32_t b) {
    const Storage &x = storages[a], &y = storages[b];
    // Of those that begin together, the ones that stay longest go lowest, the larger first.
    return std::tuple(x.first, -x.last, -x.bytes, a) < std::tuple(y.first, -y.last, -y.bytes, b);
  });
  std::ranges::sort(ends, [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(storages[a].last, a) < std::pair(storages[b].last, b);
  });

  std::map<std::int64_t, std::int64_t> free_by_offset;           // offset -> bytes
  std::set<std::pair<std::int64_t, std::int64_t>> free_by_size;  // bytes, offset
  std::int64_t total = 0;
  const auto take = [&](std::int64_t offset, std::int64_t bytes) {
    free_by_offset.erase(offset);
    free_by_size.erase({bytes, offset});
  };
  const auto give = [&](std::int64_t offset, std::int64_t bytes) {
    auto next = free_by_offset.lower_bound(offset);
    if (next != free_by_offset.end() && next->first == offset + bytes) {
      const std::int64_t more = next->second;
      take(offset + bytes, more);
      bytes += more;
    }
    auto previous = free_by_offset.lower_bound(offset);
    if (previous != free_by_offset.begin() && (--previous)->first + previous->second == offset) {
      const auto [before, more] = *previous;
      take(before, more);
      offset = before;
      bytes += more;
    }
    free_by_offset.emplace(offset, bytes);
    free_by_size.emplace(bytes, offset);
  };

  std::size_t ended = 0;
  for (const std::uint32_t index : begins) {
    Storage& storage = storages[index];
    for (; storages[ends[ended]].last < storage.first; ++ended) {
      give(storages[ends[ended]].offset, storages[ends[ended]].bytes);
    }
    if (const auto fit = free_by_size.lower_bound({storage.bytes, 0}); fit != free_by_size.end()) {
      const auto [bytes, offset] = *fit;
      take(offset, bytes);
      storage.offset = offset;
      if (bytes > storage.bytes) give(offset + storage.bytes, bytes - storage.bytes);
      continue;
    }
    // Grow, starting in the free piece at the very end if there is one.
    storage.offset = total;
    if (!free_by_offset.empty()) {
      const auto [offset, bytes] = *free_by_offset.rbegin();
      if (offset + bytes == total) {
        take(offset, bytes);
        storage.offset = offset;
      }
    }
    total = add(storage.offset, storage.bytes);
  }
  return total;
}

std::vector<std::uint32_t> largest_first(std::span<const Storage> storages) {
  std::vector<std::uint32_t> order(storages.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
    const Storage &x = storages[a], &y = storages[b];
    return std::tuple(-x.bytes, x.first, a) < std::tuple(-y.bytes, y.first, b);
  });
  return order;
}

}  // namespace

MemoryPlan plan_memory(std::span<const BufferRequest> requests) {
  Sharing sharing = share(requests);
  MemoryPlan plan;
  plan.in_place = sharing.in_place;
  plan.lower_bound = most_live(sharing.storages);
  plan.total = place_in_time(sharing.storages);
  if (plan.total - plan.lower_bound > plan.lower_bound / kWorthwhile &&
      sharing.storages.size() <= kQuadraticLimit) {
    std::vector<Storage> other = sharing.storages;
    const std::int64_t total = place_in_gaps(other, largest_first(other));
    if (total < plan.total) {
      plan.total = total;
      sharing.storages = std::move(other);
    }
  }
  plan.offsets.reserve(requests.size());
  for (const int storage : sharing.storage_of) {
    plan.offsets.push_back(storage < 0 ? 0 : sharing.storages[static_cast<std::size_t>(storage)].offset);
  }
  return plan;
}

}  // namespace kiln::runtime
