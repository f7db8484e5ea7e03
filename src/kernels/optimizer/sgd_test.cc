#include "kernels/optimizer/sgd.h"

#include <gtest/gtest.h>

#include <span>

#include "kernels/optimizer/global_norm.h"
#include "kernels/optimizer/testing/optimizer_fixture.h"
#include "kernels/optimizer/testing/update_cases.h"
#include "plimsoll/error.h"
#include "tests/support/compare.h"
#include "tests/support/kernel_rows.h"
#include "tests/support/simd_target_cases.h"

namespace plimsoll {
namespace {

using test::TensorList;

struct SgdCase {
  double lr, momentum;
  Nesterov nesterov;
  double weight_decay, max_norm;
  double params[4][6];
  double m[6];
};
#include "kernels/optimizer/fixtures/sgd_values.inc"

struct Options {
  double momentum, weight_decay;
  Nesterov nesterov;
};
constexpr Options kOptions[] = {{0.0, 0.0, Nesterov::kOff},
                                {0.0, 0.1, Nesterov::kOff},
                                {0.9, 0.0, Nesterov::kOff},
                                {0.9, 0.01, Nesterov::kOff},
                                {0.8, 0.01, Nesterov::kOn}};

SgdArgs make_args(std::span<const OptimizerTensor> tensors, const double& lr, const int64_t& step,
                  const float& clip, const Options& options) {
  return {.tensors = tensors,
          .learning_rate = {&lr, DType::kF64},
          .step = {&step, DType::kI64},
          .clip_coefficient = {&clip, DType::kF32},
          .momentum = options.momentum,
          .weight_decay = options.weight_decay,
          .nesterov = options.nesterov};
}

// Updates the tensors with kKernel and the momentum options kOptions[kOption].
template <void (*kKernel)(const SgdArgs&), size_t kOption>
void update(std::span<const OptimizerTensor> tensors, const test::Scalars& scalars, double weight_decay) {
  auto args = test::update_args<SgdArgs>(tensors, scalars.views(), weight_decay);
  args.momentum = kOptions[kOption].momentum;
  args.nesterov = kOptions[kOption].nesterov;
  kKernel(args);
}
const test::TestedUpdate kWithMomentum{
    .name = "sgd", .ref = update<sgd_ref, 3>, .cpu = update<sgd_cpu, 3>, .states = {&TensorList::m}};
const test::TestedUpdate kWithNesterov{
    .name = "sgd", .ref = update<sgd_ref, 4>, .cpu = update<sgd_cpu, 4>, .states = {&TensorList::m}};

// Compares one update by a kernel with the reference, from the same starting values, within the error bound that sgd.h states.
void check_one_step(const test::RowKernel<SgdArgs>& sgd, const Options& options, int64_t step) {
  const double lr = 0.03;
  const float clip = 0.6f;
  TensorList start("sgd/start", DType::kF32, test::kAwkwardCounts);
  start.fill();
  TensorList want("sgd/want", DType::kF64, test::kAwkwardCounts),
      got("sgd/got", DType::kF32, test::kAwkwardCounts);
  want.copy_from(start);
  got.copy_from(start);
  for (size_t i = 0; i < got.size(); ++i) {
    // Sets the momentum to NaN in the first step, which must not read it. Without momentum, the tensors have no such state.
    if (step == 1) got.m(i).poison();
    if (options.momentum == 0.0) got.mutable_tensors()[i].m = {};
  }
  sgd_ref(make_args(want.tensors(), lr, step, clip, options));
  sgd(make_args(got.tensors(), lr, step, clip, options));
  test::expect_sgd_within(start, want, got, make_args(want.tensors(), lr, step, clip, options));
}

TEST(Sgd, OneStepMatchesTheReferenceOnEveryInstructionSet) {
  test::FastRows(sgd_ref).for_each(DType::kF32, [](const auto& sgd) {
    for (const Options& options : kOptions) {
      check_one_step(sgd, options, 1);
      check_one_step(sgd, options, 2);
    }
  });
}

template <typename Limit>
void check_fixture(const SgdCase& c, DType dtype, void (*kernel)(const SgdArgs&), Limit&& limit) {
  // The initial momentum consists of NaN, because the first step must not read it.
  TensorList list("sgd_torch", dtype, {6});
  const auto state = c.momentum == 0.0 ? std::span<const double>{} : std::span<const double>(c.m);
  test::expect_fixture(list, c, state,
                       [&](test::FixtureScalars& scalars) {
                         kernel({.tensors = list.tensors(),
                                 .learning_rate = {&scalars.lr, DType::kF64},
                                 .step = {&scalars.step, DType::kI64},
                                 .clip_coefficient = {&scalars.clip, DType::kF64},
                                 .momentum = c.momentum,
                                 .weight_decay = c.weight_decay,
                                 .nesterov = c.nesterov});
                       },
                       limit, {.coefficient = clip_coefficient_cpu});
}

TEST(Sgd, TheReferenceMatchesPyTorchOverFiftySteps) {
  ASSERT_EQ(std::size(kSgdCases), 5u);
  for (const SgdCase& c : kSgdCases) {
    check_fixture(c, DType::kF64, sgd_ref, [](int step) { return 1e-15 * step; });
  }
}

TEST(Sgd, Fp32StaysNearPyTorchOverFiftySteps) {
  // Each step rounds a weight below 2 once (2^-24) and moves it by lr times a momentum buffer of at most 1 / (1 - momentum) = 10. The
  // buffer has 4 roundings per step and remembers about 10 steps, which is another factor of 10.
  for (const SgdCase& c : kSgdCases) {
    test::for_each_simd_target([&] {
      check_fixture(c, DType::kF32, sgd_cpu, [&](int step) { return step * 0x1p-24 * (1.0 + 400.0 * c.lr); });
    });
  }
}

TEST(Sgd, NothingChangesWhenTheFlagSaysNotFinite) {
  test::expect_no_change_when_not_finite(kWithMomentum);
}

TEST(Sgd, SameBitsForAnyNumberOfThreadsAndAnyGrouping) {
  test::expect_same_bits_for_any_threads_and_grouping(kWithNesterov);
}

TEST(Sgd, WeightsInBf16AloneTakeTheReferencesNoise) {
  for (const auto& update : {kWithMomentum, kWithNesterov}) {
    test::for_each_simd_target([&] { test::expect_weights_in_bf16_alone(update); });
    test::expect_bf16_follows_fp32_on_average(update);
  }
}

TEST(Sgd, KeepsA16BitCopyOfTheParameters) {
  test::expect_16_bit_copies(kWithMomentum);
}

TEST(Sgd, NesterovWithoutMomentumIsOurBug) {
  const double lr = 0.1;
  const int64_t step = 1;
  const float clip = 1.0f;
  TensorList list("sgd_bad", DType::kF32, {3});
  list.fill();
  EXPECT_THROW(sgd_cpu(make_args(list.tensors(), lr, step, clip, {0.0, 0.0, Nesterov::kOn})), Error);
}

}  // namespace
}  // namespace plimsoll
