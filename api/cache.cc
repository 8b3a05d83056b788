#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <kiln/cache.h>

#include "api/options.h"
#include "ir/base/errors.h"
#include "jit/cache/store.h"

namespace kiln {
namespace {

// What `use(store)` gives of an existing file. Warnings are told if that is no Error: what makes the file
// unusable is the Error itself.
template <typename Use>
auto with_store(const std::string& path, const CacheWarning& warn, const Use& use) {
  const std::string file = api::cache_path(path);
  if (file.empty()) throw_environment(ErrorCode::NotFound, "no cache file: {}", api::kNoCachePath);
  // Looking at a cache makes none.
  std::error_code error;
  if (std::filesystem::status(file, error).type() == std::filesystem::file_type::not_found)
    throw_environment(ErrorCode::NotFound, "no kernel cache at {} yet; running a model makes it", file);
  std::vector<std::string> warnings;
  jit::StoreOptions options;
  options.path = file;
  options.warn = [&](std::string_view line) { warnings.emplace_back(line); };
  jit::Store store(std::move(options));
  auto result = use(store).value();
  for (const std::string& line : warnings) {
    if (warn) warn(line);
  }
  return result;
}

}  // namespace

std::vector<CacheEntry> cache_entries(const std::string& path, const CacheWarning& warn) {
  std::vector<CacheEntry> entries;
  for (const jit::StoreEntry& entry :
       with_store(path, warn, [](jit::Store& store) { return store.list(); })) {
    entries.push_back({.key = entry.key,
                       .bytes = entry.bytes,
                       .accessed_microseconds = entry.accessed,
                       .llvm_version = entry.llvm_version,
                       .usable = entry.from_this_generator,
                       .damaged = entry.damaged,
                       .compile_ms = entry.facts.compile_ms});
  }
  return entries;
}

CacheStats cache_stats(const std::string& path, const CacheWarning& warn) {
  const jit::StoreStats stats = with_store(path, warn, [](jit::Store& store) { return store.stats(); });
  return {.path = api::cache_path(path),
          .kernels = stats.artifacts,
          .bytes = stats.bytes,
          .max_bytes = stats.max_bytes,
          .file_bytes = stats.file_bytes};
}

CacheCheck verify_cache(const std::string& path, const CacheWarning& warn) {
  const jit::StoreCheck check = with_store(path, warn, [](jit::Store& store) { return store.verify(); });
  return {.checked = check.checked, .removed = check.removed, .rebuilt = check.rebuilt};
}

std::int64_t collect_cache(const std::string& path, std::optional<std::int64_t> max_bytes,
                           const CacheWarning& warn) {
  if (max_bytes && *max_bytes < 0)
    throw_caller(ErrorCode::InvalidArgument, "a cache of {} bytes is asked for, expected 0 or more",
                 *max_bytes);
  return with_store(path, warn, [&](jit::Store& store) { return store.collect(max_bytes); });
}

}  // namespace kiln
