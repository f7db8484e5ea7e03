#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/optimizer/global_norm.h"
#include "kernels/optimizer/piece_cpu.h"

namespace plimsoll {
namespace {

// Calls body with the elements of a contiguous range as fp32 numbers: with the whole range if it is stored in fp32, otherwise with each
// grain of kTensorGrain elements after its conversion.
template <typename Body>
void for_each_grain(const ConstView& x, int64_t begin, int64_t count, const Body& body) {
  if (x.dtype == DType::kF32) return body(x.as<float>() + begin, count);
  float buffer[kTensorGrain];
  for (int64_t first = begin; first < begin + count; first += kTensorGrain) {
    const int64_t length = std::min(kTensorGrain, begin + count - first);
    body(floats_of(x, first, length, buffer), length);
  }
}

// Returns the index of the first tensor that contains a NaN or an infinity, or -1 if there is none.
int64_t find_first_bad(std::span<const OptimizerTensor> tensors) {
  std::array<int64_t, kMaxTensorTasks> found;
  found.fill(-1);
  parallel_over_tensors(tensors, [&](int64_t task, size_t tensor, int64_t begin, int64_t count) {
    int64_t& first = found[static_cast<size_t>(task)];
    for_each_grain(tensors[tensor].grad, begin, count, [&](const float* x, int64_t length) {
      if (first < 0 && piece_first_non_finite(x, length) >= 0) first = static_cast<int64_t>(tensor);
    });
  });
  // The tasks are in the order of the tensors. The first task that found a value that is not finite therefore contains the first such
  // tensor.
  const auto first = std::find_if(found.begin(), found.end(), [](int64_t index) { return index >= 0; });
  return first == found.end() ? -1 : *first;
}

}  // namespace

void global_norm_cpu(const GlobalNormArgs& args) {
  std::array<double, kMaxTensorTasks> partial{};
  parallel_over_tensors(args.tensors, [&](int64_t task, size_t tensor, int64_t begin, int64_t count) {
    for_each_grain(args.tensors[tensor].grad, begin, count, [&](const float* x, int64_t length) {
      partial[static_cast<size_t>(task)] += piece_square_sum(x, length);
    });
  });
  double sum = 0.0;
  for (const double value : partial) sum += value;
  const bool loss_is_finite = !args.loss || std::isfinite(args.loss.load(0));
  args.norm.store(0, std::sqrt(sum));
  if (args.finite) args.finite.store(0, std::isfinite(sum) && loss_is_finite ? 1.0 : 0.0);
  if (args.first_bad) {
    args.first_bad.as<int64_t>()[0] = std::isfinite(sum) ? -1 : find_first_bad(args.tensors);
  }
}

}  // namespace plimsoll
