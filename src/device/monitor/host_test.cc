#include "device/monitor/host.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

class HostFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / ("host_files_" + std::to_string(::getpid()));
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  void put(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  SystemPaths paths() const {
    return {.proc = (root_ / "proc").string(), .cgroup = (root_ / "cgroup").string()};
  }
  fs::path root_;
};

TEST(Host, ThisProcessHasMemory) {
  const ProcessMemory memory = process_memory();
  EXPECT_GT(memory.resident_bytes, 1 << 20);
  EXPECT_GE(memory.peak_bytes, memory.resident_bytes);
  const MachineMemory machine = machine_memory();
  EXPECT_GT(machine.total_bytes, memory.peak_bytes);
  EXPECT_GT(machine.available_bytes, 0);
  EXPECT_LE(machine.takeable_bytes(), machine.available_bytes);
}

TEST(Host, PeakFollowsWhatIsTouched) {
  const int64_t before = process_memory().peak_bytes;
  constexpr size_t kBytes = 64 << 20;
  std::vector<char> block(kBytes, 'x');
  EXPECT_EQ(block[kBytes / 2], 'x');
  EXPECT_GE(process_memory().peak_bytes, before + static_cast<int64_t>(kBytes) / 2);
}

TEST_F(HostFiles, StatusIsReadInBytes) {
  put("proc/self/status",
      "Name:\tplimsoll\nVmPeak:\t  999 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nVmSwap:\t 4 kB\n");
  const ProcessMemory memory = process_memory(paths());
  EXPECT_EQ(memory.resident_bytes, 1 << 20);
  EXPECT_EQ(memory.peak_bytes, 2 << 20);
  EXPECT_EQ(memory.swapped_bytes, 4096);
}

TEST_F(HostFiles, TheTightestControlGroupCounts) {
  put("proc/meminfo", "MemTotal:  16384 kB\nMemFree: 1 kB\nMemAvailable:   8192 kB\n");
  put("proc/self/cgroup", "0::/outer/inner\n");
  put("cgroup/outer/memory.max", "6291456\n");
  put("cgroup/outer/memory.current", "1048576\n");
  put("cgroup/outer/inner/memory.max", "max\n");
  const MachineMemory memory = machine_memory(paths());
  EXPECT_EQ(memory.total_bytes, 16 << 20);
  EXPECT_EQ(memory.available_bytes, 8 << 20);
  EXPECT_EQ(memory.cgroup_limit_bytes, 6 << 20);
  EXPECT_EQ(memory.takeable_bytes(), 5 << 20);
  EXPECT_EQ(shortage_text(5 << 20, memory), "");
  const std::string text = shortage_text(6 << 20, memory);
  EXPECT_NE(text.find("this process's control group has only 0.00 GiB left"), std::string::npos) << text;
  EXPECT_NE(text.find("--memory_limit 5MiB"), std::string::npos) << text;
}

TEST_F(HostFiles, VersionOneControlGroupsCountToo) {
  put("proc/meminfo", "MemTotal:  16384 kB\nMemAvailable:   8192 kB\n");
  put("proc/self/cgroup", "4:cpu,cpuacct:/x\n3:memory:/job\n");
  put("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("cgroup/memory/job/memory.limit_in_bytes", "2097152\n");
  put("cgroup/memory/job/memory.usage_in_bytes", "3145728\n");
  const MachineMemory memory = machine_memory(paths());
  EXPECT_EQ(memory.cgroup_limit_bytes, 2 << 20);
  EXPECT_EQ(memory.takeable_bytes(), 0);
}

TEST_F(HostFiles, WhatIsNotThereReadsAsNothing) {
  EXPECT_EQ(process_memory(paths()).peak_bytes, 0);
  EXPECT_EQ(machine_memory(paths()).total_bytes, 0);
  EXPECT_EQ(shortage_text(1 << 20, machine_memory(paths())), "");
  EXPECT_FALSE(machine_memory(paths()).cgroup_limit_bytes.has_value());
  EXPECT_EQ(cpu_name(paths()), "");
}

TEST_F(HostFiles, TheFirstLineOfARun) {
  put("proc/cpuinfo",
      "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\n\nprocessor\t: 1\nmodel name\t: Other\n");
  EXPECT_EQ(cpu_device_line(2, CpuIsa::kAmx, cpu_name(paths())),
            "device cpu: Some CPU @ 2.0GHz, 2 threads, AVX-512 + AMX");
  EXPECT_EQ(cpu_device_line(1, CpuIsa::kAvx2, ""), "device cpu: 1 thread, AVX2");
}

}  // namespace
}  // namespace plimsoll
