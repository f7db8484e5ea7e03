#include "kernels/optimizer/lion_8bit_cuda.h"

#include "kernels/optimizer/cuda/eight_bit_update.cuh"
#include "kernels/optimizer/cuda/lion_step.cuh"

namespace plimsoll {
namespace cuda {
namespace {

template <class Table>
__global__ void __launch_bounds__(kEightBitThreads, kEightBitResident)
    lion_8bit_kernel(const __grid_constant__ Table table, const LionScalars scalars) {
  if (scalars.finite.get() == 0.0) return;
  __shared__ SharedMap maps[1];
  update_eight_bit<false>(table, lion_step(scalars), maps);
}

}  // namespace
}  // namespace cuda

void lion_8bit_cuda(const LionArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "lion_8bit_cuda";
  const cuda::LionScalars scalars = cuda::lion_scalars(kKernel, args);
  cuda::for_each_table<cuda::EightBitEntry>(
      args.tensors, cuda::kEightBitChunk, cuda::EightBitEntryMaker{kKernel, false}, [&](const auto& table) {
        if (table.num_chunks == 0) return;
        cuda::lion_8bit_kernel<<<cuda::eight_bit_grid(table.num_chunks), cuda::kEightBitThreads, 0, stream>>>(
            table, scalars);
        PLIMSOLL_CHECK_LAUNCH("lion_8bit");
      });
}

}  // namespace plimsoll
