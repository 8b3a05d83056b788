#include "runtime/memory_plan.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <kiln/error.h>

namespace kiln::runtime {
namespace {

using Requests = std::vector<BufferRequest>;

bool same_group(const BufferRequest& a, const BufferRequest& b) {
  return a.alias_group != 0 && a.alias_group == b.alias_group;
}

// Whether `b` wished for the memory of `a`, or of a view of it.
bool wished(const Requests& requests, const BufferRequest& a, const BufferRequest& b) {
  if (b.in_place_of < 0) return false;
  const BufferRequest& target = requests[static_cast<std::size_t>(b.in_place_of)];
  return &target == &a || same_group(target, a);
}

// Every rule that holds for any plan, checked pair by pair.
void expect_sound(const Requests& requests, const MemoryPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), requests.size());
  EXPECT_GE(plan.total, plan.lower_bound);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % kBufferAlignment, 0);
    EXPECT_GE(plan.offsets[i], 0);
    EXPECT_LE(plan.offsets[i] + requests[i].bytes, std::max<std::int64_t>(plan.total, 0));
    for (std::size_t j = i + 1; j < requests.size(); ++j) {
      const BufferRequest &a = requests[i], &b = requests[j];
      const bool live_together = a.first_step <= b.last_step && b.first_step <= a.last_step;
      const bool overlap =
          plan.offsets[i] < plan.offsets[j] + b.bytes && plan.offsets[j] < plan.offsets[i] + a.bytes;
      if (a.bytes == 0 || b.bytes == 0 || !live_together || !overlap) continue;
      if (same_group(a, b)) {
        ASSERT_EQ(plan.offsets[i], plan.offsets[j]);
        continue;
      }
      // Taking over: the same address, at the one step that reads the old and writes the new.
      ASSERT_TRUE(wished(requests, a, b) || wished(requests, b, a)) << i << " and " << j;
      const BufferRequest& before = wished(requests, a, b) ? a : b;
      const BufferRequest& after = wished(requests, a, b) ? b : a;
      ASSERT_EQ(plan.offsets[i], plan.offsets[j]);
      ASSERT_EQ(before.last_step, after.first_step);
      ASSERT_LT(before.first_step, after.first_step);
    }
  }
}

MemoryPlan checked_plan(const Requests& requests) {
  MemoryPlan plan = plan_memory(requests);
  expect_sound(requests, plan);
  return plan;
}

TEST(MemoryPlan, OfNothing) {
  EXPECT_EQ(plan_memory({}).total, 0);
  const MemoryPlan plan = checked_plan({{0, 0, 5}, {0, 1, 1}});
  EXPECT_EQ(plan.total, 0);
  EXPECT_EQ(plan.lower_bound, 0);
}

TEST(MemoryPlan, AlignsAndReuses) {
  // A chain: each step reads the one before.
  const MemoryPlan plan = checked_plan({{100, 0, 1}, {100, 1, 2}, {100, 2, 3}, {1, 3, 4}});
  EXPECT_EQ(plan.total, 256);
  EXPECT_EQ(plan.lower_bound, 256);
  EXPECT_EQ(plan.offsets[0], plan.offsets[2]);
}

TEST(MemoryPlan, EqualStepsMeet) {
  const MemoryPlan plan = checked_plan({{64, 3, 3}, {64, 3, 3}, {64, 4, 4}});
  EXPECT_EQ(plan.total, 128);
}

TEST(MemoryPlan, EmptyBuffersNeedNoRoom) {
  const MemoryPlan plan = checked_plan({{0, 0, 9}, {64, 0, 9}, {0, 0, 9}, {64, 0, 9}});
  EXPECT_EQ(plan.total, 128);
}

TEST(MemoryPlan, GrantsInPlace) {
  const Requests requests = {{1000, 0, 1}, {1000, 1, 2, 0, 0}, {900, 2, 3, 0, 1}};
  const MemoryPlan plan = checked_plan(requests);
  EXPECT_EQ(plan.in_place, 2);
  EXPECT_EQ(plan.total, 1024);
  EXPECT_EQ(plan.offsets[0], plan.offsets[2]);
}

TEST(MemoryPlan, RefusesInPlaceWhileTheOtherIsNeeded) {
  const MemoryPlan plan = checked_plan({{1000, 0, 2}, {1000, 1, 2, 0, 0}});
  EXPECT_EQ(plan.in_place, 0);
  EXPECT_EQ(plan.total, 2048);
}

TEST(MemoryPlan, HandsMemoryOnOnce) {
  // Two buffers want the same memory, and both die at the step that makes them.
  const MemoryPlan plan = checked_plan({{1000, 0, 1}, {1000, 1, 1, 0, 0}, {1000, 1, 1, 0, 0}});
  EXPECT_EQ(plan.in_place, 1);
  EXPECT_NE(plan.offsets[1], plan.offsets[2]);
}

TEST(MemoryPlan, OutputsOfOneStepAreNotInPlaceOfEachOther) {
  const MemoryPlan plan = checked_plan({{1000, 0, 1}, {1000, 1, 1, 0, 0}, {1000, 1, 2, 0, 1}});
  EXPECT_EQ(plan.in_place, 1);
  EXPECT_EQ(plan.total, 2048);
}

TEST(MemoryPlan, RefusesInPlaceOfMemoryThatDoesNotFit) {
  EXPECT_EQ(checked_plan({{100, 0, 1}, {1000, 1, 2, 0, 0}}).in_place, 0);
  EXPECT_EQ(checked_plan({{100'000, 0, 1}, {64, 1, 9, 0, 0}}).in_place, 0);  // would hold much for little
  EXPECT_EQ(checked_plan({{0, 0, 1}, {64, 1, 9, 0, 0}}).in_place, 0);
}

TEST(MemoryPlan, AliasesShareAnOffsetForAllTheirLives) {
  const Requests requests = {{640, 0, 2, 7}, {320, 5, 6, 7}, {640, 3, 4}};
  const MemoryPlan plan = checked_plan(requests);
  EXPECT_EQ(plan.offsets[0], plan.offsets[1]);
  EXPECT_NE(plan.offsets[2], plan.offsets[0]);
  EXPECT_EQ(plan.total, 1280);
}

TEST(MemoryPlan, InPlaceOfAnAliasWaitsForTheWholeGroup) {
  EXPECT_EQ(checked_plan({{640, 0, 2, 7}, {640, 1, 5, 7}, {640, 2, 8, 0, 0}}).in_place, 0);
  EXPECT_EQ(checked_plan({{640, 0, 2, 7}, {640, 1, 5, 7}, {640, 5, 8, 0, 0}}).in_place, 1);
}

TEST(MemoryPlan, RandomBuffersNeverOverlap) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    Requests requests;
    const int count = 1 + static_cast<int>(random() % 80);
    for (int i = 0; i < count; ++i) {
      BufferRequest request;
      request.bytes = random() % 8 == 0 ? 0 : static_cast<std::int64_t>(random() % 5000);
      request.first_step = static_cast<std::int64_t>(random() % 40);
      request.last_step =
          request.first_step + static_cast<std::int64_t>(random() % (random() % 4 == 0 ? 40 : 4));
      if (random() % 5 == 0) request.alias_group = 1 + static_cast<int>(random() % 4);
      if (i > 0 && random() % 3 == 0) {
        request.in_place_of = static_cast<int>(random() % static_cast<unsigned>(i));
        request.first_step =
            std::min(requests[static_cast<std::size_t>(request.in_place_of)].last_step, request.last_step);
      }
      requests.push_back(request);
    }
    checked_plan(requests);
  }
}

TEST(MemoryPlan, RandomBuffersBeyondTheQuadraticSearch) {
  std::mt19937 random(2);
  for (int round = 0; round < 5; ++round) {
    Requests requests;
    for (int i = 0; i < 1500; ++i) {
      BufferRequest request;
      request.bytes = static_cast<std::int64_t>(random() % 100'000);
      request.first_step = i / 2;
      request.last_step =
          request.first_step + static_cast<std::int64_t>(random() % (random() % 10 == 0 ? 300 : 5));
      requests.push_back(request);
    }
    checked_plan(requests);
  }
}

// Bytes of the activations of a network of `layers`, each read by the next; every `skip` layers a long edge.
Requests network(int layers, int skip, unsigned seed) {
  std::mt19937 random(seed);
  Requests requests;
  std::int64_t bytes = 1 << 20;
  for (int layer = 0; layer < layers; ++layer) {
    if (random() % 4 == 0) bytes = std::max<std::int64_t>(4096, bytes / 2);
    if (random() % 6 == 0) bytes *= 3;
    const int length = skip > 0 && layer % skip == 0 ? skip : 1;
    requests.push_back({bytes, layer, layer + length});
    if (random() % 3 == 0) requests.push_back({bytes / 3, layer, layer});  // workspace
  }
  return requests;
}

TEST(MemoryPlan, IsCloseToTheLowerBoundOnNetworks) {
  double worst = 1;
  for (unsigned seed = 0; seed < 40; ++seed) {
    for (const int skip : {0, 2, 3, 8}) {
      const MemoryPlan plan = checked_plan(network(60, skip, seed));
      worst = std::max(worst, static_cast<double>(plan.total) / static_cast<double>(plan.lower_bound));
    }
  }
  EXPECT_LE(worst, 1.3);
  RecordProperty("worst_ratio_percent", static_cast<int>(worst * 100));
}

TEST(MemoryPlan, RefusesImpossibleRequests) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(plan_memory(Requests{{kMost, 0, 1}}), Error);
  EXPECT_THROW(plan_memory(Requests{{kMost - 100, 0, 1}, {kMost - 100, 0, 1}}), Error);
  EXPECT_THROW(plan_memory(Requests{{64, 2, 1}}), Error);
  EXPECT_THROW(plan_memory(Requests{{-1, 0, 1}}), Error);
  EXPECT_THROW(plan_memory(Requests{{64, 0, 1}, {64, 1, 2, 0, 5}}), Error);
}

}  // namespace
}  // namespace kiln::runtime
