#include "kernels/optimizer/adagrad_8bit_cuda.h"
#include "kernels/optimizer/cuda/adagrad_step.cuh"
#include "kernels/optimizer/cuda/eight_bit_update.cuh"

namespace plimsoll {
namespace cuda {
namespace {

template <class Param, class Table>
__global__ void __launch_bounds__(kEightBitThreads, kEightBitResident)
    adagrad_8bit_kernel(const __grid_constant__ Table table, const AdagradScalars scalars) {
  if (scalars.finite.get() == 0.0) return;
  __shared__ SharedMap maps[1];
  update_eight_bit<Param, false>(table, adagrad_step(scalars), maps, scalars.noise.get());
}

}  // namespace
}  // namespace cuda

void adagrad_8bit_cuda(const AdagradArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "adagrad_8bit_cuda";
  const cuda::AdagradScalars scalars = cuda::adagrad_scalars(kKernel, args);
  cuda::for_each_eight_bit_table(kKernel, args.tensors, false, [&](const auto& table, auto param) {
    const unsigned grid = cuda::eight_bit_grid(table.num_chunks);
    cuda::adagrad_8bit_kernel<decltype(param)><<<grid, cuda::kEightBitThreads, 0, stream>>>(table, scalars);
    PLIMSOLL_CHECK_LAUNCH("adagrad_8bit");
  });
}

}  // namespace plimsoll
