#include "runtime/arena_pool.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <vector>

#include <sys/mman.h>

#include "ir/base/errors.h"

namespace kiln::runtime {
namespace {

constexpr std::int64_t kPage = 4096;
constexpr std::size_t kRecentLeases = 64;

// An arena may be this many times larger than the largest recent lease before it is given up.
constexpr std::int64_t kSlack = 2;

// Straight from the system, so that giving one up really shrinks the process. No huge pages: first touch of
// them measured slower.
std::byte* allocate(std::int64_t bytes) {
  void* data = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

void release(std::byte* data, std::int64_t bytes) { munmap(data, static_cast<std::size_t>(bytes)); }

}  // namespace

ArenaPool::ArenaPool(std::int64_t cap) : cap_(cap > 0 ? cap : std::numeric_limits<std::int64_t>::max()) {
  recent_.reserve(kRecentLeases);
}

ArenaPool::~ArenaPool() {
  for (const Arena& arena : idle_) release(arena.data, arena.capacity);
}

ArenaPool::Lease ArenaPool::lease(std::int64_t bytes, std::chrono::steady_clock::time_point deadline) {
  require(bytes >= 0, "got a lease of {} bytes", bytes);
  if (bytes == 0) return {};
  if (bytes > cap_ || bytes > std::numeric_limits<std::int64_t>::max() - kPage) {
    throw_environment(ErrorCode::LimitExceeded,
                      "the run needs {} bytes, the memory limit is {}; raise it or run less", bytes, cap_);
  }
  std::unique_lock lock(mutex_);
  if (!queue_.empty() || !make_room(bytes)) {
    const std::uint64_t ticket = next_ticket_++;
    queue_.push_back(ticket);
    const bool granted =
        changed_.wait_until(lock, deadline, [&] { return queue_.front() == ticket && make_room(bytes); });
    std::erase(queue_, ticket);
    changed_.notify_all();  // the next in the queue may have room, or now be the first
    if (!granted) {
      throw_environment(
          ErrorCode::LimitExceeded,
          "the run needs {} bytes, other runs hold the memory limit of {} until its deadline; raise "
          "the limit or run fewer at once",
          bytes, cap_);
    }
  }

  Arena arena;
  if (Arena* idle = smallest_idle(bytes)) {
    arena = *idle;
    idle_.erase(idle_.begin() + (idle - idle_.data()));
  } else {
    const std::int64_t rounded = (bytes + kPage - 1) / kPage * kPage;
    // The rounding may not break the cap: such an arena gets what is left of its last page anyway.
    arena = {nullptr, std::min(rounded, cap_)};
    total_ += arena.capacity;
    lock.unlock();
    arena.data = allocate(arena.capacity);
    lock.lock();
    if (arena.data == nullptr) {
      total_ -= arena.capacity;
      changed_.notify_all();
      throw_environment(ErrorCode::OutOfMemory, "the system has no {} bytes for a run", bytes);
    }
  }
  ++leased_;
  note_use(bytes);
  return Lease(this, arena.data, arena.capacity);
}

std::int64_t ArenaPool::bytes() const {
  std::lock_guard lock(mutex_);
  return total_;
}

int ArenaPool::arenas() const {
  std::lock_guard lock(mutex_);
  return leased_ + static_cast<int>(idle_.size());
}

ArenaPool::Arena* ArenaPool::smallest_idle(std::int64_t bytes) {
  Arena* best = nullptr;
  for (Arena& arena : idle_) {
    if (arena.capacity >= bytes && (best == nullptr || arena.capacity < best->capacity)) best = &arena;
  }
  return best;
}

// Whether a lease of `bytes` can be served now. If no idle arena is large enough, the largest goes, for it is
// what the new one replaces, and as many others as the cap demands.
bool ArenaPool::make_room(std::int64_t bytes) {
  if (smallest_idle(bytes) != nullptr) return true;
  const std::int64_t rounded = std::min((bytes + kPage - 1) / kPage * kPage, cap_);
  std::int64_t idle = 0;
  for (const Arena& arena : idle_) idle += arena.capacity;
  if (total_ - idle > cap_ - rounded) return false;
  const auto largest = [&] {
    return static_cast<std::size_t>(std::ranges::max_element(idle_, {}, &Arena::capacity) - idle_.begin());
  };
  if (!idle_.empty()) free_idle(largest());
  while (total_ > cap_ - rounded) free_idle(largest());
  return true;
}

void ArenaPool::note_use(std::int64_t bytes) {
  if (recent_.size() < kRecentLeases) {
    recent_.push_back({bytes, leased_});
  } else {
    recent_[recent_next_] = {bytes, leased_};
    recent_next_ = (recent_next_ + 1) % kRecentLeases;
  }
}

void ArenaPool::free_idle(std::size_t index) {
  release(idle_[index].data, idle_[index].capacity);
  total_ -= idle_[index].capacity;
  idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(index));
}

// Gives up idle arenas that are too large or too many for what was leased lately.
void ArenaPool::release_excess() {
  std::int64_t largest = 0;
  int most = 0;
  for (const Use& use : recent_) {
    largest = std::max(largest, use.bytes);
    most = std::max(most, use.leased);
  }
  // Small arenas are not worth a system call.
  const std::int64_t limit = std::max(kSlack * largest, 16 * kPage);
  for (std::size_t i = idle_.size(); i-- > 0;) {
    if (idle_[i].capacity > limit) free_idle(i);
  }
  while (!idle_.empty() && leased_ + static_cast<int>(idle_.size()) > most) free_idle(0);
}

void ArenaPool::give_back(std::byte* data, std::int64_t capacity) {
  std::lock_guard lock(mutex_);
  --leased_;
  idle_.push_back({data, capacity});
  release_excess();
  changed_.notify_all();
}

}  // namespace kiln::runtime
