#include "api/options.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>

#include "ir/base/errors.h"
#include "jit/compile.h"
#include "runtime/thread_pool.h"

namespace kiln::api {

std::string cache_path(const std::string& option) {
  if (!option.empty()) return option;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/') {
    return std::string(cache) + "/kiln/kernels.sqlite";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') {
    return std::string(home) + "/.cache/kiln/kernels.sqlite";
  }
  return {};
}

namespace {

// Nothing for "native".
std::optional<Isa> parse_isa(const std::string& name) {
  if (name == "native") return std::nullopt;
  for (const Isa isa : {Isa::X86_64_V3, Isa::X86_64_V4}) {
    if (name == kiln::name(isa)) return isa;
  }
  throw_caller(ErrorCode::InvalidArgument, "unknown target {}, expected native, x86-64-v3 or x86-64-v4",
               name);
}

// The same callback, but nothing that it throws comes out; empty if it is.
std::function<void(std::string_view)> contained(const std::function<void(std::string_view)>& callback) {
  if (!callback) return {};
  return [callback](std::string_view line) {
    try {
      callback(line);
    } catch (...) {  // it must not stop half-done work of ours
    }
  };
}

}  // namespace

Target parse_target(const std::string& name) {
  const std::optional<Isa> isa = parse_isa(name);
  return isa ? jit::target_for_isa(*isa) : jit::host_target();
}

Options checked(Options options) {
  parse_isa(options.target);
  thread_count(options.threads);
  if (options.memory_limit < 0) {
    throw_caller(ErrorCode::InvalidArgument, "the memory limit is {}, expected 0 (none) or a number of bytes",
                 options.memory_limit);
  }
  if (options.kernels > KernelChoice::Reference64) {
    throw_caller(ErrorCode::InvalidArgument, "{} is no choice of kernels", static_cast<int>(options.kernels));
  }
  options.log = contained(options.log);
  options.warn = contained(options.warn);
  return options;
}

int thread_count(int option) {
  constexpr int kMost = 4096;
  if (option < 0 || option > kMost) {
    throw_caller(ErrorCode::InvalidArgument, "{} threads are asked for, expected 0 (all CPUs) to {}", option,
                 kMost);
  }
  const int available = runtime::ThreadPool::process().threads();
  return option == 0 ? available : std::min(option, available);
}

}  // namespace kiln::api
