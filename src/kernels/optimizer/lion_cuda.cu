#include "kernels/optimizer/lion.h"

#include "kernels/optimizer/cuda/lion_step.cuh"
#include "kernels/optimizer/cuda/update.cuh"

namespace plimsoll {
namespace cuda {
namespace {

template <UpdateTypes kTypes, class Table>
__global__ void __launch_bounds__(kUpdateThreads)
    lion_kernel(const LionScalars scalars, const __grid_constant__ Table table) {
  if (scalars.finite.get() == 0.0) return;
  const LionStep step = lion_step(scalars);
  update_tensors<kTypes>(table, step, Noise(scalars.noise));
}

}  // namespace
}  // namespace cuda

void lion_cuda(const LionArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "lion_cuda";
  const cuda::LionScalars scalars = cuda::lion_scalars(kKernel, args);
  cuda::for_each_update(
      args.tensors, {kKernel, true, false}, [&]<cuda::UpdateTypes kTypes, class Table>(const Table& table) {
        const auto kernel = cuda::lion_kernel<kTypes, Table>;
        kernel<<<cuda::update_blocks(kernel, table.num_chunks), cuda::kUpdateThreads, 0, stream>>>(scalars,
                                                                                                   table);
        PLIMSOLL_CHECK_LAUNCH("lion");
      });
}

}  // namespace plimsoll
