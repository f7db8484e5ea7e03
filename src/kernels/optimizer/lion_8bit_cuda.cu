#include "kernels/optimizer/lion_8bit_cuda.h"

#include "kernels/optimizer/cuda/eight_bit_update.cuh"
#include "kernels/optimizer/cuda/lion_step.cuh"

namespace plimsoll {
namespace cuda {
namespace {

template <class Param, class Table>
__global__ void __launch_bounds__(kEightBitThreads, kEightBitResident)
    lion_8bit_kernel(const __grid_constant__ Table table, const LionScalars scalars) {
  if (scalars.finite.get() == 0.0) return;
  __shared__ SharedMap maps[1];
  update_eight_bit<Param, false>(table, lion_step(scalars), maps, scalars.noise.get());
}

}  // namespace
}  // namespace cuda

void lion_8bit_cuda(const LionArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "lion_8bit_cuda";
  const cuda::LionScalars scalars = cuda::lion_scalars(kKernel, args);
  cuda::for_each_eight_bit_table(kKernel, args.tensors, false, [&](const auto& table, auto param) {
    const unsigned grid = cuda::eight_bit_grid(table.num_chunks);
    cuda::lion_8bit_kernel<decltype(param)><<<grid, cuda::kEightBitThreads, 0, stream>>>(table, scalars);
    PLIMSOLL_CHECK_LAUNCH("lion_8bit");
  });
}

}  // namespace plimsoll
