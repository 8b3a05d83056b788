// Kernels ready to call, by content: memory, then the cache, then the compiler. One flight per key.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/base/result.h"
#include "ir/base/target.h"
#include "ir/tile/kernel.h"
#include "ir/tile/schedule.h"
#include "jit/load/loader.h"

namespace kiln::jit {

class Store;

enum class KernelSource : std::uint8_t { Memory, Cache, Compiled };

struct ReadyKernel {
  LoadedKernel kernel;
  ArtifactFacts facts;
  KernelSource source = KernelSource::Compiled;
  std::string key;   // 32 hex digits
  std::string miss;  // why the cache did not serve a compiled Kernel: "cached for another schedule"
};

struct KernelServiceStats {
  std::int64_t compiled = 0;
  std::int64_t from_cache = 0;
  std::int64_t from_memory = 0;
  std::int64_t failed = 0;
  double compile_ms_total = 0;
};

struct KernelRequest {
  const tile::Kernel& kernel;
  const tile::Schedule& schedule;
  const Target& target;
};

// How a service turns Kernels into code. Called from many threads at once.
class KernelBackend {
 public:
  virtual ~KernelBackend() = default;
  virtual Result<Artifact> compile(const KernelRequest& request, const std::string& symbol) = 0;
  virtual Result<LoadedKernel> load(const Artifact& artifact) = 0;
};

// The compiler and the loader of this folder.
std::unique_ptr<KernelBackend> make_backend();

// Thread safe. Two threads that ask for one key get one compile. Loaded code is kept as long as the service,
// and so are failures: what was refused once is refused again without another try.
class KernelService {
 public:
  // The Store may be null (cache off).
  explicit KernelService(std::shared_ptr<Store> store,
                         std::unique_ptr<KernelBackend> backend = make_backend());
  ~KernelService();
  KernelService(const KernelService&) = delete;
  KernelService& operator=(const KernelService&) = delete;

  // Functions that are no primitives are expanded and the Kernel simplified before it is hashed and compiled.
  Result<ReadyKernel> get(const tile::Kernel& kernel, const tile::Schedule& schedule, const Target& target);
  // The same for many, on up to `threads` threads, the caller's included; results in the order of requests.
  std::vector<Result<ReadyKernel>> get_all(std::span<const KernelRequest> requests, int threads);

  KernelServiceStats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln::jit
