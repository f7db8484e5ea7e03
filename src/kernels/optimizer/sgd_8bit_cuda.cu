#include "kernels/optimizer/cuda/eight_bit_update.cuh"
#include "kernels/optimizer/cuda/sgd_step.cuh"
#include "kernels/optimizer/sgd_8bit_cuda.h"

namespace plimsoll {
namespace cuda {
namespace {

template <class Param, class Table>
__global__ void __launch_bounds__(kEightBitThreads, kEightBitResident)
    sgd_8bit_kernel(const __grid_constant__ Table table, const SgdScalars scalars) {
  if (scalars.finite.get() == 0.0) return;
  __shared__ SharedMap maps[1];
  SgdStep step = sgd_step(scalars);
  step.has_buffer = true;
  update_eight_bit<Param, false>(table, step, maps, scalars.noise.get());
}

}  // namespace
}  // namespace cuda

void sgd_8bit_cuda(const SgdArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "sgd_8bit_cuda";
  PLIMSOLL_CHECK(args.momentum > 0.0, "8-bit SGD has a momentum, this one is {}", args.momentum);
  const cuda::SgdScalars scalars = cuda::sgd_scalars(kKernel, args);
  cuda::for_each_eight_bit_table(kKernel, args.tensors, false, [&](const auto& table, auto param) {
    const unsigned grid = cuda::eight_bit_grid(table.num_chunks);
    cuda::sgd_8bit_kernel<decltype(param)><<<grid, cuda::kEightBitThreads, 0, stream>>>(table, scalars);
    PLIMSOLL_CHECK_LAUNCH("sgd_8bit");
  });
}

}  // namespace plimsoll
