// Memory for runs: each run leases one arena, and arenas are used again.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace kiln::runtime {

// Thread safe. Must outlive its leases.
class ArenaPool {
 public:
  // `cap`: most bytes of all arenas together, in use or kept; 0: no cap.
  explicit ArenaPool(std::int64_t cap = 0);
  ~ArenaPool();
  ArenaPool(const ArenaPool&) = delete;
  ArenaPool& operator=(const ArenaPool&) = delete;

  // An arena for the time of one run, given back by the destructor. Its content is undefined.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), data_(other.data_), capacity_(other.capacity_) {}
    Lease& operator=(Lease&& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(data_, other.data_);
      std::swap(capacity_, other.capacity_);
      return *this;
    }
    ~Lease() {
      if (pool_ != nullptr) pool_->give_back(data_, capacity_);
    }

    std::byte* data() const {
      return data_;
    }  // page-aligned, so 64-byte aligned; null for a lease of nothing

   private:
    friend class ArenaPool;
    Lease(ArenaPool* pool, std::byte* data, std::int64_t capacity)
        : pool_(pool), data_(data), capacity_(capacity) {}

    ArenaPool* pool_ = nullptr;
    std::byte* data_ = nullptr;
    std::int64_t capacity_ = 0;
  };

  // At least `bytes`. At the cap it waits, in order of arrival, for other runs to end, at most until
  // `deadline`. Throws Error (environment): limit_exceeded if the cap leaves no room then, or never can;
  // out_of_memory if the system has none.
  Lease lease(std::int64_t bytes, std::chrono::steady_clock::time_point deadline);

  std::int64_t cap() const { return cap_; }
  std::int64_t bytes() const;  // of all arenas now
  int arenas() const;

 private:
  struct Arena {
    std::byte* data;
    std::int64_t capacity;
  };
  // What was leased lately, to notice that a spike of size or of concurrency has passed.
  struct Use {
    std::int64_t bytes;
    int leased;  // arenas out, this one included
  };

  Arena* smallest_idle(std::int64_t bytes);
  bool make_room(std::int64_t bytes);
  void note_use(std::int64_t bytes);
  void release_excess();
  void give_back(std::byte* data, std::int64_t capacity);
  void free_idle(std::size_t index);

  const std::int64_t cap_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Arena> idle_;
  int leased_ = 0;
  std::int64_t total_ = 0;           // bytes, idle and leased
  std::deque<std::uint64_t> queue_;  // tickets of waiting runs
  std::uint64_t next_ticket_ = 0;
  std::vector<Use> recent_;
  std::size_t recent_next_ = 0;
};

}  // namespace kiln::runtime
