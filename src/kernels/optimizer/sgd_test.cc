#include "kernels/optimizer/sgd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "device/cpu/parallel.h"
#include "kernels/optimizer/global_norm.h"
#include "kernels/optimizer/optimizer_test_tensors.h"
#include "plimsoll/error.h"
#include "tests/support/compare.h"
#include "tests/support/simd_targets.h"

namespace plimsoll {
namespace {

using test::compare;
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

// One update from the same starting values, held to the bound of the contract.
void check_one_step(const Options& options, int64_t step) {
  const double lr = 0.03;
  const float clip = 0.6f;
  TensorList start("sgd/start", DType::kF32, test::kAwkwardCounts);
  start.fill();
  TensorList want("sgd/want", DType::kF64, test::kAwkwardCounts),
      got("sgd/got", DType::kF32, test::kAwkwardCounts);
  want.copy_from(start);
  got.copy_from(start);
  for (size_t i = 0; i < got.size(); ++i) {
    // The first step reads no buffer, and without momentum there is none.
    if (step == 1) got.m(i).poison();
    if (options.momentum == 0.0) got.mutable_tensors()[i].m = {};
  }
  sgd_ref(make_args(want.tensors(), lr, step, clip, options));
  sgd_cpu(make_args(got.tensors(), lr, step, clip, options));
  for (size_t i = 0; i < start.size(); ++i) {
    const int64_t count = start.param(i).count();
    if (count == 0) continue;
    std::vector<double> param_limits, m_limits;
    for (int64_t j = 0; j < count; ++j) {
      const SgdErrorBound bound =
          sgd_error_bound(lr, options.momentum, options.weight_decay, std::fabs(start.param(i).load(j)),
                          std::fabs(start.m(i).load(j)), std::fabs(start.grad(i).load(j)));
      param_limits.push_back(bound.param);
      m_limits.push_back(bound.m);
    }
    const auto param = compare(got.param(i), want.param(i), {.per_element = param_limits});
    EXPECT_TRUE(param.ok()) << "tensor " << i << " param " << param;
    if (options.momentum == 0.0) continue;
    const auto m = compare(got.m(i), want.m(i), {.per_element = m_limits});
    EXPECT_TRUE(m.ok()) << "tensor " << i << " m " << m;
  }
}

TEST(Sgd, OneStepMatchesTheReferenceOnEveryInstructionSet) {
  test::for_each_simd_target([] {
    for (const Options& options : kOptions) {
      check_one_step(options, 1);
      check_one_step(options, 2);
    }
  });
}

template <typename Limit>
void check_fixture(const SgdCase& c, DType dtype, void (*kernel)(const SgdArgs&), Limit&& limit) {
  TensorList list("sgd_torch", dtype, {6});
  for (int i = 0; i < 6; ++i) list.param(0).view().store(i, (i - 2.5) / 4.0);
  constexpr int kSteps[] = {1, 2, 10, 50};
  size_t next = 0;
  for (int step = 1; step <= 50; ++step) {
    for (int i = 0; i < 6; ++i) list.grad(0).view().store(i, ((step * 7 + i * 13) % 17 - 8) / 8.0);
    double norm = 0.0, clip = 1.0, lr = c.lr * (1.0 - (step - 1) / 64.0);
    const int64_t t = step;
    global_norm_ref({.tensors = list.tensors(), .norm = {&norm, DType::kF64}});
    clip_coefficient_cpu(
        {.norm = {&norm, DType::kF64}, .coefficient = {&clip, DType::kF64}, .max_norm = c.max_norm});
    kernel({.tensors = list.tensors(),
            .learning_rate = {&lr, DType::kF64},
            .step = {&t, DType::kI64},
            .clip_coefficient = {&clip, DType::kF64},
            .momentum = c.momentum,
            .weight_decay = c.weight_decay,
            .nesterov = c.nesterov});
    if (step != kSteps[next]) continue;
    const auto result = compare(list.param(0), c.params[next++], {.absolute = limit(step)});
    EXPECT_TRUE(result.ok()) << "lr " << c.lr << " step " << step << " " << result;
  }
  EXPECT_EQ(next, std::size(kSteps));
  if (c.momentum == 0.0) return;
  const auto m = compare(list.m(0), c.m, {.absolute = limit(50) / c.lr});
  EXPECT_TRUE(m.ok()) << m;
}

TEST(Sgd, TheReferenceMatchesPyTorchOverFiftySteps) {
  ASSERT_EQ(std::size(kSgdCases), 5u);
  for (const SgdCase& c : kSgdCases) {
    check_fixture(c, DType::kF64, sgd_ref, [](int step) { return 1e-15 * step; });
  }
}

TEST(Sgd, Fp32StaysNearPyTorchOverFiftySteps) {
  // Each step rounds a weight below 2 once (2^-24) and moves it by lr times a buffer of at most 1 / (1 -
  // momentum) = 10, which carries 4 roundings a step for as long as it remembers (another factor 10).
  for (const SgdCase& c : kSgdCases) {
    test::for_each_simd_target([&] {
      check_fixture(c, DType::kF32, sgd_cpu, [&](int step) { return step * 0x1p-24 * (1.0 + 400.0 * c.lr); });
    });
  }
}

TEST(Sgd, NothingChangesWhenTheFlagSaysNotFinite) {
  const double lr = 0.1;
  const int64_t step = 2;
  const float clip = 1.0f, finite = 0.0f;
  for (const auto kernel : {sgd_ref, sgd_cpu}) {
    TensorList list("sgd_flag", DType::kF32, {100}), before("sgd_flag_before", DType::kF32, {100});
    list.fill();
    before.copy_from(list);
    SgdArgs args = make_args(list.tensors(), lr, step, clip, kOptions[3]);
    args.finite = {&finite, DType::kF32};
    kernel(args);
    EXPECT_TRUE(test::compare_bits(list.param(0), before.param(0)).ok());
    EXPECT_TRUE(test::compare_bits(list.m(0), before.m(0)).ok());
  }
}

TEST(Sgd, SameBitsForAnyNumberOfThreads) {
  const int before = num_threads();
  const double lr = 0.1;
  const int64_t step = 2;
  const float clip = 0.5f;
  TensorList start("sgd_threads", DType::kF32, test::kAwkwardCounts);
  start.fill();
  TensorList one("one", DType::kF32, test::kAwkwardCounts), many("many", DType::kF32, test::kAwkwardCounts);
  one.copy_from(start);
  many.copy_from(start);
  set_num_threads(1);
  sgd_cpu(make_args(one.tensors(), lr, step, clip, kOptions[4]));
  set_num_threads(3);
  sgd_cpu(make_args(many.tensors(), lr, step, clip, kOptions[4]));
  set_num_threads(before);
  for (size_t i = 0; i < one.size(); ++i) {
    if (one.param(i).count() == 0) continue;
    EXPECT_TRUE(test::compare_bits(many.param(i), one.param(i)).ok()) << i;
    EXPECT_TRUE(test::compare_bits(many.m(i), one.m(i)).ok()) << i;
  }
}

TEST(Sgd, KeepsA16BitCopyOfTheParameters) {
  for (const auto kernel : {sgd_ref, sgd_cpu}) {
    TensorList list("sgd_low", DType::kF32, {5000, 3});
    list.fill();
    test::GuardedBuffer first("sgd_low/bf16", DType::kBF16, 5000), second("sgd_low/f16", DType::kF16, 3);
    list.mutable_tensors()[0].low = first.view();
    list.mutable_tensors()[1].low = second.view();
    const double lr = 0.3;
    const int64_t step = 2;
    const float clip = 1.0f;
    kernel(make_args(list.tensors(), lr, step, clip, kOptions[3]));
    for (test::GuardedBuffer* low : {&first, &second}) {
      test::GuardedBuffer want("sgd_low/want", low->dtype(), low->count());
      want.assign(list.param(low == &first ? 0 : 1).to_doubles());
      EXPECT_TRUE(test::compare_bits(*low, want).ok()) << low->name();
      EXPECT_EQ(low->broken_guard(), test::GuardedBuffer::kIntact);
    }
  }
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
