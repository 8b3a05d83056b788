// What the environment and Options say: the one place that reads environment variables.
#pragma once

#include <string>

#include "ir/base/target.h"

namespace kiln::api {

// The cache file for Options::cache (not "off"): as given, or kernels.sqlite in $XDG_CACHE_HOME/kiln or
// ~/.cache/kiln; empty if neither variable is set.
std::string cache_path(const std::string& option);

// Throws Error (caller) for an unknown name or one that this machine cannot run.
Target parse_target(const std::string& name);

// Threads that a run may use.
int thread_count(int option);

}  // namespace kiln::api
