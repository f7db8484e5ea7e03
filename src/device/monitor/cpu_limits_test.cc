#include "device/monitor/topology.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace plimsoll {
namespace {

class CpuLimits : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(root_); }
  void put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::optional<double> limit() const {
    return cgroup_processors({.proc = (root_ / "proc").string(), .cgroup = (root_ / "cgroup").string()});
  }
  std::filesystem::path root_ =
      std::filesystem::path(::testing::TempDir()) / ("cpu_limits_" + std::to_string(getpid()));
};

TEST_F(CpuLimits, TheLowestLimitOfVersionTwoCounts) {
  put("proc/self/cgroup", "0::/slice/job\n");
  EXPECT_EQ(limit(), std::nullopt);
  put("cgroup/slice/job/cpu.max", "max 100000\n");
  EXPECT_EQ(limit(), std::nullopt);
  put("cgroup/slice/cpu.max", "150000 100000\n");
  EXPECT_EQ(limit(), 1.5);
  put("cgroup/slice/job/cpu.max", "200000 100000\n");
  EXPECT_EQ(limit(), 1.5);
  put("cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(limit(), 0.5);
}

TEST_F(CpuLimits, VersionOneHasTwoFiles) {
  put("proc/self/cgroup", "4:memory:/a\n3:cpu,cpuacct:/docker\n2:cpuset:/b\n");
  put("cgroup/cpu/docker/cpu.cfs_period_us", "100000\n");
  put("cgroup/cpu/docker/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(limit(), std::nullopt);
  put("cgroup/cpu/docker/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(limit(), 2.5);
}

TEST_F(CpuLimits, WithoutControlGroupsThereIsNoLimit) {
  EXPECT_EQ(limit(), std::nullopt);
  put("proc/self/cgroup", "nonsense\n0::/\n");
  put("cgroup/cpu.max", "");
  EXPECT_EQ(limit(), std::nullopt);
}

}  // namespace
}  // namespace plimsoll
