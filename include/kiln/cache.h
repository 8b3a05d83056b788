// The kernel cache file, as `kiln cache` shows it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

struct CacheEntry {
  std::string key;  // 32 hex digits
  std::int64_t bytes = 0;
  std::int64_t accessed_microseconds = 0;  // since 1970
  std::string llvm_version;
  bool usable = false;  // by this build of Kiln
  double compile_ms = 0;
};

struct CacheStats {
  std::string path;
  std::int64_t kernels = 0, bytes = 0, max_bytes = 0, file_bytes = 0;
};

// `path` as in Options::cache: empty means the default file. Each throws Error (environment): not_found where
// there is no file, io where it cannot be used.
std::vector<CacheEntry> cache_entries(const std::string& path = {});
CacheStats cache_stats(const std::string& path = {});
struct CacheCheck {
  std::int64_t checked = 0, removed = 0;
};
CacheCheck verify_cache(const std::string& path = {});
// Evicts the least recently used kernels down to `max_bytes`; gives how many.
std::int64_t collect_cache(const std::string& path, std::int64_t max_bytes);

}  // namespace kiln
