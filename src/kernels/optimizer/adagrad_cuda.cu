#include "kernels/optimizer/adagrad.h"

#include "kernels/optimizer/cuda/adagrad_step.cuh"
#include "kernels/optimizer/cuda/update.cuh"

namespace plimsoll {
namespace cuda {
namespace {

template <UpdateTypes kTypes, class Table>
__global__ void __launch_bounds__(kUpdateThreads)
    adagrad_kernel(const AdagradScalars s, const __grid_constant__ Table table) {
  if (s.finite.get() == 0.0) return;
  const AdagradStep step = adagrad_step(s);
  update_tensors<kTypes>(table, step, Noise(s.noise));
}

}  // namespace
}  // namespace cuda

void adagrad_cuda(const AdagradArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "adagrad_cuda";
  const cuda::AdagradScalars scalars = cuda::adagrad_scalars(kKernel, args);
  cuda::for_each_update(
      args.tensors, {kKernel, true, false}, [&]<cuda::UpdateTypes kTypes, class Table>(const Table& table) {
        const auto kernel = cuda::adagrad_kernel<kTypes, Table>;
        kernel<<<cuda::update_blocks(kernel, table.num_chunks), cuda::kUpdateThreads, 0, stream>>>(scalars,
                                                                                                   table);
        PLIMSOLL_CHECK_LAUNCH("adagrad");
      });
}

}  // namespace plimsoll
