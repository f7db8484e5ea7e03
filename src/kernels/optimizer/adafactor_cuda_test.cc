#include <gtest/gtest.h>

#include "kernels/optimizer/adafactor.h"
#include "kernels/optimizer/testing/adafactor_tensors.h"
#include "kernels/optimizer/testing/optimizer_cuda_cases.h"

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

AdafactorArgs args_of(const Options& options, AdafactorArgs args) {
  args.clip_threshold = options.clip_threshold;
  args.beta1 = options.beta1;
  args.scale_by_parameter = options.scale;
  return args;
}

// Returns shapes of more tensors than one launch of the kernel can update.
std::vector<AdafactorShape> many_shapes() {
  std::vector<AdafactorShape> shapes = kAdafactorShapes;
  for (int64_t i = 0; i < 700; ++i) shapes.push_back({1 + i % 5, 1 + i % 37, i % 2 == 0 || i % 5 > 0});
  return shapes;
}

void check(const Options& options, const std::vector<AdafactorShape>& shapes) {
  AdafactorList start("adafactor_cuda/start", DType::kF32, shapes),
      want("adafactor_cuda/want", DType::kF64, shapes), got("adafactor_cuda/got", DType::kF32, shapes);
  start.fill();
  NarrowBuffers narrow("adafactor_cuda", start, options.grads, options.low);
  want.copy_from(start);
  got.copy_from(start);
  DeviceScalars scalars(1e-3, options.step, 0.7, options.finite);
  const AdafactorArgs reference =
      args_of(options, scalars.args<AdafactorArgs>(want.tensors(), options.weight_decay, kOnHost));
  adafactor_ref(reference);
  Twins gpu;
  GuardedBuffer scratch = scratch_of(got.scratch_bytes());
  std::vector<AdafactorTensor> tensors;
  std::vector<GuardedBuffer*> outputs;
  for (size_t i = 0; i < got.size(); ++i) {
    AdafactorTensor tensor = got.tensors()[i];
    tensor.param = gpu(got.param(i));
    tensor.grad = gpu(narrow.grads[i]);
    tensor.m = gpu(got.m(i));
    tensor.low = gpu(narrow.low[i]);
    if (tensor.is_matrix()) {
      tensor.row = gpu(got.row(i));
      tensor.column = gpu(got.column(i));
      outputs.push_back(&got.row(i));
    } else {
      tensor.v = gpu(got.column(i));
    }
    tensors.push_back(tensor);
    outputs.insert(outputs.end(), {&got.param(i), &got.column(i), &got.m(i), &narrow.low[i]});
  }
  run_twice(gpu, outputs, [&] {
    AdafactorArgs args =
        args_of(options, scalars.args<AdafactorArgs>(tensors, options.weight_decay, on_device(gpu)));
    args.scratch = gpu(scratch);
    adafactor_cuda(args, nullptr);
  });
  if (options.finite == 0.0) {
    for (size_t i = 0; i < got.size(); ++i) expect_same_bits(got.param(i), start.param(i));
    return;
  }
  expect_adafactor_within(start, want, got, reference);
  expect_copies(got, narrow.low);
}

void check_noise(const Options& options, const std::vector<AdafactorShape>& shapes) {
  AdafactorList want("adafactor_noise", DType::kF32, shapes), got("adafactor_noise", DType::kF32, shapes);
  want.fill();
  NarrowBuffers narrow("adafactor_noise", want, DType::kBF16, DType::kBF16);
  got.copy_from(want);
  NarrowParameters before(want), wanted(want), weights(want);
  wanted.give_to(want);
  DeviceScalars scalars(1e-2, options.step, 0.7);
  Twins gpu;
  GuardedBuffer scratch = scratch_of(got.scratch_bytes());
  std::vector<AdafactorTensor> tensors;
  for (size_t i = 0; i < got.size(); ++i) {
    AdafactorTensor& reference = want.mutable_tensors()[i];
    // Treats every third tensor as the second half of a parameter. The kernel must derive the random numbers from the indices of the
    // elements in the whole parameter, not in the tensor.
    reference.first = i % 3 == 0 ? reference.count() : 0;
    AdafactorTensor tensor = reference;
    tensor.param = gpu(weights.p[i]);
    tensor.grad = gpu(narrow.grads[i]);
    tensor.m = gpu(got.m(i));
    if (tensor.is_matrix()) {
      tensor.row = gpu(got.row(i));
      tensor.column = gpu(got.column(i));
    } else {
      tensor.v = gpu(got.column(i));
    }
    tensors.push_back(tensor);
  }
  const auto with_all = [&](const AdafactorArgs& args) { return args_of(options, with_noise(args)); };
  adafactor_ref(with_all(scalars.args<AdafactorArgs>(want.tensors(), 0.01, kOnHost)));
  AdafactorArgs args = with_all(scalars.args<AdafactorArgs>(tensors, 0.01, on_device(gpu)));
  args.scratch = gpu(scratch);
  adafactor_cuda(args, nullptr);
  gpu.download();
  expect_the_same_noise(before, weights, wanted);
}

TEST(AdafactorCuda, WeightsInBf16AloneTakeTheReferencesNoise) {
  check_noise({.step = 3}, kAdafactorShapes);
  check_noise({.step = 17, .beta1 = 0.9, .scale = ScaleByParameter::kYes}, many_shapes());
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
