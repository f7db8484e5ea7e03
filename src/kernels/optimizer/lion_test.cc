#include "kernels/optimizer/lion.h"

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

struct LionCase {
  double lr, beta1, beta2, weight_decay, max_norm;
  double params[4][6];
  double m[6];
};
#include "kernels/optimizer/fixtures/lion_values.inc"

LionArgs make_args(std::span<const OptimizerTensor> tensors, const Scalars& scalars, double weight_decay) {
  auto args = test::update_args<LionArgs>(tensors, scalars.views(), weight_decay);
  args.beta2 = 0.95;
  return args;
}
const TestedUpdate kUpdate{
    .name = "lion",
    .ref = [](auto tensors, auto& scalars, double decay) { lion_ref(make_args(tensors, scalars, decay)); },
    .cpu = [](auto tensors, auto& scalars, double decay) { lion_cpu(make_args(tensors, scalars, decay)); },
    .states = {&TensorList::m}};

void check_one_step(const TestedUpdate& update, double lr, double weight_decay, float clip) {
  const Scalars scalars{.lr = lr, .clip = clip};
  test::expect_one_step_within(update, scalars, weight_decay, make_args, test::expect_lion_within);
}

TEST(Lion, OneStepMatchesTheReferenceOnEveryInstructionSet) {
  test::FastRows(lion_ref).for_each(DType::kF32, [](const auto& lion) {
    TestedUpdate update = kUpdate;
    update.cpu = [&](auto tensors, auto& scalars, double decay) { lion(make_args(tensors, scalars, decay)); };
    check_one_step(update, 1e-3, 0.0, 1.0f);
    check_one_step(update, 5e-5, 0.01, 0.37f);
    check_one_step(update, 1e-2, 0.5, 1.0f);
  });
}

template <typename Limit>
void check_fixture(const LionCase& c, DType dtype, void (*kernel)(const LionArgs&), Limit&& limit) {
  TensorList list("lion_fixture", dtype, {6});
  list.clear_states();
  test::expect_fixture(
      list, c, c.m,
      [&](test::FixtureScalars& scalars) {
        kernel({.tensors = list.tensors(),
                .learning_rate = {&scalars.lr, DType::kF64},
                .clip_coefficient = {&scalars.clip, DType::kF64},
                .beta1 = c.beta1,
                .beta2 = c.beta2,
                .weight_decay = c.weight_decay});
      },
      limit);
}

TEST(Lion, TheReferenceMatchesTheAlgorithmOverFiftySteps) {
  ASSERT_EQ(std::size(kLionCases), 3u);
  // The reference and the authors' algorithm are both computed in double, with about ten rounding errors of 1e-16 per step. In these cases
  // c (lion.h) is never so close to 0 that rounding could change its sign.
  for (const LionCase& c : kLionCases)
    check_fixture(c, DType::kF64, lion_ref, [](int s) { return 1e-15 * s; });
}

TEST(Lion, Fp32StaysNearTheAlgorithmOverFiftySteps) {
  // Each step rounds a weight below 1 once (2^-25) and adds a step of lr (1 + weight_decay), which is rounded three times. Rounding m would
  // affect the weights only if it changed the sign of c (lion.h), which does not happen in these cases.
  for (const LionCase& c : kLionCases) {
    test::for_each_simd_target([&] {
      check_fixture(c, DType::kF32, lion_cpu, [&](int s) { return s * (0x1p-25 + 8.0 * 0x1p-24 * c.lr); });
    });
  }
}

TEST(Lion, NothingChangesWhenTheFlagSaysNotFinite) {
  test::expect_no_change_when_not_finite(kUpdate);
}

TEST(Lion, NoGradientAndNoMomentumIsNoStepAndNaNStays) {
  test::expect_no_step_without_gradient(kUpdate);
}

TEST(Lion, SameBitsForAnyNumberOfThreadsAndAnyGrouping) {
  test::expect_same_bits_for_any_threads_and_grouping(kUpdate);
}

TEST(Lion, WeightsInBf16AloneTakeTheReferencesNoise) {
  test::for_each_simd_target([] { test::expect_weights_in_bf16_alone(kUpdate); });
  test::expect_bf16_follows_fp32_on_average(kUpdate);
}

TEST(Lion, KeepsA16BitCopyOfTheParameters) {
  test::expect_16_bit_copies(kUpdate);
}

TEST(Lion, BetasOutsideTheirRangeAndWrongTypesAreOurBugs) {
  TensorList list("lion_bad", DType::kF64, {3});
  list.fill();
  const Scalars scalars;
  LionArgs args = make_args(list.tensors(), scalars, 0.0);
  EXPECT_THROW(lion_cpu(args), Error);
  args.beta1 = 1.0;
  EXPECT_THROW(lion_ref(args), Error);
}

}  // namespace
}  // namespace plimsoll
