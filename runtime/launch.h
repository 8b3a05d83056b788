// One Kernel of a Program with everything bound but the addresses that differ from run to run.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ir/templates/program.h"
#include "jit/kernel_abi.h"
#include "jit/load/loader.h"

namespace kiln::runtime {

class ThreadPool;

// Where a buffer starts. Fixed addresses are known when the Plan is made; the others are looked up in each
// run.
struct BufferRef {
  enum class Kind : std::uint8_t {
    Fixed,   // `fixed` + offset: constants, prepared constants
    Arena,   // offset into the arena of Segment `index`
    Input,   // offset into the caller's input `index`
    Output,  // offset into the caller's output `index`
    Tensor,  // offset into the tensor that a Reference step made for Value `index`
  };
  Kind kind = Kind::Fixed;
  std::uint32_t index = 0;
  const std::byte* fixed = nullptr;
  std::int64_t offset = 0;  // bytes

  BufferRef at(std::int64_t bytes) const {
    BufferRef moved = *this;
    moved.offset += bytes;
    return moved;
  }
};

struct BoundLaunch {
  jit::LoadedKernel kernel;
  std::vector<std::uint64_t> words;  // packed arguments; address words hold 0 until a run patches them
  struct Patch {
    std::size_t word;
    BufferRef buffer;
  };
  std::vector<Patch> patches;
  std::array<std::int64_t, jit::kMaxGridRank> grid{};
  int grid_rank = 0;
  std::int64_t programs = 0;
  std::int64_t scratch_bytes = 0;
  double flops = 0, bytes = 0;  // of the whole grid
};

// Binds a launch for these values of the Problem's Symbols. `buffer` gives the start (element 0 of the
// Value's view) of a ProgramValue.
BoundLaunch bind_launch(const templates::KernelLaunch& launch, const jit::LoadedKernel& kernel,
                        std::span<const std::int64_t> bindings,
                        std::span<const templates::ProgramValue> values,
                        const std::function<BufferRef(int value)>& buffer);

// The threads that a Session may use: up to `threads` of the pool, the caller's included.
struct Parallelism {
  ThreadPool* pool = nullptr;
  int threads = 1;
};

// Scratch memory for the threads of one launch: `stride` bytes each, at least the launch's scratch_bytes.
struct LaunchScratch {
  std::byte* start = nullptr;  // 64-byte aligned
  std::int64_t stride = 0;
};

// Runs a launch whose address words are in `words`, split over threads where the work is worth it. Throws
// Error (caller) with code and program coordinate if the kernel reports one. Thread safe.
void run_launch(const BoundLaunch& launch, std::span<const std::uint64_t> words, const LaunchScratch& scratch,
                const Parallelism& parallelism);

}  // namespace kiln::runtime
