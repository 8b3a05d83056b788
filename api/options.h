// What the environment and Options say: the one place that reads environment variables.
#pragma once

#include <string>
#include <string_view>

#include <kiln/kiln.h>

#include "ir/base/target.h"

namespace kiln::api {

// The cache file for Options::cache (not "off"): as given, or kernels.sqlite in $XDG_CACHE_HOME/kiln or
// ~/.cache/kiln; empty if neither variable is an absolute path, which kNoCachePath says.
std::string cache_path(const std::string& option);
constexpr std::string_view kNoCachePath = "neither XDG_CACHE_HOME nor HOME is an absolute path; name a file";

// The same Options, with callbacks out of which nothing comes that they throw. Throws Error (caller) for a
// value that nothing can mean, whatever kernels are to run.
Options checked(Options options);

// Throws Error (caller) for an unknown name or one that this machine cannot run.
Target parse_target(const std::string& name);

// Threads that a run may use. Throws Error (caller) if `option` is negative or beyond reason.
int thread_count(int option);

}  // namespace kiln::api
