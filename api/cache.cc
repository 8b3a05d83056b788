#include <filesystem>

#include <kiln/cache.h>

#include "api/options.h"
#include "ir/base/errors.h"
#include "jit/cache/store.h"

namespace kiln {
namespace {

jit::Store open_store(const std::string& path) {
  const std::string file = api::cache_path(path);
  if (file.empty()) {
    throw_environment(ErrorCode::NotFound,
                      "no cache file: neither XDG_CACHE_HOME nor HOME is set; name a file");
  }
  // Looking at a cache makes none.
  std::error_code error;
  if (std::filesystem::status(file, error).type() == std::filesystem::file_type::not_found)
    throw_environment(ErrorCode::NotFound, "no kernel cache at {} yet; running a model makes it", file);
  jit::StoreOptions options;
  options.path = file;
  return jit::Store(std::move(options));
}

}  // namespace

std::vector<CacheEntry> cache_entries(const std::string& path) {
  std::vector<CacheEntry> entries;
  for (const jit::StoreEntry& entry : open_store(path).list().value()) {
    entries.push_back({.key = entry.key,
                       .bytes = entry.bytes,
                       .accessed_microseconds = entry.accessed,
                       .llvm_version = entry.llvm_version,
                       .usable = entry.from_this_generator,
                       .compile_ms = entry.facts.compile_ms});
  }
  return entries;
}

CacheStats cache_stats(const std::string& path) {
  jit::Store store = open_store(path);
  const jit::StoreStats stats = store.stats().value();
  return {.path = store.path(),
          .kernels = stats.artifacts,
          .bytes = stats.bytes,
          .max_bytes = stats.max_bytes,
          .file_bytes = stats.file_bytes};
}

CacheCheck verify_cache(const std::string& path) {
  const jit::StoreCheck check = open_store(path).verify().value();
  return {.checked = check.checked, .removed = check.removed};
}

std::int64_t collect_cache(const std::string& path, std::int64_t max_bytes) {
  if (max_bytes < 0)
    throw_caller(ErrorCode::InvalidArgument, "a cache of {} bytes is asked for, expected 0 or more",
                 max_bytes);
  return open_store(path).collect(max_bytes).value();
}

}  // namespace kiln
