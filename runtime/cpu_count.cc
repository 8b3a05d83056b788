#include "runtime/cpu_count.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include <sched.h>
#include <unistd.h>

namespace kiln::runtime {
namespace {

// Whole CPUs for `quota` microseconds of time per `period`.
std::optional<int> cpus_of_quota(long long quota, long long period) {
  if (quota <= 0 || period <= 0) return std::nullopt;
  return static_cast<int>(std::clamp<long long>((quota + period - 1) / period, 1, 1 << 20));
}

// One group: cpu.max of version 2 ("max 100000" or "200000 100000"), or the two files of version 1.
std::optional<int> group_cpus(const std::string& folder) {
  long long quota = 0;
  long long period = 0;
  if (std::ifstream(folder + "/cpu.max") >> quota >> period) return cpus_of_quota(quota, period);
  if (std::ifstream(folder + "/cpu.cfs_quota_us") >> quota &&
      std::ifstream(folder + "/cpu.cfs_period_us") >> period) {
    return cpus_of_quota(quota, period);
  }
  return std::nullopt;
}

bool has_cpu_controller(std::string_view list) {
  while (!list.empty()) {
    const std::string_view controller = list.substr(0, list.find(','));
    if (controller == "cpu") return true;
    list.remove_prefix(std::min(list.size(), controller.size() + 1));
  }
  return false;
}

int affinity_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails on machines with more CPUs than the set holds.
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace

std::optional<int> cgroup_cpus(std::string_view membership, const std::string& root) {
  std::optional<int> least;
  std::istringstream lines{std::string(membership)};
  for (std::string line; std::getline(lines, line);) {
    // "hierarchy:controllers:path"; version 2 has no controllers.
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string base = root;
    if (!controllers.empty()) {
      if (!has_cpu_controller(controllers)) continue;
      base += "/cpu";
    }
    // Inside a container the path may lie outside what is mounted; the groups that exist count.
    for (std::string path = line.substr(second + 1);;) {
      if (const std::optional<int> cpus = group_cpus(base + path))
        least = std::min(least.value_or(*cpus), *cpus);
      if (path.empty()) break;
      path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  return least;
}

int usable_cpus() {
  std::ifstream file("/proc/self/cgroup");
  const std::string membership{std::istreambuf_iterator<char>(file), {}};
  const int cpus = affinity_cpus();
  return std::max(1, std::min(cpus, cgroup_cpus(membership, "/sys/fs/cgroup").value_or(cpus)));
}

}  // namespace kiln::runtime
