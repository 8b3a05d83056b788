// Lifetimes -> offsets: where each buffer of a run lies in one arena. Pure arithmetic on sizes that are
// known.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kiln::runtime {

constexpr std::int64_t kBufferAlignment = 64;

struct BufferRequest {
  std::int64_t bytes = 0;
  // Steps during which the content must stay, both included.
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  // Buffers with the same non-zero group are views of one memory: they share an offset, and the memory stays
  // as long as any of them.
  int alias_group = 0;
  // Index of an earlier buffer whose memory this one may take over: the step that writes this one is the last
  // that reads the other, and may read and write the same address. -1: none. A wish, granted if nothing
  // else needs the other's memory at that step or later, and this one fills at least half of it.
  int in_place_of = -1;
};

struct MemoryPlan {
  std::vector<std::int64_t> offsets;  // one per request, multiples of kBufferAlignment; 0 for empty buffers
  std::int64_t total = 0;             // bytes of the arena
  std::int64_t lower_bound = 0;       // most bytes that are live at one step: no plan can do with less
  int in_place = 0;                   // wishes granted
};

// Two buffers whose lifetimes meet never overlap, but for aliases and granted wishes. Throws Error (caller,
// limit_exceeded) if sizes overflow, Error (bug) for a lifetime that ends before it begins.
MemoryPlan plan_memory(std::span<const BufferRequest> requests);

}  // namespace kiln::runtime
