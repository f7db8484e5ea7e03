#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/element_wise/cuda_cases.h"
#include "kernels/optimizer/adamw_cuda.h"
#include "kernels/optimizer/global_norm_cuda.h"
#include "kernels/optimizer/loss_scale_cuda.h"
#include "kernels/optimizer/optimizer_cuda_cases.h"
#include "kernels/optimizer/sgd_cuda.h"
#include "kernels/optimizer/tensor_scan_cuda.h"
#include "kernels/optimizer/weight_copy_cuda.h"

namespace plimsoll::test {
namespace {

SgdArgs with_momentum(SgdArgs args, double momentum, Nesterov nesterov) {
  args.momentum = momentum;
  args.nesterov = nesterov;
  return args;
}

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

// Bit for bit the trajectory of whole parameters with a copy: the upper halves are the copy. Every third
// weight begins as a tie.
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

// One update with noise, of `want` by the reference and of what `tensors_on` puts on a GPU.
template <typename TensorsOn>
void update_with_noise(TensorList& want, const TensorsOn& tensors_on) {
  DeviceScalars scalars(0.003, 9, 0.7);
  const auto with_noise = [](AdamwArgs args) {
    args.noise_seed = 0x123456789abcdefu;
    args.noise_site = 1u << 30;
    return args;
  };
  adamw_ref(with_noise(scalars.args<AdamwArgs>(want.tensors(), 0.01, kOnHost)));
  Twins gpu;
  const std::vector<OptimizerTensor> tensors = tensors_on(gpu);
  adamw_cuda(with_noise(scalars.args<AdamwArgs>(tensors, 0.01, on_device(gpu))), nullptr);
  gpu.download();
}

// The noise is that of the references; what it decides on is fp32, whose last bit may fall on the other side
// of it.
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
      // Its neighbour.
      EXPECT_NEAR(weights[i].load(k), expected[i].load(k), 0x1p-7 * std::fabs(expected[i].load(k)) + 1e-30);
    }
  }
  // An fp32 error of e last bits moves one of 2^16 values of noise to the other side, e times.
  EXPECT_LT(others, 20 + all / 2000);
  EXPECT_GT(all, 60000);
}

TEST(AdamwCuda, WeightsInBf16AloneTakeTheReferencesNoise) {
  check_noise_of_weights(kAwkwardCounts);
}

TEST(AdamwCuda, WeightsInBf16AloneOfMoreTensorsThanALaunch) {
  check_noise_of_weights(many_counts());
}

// As weights in bf16 alone: the reference's noise.
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

// The noise of a part is that of its elements in the whole.
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

TEST(WeightCopyCuda, RoundsAsTheUpdateDoes) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    GuardedBuffer weight("copy/weight", DType::kF32, 70001), got("copy/got", dtype, 70001),
        want("copy/want", dtype, 70001);
    weight.fill_normal();
    for (int64_t k = 0; k < 70001; k += 5) {
      weight.view().as<float>()[k] =
          std::bit_cast<float>(static_cast<uint32_t>(0x3f80 + k % 128) << 16 | 0x8000u);
    }
    copy_weights_cpu({.weight = weight.view(), .low = want.view(), .n = 70001});
    Twins gpu;
    const View from = gpu(weight), to = gpu(got);
    copy_weights_cuda({.weight = from, .low = to, .n = 70001}, nullptr);
    gpu.download();
    expect_same_bits(got, want);
  }
}

struct LossScaleCase {
  double scale, norm, finite;
  int32_t good_steps;
};
struct LossScaleBuffers {
  GuardedBuffer scale{"scale", DType::kF32, 1}, norm{"norm", DType::kF32, 1},
      finite{"finite", DType::kF32, 1}, unscaled{"unscaled", DType::kF32, 1}, used{"used", DType::kF32, 1},
      clip{"clip", DType::kF32, 1}, good = integers(DType::kI32, {0}), skipped = integers(DType::kI32, {4}),
                                    out = integers(DType::kI32, {0});

  explicit LossScaleBuffers(const LossScaleCase& test) {
    scale.fill(test.scale);
    norm.fill(test.norm);
    finite.fill(test.finite);
    good.view().as<int32_t>()[0] = test.good_steps;
  }
  template <class Place>
  AdjustLossScaleArgs adjustment(const Place& place) {
    return {.norm = place(norm),
            .finite = place(finite),
            .scale = place(scale),
            .good_steps = place(good),
            .skipped = place(skipped),
            .unscaled_norm = place(unscaled),
            .used_scale = place(used),
            .skipped_out = place(out)};
  }
  template <class Place>
  ClipCoefficientArgs clipping(const Place& place) {
    return {.norm = place(norm), .coefficient = place(clip), .max_norm = 0.5, .scale = place(scale)};
  }
};

TEST(LossScaleCuda, DoesAsTheReference) {
  for (const LossScaleCase& test : {LossScaleCase{65536, 3, 1, 0}, LossScaleCase{65536, 3, 1, 1999},
                                    LossScaleCase{65536, INFINITY, 0, 1999}, LossScaleCase{1, INFINITY, 0, 5},
                                    LossScaleCase{0x1p127, 3, 1, 1999}}) {
    LossScaleBuffers want(test), got(test);
    const auto host = [](GuardedBuffer& b) { return b.view(); };
    clip_coefficient_ref(want.clipping(host));
    adjust_loss_scale_ref(want.adjustment(host));
    Twins gpu;
    const auto device = [&](GuardedBuffer& b) { return gpu(b); };
    clip_coefficient_cuda(got.clipping(device), nullptr);
    adjust_loss_scale_cuda(got.adjustment(device), nullptr);
    gpu.download();
    for (const auto member : {&LossScaleBuffers::scale, &LossScaleBuffers::unscaled, &LossScaleBuffers::used,
                              &LossScaleBuffers::clip, &LossScaleBuffers::good, &LossScaleBuffers::skipped,
                              &LossScaleBuffers::out}) {
      expect_same_bits(got.*member, want.*member);
    }
  }
}

TEST(AdamwCuda, NothingChangesWhenTheFlagSaysNotFinite) {
  TensorList list("adamw_cuda/flag", DType::kF32, {100, 5000}),
      before("adamw_cuda/flag", DType::kF32, {100, 5000});
  list.fill();
  before.copy_from(list);
  DeviceScalars scalars(0.1, 1, 1.0, 0.0);
  Twins gpu;
  const std::vector<OptimizerTensor> tensors = on_gpu(gpu, list);
  adamw_cuda(scalars.args<AdamwArgs>(tensors, 0.1, on_device(gpu)), nullptr);
  sgd_cuda(with_momentum(scalars.args<SgdArgs>(tensors, 0.01, on_device(gpu)), 0.9, Nesterov::kOff), nullptr);
  gpu.download();
  for (size_t i = 0; i < list.size(); ++i) {
    expect_same_bits(list.param(i), before.param(i));
    expect_same_bits(list.m(i), before.m(i));
    expect_same_bits(list.v(i), before.v(i));
  }
}

struct SgdStepCase {
  int64_t step;
  double momentum;
  Nesterov nesterov;
  DType grads;
};

void check_sgd(const SgdStepCase& test) {
  UpdateCase lists("sgd_cuda", kAwkwardCounts, test.grads, DType::kBF16, fill_plainly);
  for (size_t i = 0; i < lists.got.size(); ++i) {
    // The first step reads no buffer.
    if (test.step == 1) lists.got.m(i).poison();
  }
  DeviceScalars scalars(0.03, test.step, 0.6);
  const SgdArgs reference =
      with_momentum(scalars.args<SgdArgs>(lists.want.tensors(), 0.01, kOnHost), test.momentum, test.nesterov);
  sgd_ref(reference);
  Twins gpu;
  std::vector<OptimizerTensor> tensors = lists.tensors_on(gpu);
  if (test.momentum == 0.0) {
    for (OptimizerTensor& tensor : tensors) tensor.m = {};
  }
  run_twice(gpu, lists.outputs(), [&] {
    sgd_cuda(
        with_momentum(scalars.args<SgdArgs>(tensors, 0.01, on_device(gpu)), test.momentum, test.nesterov),
        nullptr);
  });
  expect_sgd_within(lists.start, lists.want, lists.got, reference);
  expect_copies(lists.got, lists.narrow.low);
}

TEST(SgdCuda, OneStepMatchesTheReference) {
  check_sgd({1, 0.0, Nesterov::kOff, DType::kF32});
  check_sgd({1, 0.9, Nesterov::kOff, DType::kF32});
  check_sgd({5, 0.9, Nesterov::kOff, DType::kBF16});
  check_sgd({5, 0.8, Nesterov::kOn, DType::kF16});
}

struct Outcome {
  GuardedBuffer norm{"norm", DType::kF64, 1}, finite{"finite", DType::kF32, 1},
      first_bad = integers(DType::kI64, {-7});
};

void run_norm(Outcome& outcome, const std::vector<GuardedBuffer*>& grads, GuardedBuffer* loss = nullptr) {
  Twins gpu;
  std::vector<OptimizerTensor> tensors;
  tensors.reserve(grads.size());
  for (GuardedBuffer* grad : grads) tensors.push_back({.grad = gpu(*grad), .count = grad->count()});
  GuardedBuffer scratch = scratch_of(kGlobalNormCudaScratchBytes);
  run_twice(gpu, {&outcome.norm, &outcome.finite, &outcome.first_bad}, [&] {
    global_norm_cuda({.tensors = tensors,
                      .loss = loss != nullptr ? ConstView(gpu(*loss)) : ConstView{},
                      .norm = gpu(outcome.norm),
                      .finite = gpu(outcome.finite),
                      .first_bad = gpu(outcome.first_bad),
                      .scratch = gpu(scratch)},
                     nullptr);
  });
}

std::vector<GuardedBuffer> gradients(DType dtype, const std::vector<int64_t>& counts) {
  std::vector<GuardedBuffer> grads;
  for (size_t i = 0; i < counts.size(); ++i) {
    grads.emplace_back(fmt::format("norm_cuda/{} {}", i, dtype_name(dtype)), dtype, counts[i]).fill_normal();
  }
  return grads;
}
std::vector<GuardedBuffer*> addresses(std::vector<GuardedBuffer>& buffers) {
  std::vector<GuardedBuffer*> pointers;
  pointers.reserve(buffers.size());
  for (GuardedBuffer& buffer : buffers) pointers.push_back(&buffer);
  return pointers;
}

TEST(GlobalNormCuda, MatchesTheReference) {
  for (const DType dtype : cuda_types()) {
    for (const std::vector<int64_t>& counts :
         {kAwkwardCounts, many_counts(), std::vector<int64_t>{5000000}}) {
      std::vector<GuardedBuffer> grads = gradients(dtype, counts);
      double sum = 0.0;
      for (const GuardedBuffer& grad : grads) {
        for (int64_t i = 0; i < grad.count(); ++i) sum += grad.load(i) * grad.load(i);
      }
      Outcome got;
      run_norm(got, addresses(grads));
      const int64_t n = std::accumulate(counts.begin(), counts.end(), int64_t{0});
      EXPECT_NEAR(got.norm.load(0), std::sqrt(sum), global_norm_cuda_error(n) * std::sqrt(sum));
      EXPECT_EQ(got.finite.load(0), 1.0);
      EXPECT_EQ(got.first_bad.load(0), -1.0);
    }
  }
}

TEST(GlobalNormCuda, SquaresNeitherOverflowNorVanish) {
  for (const double value : {1e30, 1e-30, 1e-42}) {
    GuardedBuffer grad("norm_cuda/extreme", DType::kF32, 5000);
    grad.fill(value);
    Outcome got;
    run_norm(got, {&grad});
    const double want = std::sqrt(5000.0) * grad.load(0);
    EXPECT_NEAR(got.norm.load(0), want, global_norm_cuda_error(5000) * want);
    EXPECT_EQ(got.finite.load(0), 1.0);
  }
}

TEST(GlobalNormCuda, AnEmptyListAndZerosHaveNormZero) {
  Outcome none, zeros;
  run_norm(none, {});
  GuardedBuffer grad("norm_cuda/zeros", DType::kF32, 9000);
  grad.fill(0.0);
  run_norm(zeros, {&grad});
  for (Outcome* outcome : {&none, &zeros}) {
    EXPECT_EQ(outcome->norm.load(0), 0.0);
    EXPECT_EQ(outcome->finite.load(0), 1.0);
    EXPECT_EQ(outcome->first_bad.load(0), -1.0);
  }
}

TEST(GlobalNormCuda, NamesTheFirstTensorThatIsNotFinite) {
  const std::vector<int64_t> counts = many_counts();
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    for (const size_t tensor : {size_t{7}, size_t{1390}}) {
      std::vector<GuardedBuffer> grads = gradients(DType::kF32, counts);
      grads.back().view().store(17, bad);
      grads[tensor].view().store(counts[tensor] - 1, bad);
      Outcome got;
      run_norm(got, addresses(grads));
      EXPECT_FALSE(std::isfinite(got.norm.load(0)));
      EXPECT_EQ(got.finite.load(0), 0.0);
      EXPECT_EQ(got.first_bad.load(0), static_cast<double>(tensor));
    }
  }
}

TEST(GlobalNormCuda, ABadLossCountsToo) {
  GuardedBuffer grad("norm_cuda/loss", DType::kF32, 10), loss("loss", DType::kF32, 1);
  grad.fill_normal();
  loss.fill(std::nan(""));
  Outcome got;
  run_norm(got, {&grad}, &loss);
  EXPECT_TRUE(std::isfinite(got.norm.load(0)));
  EXPECT_EQ(got.finite.load(0), 0.0);
  EXPECT_EQ(got.first_bad.load(0), -1.0);
}

TEST(ClipCoefficientCuda, EqualsTheReference) {
  for (const double norm_value : {0.0, 0.5, 1.0, 2.5, 1e30, HUGE_VAL, std::nan("")}) {
    for (const double max_norm : {0.0, 1.0, 2.0}) {
      GuardedBuffer norm("clip/norm", DType::kF32, 1), got("clip/got", DType::kF32, 1),
          want("clip/want", DType::kF32, 1);
      norm.fill(norm_value);
      clip_coefficient_ref({norm.view(), want.view(), max_norm});
      Twins gpu;
      clip_coefficient_cuda({gpu(norm), gpu(got), max_norm}, nullptr);
      gpu.download();
      if (std::isnan(want.load(0))) {
        EXPECT_TRUE(std::isnan(got.load(0)));
      } else {
        EXPECT_EQ(got.load(0), want.load(0)) << norm_value << " " << max_norm;
      }
    }
  }
}

TEST(FillCuda, WritesEveryElementAndNoOther) {
  for (const DType dtype :
       {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI64, DType::kI32, DType::kU8}) {
    for (const int64_t count : {1, 3, 16, 1000, 70001}) {
      for (const int64_t first : {0, 1}) {
        GuardedBuffer x("fill/x", dtype, count + first), want("fill/want", dtype, count + first);
        for (int64_t i = first; i < count + first; ++i) want.view().store(i, 37.0);
        Twins gpu;
        fill_cuda({gpu.twin(x).view_from(first), count, 37.0}, nullptr);
        gpu.download();
        expect_same_bits(x, want);
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::test
