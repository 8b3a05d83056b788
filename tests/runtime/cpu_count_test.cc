#include "runtime/cpu_count.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <sched.h>

namespace kiln::runtime {
namespace {

class CgroupCpus : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "kiln_cgroup_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  std::filesystem::path root;
};

TEST_F(CgroupCpus, VersionTwo) {
  write("a/b/cpu.max", "150000 100000\n");
  EXPECT_EQ(cgroup_cpus("0::/a/b\n", root), 2);
  EXPECT_EQ(cgroup_cpus("0::/a\n", root), std::nullopt);
  write("a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_cpus("0::/a/b\n", root), std::nullopt);
  write("a/cpu.max", "50000 100000\n");
  EXPECT_EQ(cgroup_cpus("0::/a/b\n", root), 1);
  write("cpu.max", "10000 100000\n");
  write("a/cpu.max", "400000 100000\n");
  EXPECT_EQ(cgroup_cpus("0::/a/b\n", root), 1);
}

TEST_F(CgroupCpus, VersionOne) {
  write("cpu/job/cpu.cfs_quota_us", "300000\n");
  write("cpu/job/cpu.cfs_period_us", "100000\n");
  const std::string membership = "5:memory:/job\n3:cpu,cpuacct:/job\n2:cpuset:/\n";
  EXPECT_EQ(cgroup_cpus(membership, root), 3);
  write("cpu/job/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(cgroup_cpus(membership, root), std::nullopt);
}

TEST_F(CgroupCpus, PathOfAnotherNamespace) {
  write("cpu.max", "200000 100000\n");
  EXPECT_EQ(cgroup_cpus("0::/../../outside\n", root), 2);
}

TEST_F(CgroupCpus, NonsenseIsNoQuota) {
  EXPECT_EQ(cgroup_cpus("", root), std::nullopt);
  EXPECT_EQ(cgroup_cpus("nonsense\n::\n:\n", root), std::nullopt);
  write("cpu.max", "1 0\n");
  EXPECT_EQ(cgroup_cpus("0::/\n", root), std::nullopt);
}

TEST(UsableCpus, FollowTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_GE(usable_cpus(), 1);
  EXPECT_LE(usable_cpus(), CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &before)) continue;
    CPU_SET(cpu, &one);
    break;
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(usable_cpus(), 1);
  sched_setaffinity(0, sizeof(before), &before);
}

}  // namespace
}  // namespace kiln::runtime
