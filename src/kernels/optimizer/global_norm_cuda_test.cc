#include "kernels/optimizer/global_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "kernels/optimizer/testing/optimizer_cuda_cases.h"

namespace plimsoll::test {
namespace {

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

}  // namespace
}  // namespace plimsoll::test
