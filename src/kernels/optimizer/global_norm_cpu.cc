#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/optimizer/global_norm.h"
#include "kernels/optimizer/piece_cpu.h"

namespace plimsoll {
namespace {

// Index of the first tensor with a value that is not finite, -1 if there is none.
int64_t find_first_bad(std::span<const OptimizerTensor> tensors) {
  std::array<int64_t, kMaxTensorTasks> found;
  found.fill(-1);
  parallel_over_tensors(tensors, [&](int64_t task, size_t tensor, int64_t begin, int64_t count) {
    int64_t& first = found[static_cast<size_t>(task)];
    if (first < 0 && piece_first_non_finite(tensors[tensor].grad.as<float>() + begin, count) >= 0) {
      first = static_cast<int64_t>(tensor);
    }
  });
  // Tasks are in the order of tensors.
  const auto first = std::find_if(found.begin(), found.end(), [](int64_t index) { return index >= 0; });
  return first == found.end() ? -1 : *first;
}

}  // namespace

void global_norm_cpu(const GlobalNormArgs& args) {
  for (const OptimizerTensor& tensor : args.tensors) {
    PLIMSOLL_CHECK(tensor.grad.dtype == DType::kF32, "gradient of {}", dtype_name(tensor.grad.dtype));
  }
  std::array<double, kMaxTensorTasks> partial{};
  parallel_over_tensors(args.tensors, [&](int64_t task, size_t tensor, int64_t begin, int64_t count) {
    partial[static_cast<size_t>(task)] +=
        piece_square_sum(args.tensors[tensor].grad.as<float>() + begin, count);
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
