// How many CPUs this process may use: what is there, its affinity mask, and the quotas of its control groups.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kiln::runtime {

// At least 1. Asks the system each time.
int usable_cpus();

// The CPUs' worth of time that control groups leave to a process, rounded up; nothing if there is no quota.
// `membership` is the content of /proc/self/cgroup, `root` the folder where control groups are mounted
// (/sys/fs/cgroup): version 2, or version 1 with the `cpu` controller. Quotas of the groups above count too.
std::optional<int> cgroup_cpus(std::string_view membership, const std::string& root);

}  // namespace kiln::runtime
