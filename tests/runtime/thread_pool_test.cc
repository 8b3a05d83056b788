#include "runtime/thread_pool.h"

#include <atomic>
#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <immintrin.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/float_state.h"

namespace kiln::runtime {
namespace {

// Times that each of `items` was visited.
std::vector<int> visits(ThreadPool& pool, std::int64_t items, const ParallelOptions& options) {
  std::vector<int> count(static_cast<std::size_t>(items));
  pool.parallel_for(items, options, [&](std::int64_t low, std::int64_t high) {
    for (std::int64_t i = low; i < high; ++i) ++count[static_cast<std::size_t>(i)];
  });
  return count;
}

TEST(ThreadPool, VisitsEveryItemOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (const std::int64_t items : {0, 1, 2, 3, 7, 64, 1000, 1009}) {
      for (const std::int64_t grain : {1, 3, 64, 5000}) {
        for (const Chunking chunking : {Chunking::Static, Chunking::Dynamic}) {
          EXPECT_EQ(visits(pool, items, {grain, chunking}),
                    std::vector<int>(static_cast<std::size_t>(items), 1));
        }
      }
    }
  }
}

TEST(ThreadPool, ChunksBeginAtMultiplesOfTheGrain) {
  ThreadPool pool(3);
  std::atomic<int> wrong = 0;
  for (const Chunking chunking : {Chunking::Static, Chunking::Dynamic}) {
    pool.parallel_for(1000, {16, chunking}, [&](std::int64_t low, std::int64_t high) {
      if (low % 16 != 0 || (high % 16 != 0 && high != 1000) || low >= high) ++wrong;
    });
  }
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPool, NegativeAndHugeCounts) {
  ThreadPool pool(2);
  pool.parallel_for(-5, {}, [](std::int64_t, std::int64_t) { FAIL(); });
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::atomic<std::uint64_t> sum = 0;
  pool.parallel_for(kMost, {kMost / 5, Chunking::Dynamic}, [&](std::int64_t low, std::int64_t high) {
    sum += static_cast<std::uint64_t>(high - low);
  });
  EXPECT_EQ(sum, static_cast<std::uint64_t>(kMost));
}

TEST(ThreadPool, NumbersWorkersApart) {
  ThreadPool pool(4);
  std::atomic<int> wrong = 0;
  for (int round = 0; round < 200; ++round) {
    std::atomic<bool> in_use[4] = {};
    const auto caller = std::this_thread::get_id();
    pool.parallel_for(64, {1, Chunking::Dynamic}, [&](std::int64_t, std::int64_t, int worker) {
      if (worker < 0 || worker >= 4 || in_use[worker].exchange(true)) ++wrong;
      if ((worker == 0) != (std::this_thread::get_id() == caller)) ++wrong;
      in_use[worker] = false;
    });
  }
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPool, HonoursTheLimitOfThreads) {
  ThreadPool pool(4);
  const auto caller = std::this_thread::get_id();
  pool.parallel_for(100, {1, Chunking::Dynamic, 1},
                    [&](std::int64_t, std::int64_t) { EXPECT_EQ(std::this_thread::get_id(), caller); });
  std::atomic<int> wrong = 0;
  for (int round = 0; round < 100; ++round) {
    pool.parallel_for(100, {1, Chunking::Dynamic, 2}, [&](std::int64_t, std::int64_t, int worker) {
      if (worker > 1) ++wrong;
    });
  }
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPool, WorkersDoTakePart) {
  ThreadPool pool(2);
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> joined = false;
  // The caller's chunk ends only when the worker has come, so this ends only if it does.
  pool.parallel_for(2, {1, Chunking::Dynamic}, [&](std::int64_t, std::int64_t) {
    if (std::this_thread::get_id() != caller) joined = true;
    while (!joined) std::this_thread::yield();
  });
  EXPECT_TRUE(joined);
}

TEST(ThreadPool, ServesManyCallersAtOnce) {
  ThreadPool pool(3);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> callers;
  for (int c = 0; c < 6; ++c) {
    callers.emplace_back([&, c] {
      const ThreadPool::ActiveRun active(pool);
      for (int round = 0; round < 150; ++round) {
        const std::int64_t items = 1 + (c * 37 + round * 11) % 500;
        const auto chunking = round % 2 == 0 ? Chunking::Static : Chunking::Dynamic;
        if (visits(pool, items, {1 + round % 5, chunking}) !=
            std::vector<int>(static_cast<std::size_t>(items), 1)) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPool, RunsNestedCallsInline) {
  ThreadPool pool(3);
  std::atomic<int> count = 0;
  std::atomic<int> wrong = 0;
  pool.parallel_for(20, {1, Chunking::Dynamic}, [&](std::int64_t low, std::int64_t high) {
    for (std::int64_t i = low; i < high; ++i) {
      const auto thread = std::this_thread::get_id();
      pool.parallel_for(50, {1, Chunking::Dynamic}, [&](std::int64_t from, std::int64_t to) {
        if (std::this_thread::get_id() != thread) ++wrong;
        count += static_cast<int>(to - from);
      });
    }
  });
  EXPECT_EQ(count, 1000);
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPool, PassesExceptionsOn) {
  ThreadPool pool(3);
  for (int round = 0; round < 50; ++round) {
    const auto call = [&] {
      pool.parallel_for(100, {1, Chunking::Dynamic}, [&](std::int64_t low, std::int64_t) {
        if (low == round) throw std::runtime_error("item");
      });
    };
    EXPECT_THROW(call(), std::runtime_error);
    EXPECT_EQ(visits(pool, 100, {}), std::vector<int>(100, 1));
  }
}

TEST(ThreadPool, GivesWorkersTheFloatStateOfTheCaller) {
  ThreadPool pool(2);
  constexpr unsigned kFlushToZero = FloatState::kDefault | 0x8040;
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> joined = false;
  std::atomic<unsigned> seen = 0;
  {
    const FloatState state(kFlushToZero);
    pool.parallel_for(2, {1, Chunking::Dynamic}, [&](std::int64_t, std::int64_t) {
      if (std::this_thread::get_id() != caller) {
        seen = _mm_getcsr();
        joined = true;
      }
      while (!joined) std::this_thread::yield();
    });
  }
  EXPECT_EQ(seen & 0xffc0u, kFlushToZero & 0xffc0u);
}

TEST(ThreadPool, OfTheProcessSurvivesAFork) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer does not let a forked child start threads";
#endif
  ThreadPool& pool = ThreadPool::process();
  EXPECT_GE(pool.threads(), 1);
  EXPECT_EQ(visits(pool, 1000, {1, Chunking::Dynamic}), std::vector<int>(1000, 1));
  const pid_t child = fork();
  if (child == 0) {
    bool good = true;
    for (int i = 0; i < 20; ++i)
      good = good && visits(pool, 1000, {1, Chunking::Dynamic}) == std::vector<int>(1000, 1);
    if (pool.threads() > 1) {
      std::atomic<bool> joined = false;
      const auto caller = std::this_thread::get_id();
      pool.parallel_for(2, {1, Chunking::Dynamic}, [&](std::int64_t, std::int64_t) {
        if (std::this_thread::get_id() != caller) joined = true;
        while (!joined) std::this_thread::yield();
      });
    }
    _exit(good ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(visits(pool, 1000, {1, Chunking::Dynamic}), std::vector<int>(1000, 1));
}

TEST(FloatState, SetsTheDefaultAndRestoresTheCallers) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(FloatState::kDefault | 0x6000 | 0x8040 | 0x20);  // toward zero, denormals lost, inexact seen
  const unsigned callers = _mm_getcsr();
  {
    const FloatState state;
    EXPECT_EQ(_mm_getcsr(), 0x1f80u);
    volatile float tiny = 1e-38f;
    volatile float half = tiny * 0.1f;
    EXPECT_NE(half, 0.0f);
  }
  EXPECT_EQ(_mm_getcsr(), callers);
  _mm_setcsr(before);
}

}  // namespace
}  // namespace kiln::runtime
