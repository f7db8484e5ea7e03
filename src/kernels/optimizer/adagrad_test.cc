#include "kernels/optimizer/adagrad.h"

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

struct AdagradCase {
  double lr, lr_decay, epsilon, weight_decay, max_norm;
  double params[4][6];
  double sum[6];
};
#include "kernels/optimizer/fixtures/adagrad_values.inc"

// The scalars of a step, as the executor keeps them.
struct Scalars {
  double lr = 1e-3;
  int64_t step = 1;
  float clip = 1.0f;
  float finite = 1.0f;
  AdagradArgs args(std::span<const OptimizerTensor> tensors, double weight_decay) {
    return {.tensors = tensors,
            .learning_rate = {&lr, DType::kF64},
            .step = {&step, DType::kI64},
            .clip_coefficient = {&clip, DType::kF32},
            .finite = {&finite, DType::kF32},
            .lr_decay = 0.01,
            .weight_decay = weight_decay};
  }
};

void check_one_step(int64_t step, double lr, double weight_decay, float clip) {
  TensorList start("adagrad/start", DType::kF32, test::kAwkwardCounts);
  start.fill();
  for (size_t i = 0; i < start.size(); ++i) start.m(i).fill_uniform(0.0, 2.0);  // a sum of squares
  TensorList want("adagrad/want", DType::kF64, test::kAwkwardCounts),
      got("adagrad/got", DType::kF32, test::kAwkwardCounts);
  want.copy_from(start);
  got.copy_from(start);
  Scalars scalars{.lr = lr, .step = step, .clip = clip};
  adagrad_ref(scalars.args(want.tensors(), weight_decay));
  adagrad_cpu(scalars.args(got.tensors(), weight_decay));
  const AdagradArgs args = scalars.args(want.tensors(), weight_decay);
  const double rate = adagrad_rate(args);
  for (size_t i = 0; i < start.size(); ++i) {
    if (start.param(i).count() == 0) continue;
    std::vector<double> param_limits, m_limits;
    for (int64_t j = 0; j < start.param(i).count(); ++j) {
      const double p = std::fabs(start.param(i).load(j));
      const double gradient = static_cast<double>(clip) * std::fabs(start.grad(i).load(j)) + weight_decay * p;
      const AdagradErrorBound bound = adagrad_error_bound(rate, args.epsilon, p, gradient, want.m(i).load(j));
      param_limits.push_back(bound.param);
      m_limits.push_back(bound.v);
    }
    const auto param = compare(got.param(i), want.param(i), {.per_element = param_limits});
    EXPECT_TRUE(param.ok()) << "tensor " << i << " param " << param;
    const auto m = compare(got.m(i), want.m(i), {.per_element = m_limits});
    EXPECT_TRUE(m.ok()) << "tensor " << i << " m " << m;
  }
}

TEST(Adagrad, OneStepMatchesTheReferenceOnEveryInstructionSet) {
  test::for_each_simd_target([] {
    check_one_step(1, 1e-3, 0.0, 1.0f);
    check_one_step(17, 5e-5, 0.01, 0.37f);
    check_one_step(100000, 1e-2, 0.5, 1.0f);
  });
}

// Fifty steps of one fixture. limit(step) is the largest difference from the PyTorch's weights.
template <typename Limit>
void check_fixture(const AdagradCase& c, DType dtype, void (*kernel)(const AdagradArgs&), Limit&& limit) {
  TensorList list("adagrad_fixture", dtype, {6});
  test::run_fixture(
      list, c.lr, c.max_norm,
      [&](test::FixtureScalars& scalars) {
        kernel({.tensors = list.tensors(),
                .learning_rate = {&scalars.lr, DType::kF64},
                .step = {&scalars.step, DType::kI64},
                .clip_coefficient = {&scalars.clip, DType::kF64},
                .lr_decay = c.lr_decay,
                .epsilon = c.epsilon,
                .weight_decay = c.weight_decay});
      },
      [&](size_t index, int step) {
        const auto result = compare(list.param(0), c.params[index], {.absolute = limit(step)});
        EXPECT_TRUE(result.ok()) << "lr " << c.lr << " step " << step << " " << result;
      });
  const auto m = compare(list.m(0), c.sum, {.absolute = limit(50) / c.lr});
  EXPECT_TRUE(m.ok()) << m;
}

TEST(Adagrad, TheReferenceMatchesPyTorchOverFiftySteps) {
  ASSERT_EQ(std::size(kAdagradCases), 3u);
  // Double against double: some ten roundings of 1e-16 a step.
  for (const AdagradCase& c : kAdagradCases)
    check_fixture(c, DType::kF64, adagrad_ref, [](int s) { return 1e-15 * s; });
}

TEST(Adagrad, Fp32StaysNearPyTorchOverFiftySteps) {
  // Each step rounds a weight below 1 once (2^-25) and moves it by at most lr g / sqrt(sum) <= lr, whose
  // error is that of g (4 roundings), of the sum (2 a step so far, halved by the root) and 6 of its own: with
  // s steps so far 10 + s roundings of lr.
  for (const AdagradCase& c : kAdagradCases) {
    test::for_each_simd_target([&] {
      check_fixture(c, DType::kF32, adagrad_cpu,
                    [&](int s) { return s * (0x1p-25 + (10.0 + s) * 0x1p-24 * c.lr); });
    });
  }
}

TEST(Adagrad, NothingChangesWhenTheFlagSaysNotFinite) {
  for (const auto kernel : {adagrad_ref, adagrad_cpu}) {
    TensorList list("adagrad_flag", DType::kF32, {100, 5000}),
        before("adagrad_flag", DType::kF32, {100, 5000});
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

TEST(Adagrad, AGradientThatWasAlwaysZeroIsNoStepAndNaNStays) {
  for (const auto kernel : {adagrad_ref, adagrad_cpu}) {
    TensorList list("adagrad_zero", DType::kF32, {40});
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

TEST(Adagrad, SameBitsForAnyNumberOfThreadsAndAnyGrouping) {
  const int before = num_threads();
  TensorList start("adagrad_threads", DType::kF32, test::kAwkwardCounts);
  start.fill();
  for (size_t i = 0; i < start.size(); ++i) start.m(i).fill_uniform(0.0, 2.0);
  TensorList one("one", DType::kF32, test::kAwkwardCounts), many("many", DType::kF32, test::kAwkwardCounts);
  one.copy_from(start);
  many.copy_from(start);
  Scalars scalars;
  set_num_threads(1);
  // Tensor by tensor: the split into calls must not matter either.
  for (size_t i = 0; i < one.size(); ++i) adagrad_cpu(scalars.args(one.tensors().subspan(i, 1), 0.01));
  set_num_threads(3);
  adagrad_cpu(scalars.args(many.tensors(), 0.01));
  set_num_threads(before);
  for (size_t i = 0; i < one.size(); ++i) {
    if (one.param(i).count() == 0) continue;
    EXPECT_TRUE(test::compare_bits(many.param(i), one.param(i)).ok()) << i;
    EXPECT_TRUE(test::compare_bits(many.m(i), one.m(i)).ok()) << i;
  }
}

TEST(Adagrad, KeepsA16BitCopyOfTheParameters) {
  for (const auto kernel : {adagrad_ref, adagrad_cpu}) {
    TensorList list("adagrad_low", DType::kF32, {5000});
    list.fill();
    list.m(0).fill_uniform(0.0, 2.0);
    GuardedBuffer low("adagrad_low/bf16", DType::kBF16, 5000), want("adagrad_low/want", DType::kBF16, 5000);
    list.mutable_tensors()[0].low = low.view();
    Scalars scalars;
    kernel(scalars.args(list.tensors(), 0.1));
    test::assign_upper_halves(want, list.param(0));
    EXPECT_TRUE(test::compare_bits(low, want).ok());
    EXPECT_EQ(low.broken_guard(), GuardedBuffer::kIntact);
  }
}

TEST(Adagrad, StepZeroAndWrongTypesAreOurBugs) {
  TensorList list("adagrad_bad", DType::kF64, {3});
  list.fill();
  Scalars scalars{.step = 0};
  EXPECT_THROW(adagrad_ref(scalars.args(list.tensors(), 0.0)), Error);
  scalars.step = 1;
  EXPECT_THROW(adagrad_cpu(scalars.args(list.tensors(), 0.0)), Error);
}

}  // namespace
}  // namespace plimsoll
