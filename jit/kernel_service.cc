#include "jit/kernel_service.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <llvm/Config/llvm-config.h>

#include "ir/tile/passes/passes.h"
#include "jit/cache/key.h"
#include "jit/cache/store.h"

namespace kiln::jit {
namespace {

// Keys of the map are whole canonical bytes, so that no two Kernels can be mistaken for each other.
std::string map_key(const ArtifactKey& key) {
  return {reinterpret_cast<const char*>(key.canonical.data()), key.canonical.size()};
}

// Compiling is no reason to unwind through threads and flights.
template <typename Function>
Result<ReadyKernel> as_result(Function&& function) {
  try {
    return function();
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& exception) {
    return Error(ErrorKind::Bug, ErrorCode::CompileFailed, exception.what());
  }
}

// Set once, by the thread that made the entry; the others wait.
struct Flight {
  std::mutex mutex;
  std::condition_variable landed;
  std::optional<Result<ReadyKernel>> result;
};

}  // namespace

struct KernelService::State {
  Result<ReadyKernel> make(const KernelRequest& request, const ArtifactKey& key);
  Result<ReadyKernel> get(const KernelRequest& request);

  std::shared_ptr<Store> store;
  std::unique_ptr<KernelBackend> backend;
  mutable std::mutex mutex;  // of what follows
  std::unordered_map<std::string, std::shared_ptr<Flight>> flights;
  KernelServiceStats stats;
};

Result<ReadyKernel> KernelService::State::make(const KernelRequest& request, const ArtifactKey& key) {
  std::string miss = "the cache is off";
  if (store) {
    Result<Artifact> found = store->find(key);
    if (found) {
      Result<LoadedKernel> loaded = backend->load(*found);
      if (loaded) return ReadyKernel{std::move(*loaded), found->facts, KernelSource::Cache, key.hex, {}};
      miss = fmt::format("its cached code does not load: {}", loaded.error().message());
    } else {
      miss = found.error().message();
    }
  }
  const Result<Artifact> artifact = backend->compile(request, key.symbol());
  if (!artifact) return artifact.error();
  Result<LoadedKernel> loaded = backend->load(*artifact);
  if (!loaded) return loaded.error();
  if (store) store->insert(key, *artifact);
  return ReadyKernel{std::move(*loaded), artifact->facts, KernelSource::Compiled, key.hex, std::move(miss)};
}

Result<ReadyKernel> KernelService::State::get(const KernelRequest& request) {
  tile::Kernel kernel = request.kernel;
  tile::expand_functions(kernel);
  tile::simplify(kernel);
  const KernelRequest expanded = {kernel, request.schedule, request.target};
  const ArtifactKey key =
      artifact_key(tile::canonical_bytes(kernel), request.schedule, request.target, LLVM_VERSION_STRING);

  std::shared_ptr<Flight> flight;
  bool is_ours = false;
  {
    std::lock_guard lock(mutex);
    std::shared_ptr<Flight>& entry = flights[map_key(key)];
    is_ours = entry == nullptr;
    if (is_ours) entry = std::make_shared<Flight>();
    flight = entry;
  }
  if (!is_ours) {
    std::unique_lock lock(flight->mutex);
    flight->landed.wait(lock, [&] { return flight->result.has_value(); });
    Result<ReadyKernel> result = *flight->result;
    lock.unlock();
    if (result) {
      result->source = KernelSource::Memory;
      std::lock_guard stats_lock(mutex);
      ++stats.from_memory;
    }
    return result;
  }

  Result<ReadyKernel> result = as_result([&] { return make(expanded, key); });
  {
    std::lock_guard lock(flight->mutex);
    flight->result = result;
  }
  flight->landed.notify_all();
  std::lock_guard lock(mutex);
  if (!result) {
    ++stats.failed;
  } else if (result->source == KernelSource::Cache) {
    ++stats.from_cache;
  } else {
    ++stats.compiled;
    stats.compile_ms_total += result->facts.compile_ms;
  }
  return result;
}

KernelService::KernelService(std::shared_ptr<Store> store, std::unique_ptr<KernelBackend> backend)
    : state_(std::make_unique<State>()) {
  state_->store = std::move(store);
  state_->backend = std::move(backend);
}

KernelService::~KernelService() = default;

Result<ReadyKernel> KernelService::get(const tile::Kernel& kernel, const tile::Schedule& schedule,
                                       const Target& target) {
  return as_result([&] { return state_->get({kernel, schedule, target}); });
}

std::vector<Result<ReadyKernel>> KernelService::get_all(std::span<const KernelRequest> requests,
                                                        int threads) {
  std::vector<std::optional<Result<ReadyKernel>>> results(requests.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < requests.size(); i = next++) {
      results[i] = as_result([&] { return state_->get(requests[i]); });
    }
  };
  {
    std::vector<std::jthread> helpers;
    const std::size_t useful = std::min(requests.size(), static_cast<std::size_t>(std::max(1, threads)));
    try {
      while (helpers.size() + 1 < useful) helpers.emplace_back(work);
    } catch (const std::exception&) {
      // No more threads to be had: those that started do.
    }
    work();
  }
  std::vector<Result<ReadyKernel>> values;
  values.reserve(results.size());
  for (std::optional<Result<ReadyKernel>>& result : results) values.push_back(std::move(*result));
  return values;
}

KernelServiceStats KernelService::stats() const {
  std::lock_guard lock(state_->mutex);
  return state_->stats;
}

}  // namespace kiln::jit
