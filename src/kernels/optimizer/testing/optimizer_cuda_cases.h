// Code that the GPU tests of this folder share: lists of tensors with copies on the GPU, and checks that hold for the updates of all
// optimizers. For tests only; not thread-safe.
#pragma once

#include <vector>

#include "device/cuda/stream.h"
#include "kernels/element_wise/testing/cuda_cases.h"
#include "kernels/optimizer/testing/optimizer_tensors.h"
#include "kernels/optimizer/testing/update_bounds.h"

namespace plimsoll::test {

// Returns the sizes of more tensors than one launch can update: kAwkwardCounts, and then 1400 small ones and a large one.
inline std::vector<int64_t> many_counts() {
  std::vector<int64_t> counts = kAwkwardCounts;
  for (int64_t i = 0; i < 1400; ++i) counts.push_back(1 + i % 37);
  counts.push_back(30000);
  return counts;
}

// Returns the tensors of the list with the addresses of their copies on the GPU. If `grads` or `low` is not null, the gradients or the
// 16-bit copies are taken from these buffers.
inline std::vector<OptimizerTensor> on_gpu(Twins& gpu, TensorList& list,
                                           std::vector<GuardedBuffer>* grads = nullptr,
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

// Expects that the 16-bit copies equal the rounded parameters, bit for bit.
template <typename List>
void expect_copies(List& list, const std::vector<GuardedBuffer>& low) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (low[i].count() == 0) continue;
    expect_same_bits(low[i], copy_of_parameters(list.param(i), low[i].dtype()));
  }
}

// Functions that return the view of a scalar argument: kOnHost(buffer) returns the view in host memory, which the reference gets, and
// on_device(gpu)(buffer) the view of the copy on the GPU, which the kernel gets.
inline const auto kOnHost = [](GuardedBuffer& buffer) { return ConstView(buffer.view()); };
inline auto on_device(Twins& gpu) {
  return [&gpu](GuardedBuffer& buffer) { return ConstView(gpu(buffer)); };
}

// The learning rate, step number, clip coefficient and finite flag of a step, with the types in which the executor stores them on the
// device.
struct DeviceScalars {
  GuardedBuffer lr{"lr", DType::kF32, 1}, step = integers(DType::kI64, {1}), clip{"clip", DType::kF32, 1},
                                          finite{"finite", DType::kF32, 1};

  DeviceScalars(double lr_value, int64_t step_value, double clip_value, double finite_value = 1.0) {
    lr.fill(lr_value);
    step.view().as<int64_t>()[0] = step_value;
    clip.fill(clip_value);
    finite.fill(finite_value);
  }
  // Returns the arguments of an update. view(buffer) must return the view of a scalar argument, on the host or on the GPU.
  template <typename Args, typename View>
  Args args(decltype(Args::tensors) tensors, double weight_decay, const View& view) {
    return update_args<Args>(tensors, {view(lr), view(step), view(clip), view(finite)}, weight_decay);
  }
};

// Buffers of other types for the kernel under test: `grads` contains the gradients rounded to grad_type, and `low` receives the 16-bit
// copies of the parameters. The gradients of `start` are rounded too, so that the reference uses the same numbers.
struct NarrowBuffers {
  std::vector<GuardedBuffer> grads, low;

  template <typename List>
  NarrowBuffers(const std::string& name, List& start, DType grad_type, DType low_type) {
    for (size_t i = 0; i < start.size(); ++i) {
      const int64_t count = start.param(i).count();
      grads.emplace_back(name + "/typed", grad_type, count).assign(start.grad(i).to_doubles());
      start.grad(i).assign(grads.back().to_doubles());
      low.emplace_back(name + "/low", low_type, count);
    }
  }
};

inline void fill_plainly(TensorList& list) {
  list.fill();
}
// Fills the list with random numbers, where the first state is positive, as Adagrad's sum of squares is.
inline void fill_with_sum_of_squares(TensorList& list) {
  list.fill();
  for (size_t i = 0; i < list.size(); ++i) list.m(i).fill_uniform(0.01, 2.0);
}

// Lists of tensors with the same numbers: the starting values, a list in double for the reference, and an fp32 list for the GPU.
struct UpdateCase {
  TensorList start, want, got;
  NarrowBuffers narrow;

  // fill(list) must set the starting values.
  UpdateCase(const std::string& name, const std::vector<int64_t>& counts, DType grad_type, DType low_type,
             void (*fill)(TensorList&))
      : start(filled(name + "/start", counts, fill)),
        want(name + "/want", DType::kF64, counts),
        got(name + "/got", DType::kF32, counts),
        narrow(name, start, grad_type, low_type) {
    want.copy_from(start);
    got.copy_from(start);
  }
  static TensorList filled(const std::string& name, const std::vector<int64_t>& counts,
                           void (*fill)(TensorList&)) {
    TensorList list(name, DType::kF32, counts);
    fill(list);
    return list;
  }
  std::vector<OptimizerTensor> tensors_on(Twins& gpu) { return on_gpu(gpu, got, &narrow.grads, &narrow.low); }
  std::vector<GuardedBuffer*> outputs() {
    std::vector<GuardedBuffer*> list;
    for (size_t i = 0; i < got.size(); ++i) {
      list.insert(list.end(), {&got.param(i), &got.m(i), &narrow.low[i]});
    }
    return list;
  }
};

// Sets the seed and the site, which are parts of the key of the random numbers, in the arguments of an update.
template <typename Args>
Args with_noise(Args args) {
  args.noise_seed = 0x123456789abcdefu;
  args.noise_site = 1u << 30;
  return args;
}

// Expects that the kernel rounds parameters that are stored only in bf16 with the random numbers of the reference. Args is the type of the
// arguments of both functions.
template <typename Args>
void expect_the_references_noise(const std::vector<int64_t>& counts, void (*reference)(const Args&),
                                 void (*kernel)(const Args&, CudaStream)) {
  UpdateCase test("noise_cuda", counts, DType::kBF16, DType::kBF16, fill_with_sum_of_squares);
  TensorList want("noise_cuda/want", DType::kF32, counts);
  want.copy_from(test.start);
  NarrowParameters before(want), wanted(want), weights(want);
  wanted.give_to(want);
  DeviceScalars scalars(3e-3, 9, 0.37);
  reference(with_noise(scalars.args<Args>(want.tensors(), 0.01, kOnHost)));
  Twins gpu;
  std::vector<OptimizerTensor> tensors = on_gpu(gpu, test.got, &test.narrow.grads);
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].param = gpu(weights.p[i]);
  kernel(with_noise(scalars.args<Args>(tensors, 0.01, on_device(gpu))), nullptr);
  gpu.download();
  expect_the_same_noise(before, weights, wanted);
}

template <typename Args>
void expect_no_change_when_not_finite(void (*kernel)(const Args&, CudaStream)) {
  UpdateCase test("flag_cuda", {100, 5000}, DType::kF32, DType::kBF16, fill_with_sum_of_squares);
  DeviceScalars scalars(0.1, 1, 1.0, 0.0);
  Twins gpu;
  const std::vector<OptimizerTensor> tensors = on_gpu(gpu, test.got);
  kernel(scalars.args<Args>(tensors, 0.01, on_device(gpu)), nullptr);
  gpu.download();
  for (size_t i = 0; i < test.got.size(); ++i) {
    expect_same_bits(test.got.param(i), test.start.param(i));
    expect_same_bits(test.got.m(i), test.start.m(i));
    expect_same_bits(test.got.v(i), test.start.v(i));
  }
}

}  // namespace plimsoll::test
