#include "api/options.h"

#include <algorithm>
#include <cstdlib>

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

Target parse_target(const std::string& name) {
  if (name == "native") return jit::host_target();
  for (const Isa isa : {Isa::X86_64_V3, Isa::X86_64_V4}) {
    if (name == kiln::name(isa)) return jit::target_for_isa(isa);
  }
  throw_caller(ErrorCode::InvalidArgument, "unknown target {}, expected native, x86-64-v3 or x86-64-v4",
               name);
}

int thread_count(int option) {
  if (option < 0)
    throw_caller(ErrorCode::InvalidArgument, "{} threads asked for, expected 0 or more", option);
  const int available = runtime::ThreadPool::process().threads();
  return option == 0 ? available : std::min(option, available);
}

}  // namespace kiln::api
