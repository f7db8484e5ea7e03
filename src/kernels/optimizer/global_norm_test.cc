#include "kernels/optimizer/global_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "device/cpu/parallel.h"
#include "kernels/optimizer/tensor_scan.h"
#include "kernels/optimizer/testing/optimizer_tensors.h"
#include "tests/support/compare.h"
#include "tests/support/kernel_rows.h"
#include "tests/support/simd_target_cases.h"

namespace plimsoll {
namespace {

using test::compare;
using test::GuardedBuffer;
using test::TensorList;

struct Outcome {
  double norm = -1.0, finite = -1.0;
  int64_t first_bad = -2;
};
template <typename Kernel>
Outcome run(const Kernel& kernel, std::span<const OptimizerTensor> tensors, ConstView loss = {}) {
  Outcome outcome;
  kernel({.tensors = tensors,
          .loss = loss,
          .norm = {&outcome.norm, DType::kF64},
          .finite = {&outcome.finite, DType::kF64},
          .first_bad = {&outcome.first_bad, DType::kI64}});
  return outcome;
}

TEST(GlobalNorm, MatchesTheReferenceOnEveryInstructionSet) {
  TensorList list("norm", DType::kF32, test::kAwkwardCounts);
  list.fill();
  const Outcome want = run(global_norm_ref, list.tensors());
  ASSERT_GT(want.norm, 100.0);
  const int64_t n = std::accumulate(test::kAwkwardCounts.begin(), test::kAwkwardCounts.end(), int64_t{0});
  test::FastRows(global_norm_ref).for_each(DType::kF32, [&](const auto& global_norm) {
    const Outcome got = run(global_norm, list.tensors());
    EXPECT_NEAR(got.norm, want.norm, square_sum_error(n) * want.norm);
    EXPECT_EQ(got.finite, 1.0);
    EXPECT_EQ(got.first_bad, -1);
  });
}

TEST(GlobalNorm, TakesGradientsIn16Bits) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    TensorList list("norm_half", dtype, test::kAwkwardCounts);
    list.fill();
    const Outcome want = run(global_norm_ref, list.tensors());
    const Outcome got = run(global_norm_cpu, list.tensors());
    const int64_t n = std::accumulate(test::kAwkwardCounts.begin(), test::kAwkwardCounts.end(), int64_t{0});
    EXPECT_NEAR(got.norm, want.norm, square_sum_error(n) * want.norm);
    EXPECT_EQ(got.finite, 1.0);
    list.grad(9).view().store(40002, std::numeric_limits<double>::infinity());
    EXPECT_EQ(run(global_norm_cpu, list.tensors()).first_bad, 9);
  }
}

TEST(GlobalNorm, IsExactForIntegers) {
  // Two tensors contain zeros and one number each, 3 and -4, so the norm must be exactly 5.
  TensorList list("norm_exact", DType::kF32, {70000, 5});
  list.grad(0).fill(0.0);
  list.grad(1).fill(0.0);
  list.grad(0).view().store(69999, 3.0);
  list.grad(1).view().store(4, -4.0);
  EXPECT_EQ(run(global_norm_cpu, list.tensors()).norm, 5.0);
}

TEST(GlobalNorm, LargeFiniteGradientsDoNotOverflow) {
  TensorList list("norm_large", DType::kF32, {4});
  list.grad(0).fill(1e30);
  const Outcome got = run(global_norm_cpu, list.tensors());
  EXPECT_NEAR(got.norm, 2e30, 1e23);
  EXPECT_EQ(got.finite, 1.0);
}

TEST(GlobalNorm, NamesTheFirstTensorThatIsNotFinite) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity()}) {
    for (const auto kernel : {global_norm_ref, global_norm_cpu}) {
      TensorList list("norm_bad", DType::kF32, test::kAwkwardCounts);
      list.fill();
      list.grad(9).view().store(40002, bad);
      list.grad(7).view().store(19000, bad);
      const Outcome got = run(kernel, list.tensors());
      EXPECT_FALSE(std::isfinite(got.norm));
      EXPECT_EQ(got.finite, 0.0);
      EXPECT_EQ(got.first_bad, 7);
    }
  }
}

TEST(GlobalNorm, ABadLossCountsToo) {
  const float loss = std::numeric_limits<float>::quiet_NaN();
  for (const auto kernel : {global_norm_ref, global_norm_cpu}) {
    TensorList list("norm_loss", DType::kF32, {10});
    list.fill();
    const Outcome got = run(kernel, list.tensors(), {&loss, DType::kF32});
    EXPECT_TRUE(std::isfinite(got.norm));
    EXPECT_EQ(got.finite, 0.0);
    EXPECT_EQ(got.first_bad, -1);
  }
}

TEST(GlobalNorm, AnEmptyListHasNormZero) {
  const Outcome got = run(global_norm_cpu, {});
  EXPECT_EQ(got.norm, 0.0);
  EXPECT_EQ(got.finite, 1.0);
}

TEST(GlobalNorm, SameBitsForAnyNumberOfThreads) {
  const int before = num_threads();
  TensorList list("norm_threads", DType::kF32, {100003, 17, 300000, 768, 768});
  list.fill();
  set_num_threads(1);
  const double one = run(global_norm_cpu, list.tensors()).norm;
  for (const int threads : {2, 3, 8}) {
    set_num_threads(threads);
    EXPECT_EQ(run(global_norm_cpu, list.tensors()).norm, one) << threads;
  }
  set_num_threads(before);
}

TEST(ClipCoefficient, FollowsPyTorch) {
  const auto check = [](const auto& clip_coefficient) {
    const auto coefficient = [&](double norm, double max_norm) {
      double value = -1.0;
      clip_coefficient(
          {.norm = {&norm, DType::kF64}, .coefficient = {&value, DType::kF64}, .max_norm = max_norm});
      return value;
    };
    EXPECT_EQ(coefficient(4.0, 1.0), 1.0 / (4.0 + 1e-6));
    EXPECT_EQ(coefficient(0.5, 1.0), 1.0);
    EXPECT_EQ(coefficient(0.0, 1.0), 1.0);
    EXPECT_EQ(coefficient(1e9, 0.0), 1.0);
    EXPECT_EQ(coefficient(std::numeric_limits<double>::infinity(), 1.0), 0.0);
    EXPECT_TRUE(std::isnan(coefficient(std::numeric_limits<double>::quiet_NaN(), 1.0)));
  };
  check(clip_coefficient_ref);
  test::FastRows(clip_coefficient_ref).for_each(DType::kF64, check);
}

TEST(TensorScan, FillWritesEveryTypeAndNothingElse) {
  for (const DType dtype :
       {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI64, DType::kI32, DType::kU8}) {
    for (const int64_t count : {int64_t{1}, int64_t{1023}, int64_t{70001}}) {
      for (const double value : {0.0, 3.0}) {
        GuardedBuffer want("fill/want", dtype, count);
        fill_ref({.x = want.view(), .count = count, .value = value});
        // The kernel catalog lists only floating-point types for `fill`, but the implementations must fill tensors of other types as well.
        test::FastRows(fill_ref).for_each(DType::kF32, [&](const auto& fill) {
          GuardedBuffer got("fill/got", dtype, count);
          fill({.x = got.view(), .count = count, .value = value});
          const auto result = compare(got, want, {.zeros = test::Zeros::kExpected});
          EXPECT_TRUE(result.ok()) << dtype_name(dtype) << " " << result;
        });
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll
