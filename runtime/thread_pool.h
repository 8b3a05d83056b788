// One pool of threads for all runs of the process.
//
// A run that finds the pool busy works on its own thread, so runs never wait for each other, and nested calls
// are harmless. Workers join a call while it lasts and nobody waits for one that is still waking up: the
// caller alone can always finish it.
#pragma once

#include <atomic>
#include <concepts>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace kiln::runtime {

enum class Chunking : std::uint8_t {
  Static,   // one contiguous chunk for each thread: for items of equal cost
  Dynamic,  // chunks of `grain` items, taken as threads get free
};

struct ParallelOptions {
  std::int64_t grain = 1;  // chunks begin at multiples of this
  Chunking chunking = Chunking::Static;
  int max_threads = 1 << 20;  // the caller's included
};

class ThreadPool {
 public:
  // `threads` counts the caller; the others start at the first call that wants them.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // The pool of the process, with usable_cpus() threads. Never destroyed. Usable on both sides of a fork().
  static ThreadPool& process();

  int threads() const { return threads_; }

  // Between construction and destruction, idle workers spin up to 50 us before they sleep, so that the next
  // step of a run does not have to wake them. Without one they sleep at once.
  class ActiveRun {
   public:
    explicit ActiveRun(ThreadPool& pool) : pool_(pool) {
      pool_.active_runs_.fetch_add(1, std::memory_order_relaxed);
    }
    ~ActiveRun() { pool_.active_runs_.fetch_sub(1, std::memory_order_relaxed); }
    ActiveRun(const ActiveRun&) = delete;
    ActiveRun& operator=(const ActiveRun&) = delete;

   private:
    ThreadPool& pool_;
  };

  // Calls body(low, high) for disjoint ranges that cover [0, items), on this thread and free workers, and
  // returns when all is done. Workers have the caller's MXCSR. An exception of a body stops the call, skips
  // what has not begun, and is rethrown here (the first one). Allocates nothing.
  //
  // A body may also take a third argument, `int worker`: a number in [0, threads()) that no two bodies of
  // this call have at the same time, for scratch memory. It is 0 on the calling thread.
  template <typename Body>
  void parallel_for(std::int64_t items, const ParallelOptions& options, Body&& body) {
    using Function = std::remove_reference_t<Body>;
    run(items, options,
        {const_cast<void*>(static_cast<const void*>(std::addressof(body))),
         [](void* function, std::int64_t low, std::int64_t high, int worker) {
           auto& call = *static_cast<Function*>(function);
           if constexpr (std::invocable<Function&, std::int64_t, std::int64_t, int>) {
             call(low, high, worker);
           } else {
             call(low, high);
           }
         }});
  }

 private:
  struct Task {
    void* function = nullptr;
    void (*call)(void*, std::int64_t low, std::int64_t high, int worker) = nullptr;
    void operator()(std::int64_t low, std::int64_t high, int worker) const {
      call(function, low, high, worker);
    }
  };

  void run(std::int64_t items, const ParallelOptions& options, Task task);
  void run_chunks(int worker);
  void start_workers();
  void wake(int count);
  void wait_for_workers();
  void work();
  bool next_job(std::uint64_t& seen);

  const int threads_;
  std::vector<std::thread> workers_;
  std::atomic<bool> busy_ = false;
  std::atomic<int> active_runs_ = 0;

  // The call in progress; written by the caller while the gate is shut and no worker is inside.
  Task task_;
  std::int64_t items_ = 0;
  std::int64_t chunk_ = 1;
  unsigned float_control_ = 0;
  int max_workers_ = 0;
  std::exception_ptr failure_;
  std::atomic<bool> failed_ = false;
  alignas(64) std::atomic<std::int64_t> next_ = 0;  // first item not yet taken
  std::atomic<int> tickets_ = 0;                    // workers that came, to number them

  // Number of the call (upper half), whether workers may still enter it, and how many are inside.
  alignas(64) std::atomic<std::uint64_t> gate_ = 0;

  std::mutex mutex_;
  std::condition_variable sleep_;
  std::condition_variable left_;
  std::atomic<int> sleepers_ = 0;
  bool stop_ = false;
};

}  // namespace kiln::runtime
