// What the GPU tests of this folder share: lists of tensors with their twins on the GPU. Not thread-safe:
// tests.
#pragma once

#include <vector>

#include "kernels/element_wise/cuda_cases.h"
#include "kernels/optimizer/optimizer_test_tensors.h"

namespace plimsoll::test {

// More tensors than one launch takes: 1400 small ones after the awkward ones.
inline std::vector<int64_t> many_counts() {
  std::vector<int64_t> counts = kAwkwardCounts;
  for (int64_t i = 0; i < 1400; ++i) counts.push_back(1 + i % 37);
  counts.push_back(30000);
  return counts;
}

// The list with its addresses on the GPU; gradients of another type where `grads` says so.
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

// The 16-bit copies are the parameters, rounded.
inline void expect_copies(TensorList& list, const std::vector<GuardedBuffer>& low) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (low[i].count() == 0) continue;
    GuardedBuffer want("want low", low[i].dtype(), low[i].count());
    want.assign(list.param(i).to_doubles());
    if (low[i].dtype() == DType::kBF16) assign_upper_halves(want, list.param(i));
    expect_same_bits(low[i], want);
  }
}

// Where a kernel's scalars lie for the reference, and for the GPU.
inline const auto kOnHost = [](GuardedBuffer& buffer) { return ConstView(buffer.view()); };
inline auto on_device(Twins& gpu) {
  return [&gpu](GuardedBuffer& buffer) { return ConstView(gpu(buffer)); };
}

// A reference list in double and one for the GPU with the same numbers, gradients in a type of their own, and
// 16-bit copies.
struct UpdateCase {
  TensorList start, want, got;
  std::vector<GuardedBuffer> grads, low;

  UpdateCase(const std::string& name, const std::vector<int64_t>& counts, DType grad_type, DType low_type)
      : start(name + "/start", DType::kF32, counts),
        want(name + "/want", DType::kF64, counts),
        got(name + "/got", DType::kF32, counts) {
    start.fill();
    for (size_t i = 0; i < counts.size(); ++i) {
      start.m(i).fill_uniform(0.01, 2.0);  // a sum of squares has no sign
      grads.emplace_back(name + "/typed", grad_type, counts[i]).assign(start.grad(i).to_doubles());
      start.grad(i).assign(grads.back().to_doubles());
      low.emplace_back(name + "/low", low_type, counts[i]);
    }
    want.copy_from(start);
    got.copy_from(start);
  }
  std::vector<GuardedBuffer*> outputs() {
    std::vector<GuardedBuffer*> list;
    for (size_t i = 0; i < got.size(); ++i) list.insert(list.end(), {&got.param(i), &got.m(i), &low[i]});
    return list;
  }
};

}  // namespace plimsoll::test
