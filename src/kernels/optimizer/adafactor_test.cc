#include "kernels/optimizer/adafactor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "device/cpu/parallel.h"
#include "kernels/optimizer/testing/adafactor_tensors.h"
#include "kernels/optimizer/testing/optimizer_fixture.h"
#include "kernels/optimizer/testing/update_cases.h"
#include "plimsoll/error.h"
#include "tests/support/kernel_rows.h"
#include "tests/support/simd_target_cases.h"

namespace plimsoll {
namespace {

using test::AdafactorList;
using test::compare;
using test::GuardedBuffer;

struct AdafactorCase {
  double lr, epsilon1, epsilon2, clip_threshold, decay_rate, beta1, weight_decay;
  bool scale_parameter, relative_step, warmup_init;
  double matrix[4][35];
  double vector[4][6];
  double row[5], column[7], v[6];
  double fp32_error[4];
};
#include "kernels/optimizer/fixtures/adafactor_values.inc"

// The scalar arguments of an update, such as the learning rate, and the scratch memory.
struct Call : test::Scalars {
  GuardedBuffer scratch;

  explicit Call(const AdafactorList& list) : scratch("scratch", DType::kU8, list.scratch_bytes()) {}
  AdafactorArgs args(const AdafactorList& list) {
    auto args = test::update_args<AdafactorArgs>(list.tensors(), views(), 0.0);
    args.scratch = scratch.view();
    return args;
  }
};

void check_one_step(const test::RowKernel<AdafactorArgs>& adafactor, int64_t step, double weight_decay,
                    std::optional<double> beta1, ScaleByParameter scale, double clip_threshold) {
  AdafactorList start("adafactor/start", DType::kF32, test::kAdafactorShapes),
      want("adafactor/want", DType::kF64, test::kAdafactorShapes),
      got("adafactor/got", DType::kF32, test::kAdafactorShapes);
  start.fill();
  want.copy_from(start);
  got.copy_from(start);
  Call call(got);
  call.step = step;
  call.clip = 0.7f;
  const auto with_options = [&](AdafactorArgs args) {
    args.weight_decay = weight_decay;
    args.beta1 = beta1;
    args.scale_by_parameter = scale;
    args.clip_threshold = clip_threshold;
    return args;
  };
  const AdafactorArgs reference = with_options(call.args(want));
  adafactor_ref(reference);
  adafactor(with_options(call.args(got)));
  EXPECT_EQ(call.scratch.broken_guard(), GuardedBuffer::kIntact);
  test::expect_adafactor_within(start, want, got, reference);
}

TEST(Adafactor, OneStepMatchesTheReferenceOnEveryInstructionSet) {
  test::FastRows(adafactor_ref).for_each(DType::kF32, AdafactorProblem{}, [](const auto& adafactor) {
    check_one_step(adafactor, 1, 0.0, std::nullopt, ScaleByParameter::kNo, 1.0);
    check_one_step(adafactor, 17, 0.1, std::nullopt, ScaleByParameter::kYes, 0.3);
    check_one_step(adafactor, 1000, 0.01, 0.9, ScaleByParameter::kNo, 1.0);
  });
}

// Runs the fifty steps of a case that was computed by transformers and compares the weights. limit(step, index) returns the largest allowed
// difference.
template <typename Limit>
void check_fixture(const AdafactorCase& c, DType dtype, void (*kernel)(const AdafactorArgs&), Limit&& limit) {
  AdafactorList list("adafactor_fixture", dtype, {{5, 7, true}, {1, 6, false}});
  for (size_t t = 0; t < 2; ++t) {
    for (int64_t i = 0; i < list.param(t).count(); ++i) {
      list.param(t).view().store(i, static_cast<double>((i * 5) % 11 - 5) / 4.0);
    }
    for (GuardedBuffer* state : {&list.row(t), &list.column(t), &list.m(t)}) state->fill(0.0);
  }
  Call call(list);
  size_t next = 0;
  for (int step = 1; step <= 50; ++step) {
    for (size_t t = 0; t < 2; ++t) {
      for (int i = 0; i < list.grad(t).count(); ++i) {
        const bool no_gradient = t == 0 && i / 7 == 2;
        list.grad(t).view().store(i, no_gradient ? 0.0 : test::fixture_gradient(step, i));
      }
    }
    call.step = step;
    call.lr = c.lr * (1.0 - (step - 1) / 64.0);
    if (c.relative_step) {
      call.lr = std::min(c.warmup_init ? 1e-6 * step : 1e-2, 1.0 / std::sqrt(static_cast<double>(step)));
    }
    AdafactorArgs args = call.args(list);
    args.epsilon1 = c.epsilon1;
    args.epsilon2 = c.epsilon2;
    args.clip_threshold = c.clip_threshold;
    args.decay_rate = c.decay_rate;
    if (c.beta1 >= 0.0) args.beta1 = c.beta1;
    args.weight_decay = c.weight_decay;
    args.scale_by_parameter = c.scale_parameter ? ScaleByParameter::kYes : ScaleByParameter::kNo;
    kernel(args);
    if (next == 4 || step != test::kFixtureSeen[next]) continue;
    const auto matrix = compare(list.param(0), c.matrix[next], {.absolute = limit(next)});
    EXPECT_TRUE(matrix.ok()) << "step " << step << " matrix " << matrix;
    const auto vector = compare(list.param(1), c.vector[next], {.absolute = limit(next)});
    EXPECT_TRUE(vector.ok()) << "step " << step << " vector " << vector;
    ++next;
  }
  EXPECT_EQ(next, 4u);
  // The states are about 0.3. They contain the rounding errors of about 60 operations, because older errors have decayed.
  const double state_limit = dtype == DType::kF64 ? 1e-14 : 64 * 0x1p-24;
  const auto row = compare(list.row(0), c.row, {.absolute = state_limit});
  EXPECT_TRUE(row.ok()) << row;
  const auto column = compare(list.column(0), c.column, {.absolute = state_limit});
  EXPECT_TRUE(column.ok()) << column;
  const auto v = compare(list.column(1), c.v, {.absolute = state_limit});
  EXPECT_TRUE(v.ok()) << v;
}

TEST(Adafactor, TheReferenceMatchesTransformersOverFiftySteps) {
  ASSERT_EQ(std::size(kAdafactorCases), 6u);
  // The reference and transformers both compute in double, with about ten rounding errors of 1e-16 per step.
  for (const AdafactorCase& c : kAdafactorCases) {
    check_fixture(c, DType::kF64, adafactor_ref,
                  [](size_t index) { return 2e-15 * test::kFixtureSeen[index]; });
  }
}

TEST(Adafactor, Fp32IsAsNearAsTransformersInFp32OverFiftySteps) {
  // fp32_error is the distance between an fp32 run and an fp64 run of transformers. The kernel adds in another order than transformers, so
  // it is allowed three times this distance.
  for (const AdafactorCase& c : kAdafactorCases) {
    test::for_each_simd_target([&] {
      check_fixture(c, DType::kF32, adafactor_cpu, [&](size_t index) { return 3.0 * c.fp32_error[index]; });
    });
  }
}

TEST(Adafactor, NothingChangesWhenTheFlagSaysNotFinite) {
  for (const auto kernel : {adafactor_ref, adafactor_cpu}) {
    AdafactorList list("adafactor_flag", DType::kF32, {{20, 30, true}, {1, 100, false}}),
        before("adafactor_flag", DType::kF32, {{20, 30, true}, {1, 100, false}});
    list.fill();
    list.grad(1).view().store(3, std::numeric_limits<double>::infinity());
    before.copy_from(list);
    Call call(list);
    call.finite = 0.0f;
    kernel(call.args(list));
    for (size_t i = 0; i < list.size(); ++i) {
      EXPECT_TRUE(test::compare_bits(list.param(i), before.param(i)).ok());
      EXPECT_TRUE(test::compare_bits(list.row(i), before.row(i)).ok());
      EXPECT_TRUE(test::compare_bits(list.column(i), before.column(i)).ok());
    }
  }
}

TEST(Adafactor, SameBitsForAnyNumberOfThreadsAndAnyGrouping) {
  const int before = num_threads();
  AdafactorList start("adafactor_threads", DType::kF32, test::kAdafactorShapes),
      one("one", DType::kF32, test::kAdafactorShapes), many("many", DType::kF32, test::kAdafactorShapes);
  start.fill();
  one.copy_from(start);
  many.copy_from(start);
  Call call(start);
  set_num_threads(1);
  // Updates each tensor in a separate call, because the division into calls must not change the result.
  for (size_t i = 0; i < one.size(); ++i) {
    AdafactorArgs args = call.args(one);
    args.tensors = args.tensors.subspan(i, 1);
    adafactor_cpu(args);
  }
  set_num_threads(3);
  adafactor_cpu(call.args(many));
  set_num_threads(before);
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_TRUE(test::compare_bits(many.param(i), one.param(i)).ok()) << i;
    EXPECT_TRUE(test::compare_bits(many.column(i), one.column(i)).ok()) << i;
    if (!one.shape(i).is_matrix) continue;
    EXPECT_TRUE(test::compare_bits(many.row(i), one.row(i)).ok()) << i;
  }
}

TEST(Adafactor, WeightsInBf16AloneTakeTheReferencesNoise) {
  test::for_each_simd_target([] {
    for (const ScaleByParameter scale : {ScaleByParameter::kNo, ScaleByParameter::kYes}) {
      AdafactorList want("adafactor_bf16", DType::kF32, test::kAdafactorShapes),
          got("adafactor_bf16", DType::kF32, test::kAdafactorShapes);
      want.fill();
      got.copy_from(want);
      test::NarrowParameters before(want), wanted(want), weights(want);
      wanted.give_to(want);
      weights.give_to(got);
      for (AdafactorList* list : {&want, &got}) list->mutable_tensors()[7].first = 129 * 1027;
      Call call(got);
      call.lr = 0.01;
      call.step = 3;
      const auto with_options = [&](AdafactorArgs args) {
        args.scale_by_parameter = scale;
        args.noise_site = 5;
        return args;
      };
      adafactor_ref(with_options(call.args(want)));
      adafactor_cpu(with_options(call.args(got)));
      test::expect_the_same_noise(before, weights, wanted);
    }
  });
}

TEST(Adafactor, KeepsA16BitCopyOfTheParameters) {
  for (const auto kernel : {adafactor_ref, adafactor_cpu}) {
    AdafactorList list("adafactor_low", DType::kF32, {{130, 1030, true}});
    list.fill();
    const int64_t count = list.param(0).count();
    GuardedBuffer low("adafactor_low/bf16", DType::kBF16, count);
    list.mutable_tensors()[0].low = low.view();
    Call call(list);
    kernel(call.args(list));
    EXPECT_TRUE(test::compare_bits(low, test::copy_of_parameters(list.param(0), DType::kBF16)).ok());
    EXPECT_EQ(low.broken_guard(), GuardedBuffer::kIntact);
  }
}

TEST(Adafactor, StepZeroAndWrongTypesAreOurBugs) {
  AdafactorList list("adafactor_bad", DType::kF64, {{3, 4, true}});
  list.fill();
  Call call(list);
  EXPECT_THROW(adafactor_cpu(call.args(list)), Error);
  call.step = 0;
  EXPECT_THROW(adafactor_ref(call.args(list)), Error);
}

}  // namespace
}  // namespace plimsoll
