#include <ctime>
#include <memory>
#include <optional>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <kiln/cache.h>

#include "tools/arguments.h"
#include "tools/command.h"

namespace kiln::tools {
namespace {

const std::string& cache_file(const GlobalOptions& global) {
  if (global.cache == "off") bad_argument("--cache", "off leaves no cache to look at");
  return global.cache;
}

void list(const GlobalOptions& global) {
  for (const CacheEntry& entry : cache_entries(cache_file(global), warn)) {
    if (entry.damaged) {
      fmt::print("{}  damaged: kiln cache verify removes it\n", entry.key);
      continue;
    }
    const std::time_t seconds = entry.accessed_microseconds / 1'000'000;
    fmt::print("{}  {:>8} bytes  {:>7.2f} ms  {:%F %T}{}\n", entry.key, entry.bytes, entry.compile_ms,
               fmt::gmtime(seconds), entry.usable ? "" : "  (of another build)");
  }
}

void stats(const GlobalOptions& global) {
  const CacheStats stats = cache_stats(cache_file(global), warn);
  fmt::print("file       {}\nkernels    {}\nbytes      {}\nmax bytes  {}\non disk    {}\n",
             printable(stats.path), stats.kernels, stats.bytes, stats.max_bytes, stats.file_bytes);
}

void verify(const GlobalOptions& global, int& exit_status) {
  const CacheCheck check = verify_cache(cache_file(global), warn);
  fmt::print("{} kernels checked, {} damaged and removed\n", check.checked, check.removed);
  if (check.removed > 0 || check.rebuilt) exit_status = 1;
}

}  // namespace

void add_cache(CLI::App& app, const GlobalOptions& global, int& exit_status) {
  CLI::App* command = app.add_subcommand("cache", "look after the kernel cache");
  command->require_subcommand(1);
  command->add_subcommand("ls", "list cached kernels, most recently used first")->callback([&global] {
    list(global);
  });
  command->add_subcommand("stats", "count kernels and bytes")->callback([&global] { stats(global); });
  command->add_subcommand("verify", "check every byte, remove what is damaged; exit status 1 if anything was")
      ->callback([&global, &exit_status] { verify(global, exit_status); });
  auto max_bytes = std::make_shared<std::optional<std::int64_t>>();
  CLI::App* collect = command->add_subcommand("gc", "remove the least recently used kernels");
  add_value(*collect, "--max-bytes", *max_bytes, parse_bytes,
            "bytes to keep, such as 64M; default: the limit of the cache, which kiln cache stats shows")
      ->type_name("BYTES");
  collect->callback([&global, max_bytes] {
    fmt::print("{} kernels removed\n", collect_cache(cache_file(global), *max_bytes, warn));
  });
}

}  // namespace kiln::tools
