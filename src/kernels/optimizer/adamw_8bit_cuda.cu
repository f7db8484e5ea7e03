#include "kernels/optimizer/adamw_8bit_cuda.h"

#include "kernels/optimizer/cuda/adamw_step.cuh"
#include "kernels/optimizer/cuda/eight_bit_update.cuh"

namespace plimsoll {
namespace cuda {
namespace {

template <class Param, class Table>
__global__ void __launch_bounds__(kEightBitThreads, kEightBitResident)
    adamw_8bit_kernel(const __grid_constant__ Table table, const AdamwScalars scalars) {
  if (scalars.finite.get() == 0.0) return;
  __shared__ SharedMap maps[2];
  __shared__ AdamwStep shared;
  if (threadIdx.x == 0) shared = adamw_step(scalars);
  update_eight_bit<Param, true>(table, shared, maps, scalars.noise.get());
}

}  // namespace
}  // namespace cuda

void adamw_8bit_cuda(const AdamwArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "adamw_8bit_cuda";
  const cuda::AdamwScalars scalars = cuda::adamw_scalars(kKernel, args);
  cuda::for_each_eight_bit_table(kKernel, args.tensors, true, [&](const auto& table, auto param) {
    const unsigned grid = cuda::eight_bit_grid(table.num_chunks);
    cuda::adamw_8bit_kernel<decltype(param)><<<grid, cuda::kEightBitThreads, 0, stream>>>(table, scalars);
    PLIMSOLL_CHECK_LAUNCH("adamw_8bit");
  });
}

}  // namespace plimsoll
