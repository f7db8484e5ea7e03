#include "plan/anatomy/anatomy.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

PlanRequest request_of(int64_t intermediate, std::optional<DType> dtype) {
  PlanRequest request;
  request.model.config = *find_preset("bert-base-uncased");
  request.model.config.intermediate_size = intermediate;
  request.precision.activation_dtype = dtype;
  request.evaluate = false;
  request.batches.train = {.tokens = 8192, .sequences = 16, .longest = 512};
  request.device.kind = KernelDevice::kCuda;
  request.device.gpu = *find_gpu_target("h200");
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
    const std::string text = format_advice(advices[0]);
    EXPECT_NE(text.find("intermediate_size 3070 is not a multiple of 8: in "), std::string::npos) << text;
    EXPECT_NE(text.find("--config_overrides intermediate_size=3072"), std::string::npos) << text;
  }
}

// Tests widths that are multiples of 8 but not of 64, on GPUs with cache lines of 128 bytes.
TEST(WidthAdvice, NamesAMultipleOf64WhereItGains) {
  for (const char* card : {"a100-40gb", "h100", "h200"}) {
    PlanRequest request = request_of(3064, DType::kBF16);
    request.device.gpu = *find_gpu_target(card);
    const std::vector<WidthAdvice> advices = width_advice(build_plan(request));
    ASSERT_EQ(advices.size(), 1u) << card;
    EXPECT_EQ(advices[0].multiple, 64);
    EXPECT_EQ(advices[0].better, 3072);
    // Only the matrix products with this width become faster, by 3 %. They take a third of the step, so the step is 1 % faster.
    EXPECT_GT(advices[0].gain, 1.005) << card;
    EXPECT_LT(advices[0].gain, 1.03) << card;
    const std::string text = format_advice(advices[0]);
    for (const char* part :
         {"intermediate_size 3064 is not a multiple of 64", "128 bytes", "With 3072 ", " % faster",
          "according to the estimate of the plan", "--config_overrides intermediate_size=3072"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  }
}

// The next multiple of 64 takes 2 % more operations but is faster because of its alignment, so it is advised instead of a width in
// between.
TEST(WidthAdvice, SmallGainsAreToldAsTheyAre) {
  const std::vector<WidthAdvice> advices = width_advice(build_plan(request_of(3080, DType::kBF16)));
  ASSERT_EQ(advices.size(), 1u);
  EXPECT_EQ(advices[0].better, 3136);
  EXPECT_GT(advices[0].gain, 1.0);
  EXPECT_LT(advices[0].gain, 1.02);
}

TEST(WidthAdvice, InTf32MultiplesAreOf4And32) {
  PlanRequest request = request_of(3070, std::nullopt);
  request.precision.fp32_products = Fp32Products::kTf32;
  std::vector<WidthAdvice> advices = width_advice(build_plan(request));
  ASSERT_EQ(advices.size(), 1u);
  EXPECT_EQ(advices[0].multiple, 4);
  EXPECT_EQ(advices[0].better, 3072);
  EXPECT_GT(advices[0].gain, 1.2);
  request.model.config.intermediate_size = 3068;
  advices = width_advice(build_plan(request));
  ASSERT_EQ(advices.size(), 1u);
  EXPECT_EQ(advices[0].multiple, 32);
  EXPECT_EQ(advices[0].better, 3072);
  EXPECT_NE(format_advice(advices[0]).find("in tf32 this GPU reads"), std::string::npos);
  request.model.config.intermediate_size = 3072 + 32;
  EXPECT_TRUE(width_advice(build_plan(request)).empty());
  // tf32x3 splits each matrix into parts that are stored with aligned rows, so no width is slow and none is advised.
  request.model.config.intermediate_size = 3070;
  request.precision.fp32_products = Fp32Products::kTf32x3;
  EXPECT_TRUE(width_advice(build_plan(request)).empty());
}

TEST(WidthAdvice, AHiddenSizeStaysAMultipleOfItsHeads) {
  PlanRequest request = request_of(3072, DType::kBF16);
  request.model.config.hidden_size = 756;  // 12 heads of 63 elements each
  const std::vector<WidthAdvice> advices = width_advice(build_plan(request));
  ASSERT_EQ(advices.size(), 1u);
  EXPECT_EQ(advices[0].better, 768);
}

TEST(WidthAdvice, IsSilentWhereNothingWouldBeFaster) {
  EXPECT_TRUE(width_advice(build_plan(request_of(3072, DType::kBF16))).empty());
  // For GPUs that are not known to prefer multiples of 64, a width that is a multiple of 8 gets no advice.
  for (const char* card : {"l4", "a10g", "4090", "3090", "5090"}) {
    PlanRequest request = request_of(3064, DType::kBF16);
    request.device.gpu = *find_gpu_target(card);
    EXPECT_TRUE(width_advice(build_plan(request)).empty()) << card;
  }
  // The next hidden size that is a multiple of 64 and divisible among the 8 heads is 832. It takes 15 % more operations, which costs more
  // than the alignment gains, so it is not advised.
  PlanRequest hidden = request_of(3072, DType::kBF16);
  hidden.model.config.hidden_size = 776;
  hidden.model.config.num_attention_heads = 8;
  EXPECT_TRUE(width_advice(build_plan(hidden)).empty());
  // Matrix products in fp32 without tf32 do not run on tensor cores, so no width is advised.
  EXPECT_TRUE(width_advice(build_plan(request_of(3070, std::nullopt))).empty());
  PlanRequest cpu = request_of(3070, std::nullopt);
  cpu.device.kind = KernelDevice::kCpu;
  cpu.device.isa = CpuIsa::kAvx512;
  EXPECT_TRUE(width_advice(build_plan(cpu)).empty());
}

PlanRequest request_with_batch(int64_t sequences, int64_t longest, int64_t tokens) {
  PlanRequest request = request_of(3072, DType::kBF16);
  request.batches.train = {.tokens = tokens, .sequences = sequences, .longest = longest};
  return request;
}

TEST(BatchShape, SaysWhyNoMultipleOfEightIsNeeded) {
  EXPECT_EQ(describe_batch_shape(request_with_batch(8, 128, 1024)), "");
  EXPECT_TRUE(describe_batch_shape(request_with_batch(6, 128, 768))
                  .starts_with("a batch of 6: this is not a multiple of 8, and"));
  EXPECT_TRUE(describe_batch_shape(request_with_batch(8, 100, 800))
                  .starts_with("a length of 100: this is not a multiple of 8"));
  EXPECT_TRUE(describe_batch_shape(request_with_batch(5, 99, 495))
                  .starts_with("a batch of 5 and a length of 99: this is not a multiple of 8"));
  // If the sequences of the data have different lengths, the length is not chosen by the user, so there is no advice about it.
  EXPECT_EQ(describe_batch_shape(request_with_batch(8, 99, 500)), "");
}

TEST(BatchShape, MattersToNobodyInFp32OrWithoutTraining) {
  PlanRequest request = request_with_batch(6, 100, 600);
  request.precision.activation_dtype = {};
  EXPECT_EQ(describe_batch_shape(request), "");
  request.precision.fp32_products = Fp32Products::kTf32;
  EXPECT_NE(describe_batch_shape(request), "");
  request.train = false;
  EXPECT_EQ(describe_batch_shape(request), "");
}

}  // namespace
}  // namespace plimsoll
