#include "device/cpu/cpu_features.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace plimsoll {
namespace {

// Compares the detected features with the flags in /proc/cpuinfo. The Linux kernel lists a flag if the CPU has the feature and
// the kernel saves its state, so this is an independent check.
TEST(CpuFeatures, AgreesWithTheOperatingSystem) {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line, flags;
  while (flags.empty() && std::getline(cpuinfo, line)) {
    if (line.starts_with("flags")) flags = line + " ";
  }
  if (flags.empty()) GTEST_SKIP() << "/proc/cpuinfo has no flags: not x86, or not Linux";
  const auto has = [&](const char* flag) {
    return flags.find(std::string(" ") + flag + " ") != std::string::npos;
  };
  EXPECT_EQ(cpu_isa() >= CpuIsa::kAvx2, has("avx2") && has("fma") && has("f16c"));
  EXPECT_EQ(cpu_isa() >= CpuIsa::kAvx512,
            has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl"));
  EXPECT_EQ(cpu_isa() >= CpuIsa::kAvx512Bf16, has("avx512_bf16"));
  EXPECT_EQ(cpu_isa() >= CpuIsa::kAmx, has("avx512_bf16") && has("amx_bf16"));
}

TEST(CpuFeatures, LevelsHaveNamesAndAnOrder) {
  EXPECT_EQ(cpu_isa_name(CpuIsa::kAvx512Bf16), "avx512_bf16");
  EXPECT_FALSE(has_bf16_products(CpuIsa::kAvx512));
  EXPECT_TRUE(has_bf16_products(CpuIsa::kAvx512Bf16));
  EXPECT_TRUE(has_bf16_products(CpuIsa::kAmx));
}

}  // namespace
}  // namespace plimsoll
