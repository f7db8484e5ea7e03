#include <gtest/gtest.h>

#include "kernels/optimizer/adagrad_cuda.h"
#include "kernels/optimizer/lion_cuda.h"
#include "kernels/optimizer/optimizer_cuda_cases.h"
#include "kernels/optimizer/sgd_cuda.h"

namespace plimsoll::test {
namespace {

void check_lion(const std::vector<int64_t>& counts, DType grads, DType low) {
  UpdateCase test("lion_cuda", counts, grads, low, fill_with_sum_of_squares);
  DeviceScalars scalars(3e-3, 1, 0.37);
  const auto reference = scalars.args<LionArgs>(test.want.tensors(), 0.01, kOnHost);
  lion_ref(reference);
  Twins gpu;
  const std::vector<OptimizerTensor> tensors = test.tensors_on(gpu);
  run_twice(gpu, test.outputs(),
            [&] { lion_cuda(scalars.args<LionArgs>(tensors, 0.01, on_device(gpu)), nullptr); });
  expect_lion_within(test.start, test.want, test.got, reference);
  expect_copies(test.got, test.narrow.low);
}

TEST(LionCuda, OneStepMatchesTheReference) {
  check_lion(kAwkwardCounts, DType::kF32, DType::kBF16);
  check_lion(kAwkwardCounts, DType::kBF16, DType::kF16);
}

TEST(LionCuda, TakesMoreTensorsThanALaunch) {
  check_lion(many_counts(), DType::kF16, DType::kBF16);
}

AdagradArgs with_lr_decay(AdagradArgs args) {
  args.lr_decay = 0.01;
  return args;
}
void check_adagrad(const std::vector<int64_t>& counts, DType grads, DType low, int64_t step) {
  UpdateCase test("adagrad_cuda", counts, grads, low, fill_with_sum_of_squares);
  DeviceScalars scalars(3e-2, step, 0.37);
  const AdagradArgs reference = with_lr_decay(scalars.args<AdagradArgs>(test.want.tensors(), 0.01, kOnHost));
  adagrad_ref(reference);
  Twins gpu;
  const std::vector<OptimizerTensor> tensors = test.tensors_on(gpu);
  run_twice(gpu, test.outputs(), [&] {
    adagrad_cuda(with_lr_decay(scalars.args<AdagradArgs>(tensors, 0.01, on_device(gpu))), nullptr);
  });
  expect_adagrad_within(test.start, test.want, test.got, reference);
  expect_copies(test.got, test.narrow.low);
}

TEST(AdagradCuda, OneStepMatchesTheReference) {
  check_adagrad(kAwkwardCounts, DType::kF32, DType::kBF16, 1);
  check_adagrad(kAwkwardCounts, DType::kBF16, DType::kF16, 17);
}

TEST(AdagradCuda, TakesMoreTensorsThanALaunch) {
  check_adagrad(many_counts(), DType::kF16, DType::kBF16, 1000);
}

// Args: those of the update that both functions are.
template <typename Args>
void check_noise(const std::vector<int64_t>& counts, void (*reference)(const Args&),
                 void (*kernel)(const Args&, CudaStream)) {
  UpdateCase test("noise_cuda", counts, DType::kBF16, DType::kBF16, fill_with_sum_of_squares);
  TensorList want("noise_cuda/want", DType::kF32, counts);
  want.copy_from(test.start);
  NarrowParameters before(want), wanted(want), weights(want);
  wanted.give_to(want);
  DeviceScalars scalars(3e-3, 9, 0.37);
  const auto with_noise = [](Args args) {
    args.noise_seed = 0x123456789abcdefu;
    args.noise_site = 1u << 30;
    return args;
  };
  reference(with_noise(scalars.args<Args>(want.tensors(), 0.01, kOnHost)));
  Twins gpu;
  std::vector<OptimizerTensor> tensors = on_gpu(gpu, test.got, &test.narrow.grads);
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].param = gpu(weights.p[i]);
  kernel(with_noise(scalars.args<Args>(tensors, 0.01, on_device(gpu))), nullptr);
  gpu.download();
  expect_the_same_noise(before, weights, wanted);
}

TEST(LionCuda, WeightsInBf16AloneTakeTheReferencesNoise) {
  check_noise<LionArgs>(kAwkwardCounts, lion_ref, lion_cuda);
  check_noise<LionArgs>(many_counts(), lion_ref, lion_cuda);
}

TEST(AdagradCuda, WeightsInBf16AloneTakeTheReferencesNoise) {
  check_noise<AdagradArgs>(kAwkwardCounts, adagrad_ref, adagrad_cuda);
}

TEST(SgdCuda, WeightsInBf16AloneTakeTheReferencesNoise) {
  check_noise<SgdArgs>(kAwkwardCounts, sgd_ref, sgd_cuda);
  check_noise<SgdArgs>(many_counts(), sgd_ref, sgd_cuda);
}

TEST(LionCuda, NothingChangesWhenTheFlagSaysNotFinite) {
  UpdateCase test("lion_cuda/flag", {100, 5000}, DType::kF32, DType::kBF16, fill_with_sum_of_squares);
  DeviceScalars scalars(0.1, 1, 1.0, 0.0);
  Twins gpu;
  const std::vector<OptimizerTensor> tensors = on_gpu(gpu, test.got);
  lion_cuda(scalars.args<LionArgs>(tensors, 0.01, on_device(gpu)), nullptr);
  adagrad_cuda(with_lr_decay(scalars.args<AdagradArgs>(tensors, 0.01, on_device(gpu))), nullptr);
  gpu.download();
  for (size_t i = 0; i < 2; ++i) {
    expect_same_bits(test.got.param(i), test.start.param(i));
    expect_same_bits(test.got.m(i), test.start.m(i));
  }
}

}  // namespace
}  // namespace plimsoll::test
