#include "runtime/arena_pool.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <kiln/error.h>

namespace kiln::runtime {
namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point soon() { return Clock::now() + std::chrono::milliseconds(5); }
Clock::time_point late() { return Clock::now() + std::chrono::minutes(5); }

TEST(ArenaPool, LeasesAlignedMemory) {
  ArenaPool pool;
  auto lease = pool.lease(1000, late());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(lease.data()) % 64, 0u);
  std::memset(lease.data(), 7, 1000);
  EXPECT_EQ(pool.lease(0, late()).data(), nullptr);
}

TEST(ArenaPool, UsesArenasAgain) {
  ArenaPool pool;
  const std::byte* first = pool.lease(100'000, late()).data();
  EXPECT_EQ(pool.lease(90'000, late()).data(), first);
  EXPECT_EQ(pool.arenas(), 1);
}

TEST(ArenaPool, GrowsByReplacing) {
  ArenaPool pool;
  for (std::int64_t bytes = 4096; bytes <= (1 << 20); bytes *= 2) {
    auto lease = pool.lease(bytes, late());
  }
  EXPECT_EQ(pool.arenas(), 1);
  EXPECT_EQ(pool.bytes(), 1 << 20);
}

TEST(ArenaPool, GivesConcurrentRunsDifferentArenas) {
  ArenaPool pool;
  auto a = pool.lease(10'000, late());
  auto b = pool.lease(10'000, late());
  EXPECT_NE(a.data(), b.data());
  EXPECT_EQ(pool.arenas(), 2);
  auto moved = std::move(a);
  EXPECT_EQ(pool.arenas(), 2);
}

TEST(ArenaPool, TrimsAfterASpikeOfSize) {
  ArenaPool pool;
  {
    auto lease = pool.lease(64 << 20, late());
  }
  EXPECT_EQ(pool.bytes(), 64 << 20);
  for (int i = 0; i < 100; ++i) auto lease = pool.lease(1 << 20, late());
  EXPECT_LE(pool.bytes(), 2 << 20);
}

TEST(ArenaPool, TrimsAfterASpikeOfConcurrency) {
  ArenaPool pool;
  {
    std::vector<ArenaPool::Lease> leases;
    for (int i = 0; i < 20; ++i) leases.push_back(pool.lease(1 << 20, late()));
  }
  EXPECT_EQ(pool.arenas(), 20);
  for (int i = 0; i < 100; ++i) auto lease = pool.lease(1 << 20, late());
  EXPECT_EQ(pool.arenas(), 1);
}

TEST(ArenaPool, KeepsWhatAlternatingSizesNeed) {
  ArenaPool pool;
  const std::byte* large = pool.lease(10 << 20, late()).data();
  for (int i = 0; i < 200; ++i) {
    {
      auto lease = pool.lease(1 << 20, late());
    }
    auto lease = pool.lease(10 << 20, late());
    ASSERT_EQ(lease.data(), large);
  }
}

TEST(ArenaPool, RefusesWhatTheCapNeverAllows) {
  ArenaPool pool(1 << 20);
  try {
    (void)pool.lease((1 << 20) + 1, late());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::LimitExceeded);
    EXPECT_EQ(error.kind(), ErrorKind::Environment);
  }
  EXPECT_THROW((void)ArenaPool().lease(std::numeric_limits<std::int64_t>::max(), late()), Error);
  EXPECT_THROW((void)ArenaPool().lease(std::int64_t{1} << 60, late()), Error);  // more than the address space
  EXPECT_NE(pool.lease(1 << 20, late()).data(), nullptr);
}

TEST(ArenaPool, WaitsAtTheCapUntilItsDeadline) {
  ArenaPool pool(1 << 20);
  auto lease = pool.lease(1 << 20, late());
  EXPECT_THROW((void)pool.lease(1, soon()), Error);
  EXPECT_THROW((void)pool.lease(1, Clock::now() - std::chrono::seconds(1)), Error);
  std::thread other([&] { EXPECT_NE(pool.lease(1 << 19, late()).data(), nullptr); });
  lease = {};
  other.join();
  EXPECT_LE(pool.bytes(), 1 << 20);
}

TEST(ArenaPool, IdleArenasMakeRoomAtTheCap) {
  ArenaPool pool(1 << 20);
  {
    auto a = pool.lease(300'000, late()), b = pool.lease(300'000, late());
  }
  EXPECT_NE(pool.lease(1 << 20, soon()).data(), nullptr);
}

TEST(ArenaPool, StaysBelowItsCapUnderManyThreads) {
  constexpr std::int64_t kCap = 3 << 20;
  ArenaPool pool(kCap);
  std::atomic<std::int64_t> leased = 0;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const std::int64_t bytes = 1 + (t * 7919 + i * 104'729) % (1 << 20);
        auto lease = pool.lease(bytes, late());
        if (leased.fetch_add(bytes) + bytes > kCap || pool.bytes() > kCap) ++wrong;
        lease.data()[0] = lease.data()[bytes - 1] = static_cast<std::byte>(t);
        if (lease.data()[bytes - 1] != static_cast<std::byte>(t)) ++wrong;
        leased.fetch_sub(bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace kiln::runtime
