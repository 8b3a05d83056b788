#include "jit/kernel_service.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/tile/text.h"
#include "jit/compile.h"
#include "tests/jit/cache/store_fixture.h"

namespace kiln::jit {
namespace {

tile::Kernel scale_kernel(double factor, const std::string& name = "scale") {
  return tile::parse_kernels(fmt::format(R"(
      kernel @{}(%x: view<?xf32>, %y: out view<?xf32>) grid [ceildiv(dim(%x, 0), 64)] {{
        %i = program_id 0 * 64
        %v = load %x[%i] : tile<64xf32>
        store %y[%i], %v * {:.3f}
      }})",
                                         name, factor),
                             "test")[0];
}

// Compiles anything to bytes that name it, loads what it compiled, and counts.
class CountingBackend : public KernelBackend {
 public:
  Result<Artifact> compile(const KernelRequest& request, const std::string& symbol) override {
    ++compiles;
    {
      std::unique_lock lock(mutex_);
      opened_.wait(lock, [&] { return open_; });
    }
    if (request.schedule.pack_a) return Error(ErrorKind::Caller, ErrorCode::Refused, "packing is refused");
    if (request.schedule.pack_b) throw std::runtime_error("the compiler broke");
    Artifact artifact;
    artifact.symbol = symbol;
    artifact.object.assign(100, std::byte{1});
    artifact.facts = {2.0, 100, 0};
    return artifact;
  }
  Result<LoadedKernel> load(const Artifact& artifact) override {
    ++loads;
    if (refuse_loads > 0 && refuse_loads-- > 0) {
      return Error(ErrorKind::Environment, ErrorCode::CompileFailed, "malformed");
    }
    LoadedKernel kernel;
    kernel.code = std::make_shared<std::string>(artifact.symbol);
    return kernel;
  }
  void set_open(bool value) {
    std::lock_guard lock(mutex_);
    open_ = value;
    opened_.notify_all();
  }

  std::atomic<int> compiles = 0;
  std::atomic<int> loads = 0;
  std::atomic<int> refuse_loads = 0;

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = true;
};

class KernelServiceTest : public StoreTest {
 protected:
  // The backend belongs to the newest service.
  std::unique_ptr<KernelService> service(std::shared_ptr<Store> store = nullptr) {
    auto made = std::make_unique<CountingBackend>();
    backend = made.get();
    return std::make_unique<KernelService>(std::move(store), std::move(made));
  }
  CountingBackend* backend = nullptr;
  const Target target;
};

TEST_F(KernelServiceTest, CompilesOnceThenServesFromMemory) {
  const auto kernels = service();
  const ReadyKernel first = kernels->get(scale_kernel(2), {}, target).value();
  EXPECT_EQ(first.source, KernelSource::Compiled);
  EXPECT_EQ(first.miss, "the cache is off");
  EXPECT_EQ(*std::static_pointer_cast<const std::string>(first.kernel.code), "kiln_" + first.key);
  const ReadyKernel again = kernels->get(scale_kernel(2, "other_name"), {}, target).value();
  EXPECT_EQ(again.source, KernelSource::Memory);
  EXPECT_EQ(again.key, first.key);
  EXPECT_EQ(again.kernel.code, first.kernel.code);
  EXPECT_EQ(backend->compiles, 1);
  const KernelServiceStats stats = kernels->stats();
  EXPECT_EQ(stats.compiled, 1);
  EXPECT_EQ(stats.from_memory, 1);
  EXPECT_EQ(stats.compile_ms_total, 2.0);
}

TEST_F(KernelServiceTest, TellsKernelsSchedulesAndTargetsApart) {
  const auto kernels = service();
  tile::Schedule schedule;
  schedule.vector_unroll = 2;
  Target other = target;
  other.isa = Isa::X86_64_V4;
  (void)kernels->get(scale_kernel(2), {}, target).value();
  (void)kernels->get(scale_kernel(3), {}, target).value();
  (void)kernels->get(scale_kernel(2), schedule, target).value();
  (void)kernels->get(scale_kernel(2), {}, other).value();
  EXPECT_EQ(backend->compiles, 4);
}

TEST_F(KernelServiceTest, ServesFromTheCacheOfAnotherProcess) {
  {
    (void)service(open())->get(scale_kernel(2), {}, target).value();
  }
  const auto kernels = service(open());
  const ReadyKernel ready = kernels->get(scale_kernel(2), {}, target).value();
  EXPECT_EQ(ready.source, KernelSource::Cache);
  EXPECT_EQ(ready.facts.code_bytes, 100);
  EXPECT_EQ(backend->compiles, 0);
  EXPECT_EQ(kernels->stats().from_cache, 1);
  tile::Schedule schedule;
  schedule.vector_unroll = 2;
  EXPECT_EQ(kernels->get(scale_kernel(2), schedule, target).value().miss, "cached for another schedule");
}

TEST_F(KernelServiceTest, CompilesAgainWhatDoesNotLoad) {
  {
    (void)service(open())->get(scale_kernel(2), {}, target).value();
  }
  const auto kernels = service(open());
  backend->refuse_loads = 1;
  const ReadyKernel ready = kernels->get(scale_kernel(2), {}, target).value();
  EXPECT_EQ(ready.source, KernelSource::Compiled);
  EXPECT_EQ(ready.miss, "its cached code does not load: malformed");
}

TEST_F(KernelServiceTest, RemembersFailures) {
  const auto kernels = service(open());
  tile::Schedule refused;
  refused.pack_a = true;
  tile::Schedule broken;
  broken.pack_b = true;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(kernels->get(scale_kernel(2), refused, target).error().code(), ErrorCode::Refused);
    EXPECT_EQ(kernels->get(scale_kernel(2), broken, target).error().message(), "the compiler broke");
  }
  EXPECT_EQ(backend->compiles, 2);
  EXPECT_EQ(kernels->stats().failed, 2);
  EXPECT_EQ(open()->stats().value().artifacts, 0);
}

TEST_F(KernelServiceTest, FliesOncePerKey) {
  const auto kernels = service();
  backend->set_open(false);
  std::vector<std::thread> threads;
  std::atomic<int> compiled = 0;
  std::atomic<int> asked = 0;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      ++asked;
      if (kernels->get(scale_kernel(2), {}, target).value().source == KernelSource::Compiled) ++compiled;
    });
  }
  while (asked < 8 || backend->compiles == 0) std::this_thread::yield();
  backend->set_open(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(backend->compiles, 1);
  EXPECT_EQ(kernels->stats().from_memory, 7);
}

TEST_F(KernelServiceTest, GetsManyInOrder) {
  const auto kernels = service(open());
  std::vector<tile::Kernel> sources;
  for (int i = 0; i < 20; ++i) sources.push_back(scale_kernel(i % 15 + 1));
  tile::Schedule refused;
  refused.pack_a = true;
  const tile::Schedule plain;
  std::vector<KernelRequest> requests;
  for (int i = 0; i < 20; ++i) {
    requests.push_back({sources[static_cast<std::size_t>(i)], i == 7 ? refused : plain, target});
  }
  for (const int threads : {4, 1}) {
    const std::vector<Result<ReadyKernel>> results = kernels->get_all(requests, threads);
    ASSERT_EQ(results.size(), 20u);
    for (std::size_t i = 0; i < 20; ++i) {
      if (i == 7) {
        EXPECT_FALSE(results[i]);
      } else {
        EXPECT_EQ(results[i]->key, kernels->get(sources[i], plain, target).value().key) << i;
      }
    }
  }
  EXPECT_EQ(backend->compiles, 15);  // 14 factors, and the refusal
  EXPECT_TRUE(kernels->get_all({}, 4).empty());
}

// The compiler itself: what one service made, another loads and runs.
TEST_F(KernelServiceTest, CachedCodeRuns) {
  tile::Schedule schedule;
  const Target host = host_target();
  for (const KernelSource source : {KernelSource::Compiled, KernelSource::Cache}) {
    KernelService kernels(open());
    const ReadyKernel ready = kernels.get(scale_kernel(3), schedule, host).value();
    EXPECT_EQ(ready.source, source);
    std::vector<float> x(1000), y(1000);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
    const std::uint64_t arguments[] = {reinterpret_cast<std::uint64_t>(x.data()), x.size(), 1,
                                       reinterpret_cast<std::uint64_t>(y.data()), y.size(), 1};
    std::int64_t grid = 0;
    ready.kernel.grid(arguments, &grid);
    EXPECT_EQ(grid, 16);
    std::vector<std::byte> scratch(static_cast<std::size_t>(ready.kernel.scratch(arguments)) + 64);
    void* aligned = scratch.data();
    std::size_t space = scratch.size();
    std::align(64, space - 64, aligned, space);
    const std::int64_t low = 0;
    KernelStatus status;
    const KernelCall call = {arguments, &low, &grid, aligned, &status};
    ready.kernel.run(&call);
    EXPECT_EQ(status.code, 0);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], 3 * x[i]);
  }
}

}  // namespace
}  // namespace kiln::jit
