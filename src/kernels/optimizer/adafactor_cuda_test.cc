#include <gtest/gtest.h>

#include "kernels/element_wise/cuda_cases.h"
#include "kernels/optimizer/adafactor_cuda.h"
#include "kernels/optimizer/adafactor_test_tensors.h"
#include "kernels/optimizer/optimizer_test_tensors.h"

namespace plimsoll::test {
namespace {

struct Options {
  int64_t step = 1;
  double weight_decay = 0.0;
  std::optional<double> beta1 = {};
  ScaleByParameter scale = ScaleByParameter::kNo;
  double clip_threshold = 1.0;
  DType grads = DType::kF32;
  DType low = DType::kBF16;
  double finite = 1.0;
};

// The scalars of a step, as the executor keeps them on the device.
struct Scalars {
  GuardedBuffer lr{"lr", DType::kF32, 1}, step = integers(DType::kI64, {1}), clip{"clip", DType::kF32, 1},
                                          finite{"finite", DType::kF32, 1};

  explicit Scalars(const Options& options) {
    lr.fill(1e-3);
    step.view().as<int64_t>()[0] = options.step;
    clip.fill(0.7);
    finite.fill(options.finite);
  }
  template <class View>
  AdafactorArgs args(std::span<const AdafactorTensor> tensors, const Options& options, const View& view) {
    return {.tensors = tensors,
            .learning_rate = view(lr),
            .step = view(step),
            .clip_coefficient = view(clip),
            .finite = view(finite),
            .clip_threshold = options.clip_threshold,
            .beta1 = options.beta1,
            .weight_decay = options.weight_decay,
            .scale_by_parameter = options.scale};
  }
};

// More tensors than one launch takes.
std::vector<AdafactorShape> many_shapes() {
  std::vector<AdafactorShape> shapes = kAdafactorShapes;
  for (int64_t i = 0; i < 700; ++i) shapes.push_back({1 + i % 5, 1 + i % 37, i % 2 == 0 || i % 5 > 0});
  return shapes;
}

void check(const Options& options, const std::vector<AdafactorShape>& shapes) {
  AdafactorList start("adafactor_cuda/start", DType::kF32, shapes),
      want("adafactor_cuda/want", DType::kF64, shapes), got("adafactor_cuda/got", DType::kF32, shapes);
  start.fill();
  std::vector<GuardedBuffer> grads, low;
  for (size_t i = 0; i < start.size(); ++i) {
    const int64_t count = start.param(i).count();
    grads.emplace_back("adafactor_cuda/typed", options.grads, count).assign(start.grad(i).to_doubles());
    start.grad(i).assign(grads.back().to_doubles());
    low.emplace_back("adafactor_cuda/low", options.low, count);
  }
  want.copy_from(start);
  got.copy_from(start);
  Scalars scalars(options);
  const AdafactorArgs reference =
      scalars.args(want.tensors(), options, [](GuardedBuffer& buffer) { return ConstView(buffer.view()); });
  adafactor_ref(reference);
  Twins gpu;
  GuardedBuffer scratch = scratch_of(got.scratch_bytes());
  std::vector<AdafactorTensor> tensors;
  std::vector<GuardedBuffer*> outputs;
  for (size_t i = 0; i < got.size(); ++i) {
    AdafactorTensor tensor = got.tensors()[i];
    tensor.param = gpu(got.param(i));
    tensor.grad = gpu(grads[i]);
    tensor.m = gpu(got.m(i));
    tensor.low = gpu(low[i]);
    if (tensor.is_matrix()) {
      tensor.row = gpu(got.row(i));
      tensor.column = gpu(got.column(i));
      outputs.push_back(&got.row(i));
    } else {
      tensor.v = gpu(got.column(i));
    }
    tensors.push_back(tensor);
    outputs.insert(outputs.end(), {&got.param(i), &got.column(i), &got.m(i), &low[i]});
  }
  run_twice(gpu, outputs, [&] {
    AdafactorArgs args = scalars.args(tensors, options, [&](GuardedBuffer& b) { return ConstView(gpu(b)); });
    args.scratch = gpu(scratch);
    adafactor_cuda(args, nullptr);
  });
  if (options.finite == 0.0) {
    for (size_t i = 0; i < got.size(); ++i) expect_same_bits(got.param(i), start.param(i));
    return;
  }
  expect_adafactor_within(start, want, got, reference);
  for (size_t i = 0; i < got.size(); ++i) {
    GuardedBuffer want_low("want low", low[i].dtype(), low[i].count());
    want_low.assign(got.param(i).to_doubles());
    if (low[i].dtype() == DType::kBF16) assign_upper_halves(want_low, got.param(i));
    expect_same_bits(low[i], want_low);
  }
}

TEST(AdafactorCuda, OneStepMatchesTheReference) {
  check({}, kAdafactorShapes);
  check({.step = 17,
         .weight_decay = 0.1,
         .scale = ScaleByParameter::kYes,
         .clip_threshold = 0.3,
         .grads = DType::kBF16},
        kAdafactorShapes);
  check({.step = 1000, .weight_decay = 0.01, .beta1 = 0.9, .grads = DType::kF16, .low = DType::kF16},
        kAdafactorShapes);
}

TEST(AdafactorCuda, TakesMoreTensorsThanALaunch) {
  check({.step = 3}, many_shapes());
}

TEST(AdafactorCuda, NothingChangesWhenTheFlagSaysNotFinite) {
  check({.finite = 0.0}, kAdafactorShapes);
}

}  // namespace
}  // namespace plimsoll::test
