#include "hardware/gpu_target.h"

#include <gtest/gtest.h>

#include <set>

namespace plimsoll {
namespace {

TEST(GpuTarget, CaseDoesNotMatter) {
  for (const char* name : {"h100", "H100", "A100-80GB", "V100-16gb"})
    EXPECT_TRUE(find_gpu_target(name)) << name;
  EXPECT_EQ(find_gpu_target("H100")->name, "h100");
}

TEST(GpuTarget, OtherSpellingsHaveSuggestions) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(similar_gpu_targets("v100"), Names{"v100-16gb"});
  EXPECT_EQ(similar_gpu_targets("Tesla V100-SXM2-16GB"), Names{"v100-16gb"});
  EXPECT_EQ(similar_gpu_targets("A100"), (Names{"a100-80gb", "a100-40gb"}));
  EXPECT_EQ(similar_gpu_targets("NVIDIA A100-SXM4-80GB"), Names{"a100-80gb"});
  EXPECT_EQ(similar_gpu_targets("rtx4090"), Names{"4090"});
  EXPECT_EQ(similar_gpu_targets("RTX 4090"), Names{"4090"});
  EXPECT_EQ(similar_gpu_targets("NVIDIA GeForce RTX 3090"), Names{"3090"});
  EXPECT_EQ(similar_gpu_targets("h200-141gb"), Names{"h200"});
  EXPECT_EQ(similar_gpu_targets("a10"), (Names{"a100-80gb", "a100-40gb", "a10g"}));
  for (const char* unknown : {"", "tpu", "b200", "mi300x", "nvidia", "1"})
    EXPECT_EQ(similar_gpu_targets(unknown), Names{}) << unknown;
}

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

// The rates in NVIDIA's data sheets without sparsity: memory in GB/s; fp32, tf32, and bf16 or fp16 (accumulated in fp32) in
// TFLOP/s. For a card with several form factors, the rates are those of the SXM version. The fp32 rate of the A10G comes from its
// own data sheet and differs from the 31.2 of the A10.
TEST(GpuTarget, RatesAreThoseOfTheDataSheets) {
  struct Sheet {
    const char* name;
    double gb_per_s, f32, tf32, f16;
  };
  constexpr Sheet kSheets[] = {{"h200", 4800, 67, 494.7, 989.4},
                               {"h100", 3350, 67, 494.7, 989.4},
                               {"a100-80gb", 2039, 19.5, 156, 312},
                               {"a100-40gb", 1555, 19.5, 156, 312},
                               {"l4", 300, 30.3, 60, 121},
                               {"a10g", 600, 35, 35, 70},
                               {"t4", 320, 8.1, 0, 65},
                               {"v100-16gb", 900, 15.7, 0, 125},
                               {"5090", 1792, 104.8, 104.8, 209.5},
                               {"4090", 1008, 82.6, 82.6, 165.2},
                               {"3090", 936, 35.6, 35.6, 71}};
  EXPECT_EQ(std::size(kSheets), gpu_targets().size());
  for (const Sheet& sheet : kSheets) {
    const std::optional<GpuTarget> target = find_gpu_target(sheet.name);
    ASSERT_TRUE(target) << sheet.name;
    EXPECT_EQ(target->memory_gb_per_s, sheet.gb_per_s) << sheet.name;
    // The table contains whole TFLOP/s, but the data sheets state hundredths.
    EXPECT_NEAR(target->f32_tflops, sheet.f32, 0.01) << sheet.name;
    EXPECT_NEAR(target->tf32_tflops, sheet.tf32, 1) << sheet.name;
    EXPECT_NEAR(target->f16_tflops, sheet.f16, 1) << sheet.name;
    EXPECT_EQ(target->bf16_tflops, target->sm >= 80 ? target->f16_tflops : 0) << sheet.name;
  }
}

// The text that states the source of constant_bytes must name the card, the driver and the date of the measurement.
TEST(GpuTarget, TheConstantNamesCardDriverAndDate) {
  for (const GpuTarget& target : gpu_targets()) {
    for (const char* part : {"H200", "driver 580", "CUDA 13.0", "2026-11-21"})
      EXPECT_NE(target.constant_provenance.find(part), std::string::npos) << target.name << part;
    EXPECT_EQ(target.constant_provenance.starts_with("measured on 2026-11-21"), target.name == "h200");
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
  EXPECT_NE(unknown.provenance.find("estimated"), std::string::npos);
}

TEST(GpuTarget, CardsWithoutBf16MultiplyItAtTheRateOfFp32) {
  const GpuTarget t4 = *find_gpu_target("t4");
  EXPECT_EQ(product_gflops(t4, DType::kBF16), product_gflops(t4, DType::kF32));
  EXPECT_GT(product_gflops(*find_gpu_target("h200"), DType::kBF16), 900e3);
}

}  // namespace
}  // namespace plimsoll
