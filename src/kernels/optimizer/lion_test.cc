#include "kernels/optimizer/lion.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "device/cpu/parallel.h"
#include "kernels/optimizer/optimizer_fixture.h"
#include "plimsoll/error.h"
#include "tests/support/simd_targets.h"

namespace plimsoll {
namespace {

using test::compare;
using test::GuardedBuffer;
using test::TensorList;

struct LionCase {
  double lr, beta1, beta2, weight_decay, max_norm;
  double params[4][6];
  double m[6];
};
#include "kernels/optimizer/fixtures/lion_values.inc"

// The scalars of a step, as the executor keeps them.
struct Scalars {
  double lr = 1e-3;
  float clip = 1.0f;
  float finite = 1.0f;
  LionArgs args(std::span<const OptimizerTensor> tensors, double weight_decay) {
    return {.tensors = tensors,
            .learning_rate = {&lr, DType::kF64},
            .clip_coefficient = {&clip, DType::kF32},
            .finite = {&finite, DType::kF32},
            .beta2 = 0.95,
            .weight_decay = weight_decay};
  }
};

void check_one_step(double lr, double weight_decay, float clip) {
  TensorList start("lion/start", DType::kF32, test::kAwkwardCounts);
  start.fill();
  TensorList want("lion/want", DType::kF64, test::kAwkwardCounts),
      got("lion/got", DType::kF32, test::kAwkwardCounts);
  want.copy_from(start);
  got.copy_from(start);
  Scalars scalars{.lr = lr, .clip = clip};
  lion_ref(scalars.args(want.tensors(), weight_decay));
  lion_cpu(scalars.args(got.tensors(), weight_decay));
  const LionCoefficients k = lion_coefficients(scalars.args(want.tensors(), weight_decay));
  for (size_t i = 0; i < start.size(); ++i) {
    if (start.param(i).count() == 0) continue;
    std::vector<double> param_limits, m_limits;
    for (int64_t j = 0; j < start.param(i).count(); ++j) {
      const LionErrorBound bound =
          lion_error_bound(k, start.param(i).load(j), start.m(i).load(j), start.grad(i).load(j));
      param_limits.push_back(bound.param);
      m_limits.push_back(bound.m);
    }
    const auto param = compare(got.param(i), want.param(i), {.per_element = param_limits});
    EXPECT_TRUE(param.ok()) << "tensor " << i << " param " << param;
    const auto m = compare(got.m(i), want.m(i), {.per_element = m_limits});
    EXPECT_TRUE(m.ok()) << "tensor " << i << " m " << m;
  }
}

TEST(Lion, OneStepMatchesTheReferenceOnEveryInstructionSet) {
  test::for_each_simd_target([] {
    check_one_step(1e-3, 0.0, 1.0f);
    check_one_step(5e-5, 0.01, 0.37f);
    check_one_step(1e-2, 0.5, 1.0f);
  });
}

// Fifty steps of one fixture. limit(step) is the largest difference from the fixture's weights.
template <typename Limit>
void check_fixture(const LionCase& c, DType dtype, void (*kernel)(const LionArgs&), Limit&& limit) {
  TensorList list("lion_fixture", dtype, {6});
  test::run_fixture(
      list, c.lr, c.max_norm,
      [&](test::FixtureScalars& scalars) {
        kernel({.tensors = list.tensors(),
                .learning_rate = {&scalars.lr, DType::kF64},
                .clip_coefficient = {&scalars.clip, DType::kF64},
                .beta1 = c.beta1,
                .beta2 = c.beta2,
                .weight_decay = c.weight_decay});
      },
      [&](size_t index, int step) {
        const auto result = compare(list.param(0), c.params[index], {.absolute = limit(step)});
        EXPECT_TRUE(result.ok()) << "lr " << c.lr << " step " << step << " " << result;
      });
  const auto m = compare(list.m(0), c.m, {.absolute = limit(50) / c.lr});
  EXPECT_TRUE(m.ok()) << m;
}

TEST(Lion, TheReferenceMatchesTheAlgorithmOverFiftySteps) {
  ASSERT_EQ(std::size(kLionCases), 3u);
  // Double against double: some ten roundings of 1e-16 a step; no c of the fixture is within that of 0.
  for (const LionCase& c : kLionCases)
    check_fixture(c, DType::kF64, lion_ref, [](int s) { return 1e-15 * s; });
}

TEST(Lion, Fp32StaysNearTheAlgorithmOverFiftySteps) {
  // Each step rounds a weight below 1 once (2^-25) and adds a step of lr (1 + weight_decay), rounded thrice;
  // m's roundings do not reach the weights unless they turn a sign, which none of the fixtures' does.
  for (const LionCase& c : kLionCases) {
    test::for_each_simd_target([&] {
      check_fixture(c, DType::kF32, lion_cpu, [&](int s) { return s * (0x1p-25 + 8.0 * 0x1p-24 * c.lr); });
    });
  }
}

TEST(Lion, NothingChangesWhenTheFlagSaysNotFinite) {
  for (const auto kernel : {lion_ref, lion_cpu}) {
    TensorList list("lion_flag", DType::kF32, {100, 5000}), before("lion_flag", DType::kF32, {100, 5000});
    list.fill();
    list.grad(1).view().store(3, std::numeric_limits<double>::infinity());
    before.copy_from(list);
    Scalars scalars{.finite = 0.0f};
    kernel(scalars.args(list.tensors(), 0.1));
    for (size_t i = 0; i < list.size(); ++i) {
      EXPECT_TRUE(test::compare_bits(list.param(i), before.param(i)).ok());
      EXPECT_TRUE(test::compare_bits(list.m(i), before.m(i)).ok());
    }
  }
}

TEST(Lion, NoGradientAndNoMomentumIsNoStepAndNaNStays) {
  for (const auto kernel : {lion_ref, lion_cpu}) {
    TensorList list("lion_zero", DType::kF32, {40});
    list.fill();
    list.m(0).fill(0.0);
    list.grad(0).fill(0.0);
    list.grad(0).view().store(7, std::nan(""));
    const std::vector<double> before = list.param(0).to_doubles();
    Scalars scalars;
    kernel(scalars.args(list.tensors(), 0.0));
    for (int64_t i = 0; i < 40; ++i) {
      if (i == 7) {
        EXPECT_TRUE(std::isnan(list.param(0).load(i)));
      } else {
        EXPECT_EQ(list.param(0).load(i), before[static_cast<size_t>(i)]);
      }
    }
  }
}

TEST(Lion, SameBitsForAnyNumberOfThreadsAndAnyGrouping) {
  const int before = num_threads();
  TensorList start("lion_threads", DType::kF32, test::kAwkwardCounts);
  start.fill();
  TensorList one("one", DType::kF32, test::kAwkwardCounts), many("many", DType::kF32, test::kAwkwardCounts);
  one.copy_from(start);
  many.copy_from(start);
  Scalars scalars;
  set_num_threads(1);
  // Tensor by tensor: the split into calls must not matter either.
  for (size_t i = 0; i < one.size(); ++i) lion_cpu(scalars.args(one.tensors().subspan(i, 1), 0.01));
  set_num_threads(3);
  lion_cpu(scalars.args(many.tensors(), 0.01));
  set_num_threads(before);
  for (size_t i = 0; i < one.size(); ++i) {
    if (one.param(i).count() == 0) continue;
    EXPECT_TRUE(test::compare_bits(many.param(i), one.param(i)).ok()) << i;
    EXPECT_TRUE(test::compare_bits(many.m(i), one.m(i)).ok()) << i;
  }
}

TEST(Lion, KeepsA16BitCopyOfTheParameters) {
  for (const auto kernel : {lion_ref, lion_cpu}) {
    TensorList list("lion_low", DType::kF32, {5000});
    list.fill();
    GuardedBuffer low("lion_low/bf16", DType::kBF16, 5000), want("lion_low/want", DType::kBF16, 5000);
    list.mutable_tensors()[0].low = low.view();
    Scalars scalars;
    kernel(scalars.args(list.tensors(), 0.1));
    test::assign_upper_halves(want, list.param(0));
    EXPECT_TRUE(test::compare_bits(low, want).ok());
    EXPECT_EQ(low.broken_guard(), GuardedBuffer::kIntact);
  }
}

TEST(Lion, BetasOutsideTheirRangeAndWrongTypesAreOurBugs) {
  TensorList list("lion_bad", DType::kF64, {3});
  list.fill();
  Scalars scalars;
  LionArgs args = scalars.args(list.tensors(), 0.0);
  EXPECT_THROW(lion_cpu(args), Error);
  args.beta1 = 1.0;
  EXPECT_THROW(lion_ref(args), Error);
}

}  // namespace
}  // namespace plimsoll
