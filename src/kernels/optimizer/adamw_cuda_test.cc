#include "kernels/optimizer/adamw.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "kernels/optimizer/testing/optimizer_cuda_cases.h"

namespace plimsoll::test {
namespace {

struct AdamwStepCase {
  int64_t step;
  double lr, weight_decay, clip;
  DType grads, low;
};

void check_adamw(const AdamwStepCase& test, const std::vector<int64_t>& counts) {
  UpdateCase lists("adamw_cuda", counts, test.grads, test.low, fill_plainly);
  DeviceScalars scalars(test.lr, test.step, test.clip);
  const auto reference = scalars.args<AdamwArgs>(lists.want.tensors(), test.weight_decay, kOnHost);
  adamw_ref(reference);
  Twins gpu;
  const std::vector<OptimizerTensor> tensors = lists.tensors_on(gpu);
  std::vector<GuardedBuffer*> outputs = lists.outputs();
  for (size_t i = 0; i < lists.got.size(); ++i) outputs.push_back(&lists.got.v(i));
  run_twice(gpu, outputs, [&] {
    adamw_cuda(scalars.args<AdamwArgs>(tensors, test.weight_decay, on_device(gpu)), nullptr);
  });
  expect_adamw_within(lists.start, lists.want, lists.got, reference);
  expect_copies(lists.got, lists.narrow.low);
}

TEST(AdamwCuda, OneStepMatchesTheReference) {
  check_adamw({1, 1e-3, 0.0, 1.0, DType::kF32, DType::kBF16}, kAwkwardCounts);
  check_adamw({17, 5e-5, 0.01, 0.37, DType::kBF16, DType::kF16}, kAwkwardCounts);
  check_adamw({100000, 1e-2, 0.5, 1.0, DType::kF16, DType::kBF16}, kAwkwardCounts);
}

TEST(AdamwCuda, TakesMoreTensorsThanALaunch) {
  check_adamw({3, 1e-3, 0.01, 1.0, DType::kF32, DType::kBF16}, many_counts());
}

// A parameter that is split into two halves must get, bit for bit, the values of an fp32 parameter, and its upper half must equal the bf16
// copy of that parameter. Every third weight starts halfway between two bf16 numbers, so that the rounding of ties is tested too.
void check_split_parameters(const std::vector<int64_t>& counts) {
  TensorList whole("adamw_cuda/whole", DType::kF32, counts), split("adamw_cuda/split", DType::kF32, counts);
  whole.fill();
  std::vector<GuardedBuffer> grads, low, high, rest;
  for (size_t i = 0; i < counts.size(); ++i) {
    for (int64_t k = 0; k < counts[i]; k += 3) {
      whole.param(i).view().as<float>()[k] =
          std::bit_cast<float>(static_cast<uint32_t>(0x3f80 + k % 128) << 16 | 0x8000u);
    }
    grads.emplace_back("adamw_cuda/grads", DType::kBF16, counts[i]).assign(whole.grad(i).to_doubles());
    low.emplace_back("adamw_cuda/low", DType::kBF16, counts[i]);
    high.emplace_back("adamw_cuda/high", DType::kBF16, counts[i]);
    rest.emplace_back("adamw_cuda/rest", DType::kU8, 2 * counts[i]);
    for (int64_t k = 0; k < counts[i]; ++k) {
      const SplitF32 parts = split_f32(whole.param(i).view().as<float>()[k]);
      high[i].view().as<BF16>()[k].bits = parts.high;
      static_cast<uint16_t*>(rest[i].view().data)[k] = parts.low;
    }
  }
  split.copy_from(whole);
  Twins gpu;
  const std::vector<OptimizerTensor> wholes = on_gpu(gpu, whole, &grads, &low);
  std::vector<OptimizerTensor> splits = on_gpu(gpu, split, &grads);
  for (size_t i = 0; i < splits.size(); ++i) {
    splits[i].param = gpu(high[i]);
    splits[i].remainder = gpu(rest[i]);
  }
  std::vector<DeviceScalars> scalars;
  for (int64_t step = 1; step <= 20; ++step) scalars.emplace_back(0.01, step, 0.7);
  for (DeviceScalars& step : scalars) {
    adamw_cuda(step.args<AdamwArgs>(wholes, 0.01, on_device(gpu)), nullptr);
    adamw_cuda(step.args<AdamwArgs>(splits, 0.01, on_device(gpu)), nullptr);
  }
  gpu.download();
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    GuardedBuffer joined("adamw_cuda/joined", DType::kF32, counts[i]);
    for (int64_t k = 0; k < counts[i]; ++k) {
      joined.view().as<float>()[k] =
          join_f32({high[i].view().as<BF16>()[k].bits, static_cast<const uint16_t*>(rest[i].view().data)[k]});
    }
    expect_same_bits(joined, whole.param(i));
    expect_same_bits(high[i], low[i]);
    expect_same_bits(split.m(i), whole.m(i));
    expect_same_bits(split.v(i), whole.v(i));
  }
}

TEST(AdamwCuda, SplitParametersAreWholeOnesInTwoParts) {
  check_split_parameters(kAwkwardCounts);
}

TEST(AdamwCuda, SplitParametersOfMoreTensorsThanALaunch) {
  check_split_parameters(many_counts());
}

// Makes one update with stochastic rounding. The reference updates the tensors of `want`, and the kernel updates the tensors that
// tensors_on() copies to a GPU.
template <typename TensorsOn>
void update_with_noise(TensorList& want, const TensorsOn& tensors_on) {
  DeviceScalars scalars(0.003, 9, 0.7);
  adamw_ref(with_noise(scalars.args<AdamwArgs>(want.tensors(), 0.01, kOnHost)));
  Twins gpu;
  const std::vector<OptimizerTensor> tensors = tensors_on(gpu);
  adamw_cuda(with_noise(scalars.args<AdamwArgs>(tensors, 0.01, on_device(gpu))), nullptr);
  gpu.download();
}

// The kernel must round with the random numbers of the reference. The fp32 numbers that both round may differ in the last bit, so a result
// may be the adjacent bf16 number.
void check_noise_of_weights(const std::vector<int64_t>& counts) {
  TensorList start("adamw_cuda/noise", DType::kF32, counts), want("adamw_cuda/noise", DType::kF32, counts),
      got("adamw_cuda/noise", DType::kF32, counts);
  start.fill();
  std::vector<GuardedBuffer> expected, weights;
  for (size_t i = 0; i < counts.size(); ++i) {
    expected.emplace_back("noise/want", DType::kBF16, counts[i]).assign(start.param(i).to_doubles());
    weights.emplace_back("noise/got", DType::kBF16, counts[i]).assign(start.param(i).to_doubles());
  }
  want.copy_from(start);
  got.copy_from(start);
  for (size_t i = 0; i < counts.size(); ++i) want.mutable_tensors()[i].param = expected[i].view();
  update_with_noise(want, [&](Twins& gpu) {
    std::vector<OptimizerTensor> tensors = on_gpu(gpu, got);
    for (size_t i = 0; i < counts.size(); ++i) tensors[i].param = gpu(weights[i]);
    return tensors;
  });
  int64_t others = 0, all = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    for (int64_t k = 0; k < counts[i]; ++k) {
      ++all;
      if (weights[i].load(k) == expected[i].load(k)) continue;
      ++others;
      // The kernel's result must equal the reference's or be the adjacent bf16 number.
      EXPECT_NEAR(weights[i].load(k), expected[i].load(k), 0x1p-7 * std::fabs(expected[i].load(k)) + 1e-30);
    }
  }
  // If the fp32 numbers of kernel and reference differ by e units in the last place, the rounded results differ for e of the 2^16 possible
  // random numbers.
  EXPECT_LT(others, 20 + all / 2000);
  EXPECT_GT(all, 60000);
}

TEST(AdamwCuda, WeightsInBf16AloneTakeTheReferencesNoise) {
  check_noise_of_weights(kAwkwardCounts);
}

TEST(AdamwCuda, WeightsInBf16AloneOfMoreTensorsThanALaunch) {
  check_noise_of_weights(many_counts());
}

// The kernel must round moments in bf16 with the random numbers of the reference, as it does for weights that are stored only in bf16.
void check_noise_of_moments(const std::vector<int64_t>& counts) {
  TensorList want("adamw_cuda/moments", DType::kF32, counts), got("adamw_cuda/moments", DType::kF32, counts);
  want.fill();
  got.copy_from(want);
  NarrowMoments want_moments(want), got_moments(got);
  want_moments.give_to(want);
  update_with_noise(want, [&](Twins& gpu) {
    std::vector<OptimizerTensor> tensors = on_gpu(gpu, got);
    for (size_t i = 0; i < counts.size(); ++i) {
      tensors[i].m = gpu(got_moments.m[i]);
      tensors[i].v = gpu(got_moments.v[i]);
    }
    return tensors;
  });
  int64_t others = 0, all = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    all += counts[i];
    others += count_neighbours(got_moments.m[i], want_moments.m[i]);
    others += count_neighbours(got_moments.v[i], want_moments.v[i]);
    for (int64_t k = 0; k < counts[i]; ++k) {
      ASSERT_NEAR(got.param(i).load(k), want.param(i).load(k),
                  4e-7 + 4e-7 * std::fabs(want.param(i).load(k)));
    }
  }
  EXPECT_LT(others, 20 + all / 1000);
  EXPECT_GT(all, 60000);
}

TEST(AdamwCuda, MomentsInBf16AreTheReferences) {
  check_noise_of_moments(kAwkwardCounts);
}

TEST(AdamwCuda, MomentsInBf16OfMoreTensorsThanALaunch) {
  check_noise_of_moments(many_counts());
}

// If a call updates a range of a parameter, the random numbers must be those that the same elements get if the whole parameter is updated.
TEST(AdamwCuda, PartsOfATensorAreUpdatedLikeTheWhole) {
  constexpr int64_t kCount = 20003;
  const auto run = [&](const std::vector<int64_t>& limits) {
    TensorList list("adamw_cuda/parts", DType::kF32, {kCount});
    list.fill();
    NarrowMoments moments(list);
    GuardedBuffer weights("adamw_cuda/parts/p", DType::kBF16, kCount);
    weights.assign(list.param(0).to_doubles());
    DeviceScalars scalars(0.003, 9, 0.7);
    Twins gpu;
    OptimizerTensor whole = on_gpu(gpu, list)[0];
    for (size_t i = 1; i < limits.size(); ++i) {
      const int64_t first = limits[i - 1];
      const auto part = [&](ConstView view) { return test::from_element(view, first); };
      const OptimizerTensor tensor{.param = part(gpu(weights)),
                                   .grad = part(whole.grad),
                                   .m = part(gpu(moments.m[0])),
                                   .v = part(gpu(moments.v[0])),
                                   .count = limits[i] - first,
                                   .first = first};
      const std::vector<OptimizerTensor> tensors{tensor};
      AdamwArgs args = scalars.args<AdamwArgs>(tensors, 0.01, on_device(gpu));
      args.noise_seed = 11;
      adamw_cuda(args, nullptr);
    }
    gpu.download();
    std::vector<double> all = weights.to_doubles();
    for (const GuardedBuffer* buffer : {&moments.m[0], &moments.v[0]}) {
      const std::vector<double> numbers = buffer->to_doubles();
      all.insert(all.end(), numbers.begin(), numbers.end());
    }
    return all;
  };
  EXPECT_EQ(run({0, 4, 1028, 7000, 7004, kCount}), run({0, kCount}));
}

TEST(AdamwCuda, NothingChangesWhenTheFlagSaysNotFinite) {
  expect_no_change_when_not_finite<AdamwArgs>(adamw_cuda);
}

}  // namespace
}  // namespace plimsoll::test
