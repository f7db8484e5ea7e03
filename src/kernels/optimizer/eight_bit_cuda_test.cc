#include <gtest/gtest.h>

#include "kernels/element_wise/cuda_cases.h"
#include "kernels/optimizer/adamw_8bit_cuda.h"
#include "kernels/optimizer/eight_bit_test_tensors.h"
#include "kernels/optimizer/lion_8bit_cuda.h"
#include "kernels/optimizer/optimizer_test_tensors.h"

namespace plimsoll::test {
namespace {

// The scalars of a step, as the executor keeps them on the device.
struct Scalars {
  GuardedBuffer lr{"lr", DType::kF32, 1}, step = integers(DType::kI64, {1}), clip{"clip", DType::kF32, 1},
                                          finite{"finite", DType::kF32, 1};

  explicit Scalars(int64_t step_value, double finite_value = 1.0) {
    lr.fill(1e-3);
    step.view().as<int64_t>()[0] = step_value;
    clip.fill(0.7);
    finite.fill(finite_value);
  }
  template <class View>
  AdamwArgs adamw(std::span<const OptimizerTensor> tensors, const View& view) {
    return {.tensors = tensors,
            .learning_rate = view(lr),
            .step = view(step),
            .clip_coefficient = view(clip),
            .finite = view(finite),
            .weight_decay = 0.01};
  }
  template <class View>
  LionArgs lion(std::span<const OptimizerTensor> tensors, const View& view) {
    return {.tensors = tensors,
            .learning_rate = view(lr),
            .clip_coefficient = view(clip),
            .finite = view(finite),
            .weight_decay = 0.01};
  }
};
const auto kOnHost = [](GuardedBuffer& buffer) { return ConstView(buffer.view()); };

enum class Kernel : uint8_t { kAdamw, kLion };

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
  start.fill();
  std::vector<GuardedBuffer> grads, low;
  for (size_t i = 0; i < counts.size(); ++i) {
    grads.emplace_back("eight_bit_cuda/typed", test.grads, counts[i]).assign(start.grad(i).to_doubles());
    start.grad(i).assign(grads.back().to_doubles());
    low.emplace_back("eight_bit_cuda/low", test.low, counts[i]);
  }
  want.copy_from(start);
  got.copy_from(start);
  Scalars scalars(test.step, test.finite);
  Twins gpu;
  std::vector<OptimizerTensor> tensors;
  std::vector<GuardedBuffer*> outputs;
  for (size_t i = 0; i < got.size(); ++i) {
    tensors.push_back({.param = gpu(got.param(i)),
                       .grad = gpu(grads[i]),
                       .m = gpu(got.m(i)),
                       .v = gpu(got.v(i)),
                       .count = counts[i],
                       .m_absmax = gpu(got.m_absmax(i)),
                       .v_absmax = gpu(got.v_absmax(i)),
                       .low = gpu(low[i])});
    outputs.insert(outputs.end(), {&got.param(i), &got.m(i), &got.m_absmax(i), &low[i]});
    if (test.kernel == Kernel::kAdamw) outputs.insert(outputs.end(), {&got.v(i), &got.v_absmax(i)});
  }
  const auto on_gpu = [&](GuardedBuffer& buffer) { return ConstView(gpu(buffer)); };
  run_twice(gpu, outputs, [&] {
    if (test.kernel == Kernel::kAdamw) {
      adamw_8bit_cuda(scalars.adamw(tensors, on_gpu), nullptr);
    } else {
      lion_8bit_cuda(scalars.lion(tensors, on_gpu), nullptr);
    }
  });
  if (test.finite == 0.0) {
    for (size_t i = 0; i < got.size(); ++i) {
      expect_same_bits(got.param(i), start.param(i));
      expect_same_bits(got.m(i), start.m(i));
      expect_same_bits(got.m_absmax(i), start.m_absmax(i));
    }
    return;
  }
  if (test.kernel == Kernel::kAdamw) {
    adamw_8bit_ref(scalars.adamw(want.tensors(), kOnHost));
    expect_adamw_8bit(start, want, got, scalars.adamw(want.tensors(), kOnHost));
  } else {
    lion_8bit_ref(scalars.lion(want.tensors(), kOnHost));
    expect_lion_8bit(start, want, got, scalars.lion(want.tensors(), kOnHost));
  }
  for (size_t i = 0; i < got.size(); ++i) {
    GuardedBuffer want_low("want low", low[i].dtype(), low[i].count());
    want_low.assign(got.param(i).to_doubles());
    if (low[i].dtype() == DType::kBF16) assign_upper_halves(want_low, got.param(i));
    expect_same_bits(low[i], want_low);
  }
}

// More tensors than one launch takes.
std::vector<int64_t> many_eight_bit_counts() {
  std::vector<int64_t> counts = kEightBitCounts;
  for (int64_t i = 0; i < 900; ++i) counts.push_back(1 + (i * 7) % 300);
  counts.push_back(30000);
  return counts;
}

TEST(Adamw8BitCuda, OneStepMatchesTheReference) {
  check({}, kEightBitCounts);
  check({.step = 17, .grads = DType::kBF16, .low = DType::kF16}, kEightBitCounts);
  check({.step = 100000, .grads = DType::kF16}, many_eight_bit_counts());
}

TEST(Lion8BitCuda, OneStepMatchesTheReference) {
  check({.kernel = Kernel::kLion}, kEightBitCounts);
  check({.kernel = Kernel::kLion, .grads = DType::kBF16, .low = DType::kF16}, many_eight_bit_counts());
}

TEST(Adamw8BitCuda, NothingChangesWhenTheFlagSaysNotFinite) {
  check({.finite = 0.0}, kEightBitCounts);
  check({.kernel = Kernel::kLion, .finite = 0.0}, kEightBitCounts);
}

}  // namespace
}  // namespace plimsoll::test
