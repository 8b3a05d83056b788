#include "tools/command.h"

#include <cstdio>
#include <filesystem>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "tools/arguments.h"

namespace kiln::tools {

void refuse(std::string message) {
  throw Error(ErrorKind::Caller, ErrorCode::InvalidArgument, std::move(message));
}

void warn(std::string_view line) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> told;
  const std::scoped_lock lock(mutex);
  if (told.emplace(line).second) fmt::print(stderr, "kiln: warning: {}\n", printable(line));
}

void GlobalOptions::add_to(CLI::App& app) {
  app.add_option("--device", device, "where to run: cpu")
      ->check(CLI::IsMember({"cpu"}))
      ->capture_default_str();
  app.add_option("--target", target, "instruction set of generated code")
      ->check(CLI::IsMember({"native", "x86-64-v3", "x86-64-v4"}))
      ->capture_default_str();
  app.add_option("--kernels", kernels,
                 "generated kernels, or plain reference kernels alone, or these with every float as f64")
      ->check(CLI::IsMember({"generated", "reference", "reference64"}))
      ->capture_default_str();
  add_value(app, "--threads", threads, whole_from(0, 4096),
            "threads of a run; 0: all CPUs this process may use")
      ->type_name("N");
  add_value(app, "--cache", cache, parse_text,
            "kernel cache file, or off; default: kernels.sqlite in ~/.cache/kiln")
      ->type_name("FILE");
  app.add_flag("--verbose", verbose, "one line per compiled kernel and per fallback");
}

Options GlobalOptions::session_options() const {
  Options options;
  options.target = target;
  options.kernels = kernels == "generated"   ? KernelChoice::Generated
                    : kernels == "reference" ? KernelChoice::Reference
                                             : KernelChoice::Reference64;
  options.threads = threads;
  options.cache = cache;
  options.warn = warn;
  if (verbose) options.log = [](std::string_view line) { fmt::print(stderr, "{}\n", printable(line)); };
  return options;
}

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error && !std::filesystem::is_directory(path))
    error = std::make_error_code(std::errc::not_a_directory);
  if (error) {
    throw Error(ErrorKind::Environment, ErrorCode::Io,
                fmt::format("cannot make the folder {}: {}", path, error.message()));
  }
}

}  // namespace kiln::tools
