#include "runtime/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <limits>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include <immintrin.h>
#include <pthread.h>

#include "runtime/cpu_count.h"
#include "runtime/float_state.h"

namespace kiln::runtime {
namespace {

constexpr std::uint64_t kOpen = std::uint64_t{1} << 31;
constexpr std::uint64_t kInside = kOpen - 1;
constexpr int kCallShift = 32;

// Spinning longer than a wake-up costs (30 to 70 us here) would gain nothing.
constexpr auto kSpin = std::chrono::microseconds(50);
constexpr int kPausesPerClockRead = 32;

thread_local bool inside_parallel_for = false;

class InsideParallelFor {
 public:
  InsideParallelFor() { inside_parallel_for = true; }
  ~InsideParallelFor() { inside_parallel_for = false; }
};

// Whether `done` came true within the time to spin.
template <typename Done>
bool spin_until(Done&& done) {
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (done()) return true;
      _mm_pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

}  // namespace

ThreadPool::ThreadPool(int threads) : threads_(std::max(1, threads)) {}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  sleep_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

ThreadPool& ThreadPool::process() {
  static ThreadPool* pool = [] {
    auto* made = new ThreadPool(usable_cpus());
    // A fork happens between two calls. The child has no workers: their handles are dropped, and new ones
    // start when needed.
    pthread_atfork(
        [] {
          while (!inside_parallel_for && process().busy_.exchange(true, std::memory_order_acquire)) {
            std::this_thread::yield();
          }
          process().mutex_.lock();
        },
        [] {
          process().mutex_.unlock();
          if (!inside_parallel_for) process().busy_.store(false, std::memory_order_release);
        },
        [] {
          ThreadPool& child = process();
          child.mutex_.unlock();
          new std::vector<std::thread>(std::exchange(child.workers_, {}));
          // Waiters that do not exist here are part of the old ones' state.
          new (&child.sleep_) std::condition_variable;
          new (&child.left_) std::condition_variable;
          child.sleepers_ = 0;
          child.active_runs_ = 0;
          if (!inside_parallel_for) child.busy_.store(false, std::memory_order_release);
        });
    return made;
  }();
  return *pool;
}

void ThreadPool::run(std::int64_t items, const ParallelOptions& options, Task task) {
  if (items <= 0) return;
  const std::int64_t grain = std::max<std::int64_t>(1, options.grain);
  const std::int64_t grains = (items - 1) / grain + 1;
  const int threads = static_cast<int>(std::min<std::int64_t>({threads_, options.max_threads, grains}));
  if (threads <= 1 || inside_parallel_for || busy_.exchange(true, std::memory_order_acquire)) {
    task(0, items, 0);
    return;
  }

  task_ = task;
  items_ = items;
  chunk_ = options.chunking == Chunking::Static ? ((grains - 1) / threads + 1) * grain : grain;
  float_control_ = _mm_getcsr();
  max_workers_ = threads - 1;
  failed_.store(false, std::memory_order_relaxed);
  next_.store(0, std::memory_order_relaxed);
  tickets_.store(0, std::memory_order_relaxed);
  if (workers_.empty()) start_workers();

  const std::uint64_t call = (gate_.load(std::memory_order_relaxed) >> kCallShift) + 1;
  gate_.store(call << kCallShift | kOpen, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) wake(max_workers_);
  {
    InsideParallelFor mark;
    run_chunks(0);
  }
  gate_.fetch_and(~kOpen, std::memory_order_acq_rel);
  wait_for_workers();

  const std::exception_ptr failure = std::exchange(failure_, nullptr);
  busy_.store(false, std::memory_order_release);
  if (failure) std::rethrow_exception(failure);
}

void ThreadPool::run_chunks(int worker) {
  while (!failed_.load(std::memory_order_relaxed)) {
    // Compare before adding, so that the counter cannot pass the end by more than all threads' chunks,
    // whatever the size.
    std::int64_t low = next_.load(std::memory_order_relaxed);
    std::int64_t high = 0;
    do {
      if (low >= items_) return;
      high = items_ - low > chunk_ ? low + chunk_ : items_;
    } while (!next_.compare_exchange_weak(low, high, std::memory_order_relaxed));
    try {
      task_(low, high, worker);
    } catch (...) {
      if (!failed_.exchange(true, std::memory_order_relaxed)) failure_ = std::current_exception();
      return;
    }
  }
}

void ThreadPool::start_workers() {
  try {
    workers_.reserve(static_cast<std::size_t>(threads_ - 1));
    while (workers_.size() + 1 < static_cast<std::size_t>(threads_))
      workers_.emplace_back([this] { work(); });
  } catch (const std::exception&) {
    // No more threads to be had: those that started do.
  }
}

void ThreadPool::wake(int count) {
  // Taken so that no worker is between its last look at the gate and its sleep.
  {
    std::lock_guard lock(mutex_);
  }
  if (count >= sleepers_.load(std::memory_order_relaxed)) {
    sleep_.notify_all();
  } else {
    for (int i = 0; i < count; ++i) sleep_.notify_one();
  }
}

void ThreadPool::wait_for_workers() {
  const auto all_left = [this] { return (gate_.load(std::memory_order_acquire) & kInside) == 0; };
  if (spin_until(all_left)) return;
  std::unique_lock lock(mutex_);
  left_.wait(lock, all_left);
}

void ThreadPool::work() {
  inside_parallel_for = true;
  std::uint64_t seen = 0;
  while (next_job(seen)) {
    const int ticket = tickets_.fetch_add(1, std::memory_order_relaxed);
    if (ticket < max_workers_) {
      FloatState state(float_control_);
      run_chunks(ticket + 1);
    }
    const std::uint64_t before = gate_.fetch_sub(1, std::memory_order_acq_rel);
    if ((before & (kOpen | kInside)) == 1) {
      {
        std::lock_guard lock(mutex_);
      }
      left_.notify_one();
    }
  }
}

// Enters the next call that is open and was not `seen`; false when the pool ends.
bool ThreadPool::next_job(std::uint64_t& seen) {
  const auto is_new = [&](std::uint64_t gate) { return (gate & kOpen) != 0 && gate >> kCallShift != seen; };
  for (;;) {
    std::uint64_t gate = gate_.load(std::memory_order_acquire);
    while (is_new(gate)) {
      if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
        seen = gate >> kCallShift;
        return true;
      }
    }
    if (active_runs_.load(std::memory_order_relaxed) > 0 &&
        spin_until([&] { return is_new(gate_.load(std::memory_order_relaxed)); })) {
      continue;
    }
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    sleep_.wait(lock, [&] { return stop_ || is_new(gate_.load(std::memory_order_seq_cst)); });
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    if (stop_) return false;
  }
}

}  // namespace kiln::runtime
