#include "kernels/optimizer/sgd.h"

#include <gtest/gtest.h>

#include "kernels/optimizer/testing/optimizer_cuda_cases.h"

namespace plimsoll::test {
namespace {

SgdArgs with_momentum(SgdArgs args, double momentum, Nesterov nesterov) {
  args.momentum = momentum;
  args.nesterov = nesterov;
  return args;
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
    // Sets the momentum to NaN, because the first step must not read it.
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

TEST(SgdCuda, WeightsInBf16AloneTakeTheReferencesNoise) {
  expect_the_references_noise<SgdArgs>(kAwkwardCounts, sgd_ref, sgd_cuda);
  expect_the_references_noise<SgdArgs>(many_counts(), sgd_ref, sgd_cuda);
}

TEST(SgdCuda, NothingChangesWhenTheFlagSaysNotFinite) {
  expect_no_change_when_not_finite<SgdArgs>([](const SgdArgs& args, CudaStream stream) {
    sgd_cuda(with_momentum(args, 0.9, Nesterov::kOff), stream);
  });
}

}  // namespace
}  // namespace plimsoll::test
