#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/element_wise/cuda_cases.h"
#include "kernels/optimizer/adamw_cuda.h"
#include "kernels/optimizer/global_norm_cuda.h"
#include "kernels/optimizer/optimizer_test_tensors.h"
#include "kernels/optimizer/sgd_cuda.h"
#include "kernels/optimizer/tensor_scan_cuda.h"

namespace plimsoll::test {
namespace {

// More tensors than one launch takes: 1400 small ones after the awkward ones.
std::vector<int64_t> many_counts() {
  std::vector<int64_t> counts = kAwkwardCounts;
  for (int64_t i = 0; i < 1400; ++i) counts.push_back(1 + i % 37);
  counts.push_back(30000);
  return counts;
}

// The list with its addresses on the GPU; gradients of another type where `grads` says so.
std::vector<OptimizerTensor> on_gpu(Twins& gpu, TensorList& list, std::vector<GuardedBuffer>* grads = nullptr,
                                    std::vector<GuardedBuffer>* low = nullptr) {
  std::vector<OptimizerTensor> tensors;
  for (size_t i = 0; i < list.size(); ++i) {
    tensors.push_back({.param = gpu(list.param(i)),
                       .grad = grads != nullptr ? gpu((*grads)[i]) : gpu(list.grad(i)),
                       .m = gpu(list.m(i)),
                       .v = gpu(list.v(i)),
                       .count = list.param(i).count()});
    if (low != nullptr) tensors.back().low = gpu((*low)[i]);
  }
  return tensors;
}

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
  AdamwArgs adamw(std::span<const OptimizerTensor> tensors, double weight_decay, const View& view) {
    return {.tensors = tensors,
            .learning_rate = view(lr),
            .step = view(step),
            .clip_coefficient = view(clip),
            .finite = view(finite),
            .weight_decay = weight_decay};
  }
  template <class View>
  SgdArgs sgd(std::span<const OptimizerTensor> tensors, double momentum, Nesterov nesterov,
              const View& view) {
    return {.tensors = tensors,
            .learning_rate = view(lr),
            .step = view(step),
            .clip_coefficient = view(clip),
            .finite = view(finite),
            .momentum = momentum,
            .weight_decay = 0.01,
            .nesterov = nesterov};
  }
};
const auto kOnHost = [](GuardedBuffer& buffer) { return ConstView(buffer.view()); };

// The 16-bit copies are the parameters, rounded.
void expect_copies(TensorList& list, const std::vector<GuardedBuffer>& low) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (low[i].count() == 0) continue;
    GuardedBuffer want("want low", low[i].dtype(), low[i].count());
    want.assign(list.param(i).to_doubles());
    expect_same_bits(low[i], want);
  }
}

struct AdamwStepCase {
  int64_t step;
  double lr, weight_decay, clip;
  DType grads, low;
};

void check_adamw(const AdamwStepCase& test, const std::vector<int64_t>& counts) {
  TensorList start("adamw_cuda/start", DType::kF32, counts), want("adamw_cuda/want", DType::kF64, counts),
      got("adamw_cuda/got", DType::kF32, counts);
  start.fill();
  std::vector<GuardedBuffer> grads, low;
  for (size_t i = 0; i < counts.size(); ++i) {
    grads.emplace_back("adamw_cuda/typed", test.grads, counts[i]).assign(start.grad(i).to_doubles());
    start.grad(i).assign(grads.back().to_doubles());
    low.emplace_back("adamw_cuda/low", test.low, counts[i]);
  }
  want.copy_from(start);
  got.copy_from(start);
  Scalars scalars(test.lr, test.step, test.clip);
  const AdamwArgs reference = scalars.adamw(want.tensors(), test.weight_decay, kOnHost);
  adamw_ref(reference);
  Twins gpu;
  const std::vector<OptimizerTensor> tensors = on_gpu(gpu, got, &grads, &low);
  std::vector<GuardedBuffer*> outputs;
  for (size_t i = 0; i < got.size(); ++i) {
    outputs.insert(outputs.end(), {&got.param(i), &got.m(i), &got.v(i), &low[i]});
  }
  run_twice(gpu, outputs, [&] {
    adamw_cuda(scalars.adamw(tensors, test.weight_decay, [&](GuardedBuffer& b) { return ConstView(gpu(b)); }),
               nullptr);
  });
  const AdamwCoefficients c = adamw_coefficients(reference);
  for (size_t i = 0; i < start.size(); ++i) {
    if (counts[i] == 0) continue;
    std::vector<double> param_limits, m_limits, v_limits;
    for (int64_t j = 0; j < counts[i]; ++j) {
      const auto larger = [&](GuardedBuffer& a, GuardedBuffer& b) {
        return std::max(std::fabs(a.load(j)), std::fabs(b.load(j)));
      };
      const double v = want.v(i).load(j);
      const double denominator = std::sqrt(v) * c.inverse_sqrt_bc2 + reference.epsilon;
      const AdamwErrorBound bound =
          adamw_error_bound(c, larger(start.param(i), want.param(i)), larger(start.m(i), want.m(i)), v,
                            std::fabs(start.grad(i).load(j)), denominator);
      param_limits.push_back(bound.param);
      m_limits.push_back(bound.m);
      v_limits.push_back(bound.v);
    }
    expect_within(got.param(i), want.param(i), param_limits);
    expect_within(got.m(i), want.m(i), m_limits);
    expect_within(got.v(i), want.v(i), v_limits);
  }
  expect_copies(got, low);
}

TEST(AdamwCuda, OneStepMatchesTheReference) {
  check_adamw({1, 1e-3, 0.0, 1.0, DType::kF32, DType::kBF16}, kAwkwardCounts);
  check_adamw({17, 5e-5, 0.01, 0.37, DType::kBF16, DType::kF16}, kAwkwardCounts);
  check_adamw({100000, 1e-2, 0.5, 1.0, DType::kF16, DType::kBF16}, kAwkwardCounts);
}

TEST(AdamwCuda, TakesMoreTensorsThanALaunch) {
  check_adamw({3, 1e-3, 0.01, 1.0, DType::kF32, DType::kBF16}, many_counts());
}

TEST(AdamwCuda, NothingChangesWhenTheFlagSaysNotFinite) {
  TensorList list("adamw_cuda/flag", DType::kF32, {100, 5000}),
      before("adamw_cuda/flag", DType::kF32, {100, 5000});
  list.fill();
  before.copy_from(list);
  Scalars scalars(0.1, 1, 1.0, 0.0);
  Twins gpu;
  const std::vector<OptimizerTensor> tensors = on_gpu(gpu, list);
  adamw_cuda(scalars.adamw(tensors, 0.1, [&](GuardedBuffer& b) { return ConstView(gpu(b)); }), nullptr);
  sgd_cuda(scalars.sgd(tensors, 0.9, Nesterov::kOff, [&](GuardedBuffer& b) { return ConstView(gpu(b)); }),
           nullptr);
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
  const std::vector<int64_t>& counts = kAwkwardCounts;
  TensorList start("sgd_cuda/start", DType::kF32, counts), want("sgd_cuda/want", DType::kF64, counts),
      got("sgd_cuda/got", DType::kF32, counts);
  start.fill();
  std::vector<GuardedBuffer> grads, low;
  for (size_t i = 0; i < counts.size(); ++i) {
    grads.emplace_back("sgd_cuda/typed", test.grads, counts[i]).assign(start.grad(i).to_doubles());
    start.grad(i).assign(grads.back().to_doubles());
    low.emplace_back("sgd_cuda/low", DType::kBF16, counts[i]);
  }
  want.copy_from(start);
  got.copy_from(start);
  for (size_t i = 0; i < got.size(); ++i) {
    // The first step reads no buffer.
    if (test.step == 1) got.m(i).poison();
  }
  Scalars scalars(0.03, test.step, 0.6);
  const double lr = scalars.lr.load(0);
  sgd_ref(scalars.sgd(want.tensors(), test.momentum, test.nesterov, kOnHost));
  Twins gpu;
  std::vector<OptimizerTensor> tensors = on_gpu(gpu, got, &grads, &low);
  if (test.momentum == 0.0) {
    for (OptimizerTensor& tensor : tensors) tensor.m = {};
  }
  std::vector<GuardedBuffer*> outputs;
  for (size_t i = 0; i < got.size(); ++i) outputs.insert(outputs.end(), {&got.param(i), &got.m(i), &low[i]});
  run_twice(gpu, outputs, [&] {
    sgd_cuda(scalars.sgd(tensors, test.momentum, test.nesterov,
                         [&](GuardedBuffer& b) { return ConstView(gpu(b)); }),
             nullptr);
  });
  for (size_t i = 0; i < start.size(); ++i) {
    if (counts[i] == 0) continue;
    std::vector<double> param_limits, m_limits;
    for (int64_t j = 0; j < counts[i]; ++j) {
      const SgdErrorBound bound =
          sgd_error_bound(lr, test.momentum, 0.01, std::fabs(start.param(i).load(j)),
                          std::fabs(start.m(i).load(j)), std::fabs(start.grad(i).load(j)));
      param_limits.push_back(bound.param);
      m_limits.push_back(bound.m);
    }
    expect_within(got.param(i), want.param(i), param_limits);
    if (test.momentum != 0.0) expect_within(got.m(i), want.m(i), m_limits);
  }
  expect_copies(got, low);
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
