#include "hardware/cpu_target.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

constexpr CpuIsa kAll[] = {CpuIsa::kBaseline, CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAvx512Bf16,
                           CpuIsa::kAmx};

TEST(CpuTarget, EveryInstructionSetHasRatesThatNeverFall) {
  double last = 0;
  for (CpuIsa isa : kAll) {
    const CpuTarget& target = cpu_target(isa);
    EXPECT_EQ(target.isa, isa);
    EXPECT_GE(target.f32_gflops_per_thread, last) << cpu_isa_name(isa);
    last = target.f32_gflops_per_thread;
    EXPECT_GT(target.f64_gflops_per_thread, 0.0);
    EXPECT_GT(target.memory_gb_per_s_per_thread, 0.0);
    EXPECT_FALSE(target.provenance.empty());
    EXPECT_EQ(target.bf16_gflops_per_thread > 0, has_bf16_products(isa)) << cpu_isa_name(isa);
  }
}

TEST(CpuTarget, ThreadsMultiplyProductsAndMemorySaturates) {
  const CpuTarget& target = cpu_target(CpuIsa::kAvx512);
  EXPECT_DOUBLE_EQ(product_gflops(target, DType::kF32, 2), 2 * product_gflops(target, DType::kF32, 1));
  EXPECT_DOUBLE_EQ(product_gflops(target, DType::kBF16, 2), product_gflops(target, DType::kF32, 2));
  EXPECT_GT(product_gflops(cpu_target(CpuIsa::kAmx), DType::kBF16, 1),
            product_gflops(target, DType::kF32, 1));
  EXPECT_LT(product_gflops(target, DType::kF64, 1), product_gflops(target, DType::kF32, 1));
  EXPECT_DOUBLE_EQ(memory_gb_per_s(target, 1), 10);
  EXPECT_DOUBLE_EQ(memory_gb_per_s(target, 2), 20);
  EXPECT_DOUBLE_EQ(memory_gb_per_s(target, 64), 20);
}

}  // namespace
}  // namespace plimsoll
