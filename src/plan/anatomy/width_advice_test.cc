#include "plan/anatomy/width_advice.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

PlanRequest request_of(int64_t intermediate, std::optional<DType> dtype) {
  PlanRequest request;
  request.model = *find_preset("bert-base-uncased");
  request.model.intermediate_size = intermediate;
  request.activation_dtype = dtype;
  request.evaluate = false;
  request.train_bucket = {.tokens = 8192, .sequences = 16, .longest = 512};
  request.device = KernelDevice::kCuda;
  request.gpu = *find_gpu_target("h200");
  return request;
}

TEST(WidthAdvice, NamesAWidthThatTensorCoresDoNotLike) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const Plan plan = build_plan(request_of(3070, dtype));
    const std::vector<WidthAdvice> advices = width_advice(plan);
    ASSERT_EQ(advices.size(), 1u);
    EXPECT_EQ(advices[0].name, "intermediate_size");
    EXPECT_EQ(advices[0].width, 3070);
    EXPECT_EQ(advices[0].better, 3072);
    EXPECT_GT(advices[0].gain, 1.01);
    EXPECT_LT(advices[0].gain, 4.0);
    const std::string text = advice_text(advices[0]);
    EXPECT_NE(text.find("intermediate_size 3070 is no multiple of 8"), std::string::npos) << text;
    EXPECT_NE(text.find("--config_overrides intermediate_size=3072"), std::string::npos) << text;
  }
}

TEST(WidthAdvice, AHiddenSizeStaysAMultipleOfItsHeads) {
  PlanRequest request = request_of(3072, DType::kBF16);
  request.model.hidden_size = 756;  // 12 heads of 63
  const std::vector<WidthAdvice> advices = width_advice(build_plan(request));
  ASSERT_EQ(advices.size(), 1u);
  EXPECT_EQ(advices[0].better, 768);
}

TEST(WidthAdvice, IsSilentWhereNothingWouldBeFaster) {
  EXPECT_TRUE(width_advice(build_plan(request_of(3072, DType::kBF16))).empty());
  // Multiples of 8 are read whole.
  EXPECT_TRUE(width_advice(build_plan(request_of(3080, DType::kBF16))).empty());
  // True fp32 does not run on tensor cores.
  EXPECT_TRUE(width_advice(build_plan(request_of(3070, std::nullopt))).empty());
  PlanRequest cpu = request_of(3070, std::nullopt);
  cpu.device = KernelDevice::kCpu;
  cpu.isa = CpuIsa::kAvx512;
  EXPECT_TRUE(width_advice(build_plan(cpu)).empty());
}

}  // namespace
}  // namespace plimsoll
