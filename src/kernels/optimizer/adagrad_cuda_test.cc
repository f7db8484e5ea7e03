#include "kernels/optimizer/adagrad.h"

#include <gtest/gtest.h>

#include "kernels/optimizer/testing/optimizer_cuda_cases.h"

namespace plimsoll::test {
namespace {

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

TEST(AdagradCuda, WeightsInBf16AloneTakeTheReferencesNoise) {
  expect_the_references_noise<AdagradArgs>(kAwkwardCounts, adagrad_ref, adagrad_cuda);
}

TEST(AdagradCuda, NothingChangesWhenTheFlagSaysNotFinite) {
  expect_no_change_when_not_finite<AdagradArgs>(
      [](const AdagradArgs& args, CudaStream stream) { adagrad_cuda(with_lr_decay(args), stream); });
}

}  // namespace
}  // namespace plimsoll::test
