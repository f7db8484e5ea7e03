#include "kernels/optimizer/adamw.h"

#include "kernels/optimizer/cuda/adamw_step.cuh"
#include "kernels/optimizer/cuda/update.cuh"

namespace plimsoll {
namespace cuda {
namespace {

template <UpdateTypes kTypes, class Table>
__global__ void __launch_bounds__(kUpdateThreads)
    adamw_kernel(const AdamwScalars scalars, const __grid_constant__ Table table) {
  if (scalars.finite.get() == 0.0) return;
  __shared__ AdamwStep shared;
  if (threadIdx.x == 0) shared = adamw_step(scalars);
  __syncthreads();
  const AdamwStep step = shared;
  update_tensors<kTypes>(table, step, Noise(scalars.noise));
}

}  // namespace
}  // namespace cuda

void adamw_cuda(const AdamwArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "adamw_cuda";
  const cuda::AdamwScalars scalars = cuda::adamw_scalars(kKernel, args);
  cuda::for_each_update(
      args.tensors, {kKernel, true, true, true},
      [&]<cuda::UpdateTypes kTypes, class Table>(const Table& table) {
        const auto kernel = cuda::adamw_kernel<kTypes, Table>;
        kernel<<<cuda::update_blocks(kernel, table.num_chunks), cuda::kUpdateThreads, 0, stream>>>(scalars,
                                                                                                   table);
        PLIMSOLL_CHECK_LAUNCH("adamw");
      });
}

}  // namespace plimsoll
