#include "kernels/optimizer/sgd_cuda.h"

#include "kernels/optimizer/cuda/sgd_step.cuh"
#include "kernels/optimizer/cuda/update.cuh"

namespace plimsoll {
namespace cuda {
namespace {

// Packs of four that a thread takes: with the buffer of momentum three numbers an element are read, else two.
template <Moments kMoments>
inline constexpr int kSgdPacks = kMoments == Moments::kNone ? 2 * kUpdatePacks : kUpdatePacks;

template <Moments kMoments, class Table>
__global__ void __launch_bounds__(kUpdateThreads)
    sgd_kernel(const SgdScalars s, const __grid_constant__ Table table) {
  if (s.finite.get() == 0.0) return;
  const SgdStep step = sgd_step(s);
  const Noise noise(s.noise);
  for (uint32_t chunk = blockIdx.x; chunk < table.num_chunks; chunk += gridDim.x) {
    update_chunk<kSgdPacks<kMoments>, kMoments>(table, chunk, step, noise);
  }
}

template <Moments kMoments>
void launch_sgd(std::span<const OptimizerTensor> tensors, const UpdateEntryMaker& entry_of,
                const SgdScalars& scalars, CudaStream stream) {
  constexpr int64_t kChunk = update_chunk_elements(kSgdPacks<kMoments>);
  for_each_table<UpdateEntry>(tensors, kChunk, entry_of, [&](const auto& table) {
    if (table.num_chunks == 0) return;
    const auto kernel = sgd_kernel<kMoments, std::remove_cvref_t<decltype(table)>>;
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
