#include "target/gpu_target.h"

#include <gtest/gtest.h>

#include <set>

namespace plimsoll {
namespace {

TEST(GpuTarget, TheTableHasEveryCardThatTheDocumentsName) {
  for (const char* name :
       {"a100-40gb", "a100-80gb", "h100", "h200", "l4", "a10g", "t4", "v100-16gb", "3090", "4090", "5090"}) {
    EXPECT_TRUE(find_gpu_target(name).has_value()) << name;
  }
  EXPECT_FALSE(find_gpu_target("h300").has_value());
}

TEST(GpuTarget, RowsAreWholeAndDistinct) {
  std::set<std::string> names;
  for (const GpuTarget& target : gpu_targets()) {
    EXPECT_TRUE(names.insert(target.name).second) << target.name;
    EXPECT_GE(target.sm, 70) << target.name;
    EXPECT_GT(target.memory_bytes, int64_t{8} << 30) << target.name;
    EXPECT_GT(target.memory_gb_per_s, 0) << target.name;
    EXPECT_GT(target.f32_tflops, 0) << target.name;
    EXPECT_GE(target.link_gb_per_s, 16) << target.name;
    EXPECT_GT(target.f16_tflops, 0) << target.name;
    EXPECT_EQ(target.bf16_tflops > 0, target.sm >= 80) << target.name;
    EXPECT_EQ(target.tf32_tflops > 0, target.sm >= 80) << target.name;
    EXPECT_FALSE(target.provenance.empty());
    EXPECT_FALSE(target.constant_provenance.empty());
  }
}

TEST(GpuTarget, TheCardAtHandIsFoundByItsNameAndMemory) {
  const int64_t mib = int64_t{1} << 20;
  EXPECT_EQ(gpu_target_of("NVIDIA H200", 90, 132, 143156 * mib).name, "h200");
  EXPECT_EQ(gpu_target_of("NVIDIA H200", 90, 132, 143156 * mib).memory_bytes, 143156 * mib);
  EXPECT_EQ(gpu_target_of("NVIDIA L4", 89, 58, 22700 * mib).name, "l4");
  EXPECT_EQ(gpu_target_of("NVIDIA L40S", 89, 142, 46068 * mib).name, "cuda");
  EXPECT_EQ(gpu_target_of("NVIDIA A100-SXM4-40GB", 80, 108, 40960 * mib).name, "a100-40gb");
  const GpuTarget unknown = gpu_target_of("NVIDIA X", 75, 40, 8192 * mib);
  EXPECT_EQ(unknown.bf16_tflops, 0);
  EXPECT_NE(unknown.provenance.find("guessed"), std::string::npos);
}

TEST(GpuTarget, CardsWithoutBf16MultiplyItAtTheRateOfFp32) {
  const GpuTarget t4 = *find_gpu_target("t4");
  EXPECT_EQ(product_gflops(t4, DType::kBF16), product_gflops(t4, DType::kF32));
  EXPECT_GT(product_gflops(*find_gpu_target("h200"), DType::kBF16), 900e3);
}

}  // namespace
}  // namespace plimsoll
