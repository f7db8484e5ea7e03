#include <gtest/gtest.h>

#include "kernels/optimizer/adagrad.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/eight_bit.h"
#include "kernels/optimizer/lion.h"
#include "kernels/optimizer/sgd.h"
#include "kernels/optimizer/testing/eight_bit_tensors.h"
#include "kernels/optimizer/testing/optimizer_cuda_cases.h"

namespace plimsoll::test {
namespace {

enum class Kernel : uint8_t { kAdamw, kLion, kSgd, kNesterov, kAdagrad };
constexpr Kernel kKernels[] = {Kernel::kAdamw, Kernel::kLion, Kernel::kSgd, Kernel::kNesterov,
                               Kernel::kAdagrad};

void fill(EightBitList& list, Kernel kernel) {
  list.fill();
  if (kernel == Kernel::kAdagrad) list.make_states_positive();
}

// Calls call(args, CUDA kernel, reference, comparison) for an optimizer. where(buffer) returns the view of a scalar argument on the host or
// on the GPU.
template <typename Where, typename Call>
void with_kernel(Kernel kernel, DeviceScalars& scalars, std::span<const OptimizerTensor> tensors,
                 const Where& where, const Call& call) {
  switch (kernel) {
    case Kernel::kAdamw:
      return call(scalars.args<AdamwArgs>(tensors, 0.01, where), adamw_8bit_cuda, adamw_8bit_ref,
                  expect_adamw_8bit);
    case Kernel::kLion:
      return call(scalars.args<LionArgs>(tensors, 0.01, where), lion_8bit_cuda, lion_8bit_ref,
                  expect_lion_8bit);
    case Kernel::kSgd:
    case Kernel::kNesterov: {
      auto args = scalars.args<SgdArgs>(tensors, 0.01, where);
      args.momentum = 0.9;
      args.nesterov = kernel == Kernel::kNesterov ? Nesterov::kOn : Nesterov::kOff;
      return call(args, sgd_8bit_cuda, sgd_8bit_ref, expect_sgd_8bit);
    }
    case Kernel::kAdagrad: {
      auto args = scalars.args<AdagradArgs>(tensors, 0.01, where);
      args.lr_decay = 0.01;
      return call(args, adagrad_8bit_cuda, adagrad_8bit_ref, expect_adagrad_8bit);
    }
  }
}

struct Case {
  Kernel kernel = Kernel::kAdamw;
  int64_t step = 1;
  DType grads = DType::kF32;
  DType low = DType::kBF16;
  double finite = 1.0;
};

void check(const Case& test, const std::vector<int64_t>& counts) {
  EightBitList start("eight_bit_cuda/start", DType::kF32, counts),
      want("eight_bit_cuda/want", DType::kF64, counts), got("eight_bit_cuda/got", DType::kF32, counts);
  fill(start, test.kernel);
  NarrowBuffers narrow("eight_bit_cuda", start, test.grads, test.low);
  want.copy_from(start);
  got.copy_from(start);
  DeviceScalars scalars(1e-3, test.step, 0.7, test.finite);
  Twins gpu;
  std::vector<OptimizerTensor> tensors;
  std::vector<GuardedBuffer*> outputs;
  for (size_t i = 0; i < got.size(); ++i) {
    tensors.push_back({.param = gpu(got.param(i)),
                       .grad = gpu(narrow.grads[i]),
                       .m = gpu(got.m(i)),
                       .v = gpu(got.v(i)),
                       .count = counts[i],
                       .m_absmax = gpu(got.m_absmax(i)),
                       .v_absmax = gpu(got.v_absmax(i)),
                       .low = gpu(narrow.low[i])});
    outputs.insert(outputs.end(), {&got.param(i), &got.m(i), &got.m_absmax(i), &narrow.low[i]});
    if (test.kernel == Kernel::kAdamw) outputs.insert(outputs.end(), {&got.v(i), &got.v_absmax(i)});
  }
  run_twice(gpu, outputs, [&] {
    with_kernel(test.kernel, scalars, tensors, on_device(gpu),
                [](const auto& args, auto kernel, auto, auto) { kernel(args, nullptr); });
  });
  if (test.finite == 0.0) {
    for (size_t i = 0; i < got.size(); ++i) {
      expect_same_bits(got.param(i), start.param(i));
      expect_same_bits(got.m(i), start.m(i));
      expect_same_bits(got.m_absmax(i), start.m_absmax(i));
    }
    return;
  }
  with_kernel(test.kernel, scalars, want.tensors(), kOnHost,
              [&](const auto& args, auto, auto reference, auto expect) {
                reference(args);
                expect(start, want, got, args);
              });
  expect_copies(got, narrow.low);
}

// Returns the sizes of more tensors than one launch of the kernel can update.
std::vector<int64_t> many_eight_bit_counts() {
  std::vector<int64_t> counts = kEightBitCounts;
  for (int64_t i = 0; i < 900; ++i) counts.push_back(1 + (i * 7) % 300);
  counts.push_back(30000);
  return counts;
}

TEST(Adamw8BitCuda, OneStepMatchesTheReference) {
  check({}, kEightBitCounts);
  check({.step = 17, .grads = DType::kBF16, .low = DType::kF16}, kEightBitCounts);
}

TEST(Adamw8BitCuda, TakesMoreTensorsThanALaunch) {
  check({.step = 100000, .grads = DType::kF16}, many_eight_bit_counts());
}

TEST(Lion8BitCuda, OneStepMatchesTheReference) {
  check({.kernel = Kernel::kLion}, kEightBitCounts);
  check({.kernel = Kernel::kLion, .grads = DType::kBF16, .low = DType::kF16}, kEightBitCounts);
}

TEST(Lion8BitCuda, TakesMoreTensorsThanALaunch) {
  check({.kernel = Kernel::kLion}, many_eight_bit_counts());
}

TEST(Sgd8BitCuda, OneStepMatchesTheReference) {
  for (const Kernel kernel : {Kernel::kSgd, Kernel::kNesterov}) {
    check({.kernel = kernel}, kEightBitCounts);  // the first step, in which the momentum becomes the gradient
    check({.kernel = kernel, .step = 2}, kEightBitCounts);
    check({.kernel = kernel, .step = 17, .grads = DType::kBF16, .low = DType::kF16}, kEightBitCounts);
  }
}

TEST(Sgd8BitCuda, TakesMoreTensorsThanALaunch) {
  check({.kernel = Kernel::kSgd, .step = 17, .grads = DType::kF16}, many_eight_bit_counts());
}

TEST(Adagrad8BitCuda, OneStepMatchesTheReference) {
  check({.kernel = Kernel::kAdagrad}, kEightBitCounts);
  check({.kernel = Kernel::kAdagrad, .step = 17, .grads = DType::kBF16, .low = DType::kF16}, kEightBitCounts);
}

TEST(Adagrad8BitCuda, TakesMoreTensorsThanALaunch) {
  check({.kernel = Kernel::kAdagrad, .step = 17, .grads = DType::kF16}, many_eight_bit_counts());
}

void check_noise(Kernel which, const std::vector<int64_t>& counts) {
  EightBitList want("eight_bit_noise", DType::kF32, counts), got("eight_bit_noise", DType::kF32, counts);
  fill(want, which);
  NarrowBuffers narrow("eight_bit_noise", want, DType::kBF16, DType::kBF16);
  got.copy_from(want);
  NarrowParameters before(want), wanted(want), weights(want);
  wanted.give_to(want);
  DeviceScalars scalars(1e-2, 17, 0.7);
  Twins gpu;
  std::vector<OptimizerTensor> tensors;
  for (size_t i = 0; i < got.size(); ++i) {
    // Treats the last tensor as the end of a larger parameter, so its random numbers must be those of the elements from index 4097 on.
    const int64_t first = i + 1 == got.size() ? 4097 : 0;
    want.mutable_tensors()[i].first = first;
    tensors.push_back({.param = gpu(weights.p[i]),
                       .grad = gpu(narrow.grads[i]),
                       .m = gpu(got.m(i)),
                       .v = gpu(got.v(i)),
                       .count = counts[i],
                       .first = first,
                       .m_absmax = gpu(got.m_absmax(i)),
                       .v_absmax = gpu(got.v_absmax(i))});
  }
  with_kernel(which, scalars, want.tensors(), kOnHost,
              [&](const auto& args, auto, auto reference, auto) { reference(with_noise(args)); });
  with_kernel(which, scalars, tensors, on_device(gpu),
              [&](const auto& args, auto kernel, auto, auto) { kernel(with_noise(args), nullptr); });
  gpu.download();
  expect_the_same_noise(before, weights, wanted);
}

TEST(EightBitCuda, WeightsInBf16AloneTakeTheReferencesNoise) {
  for (const Kernel which : kKernels) {
    check_noise(which, kEightBitCounts);
    check_noise(which, many_eight_bit_counts());
  }
}

TEST(EightBitCuda, NothingChangesWhenTheFlagSaysNotFinite) {
  for (const Kernel kernel : kKernels) check({.kernel = kernel, .finite = 0.0}, kEightBitCounts);
}

}  // namespace
}  // namespace plimsoll::test
