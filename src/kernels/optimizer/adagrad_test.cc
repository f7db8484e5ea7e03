#include "kernels/optimizer/adagrad.h"

#include <gtest/gtest.h>

#include <span>

#include "kernels/optimizer/testing/optimizer_fixture.h"
#include "kernels/optimizer/testing/update_cases.h"
#include "plimsoll/error.h"
#include "tests/support/kernel_rows.h"
#include "tests/support/simd_target_cases.h"

namespace plimsoll {
namespace {

using test::Scalars;
using test::TensorList;
using test::TestedUpdate;

struct AdagradCase {
  double lr, lr_decay, epsilon, weight_decay, max_norm;
  double params[4][6];
  double sum[6];
};
#include "kernels/optimizer/fixtures/adagrad_values.inc"

AdagradArgs make_args(std::span<const OptimizerTensor> tensors, const Scalars& scalars, double weight_decay) {
  auto args = test::update_args<AdagradArgs>(tensors, scalars.views(), weight_decay);
  args.lr_decay = 0.01;
  return args;
}
const TestedUpdate kUpdate{
    .name = "adagrad",
    .ref = [](auto tensors, auto& scalars, double decay) { adagrad_ref(make_args(tensors, scalars, decay)); },
    .cpu = [](auto tensors, auto& scalars, double decay) { adagrad_cpu(make_args(tensors, scalars, decay)); },
    .states = {&TensorList::m},
    .fill =
        [](TensorList& list) {
          list.fill();
          for (size_t i = 0; i < list.size(); ++i)
            list.m(i).fill_uniform(0.0, 2.0);  // m is a sum of squares, which is never negative
        }};

void check_one_step(const TestedUpdate& update, int64_t step, double lr, double weight_decay, float clip) {
  const Scalars scalars{.lr = lr, .step = step, .clip = clip};
  test::expect_one_step_within(update, scalars, weight_decay, make_args, test::expect_adagrad_within);
}

TEST(Adagrad, OneStepMatchesTheReferenceOnEveryInstructionSet) {
  test::FastRows(adagrad_ref).for_each(DType::kF32, [](const auto& adagrad) {
    TestedUpdate update = kUpdate;
    update.cpu = [&](auto tensors, auto& scalars, double decay) {
      adagrad(make_args(tensors, scalars, decay));
    };
    check_one_step(update, 1, 1e-3, 0.0, 1.0f);
    check_one_step(update, 17, 5e-5, 0.01, 0.37f);
    check_one_step(update, 100000, 1e-2, 0.5, 1.0f);
  });
}

template <typename Limit>
void check_fixture(const AdagradCase& c, DType dtype, void (*kernel)(const AdagradArgs&), Limit&& limit) {
  TensorList list("adagrad_fixture", dtype, {6});
  list.clear_states();
  test::expect_fixture(
      list, c, c.sum,
      [&](test::FixtureScalars& scalars) {
        kernel({.tensors = list.tensors(),
                .learning_rate = {&scalars.lr, DType::kF64},
                .step = {&scalars.step, DType::kI64},
                .clip_coefficient = {&scalars.clip, DType::kF64},
                .lr_decay = c.lr_decay,
                .epsilon = c.epsilon,
                .weight_decay = c.weight_decay});
      },
      limit);
}

TEST(Adagrad, TheReferenceMatchesPyTorchOverFiftySteps) {
  ASSERT_EQ(std::size(kAdagradCases), 3u);
  // The reference and PyTorch both compute in double, with about ten rounding errors of 1e-16 per step.
  for (const AdagradCase& c : kAdagradCases)
    check_fixture(c, DType::kF64, adagrad_ref, [](int s) { return 1e-15 * s; });
}

TEST(Adagrad, Fp32StaysNearPyTorchOverFiftySteps) {
  // Each step rounds a weight below 1 once (2^-25) and moves it by at most lr g / sqrt(sum) <= lr. This movement has the rounding errors of
  // g (4), of the sum (2 per earlier step, halved by the square root) and of 6 more operations, which makes 10 + s roundings of a number up
  // to lr at step s.
  for (const AdagradCase& c : kAdagradCases) {
    test::for_each_simd_target([&] {
      check_fixture(c, DType::kF32, adagrad_cpu,
                    [&](int s) { return s * (0x1p-25 + (10.0 + s) * 0x1p-24 * c.lr); });
    });
  }
}

TEST(Adagrad, NothingChangesWhenTheFlagSaysNotFinite) {
  test::expect_no_change_when_not_finite(kUpdate);
}

TEST(Adagrad, AGradientThatWasAlwaysZeroIsNoStepAndNaNStays) {
  test::expect_no_step_without_gradient(kUpdate);
}

TEST(Adagrad, SameBitsForAnyNumberOfThreadsAndAnyGrouping) {
  test::expect_same_bits_for_any_threads_and_grouping(kUpdate);
}

TEST(Adagrad, WeightsInBf16AloneTakeTheReferencesNoise) {
  test::for_each_simd_target([] { test::expect_weights_in_bf16_alone(kUpdate); });
  test::expect_bf16_follows_fp32_on_average(kUpdate);
}

TEST(Adagrad, KeepsA16BitCopyOfTheParameters) {
  test::expect_16_bit_copies(kUpdate);
}

TEST(Adagrad, StepZeroAndWrongTypesAreOurBugs) {
  TensorList list("adagrad_bad", DType::kF64, {3});
  list.fill();
  EXPECT_THROW(kUpdate.ref(list.tensors(), {.step = 0}, 0.0), Error);
  EXPECT_THROW(kUpdate.cpu(list.tensors(), {.step = 1}, 0.0), Error);
}

}  // namespace
}  // namespace plimsoll
