#include "kernels/optimizer/adamw_cuda.h"

#include "kernels/optimizer/cuda/adamw_step.cuh"
#include "kernels/optimizer/cuda/update.cuh"

namespace plimsoll {
namespace cuda {
namespace {

template <class Table>
__global__ void __launch_bounds__(kUpdateThreads)
    adamw_kernel(const AdamwScalars scalars, const __grid_constant__ Table table) {
  if (scalars.finite.get() == 0.0) return;
  __shared__ AdamwStep shared;
  if (threadIdx.x == 0) shared = adamw_step(scalars);
  __syncthreads();
  const AdamwStep step = shared;
  const Noise noise(scalars.noise);
  for (uint32_t chunk = blockIdx.x; chunk < table.num_chunks; chunk += gridDim.x) {
    update_chunk(table, chunk, step, noise);
  }
}

}  // namespace
}  // namespace cuda

void adamw_cuda(const AdamwArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "adamw_cuda";
  const cuda::AdamwScalars scalars = cuda::adamw_scalars(kKernel, args);
  cuda::for_each_table<cuda::UpdateEntry>(
      args.tensors, cuda::kUpdateChunk, cuda::UpdateEntryMaker{kKernel, true, true, true},
      [&](const auto& table) {
        if (table.num_chunks == 0) return;
        const auto kernel = cuda::adamw_kernel<std::remove_cvref_t<decltype(table)>>;
        kernel<<<cuda::update_blocks(kernel, table.num_chunks), cuda::kUpdateThreads, 0, stream>>>(scalars,
                                                                                                   table);
        PLIMSOLL_CHECK_LAUNCH("adamw");
      });
}

}  // namespace plimsoll
