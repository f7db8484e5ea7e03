#include "kernels/optimizer/lion_cuda.h"

#include "kernels/optimizer/cuda/lion_step.cuh"
#include "kernels/optimizer/cuda/update.cuh"

namespace plimsoll {
namespace cuda {
namespace {

template <class Table>
__global__ void __launch_bounds__(kUpdateThreads)
    lion_kernel(const LionScalars scalars, const __grid_constant__ Table table) {
  if (scalars.finite.get() == 0.0) return;
  const LionStep step = lion_step(scalars);
  const Noise noise(scalars.noise);
  for (uint32_t chunk = blockIdx.x; chunk < table.num_chunks; chunk += gridDim.x) {
    update_chunk(table, chunk, step, noise);
  }
}

}  // namespace
}  // namespace cuda

void lion_cuda(const LionArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "lion_cuda";
  const cuda::LionScalars scalars = cuda::lion_scalars(kKernel, args);
  cuda::for_each_table<cuda::UpdateEntry>(
      args.tensors, cuda::kUpdateChunk, cuda::UpdateEntryMaker{kKernel, true, false}, [&](const auto& table) {
        if (table.num_chunks == 0) return;
        const auto kernel = cuda::lion_kernel<std::remove_cvref_t<decltype(table)>>;
        kernel<<<cuda::update_blocks(kernel, table.num_chunks), cuda::kUpdateThreads, 0, stream>>>(scalars,
                                                                                                   table);
        PLIMSOLL_CHECK_LAUNCH("lion");
      });
}

}  // namespace plimsoll
