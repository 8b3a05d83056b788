#include "runtime/launch.h"

#include <algorithm>
#include <atomic>

#include "ir/base/errors.h"
#include "jit/status.h"
#include "runtime/thread_pool.h"

namespace kiln::runtime {
namespace {

// Waking a sleeping worker costs some 50 us; below about twice that, one thread is faster.
constexpr double kSplitNanoseconds = 60'000;
// What one core does per nanosecond, roughly: only the decision to split depends on it.
constexpr double kFlopsPerNanosecond = 50, kBytesPerNanosecond = 10;
// Chunks per thread, so that threads that start late or run slowly do not hold up the rest.
constexpr std::int64_t kChunksPerThread = 4;

void bind_view(BoundLaunch& bound, const templates::ViewBinding& view, std::span<const std::int64_t> bindings,
               DType dtype, const BufferRef& start) {
  const std::int64_t element_bytes = bits(dtype) / 8;
  bound.patches.push_back({bound.words.size(), start.at(view.offset.evaluate(bindings) * element_bytes)});
  bound.words.push_back(0);
  for (const graph::Dim& extent : view.extents) {
    bound.words.push_back(static_cast<std::uint64_t>(extent.evaluate(bindings)));
  }
  for (const graph::Dim& stride : view.strides) {
    bound.words.push_back(static_cast<std::uint64_t>(stride.evaluate(bindings)));
  }
}

std::uint64_t scalar_word(const templates::ScalarBinding& scalar, std::span<const std::int64_t> bindings) {
  if (const auto* dim = std::get_if<graph::Dim>(&scalar))
    return static_cast<std::uint64_t>(dim->evaluate(bindings));
  return std::get<tile::Literal>(scalar).bits;
}

}  // namespace

BoundLaunch bind_launch(const templates::KernelLaunch& launch, const jit::LoadedKernel& kernel,
                        std::span<const std::int64_t> bindings,
                        std::span<const templates::ProgramValue> values,
                        const std::function<BufferRef(int value)>& buffer) {
  BoundLaunch bound;
  bound.kernel = kernel;
  for (const auto& argument : launch.arguments) {
    if (const auto* view = std::get_if<templates::ViewBinding>(&argument)) {
      bind_view(bound, *view, bindings, values[static_cast<std::size_t>(view->value)].dtype,
                buffer(view->value));
    } else {
      bound.words.push_back(scalar_word(std::get<templates::ScalarBinding>(argument), bindings));
    }
  }
  bound.grid_rank = launch.kernel.grid_rank();
  kernel.grid(bound.words.data(), bound.grid.data());
  bound.programs = 1;
  for (int i = 0; i < bound.grid_rank; ++i) bound.programs *= bound.grid[static_cast<std::size_t>(i)];
  bound.scratch_bytes = bound.programs > 0 ? kernel.scratch(bound.words.data()) : 0;
  bound.flops =
      static_cast<double>(launch.flops_per_program.evaluate(bindings)) * static_cast<double>(bound.programs);
  bound.bytes =
      static_cast<double>(launch.bytes_per_program.evaluate(bindings)) * static_cast<double>(bound.programs);
  return bound;
}

void run_launch(const BoundLaunch& launch, std::span<const std::uint64_t> words, const LaunchScratch& scratch,
                const Parallelism& parallelism) {
  if (launch.programs == 0) return;
  std::atomic<bool> failed = false;
  jit::KernelStatus first_failure;

  // The box is cut along the grid dimension that has the most programs.
  const auto begin = launch.grid.begin();
  const auto dimension =
      static_cast<std::size_t>(std::max_element(begin, begin + std::max(launch.grid_rank, 1)) - begin);
  const auto run_box = [&](std::int64_t low, std::int64_t high, int worker) {
    std::array<std::int64_t, jit::kMaxGridRank> box_low{}, box_high = launch.grid;
    if (launch.grid_rank > 0) {
      box_low[dimension] = low;
      box_high[dimension] = high;
    }
    jit::KernelStatus box_status;
    const jit::KernelCall call{.arguments = words.data(),
                               .low = box_low.data(),
                               .high = box_high.data(),
                               .scratch = scratch.start + worker * scratch.stride,
                               .status = &box_status};
    launch.kernel.run(&call);
    if (box_status.code != 0 && !failed.exchange(true)) first_failure = box_status;
  };

  const std::int64_t extent = launch.grid_rank > 0 ? launch.grid[dimension] : 1;
  const double nanoseconds = std::max(launch.flops / kFlopsPerNanosecond, launch.bytes / kBytesPerNanosecond);
  if (parallelism.threads == 1 || extent == 1 || nanoseconds < kSplitNanoseconds) {
    run_box(0, extent, 0);
  } else {
    const std::int64_t chunks = std::min<std::int64_t>(extent, parallelism.threads * kChunksPerThread);
    parallelism.pool->parallel_for(extent,
                                   {.grain = (extent + chunks - 1) / chunks,
                                    .chunking = Chunking::Dynamic,
                                    .max_threads = parallelism.threads},
                                   run_box);
  }
  if (failed) jit::throw_status(first_failure, launch.grid_rank);
}

}  // namespace kiln::runtime
