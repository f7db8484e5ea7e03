#include "kernels/optimizer/adamw.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "kernels/optimizer/global_norm.h"
#include "kernels/optimizer/testing/optimizer_fixture.h"
#include "kernels/optimizer/testing/update_cases.h"
#include "plimsoll/error.h"
#include "tests/support/compare.h"
#include "tests/support/kernel_rows.h"
#include "tests/support/simd_target_cases.h"

namespace plimsoll {
namespace {

using test::compare;
using test::count_neighbours;
using test::GuardedBuffer;
using test::NarrowMoments;
using test::Scalars;
using test::TensorList;
using test::TestedUpdate;

struct AdamwCase {
  double lr, beta1, beta2, epsilon, weight_decay, max_norm;
  double params[4][6];
  double m[6], v[6];
};
#include "kernels/optimizer/fixtures/adamw_values.inc"

AdamwArgs make_args(std::span<const OptimizerTensor> tensors, const Scalars& scalars, double weight_decay) {
  return test::update_args<AdamwArgs>(tensors, scalars.views(), weight_decay);
}
const TestedUpdate kUpdate{
    .name = "adamw",
    .ref = [](auto tensors, auto& scalars, double decay) { adamw_ref(make_args(tensors, scalars, decay)); },
    .cpu = [](auto tensors, auto& scalars, double decay) { adamw_cpu(make_args(tensors, scalars, decay)); },
    .states = {&TensorList::m, &TensorList::v}};

// Compares one update by a kernel with the reference, from the same starting values, within the error bound that adamw.h states.
void check_one_step(const test::RowKernel<AdamwArgs>& adamw, int64_t step, double lr, double weight_decay,
                    float clip) {
  TensorList start("adamw/start", DType::kF32, test::kAwkwardCounts);
  start.fill();
  TensorList want("adamw/want", DType::kF64, test::kAwkwardCounts),
      got("adamw/got", DType::kF32, test::kAwkwardCounts);
  want.copy_from(start);
  got.copy_from(start);
  const Scalars scalars{.lr = lr, .step = step, .clip = clip};
  kUpdate.ref(want.tensors(), scalars, weight_decay);
  adamw(make_args(got.tensors(), scalars, weight_decay));
  test::expect_adamw_within(start, want, got, make_args(want.tensors(), scalars, weight_decay));
}

TEST(Adamw, OneStepMatchesTheReferenceOnEveryInstructionSet) {
  test::FastRows(adamw_ref).for_each(DType::kF32, [](const auto& adamw) {
    check_one_step(adamw, 1, 1e-3, 0.0, 1.0f);
    check_one_step(adamw, 17, 5e-5, 0.01, 0.37f);
    check_one_step(adamw, 100000, 1e-2, 0.5, 1.0f);
  });
}

// Runs the fifty steps of a case that PyTorch computed and compares the weights. limit(step) returns the largest allowed difference.
template <typename Limit>
void check_fixture(const AdamwCase& c, DType dtype, void (*norm_kernel)(const GlobalNormArgs&),
                   void (*adamw_kernel)(const AdamwArgs&), Limit&& limit) {
  TensorList list("adamw_torch", dtype, {6});
  list.clear_states();
  test::run_fixture(
      list, c.lr, c.max_norm,
      [&](test::FixtureScalars& scalars) {
        adamw_kernel({.tensors = list.tensors(),
                      .learning_rate = {&scalars.lr, DType::kF64},
                      .step = {&scalars.step, DType::kI64},
                      .clip_coefficient = {&scalars.clip, DType::kF64},
                      .beta1 = c.beta1,
                      .beta2 = c.beta2,
                      .epsilon = c.epsilon,
                      .weight_decay = c.weight_decay});
      },
      [&](size_t index, int step) {
        const auto result = compare(list.param(0), c.params[index], {.absolute = limit(step)});
        EXPECT_TRUE(result.ok()) << "lr " << c.lr << " step " << step << " " << result;
      },
      {.norm = norm_kernel});
  const auto m = compare(list.m(0), c.m, {.absolute = limit(50) / c.lr});
  EXPECT_TRUE(m.ok()) << m;
  const auto v = compare(list.v(0), c.v, {.absolute = limit(50) / c.lr});
  EXPECT_TRUE(v.ok()) << v;
}

TEST(Adamw, TheReferenceMatchesPyTorchOverFiftySteps) {
  ASSERT_EQ(std::size(kAdamwCases), 4u);
  // The reference and PyTorch both compute in double, with about ten rounding errors of 1e-16 per step.
  for (const AdamwCase& c : kAdamwCases) {
    check_fixture(c, DType::kF64, global_norm_ref, adamw_ref, [](int step) { return 1e-15 * step; });
  }
}

TEST(Adamw, Fp32StaysNearPyTorchOverFiftySteps) {
  // Each step rounds a weight below 1 once (2^-25) and moves it by at most about lr times a factor of
  // order one. The relative error of that factor is that of m (at most 8 roundings per step of numbers up
  // to 1, with |m| / denominator of order 1) and of v (2 roundings per step): 16 * 2^-24 * lr per step
  // and per earlier step that beta1 remembers (1 / (1 - beta1) = 10).
  for (const AdamwCase& c : kAdamwCases) {
    test::for_each_simd_target([&] {
      check_fixture(c, DType::kF32, global_norm_cpu, adamw_cpu,
                    [&](int step) { return step * (0x1p-25 + 160.0 * 0x1p-24 * c.lr); });
    });
  }
}

TEST(Adamw, NothingChangesWhenTheFlagSaysNotFinite) {
  test::expect_no_change_when_not_finite(kUpdate);
}

TEST(Adamw, SameBitsForAnyNumberOfThreadsAndAnyGrouping) {
  test::expect_same_bits_for_any_threads_and_grouping(kUpdate);
}

TEST(Adamw, KeepsA16BitCopyOfTheParameters) {
  test::expect_16_bit_copies(kUpdate);
}

// Parameters that are split into two halves must get, bit for bit, the values of fp32 parameters. A third of the weights start halfway
// between two bf16 numbers, so that the rounding of ties is tested too.
TEST(Adamw, SplitParametersAreWholeOnesInTwoParts) {
  for (const auto kernel : {adamw_ref, adamw_cpu}) {
    TensorList whole("adamw_split", DType::kF32, test::kAwkwardCounts);
    whole.fill();
    for (size_t i = 0; i < whole.size(); ++i) {
      for (int64_t k = 0; k < whole.param(i).count(); k += 3) {
        const auto upper = static_cast<uint32_t>(0x3f80 + k % 128);
        whole.param(i).view().as<float>()[k] = std::bit_cast<float>(upper << 16 | 0x8000u);
      }
    }
    TensorList split("adamw_split", DType::kF32, test::kAwkwardCounts);
    split.copy_from(whole);
    std::vector<GuardedBuffer> high, rest;
    for (size_t i = 0; i < split.size(); ++i) {
      const int64_t count = split.param(i).count();
      high.emplace_back("adamw_split/high", DType::kBF16, count);
      rest.emplace_back("adamw_split/rest", DType::kU8, 2 * count);
      for (int64_t k = 0; k < count; ++k) {
        const SplitF32 parts = split_f32(split.param(i).view().as<float>()[k]);
        high[i].view().as<BF16>()[k].bits = parts.high;
        static_cast<uint16_t*>(rest[i].view().data)[k] = parts.low;
      }
    }
    for (size_t i = 0; i < split.size(); ++i) {
      split.mutable_tensors()[i].param = high[i].view();
      split.mutable_tensors()[i].remainder = rest[i].view();
    }
    for (int64_t step = 1; step <= 50; ++step) {
      const Scalars scalars{.lr = 0.01, .step = step};
      kernel(make_args(whole.tensors(), scalars, 0.01));
      kernel(make_args(split.tensors(), scalars, 0.01));
    }
    int64_t compared = 0;
    for (size_t i = 0; i < split.size(); ++i) {
      for (int64_t k = 0; k < split.param(i).count(); ++k) {
        const float value = join_f32(
            {high[i].view().as<BF16>()[k].bits, static_cast<const uint16_t*>(rest[i].view().data)[k]});
        ASSERT_EQ(std::bit_cast<uint32_t>(value),
                  std::bit_cast<uint32_t>(whole.param(i).view().as<float>()[k]))
            << i << " " << k;
        ++compared;
      }
      if (split.m(i).count() == 0) continue;
      EXPECT_TRUE(test::compare_bits(split.m(i), whole.m(i)).ok()) << i;
      EXPECT_TRUE(test::compare_bits(split.v(i), whole.v(i)).ok()) << i;
      EXPECT_EQ(high[i].broken_guard(), GuardedBuffer::kIntact);
      EXPECT_EQ(rest[i].broken_guard(), GuardedBuffer::kIntact);
    }
    EXPECT_GT(compared, 60000);
  }
}

// Each step changes a weight by about lr, an eighth of the spacing of bf16 below 1: with rounding to nearest
// no weight would ever change. With stochastic rounding the mean follows fp32: the sum of 400 roundings, each
// with a variance of at most a quarter of the squared spacing, has a standard deviation of at most 10
// spacings of 2^-8, and the mean of 20000 weights has one of 10 x 2^-8 / 141 = 2.8e-4.
TEST(Adamw, WeightsInBf16AloneFollowFp32OnAverage) {
  constexpr int64_t kCount = 20000;
  constexpr double kRate = 0x1p-11;
  for (const auto kernel : {adamw_ref, adamw_cpu}) {
    TensorList exact("adamw_noise", DType::kF32, {1, kCount}), list("adamw_noise", DType::kF32, {1, kCount});
    std::vector<GuardedBuffer> weights, again;
    for (size_t i = 0; i < 2; ++i) {
      for (TensorList* l : {&exact, &list}) {
        l->param(i).fill(0.9375);
        l->grad(i).fill(1.0);
        l->m(i).fill(0.0);
        l->v(i).fill(0.0);
      }
      weights.emplace_back("adamw_noise/bf16", DType::kBF16, list.param(i).count()).fill(0.9375);
      list.mutable_tensors()[i].param = weights.back().view();
    }
    for (int64_t step = 1; step <= 400; ++step) {
      const Scalars scalars{.lr = kRate, .step = step};
      kernel(make_args(exact.tensors(), scalars, 0.0));
      AdamwArgs args = make_args(list.tensors(), scalars, 0.0);
      args.noise_seed = 7;
      args.noise_site = 100;
      kernel(args);
    }
    double mean = 0;
    std::map<double, int> distinct;
    for (int64_t k = 0; k < kCount; ++k) {
      mean += weights[1].load(k) / double(kCount);
      ++distinct[weights[1].load(k)];
    }
    EXPECT_NEAR(exact.param(1).load(0), 0.9375 - 400 * kRate, 1e-3);
    EXPECT_NEAR(mean, exact.param(1).load(0), 5 * 2.8e-4);
    EXPECT_GT(distinct.size(), 10u);
    // The key of the random numbers consists of seed, step and site. Equal keys must give the same results, and different keys different
    // results.
    const auto one_step = [&](uint64_t seed, int64_t step, uint32_t site) {
      weights[0].fill(0.9375);
      weights[1].fill(0.9375);
      const Scalars scalars{.lr = kRate, .step = step};
      for (size_t i = 0; i < 2; ++i) {
        list.m(i).fill(0.5);
        list.v(i).fill(0.5);
      }
      AdamwArgs args = make_args(list.tensors(), scalars, 0.0);
      args.noise_seed = seed;
      args.noise_site = site;
      kernel(args);
      return weights[1].to_doubles();
    };
    const std::vector<double> first = one_step(1, 3, 5);
    EXPECT_EQ(one_step(1, 3, 5), first);
    EXPECT_NE(one_step(2, 3, 5), first);
    EXPECT_NE(one_step(1, 4, 5), first);
    EXPECT_NE(one_step(1, 3, 6), first);
  }
}

// The kernel must round with the random numbers of the reference. It rounds numbers in fp32 and the reference rounds numbers in fp64, which
// differ by about 2^-22, while bf16 numbers have a spacing of 2^-8. About one in 16000 is therefore rounded to the adjacent bf16 number.
TEST(Adamw, MomentsInBf16AreTheReferences) {
  test::for_each_simd_target([] {
    for (const DType weights : {DType::kF32, DType::kBF16}) {
      TensorList want("adamw_moments", DType::kF32, test::kAwkwardCounts),
          got("adamw_moments", DType::kF32, test::kAwkwardCounts);
      want.fill();
      got.copy_from(want);
      NarrowMoments want_moments(want), got_moments(got);
      want_moments.give_to(want);
      got_moments.give_to(got);
      std::vector<GuardedBuffer> want_weights, got_weights;
      for (size_t i = 0; i < want.size() && weights == DType::kBF16; ++i) {
        for (auto* both : {&want_weights, &got_weights}) {
          both->emplace_back("adamw_moments/p", weights, want.param(i).count())
              .assign(want.param(i).to_doubles());
        }
        want.mutable_tensors()[i].param = want_weights[i].view();
        got.mutable_tensors()[i].param = got_weights[i].view();
      }
      const Scalars scalars{.lr = 0.003, .step = 9, .clip = 0.7f};
      AdamwArgs args = make_args(want.tensors(), scalars, 0.01);
      args.noise_seed = 0x123456789abcdefu;
      args.noise_site = 1u << 30;
      adamw_ref(args);
      args.tensors = got.tensors();
      adamw_cpu(args);
      int64_t others = 0, all = 0;
      for (size_t i = 0; i < want.size(); ++i) {
        all += want.param(i).count();
        others += count_neighbours(got_moments.m[i], want_moments.m[i]);
        others += count_neighbours(got_moments.v[i], want_moments.v[i]);
        if (weights == DType::kBF16) {
          others += count_neighbours(got_weights[i], want_weights[i]);
          continue;
        }
        // The weights must agree to fp32 precision, because an update uses the moments before they are rounded to bf16.
        for (int64_t k = 0; k < want.param(i).count(); ++k)
          ASSERT_NEAR(got.param(i).load(k), want.param(i).load(k),
                      4e-7 + 4e-7 * std::abs(want.param(i).load(k)));
        EXPECT_EQ(got_moments.v[i].broken_guard(), GuardedBuffer::kIntact);
      }
      EXPECT_GT(all, 60000);
      EXPECT_LT(others, all / 1000);
    }
  });
}

// The gradients are 0, so each step reduces the second moment v by a thousandth. This is a quarter of the spacing of bf16 numbers, so with
// rounding to nearest v would never change. With stochastic rounding the mean of v must follow the values in fp32. 400 roundings, each with
// an error of at most one spacing of 2^-8 and a variance of at most a quarter of its square, have a standard deviation of at most 10
// spacings, and the mean of 20000 elements has one of 2.8e-4.
TEST(Adamw, VariancesInBf16FollowFp32OnAverage) {
  constexpr int64_t kCount = 20000;
  for (const auto kernel : {adamw_ref, adamw_cpu}) {
    TensorList list("adamw_variance", DType::kF32, {kCount});
    list.param(0).fill(1.0);
    list.grad(0).fill(0.0);
    list.m(0).fill(0.0);
    list.v(0).fill(1.0);
    NarrowMoments moments(list);
    moments.give_to(list);
    for (int64_t step = 1; step <= 400; ++step) {
      const Scalars scalars{.lr = 0.0, .step = step};
      AdamwArgs args = make_args(list.tensors(), scalars, 0.0);
      args.noise_seed = 7;
      kernel(args);
    }
    double mean = 0;
    for (int64_t k = 0; k < kCount; ++k) mean += moments.v[0].load(k) / double(kCount);
    EXPECT_NEAR(mean, std::pow(0.999, 400), 5 * 2.8e-4);
  }
}

TEST(Adamw, MomentsInBf16AreTheSameForAnyThreadsAndAnyGrouping) {
  const int before = num_threads();
  const auto run = [](int threads, bool tensor_by_tensor) {
    set_num_threads(threads);
    TensorList list("adamw_threads", DType::kF32, test::kAwkwardCounts);
    list.fill();
    NarrowMoments moments(list);
    moments.give_to(list);
    const Scalars scalars{.step = 3};
    for (size_t i = 0; i < list.size(); i += tensor_by_tensor ? 1 : list.size()) {
      AdamwArgs args =
          make_args(list.tensors().subspan(i, tensor_by_tensor ? 1 : list.size()), scalars, 0.01);
      args.noise_site = static_cast<uint32_t>(i);
      adamw_cpu(args);
    }
    std::vector<double> all;
    for (size_t i = 0; i < list.size(); ++i) {
      for (const GuardedBuffer* buffer : {&list.param(i), &moments.m[i], &moments.v[i]}) {
        const std::vector<double> numbers = buffer->to_doubles();
        all.insert(all.end(), numbers.begin(), numbers.end());
      }
    }
    return all;
  };
  const std::vector<double> one = run(1, true);
  for (const int threads : {1, 2, 5}) EXPECT_EQ(run(threads, false), one) << threads;
  set_num_threads(before);
}

// A parameter that is updated in several ranges, each with the index of its first element, must get the same bits as one that is updated as
// a whole. Otherwise its random numbers would depend on how the parameter is divided.
TEST(Adamw, PartsOfATensorAreUpdatedLikeTheWhole) {
  constexpr int64_t kCount = 20003;
  for (const auto kernel : {adamw_ref, adamw_cpu}) {
    const auto run = [&](const std::vector<int64_t>& limits) {
      TensorList list("adamw_parts", DType::kF32, {kCount});
      list.fill();
      NarrowMoments moments(list);
      moments.give_to(list);
      GuardedBuffer weights("adamw_parts/p", DType::kBF16, kCount);
      weights.assign(list.param(0).to_doubles());
      const Scalars scalars{.step = 3};
      for (size_t i = 1; i < limits.size(); ++i) {
        const int64_t first = limits[i - 1];
        const auto part = [&](ConstView view) { return test::from_element(view, first); };
        const OptimizerTensor& whole = list.tensors()[0];
        const OptimizerTensor tensor{.param = part(weights.view()),
                                     .grad = part(whole.grad),
                                     .m = part(whole.m),
                                     .v = part(whole.v),
                                     .count = limits[i] - first,
                                     .first = first};
        AdamwArgs args = make_args(std::span(&tensor, 1), scalars, 0.01);
        args.noise_seed = 11;
        kernel(args);
      }
      std::vector<double> all = weights.to_doubles();
      for (const GuardedBuffer* buffer : {&moments.m[0], &moments.v[0]}) {
        const std::vector<double> numbers = buffer->to_doubles();
        all.insert(all.end(), numbers.begin(), numbers.end());
      }
      return all;
    };
    EXPECT_EQ(run({0, 4, 1028, 7000, 7004, kCount}), run({0, kCount}));
  }
}

TEST(Adamw, GradientsIn16BitsAreReadAsFp32) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    TensorList want("adamw_half", DType::kF32, test::kAwkwardCounts),
        got("adamw_half", DType::kF32, test::kAwkwardCounts);
    want.fill();
    std::vector<GuardedBuffer> grads;
    for (size_t i = 0; i < want.size(); ++i) {
      grads.emplace_back("adamw_half/grad", dtype, want.grad(i).count()).assign(want.grad(i).to_doubles());
      want.grad(i).assign(grads.back().to_doubles());
    }
    got.copy_from(want);
    for (size_t i = 0; i < got.size(); ++i) got.mutable_tensors()[i].grad = grads[i].view();
    const Scalars scalars{.lr = 0.05, .step = 2};
    adamw_cpu(make_args(want.tensors(), scalars, 0.01));
    adamw_cpu(make_args(got.tensors(), scalars, 0.01));
    for (size_t i = 0; i < want.size(); ++i) {
      if (want.param(i).count() == 0) continue;
      EXPECT_TRUE(test::compare_bits(got.param(i), want.param(i)).ok()) << i;
      EXPECT_TRUE(test::compare_bits(got.v(i), want.v(i)).ok()) << i;
    }
  }
}

TEST(Adamw, StepZeroAndWrongTypesAreOurBugs) {
  TensorList list("adamw_bad", DType::kF64, {3});
  list.fill();
  EXPECT_THROW(kUpdate.ref(list.tensors(), {.step = 0}, 0.0), Error);
  EXPECT_THROW(kUpdate.cpu(list.tensors(), {.step = 1}, 0.0), Error);
}

}  // namespace
}  // namespace plimsoll
