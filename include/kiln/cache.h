// The kernel cache file, as `kiln cache` shows it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

struct CacheEntry {
  std::string key;  // 32 hex digits
  std::int64_t bytes = 0;
  std::int64_t accessed_microseconds = 0;  // since 1970
  std::string llvm_version;
  bool usable = false;   // by this build of Kiln
  bool damaged = false;  // the other fields are then not to be believed
  double compile_ms = 0;
};

struct CacheStats {
  std::string path;
  std::int64_t kernels = 0, bytes = 0, max_bytes = 0, file_bytes = 0;
};

// `path` as in Options::cache: empty means the default file. `warn` is called with one line if the file turns
// out to be damaged: it is then written anew with what can be saved. Each throws Error (environment):
// not_found where there is no file, io where it cannot be used.
using CacheWarning = std::function<void(std::string_view)>;
std::vector<CacheEntry> cache_entries(const std::string& path = {}, const CacheWarning& warn = {});
CacheStats cache_stats(const std::string& path = {}, const CacheWarning& warn = {});

struct CacheCheck {
  std::int64_t checked = 0, removed = 0;  // of the kernels that are in the file
  bool rebuilt = false;                   // it was damaged, which `warn` tells
};
// Checks every byte, and removes kernels that are damaged.
CacheCheck verify_cache(const std::string& path = {}, const CacheWarning& warn = {});
// Evicts the least recently used kernels down to `max_bytes`, or the limit that holds for every cache; gives
// how many.
std::int64_t collect_cache(const std::string& path = {}, std::optional<std::int64_t> max_bytes = {},
                           const CacheWarning& warn = {});

}  // namespace kiln
