#include "kernels/optimizer/sgd.h"

#include "kernels/optimizer/cuda/sgd_step.cuh"
#include "kernels/optimizer/cuda/update.cuh"

namespace plimsoll {
namespace cuda {
namespace {

template <UpdateTypes kTypes, Moments kMoments, class Table>
__global__ void __launch_bounds__(kUpdateThreads)
    sgd_kernel(const SgdScalars s, const __grid_constant__ Table table) {
  if (s.finite.get() == 0.0) return;
  SgdStep step = sgd_step(s);
  step.has_buffer = kMoments == Moments::kSome;  // which the compiler then knows
  update_tensors<kTypes, kMoments>(table, step, Noise(s.noise));
}

template <Moments kMoments>
void launch_sgd(std::span<const OptimizerTensor> tensors, const UpdateEntryMaker& entry_of,
                const SgdScalars& scalars, CudaStream stream) {
  for_each_update<kMoments>(tensors, entry_of, [&]<UpdateTypes kTypes, class Table>(const Table& table) {
    const auto kernel = sgd_kernel<kTypes, kMoments, Table>;
    kernel<<<update_blocks(kernel, table.num_chunks), kUpdateThreads, 0, stream>>>(scalars, table);
    PLIMSOLL_CHECK_LAUNCH("sgd");
  });
}

}  // namespace
}  // namespace cuda

void sgd_cuda(const SgdArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "sgd_cuda";
  const cuda::SgdScalars scalars = cuda::sgd_scalars(kKernel, args);
  const bool has_momentum = args.momentum != 0.0;
  const cuda::UpdateEntryMaker entry_of{kKernel, has_momentum, false};
  if (has_momentum) {
    cuda::launch_sgd<cuda::Moments::kSome>(args.tensors, entry_of, scalars, stream);
  } else {
    cuda::launch_sgd<cuda::Moments::kNone>(args.tensors, entry_of, scalars, stream);
  }
}

}  // namespace plimsoll
