// Kernels ready to call, by content: memory, then the cache, then the compiler. One flight per key.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

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
  std::string key;  // 32 hex digits
};

struct KernelServiceStats {
  std::int64_t compiled = 0;
  std::int64_t from_cache = 0;
  std::int64_t from_memory = 0;
  std::int64_t failed = 0;
  double compile_ms_total = 0;
};

// Thread safe. Two threads that ask for one key get one compile. The Store may be null (cache off).
class KernelService {
 public:
  explicit KernelService(std::shared_ptr<Store> store);
  ~KernelService();

  Result<ReadyKernel> get(const tile::Kernel& kernel, const tile::Schedule& schedule, const Target& target);
  KernelServiceStats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln::jit
