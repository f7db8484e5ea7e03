#include "kernels/loss/cuda/loss_rows.cuh"

namespace plimsoll::cuda {
namespace {

constexpr int kThreads = 1024;

__global__ void __launch_bounds__(kThreads)
    add_row_losses_kernel(const double* rows, int64_t num_rows, const LossTotal total) {
  __shared__ double slots[kThreads / 32];
  double sum = 0.0;
  for (int64_t b = threadIdx.x; b < num_rows; b += kThreads) sum += rows[b];
  sum = block_sum(sum, static_cast<int>(threadIdx.x), kThreads / 32, slots);
  if (threadIdx.x > 0) return;
  const double loss = sum / (total.denominator.get() * total.divisor);
  total.loss.set(total.adds ? total.loss.get() + loss : loss);
}

}  // namespace

void add_row_losses(const double* rows, int64_t num_rows, const LossTotal& total, CudaStream stream) {
  add_row_losses_kernel<<<1, kThreads, 0, stream>>>(rows, num_rows, total);
  PLIMSOLL_CHECK_LAUNCH("add_row_losses");
}

}  // namespace plimsoll::cuda
