#include "kernels/optimizer/lion.h"

#include <gtest/gtest.h>

#include "kernels/optimizer/testing/optimizer_cuda_cases.h"

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

TEST(LionCuda, WeightsInBf16AloneTakeTheReferencesNoise) {
  expect_the_references_noise<LionArgs>(kAwkwardCounts, lion_ref, lion_cuda);
  expect_the_references_noise<LionArgs>(many_counts(), lion_ref, lion_cuda);
}

TEST(LionCuda, NothingChangesWhenTheFlagSaysNotFinite) {
  expect_no_change_when_not_finite<LionArgs>(lion_cuda);
}

}  // namespace
}  // namespace plimsoll::test
