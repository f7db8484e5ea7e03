#include <gtest/gtest.h>

#include <cmath>

#include "kernels/optimizer/adagrad_cuda.h"
#include "kernels/optimizer/lion_cuda.h"
#include "kernels/optimizer/optimizer_cuda_cases.h"

namespace plimsoll::test {
namespace {

// The scalars of a step, as the executor keeps them on the device.
struct Scalars {
  GuardedBuffer lr{"lr", DType::kF32, 1}, step = integers(DType::kI64, {1}), clip{"clip", DType::kF32, 1},
                                          finite{"finite", DType::kF32, 1};

  Scalars(double lr_value, int64_t step_value, double clip_value, double finite_value = 1.0) {
    lr.fill(lr_value);
    step.view().as<int64_t>()[0] = step_value;
    clip.fill(clip_value);
    finite.fill(finite_value);
  }
  template <class View>
  LionArgs lion(std::span<const OptimizerTensor> tensors, const View& view) {
    return {.tensors = tensors,
            .learning_rate = view(lr),
            .clip_coefficient = view(clip),
            .finite = view(finite),
            .weight_decay = 0.01};
  }
  template <class View>
  AdagradArgs adagrad(std::span<const OptimizerTensor> tensors, const View& view) {
    return {.tensors = tensors,
            .learning_rate = view(lr),
            .step = view(step),
            .clip_coefficient = view(clip),
            .finite = view(finite),
            .lr_decay = 0.01,
            .weight_decay = 0.01};
  }
};

void check_lion(const std::vector<int64_t>& counts, DType grads, DType low) {
  UpdateCase test("lion_cuda", counts, grads, low);
  Scalars scalars(3e-3, 1, 0.37);
  const LionArgs reference = scalars.lion(test.want.tensors(), kOnHost);
  lion_ref(reference);
  Twins gpu;
  const std::vector<OptimizerTensor> tensors = on_gpu(gpu, test.got, &test.grads, &test.low);
  run_twice(gpu, test.outputs(), [&] { lion_cuda(scalars.lion(tensors, on_device(gpu)), nullptr); });
  const LionCoefficients k = lion_coefficients(reference);
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    std::vector<double> param_limits, m_limits;
    for (int64_t j = 0; j < counts[i]; ++j) {
      const LionErrorBound bound = lion_error_bound(k, test.start.param(i).load(j), test.start.m(i).load(j),
                                                    test.start.grad(i).load(j));
      param_limits.push_back(bound.param);
      m_limits.push_back(bound.m);
    }
    expect_within(test.got.param(i), test.want.param(i), param_limits);
    expect_within(test.got.m(i), test.want.m(i), m_limits);
  }
  expect_copies(test.got, test.low);
}

TEST(LionCuda, OneStepMatchesTheReference) {
  check_lion(kAwkwardCounts, DType::kF32, DType::kBF16);
  check_lion(kAwkwardCounts, DType::kBF16, DType::kF16);
  check_lion(many_counts(), DType::kF16, DType::kBF16);
}

void check_adagrad(const std::vector<int64_t>& counts, DType grads, DType low, int64_t step) {
  UpdateCase test("adagrad_cuda", counts, grads, low);
  Scalars scalars(3e-2, step, 0.37);
  const AdagradArgs reference = scalars.adagrad(test.want.tensors(), kOnHost);
  adagrad_ref(reference);
  Twins gpu;
  const std::vector<OptimizerTensor> tensors = on_gpu(gpu, test.got, &test.grads, &test.low);
  run_twice(gpu, test.outputs(), [&] { adagrad_cuda(scalars.adagrad(tensors, on_device(gpu)), nullptr); });
  const double rate = adagrad_rate(reference);
  const double clip = scalars.clip.load(0);
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    std::vector<double> param_limits, v_limits;
    for (int64_t j = 0; j < counts[i]; ++j) {
      const double p = std::fabs(test.start.param(i).load(j));
      const double gradient = clip * std::fabs(test.start.grad(i).load(j)) + reference.weight_decay * p;
      const AdagradErrorBound bound =
          adagrad_error_bound(rate, reference.epsilon, p, gradient, test.want.m(i).load(j));
      param_limits.push_back(bound.param);
      v_limits.push_back(bound.v);
    }
    expect_within(test.got.param(i), test.want.param(i), param_limits);
    expect_within(test.got.m(i), test.want.m(i), v_limits);
  }
  expect_copies(test.got, test.low);
}

TEST(AdagradCuda, OneStepMatchesTheReference) {
  check_adagrad(kAwkwardCounts, DType::kF32, DType::kBF16, 1);
  check_adagrad(kAwkwardCounts, DType::kBF16, DType::kF16, 17);
  check_adagrad(many_counts(), DType::kF16, DType::kBF16, 1000);
}

TEST(LionCuda, NothingChangesWhenTheFlagSaysNotFinite) {
  UpdateCase test("lion_cuda/flag", {100, 5000}, DType::kF32, DType::kBF16);
  Scalars scalars(0.1, 1, 1.0, 0.0);
  Twins gpu;
  const std::vector<OptimizerTensor> tensors = on_gpu(gpu, test.got);
  lion_cuda(scalars.lion(tensors, on_device(gpu)), nullptr);
  adagrad_cuda(scalars.adagrad(tensors, on_device(gpu)), nullptr);
  gpu.download();
  for (size_t i = 0; i < 2; ++i) {
    expect_same_bits(test.got.param(i), test.start.param(i));
    expect_same_bits(test.got.m(i), test.start.m(i));
  }
}

}  // namespace
}  // namespace plimsoll::test
