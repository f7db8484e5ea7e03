#include "kernels/optimizer/sgd_cuda.h"

#include "kernels/optimizer/cuda/update.cuh"

namespace plimsoll {
namespace cuda {
namespace {

struct SgdScalars {
  Scalar learning_rate;
  const int64_t* step;  // null without momentum
  OptionalScalar clip, finite;
  float momentum, weight_decay;
  bool nesterov;
};

struct SgdStep {
  float lr, clip, weight_decay, momentum;
  bool has_buffer, starts, nesterov;

  __device__ __forceinline__ void apply(float& p, float g, float& m, float&) const {
    g = fmaf(weight_decay, p, g * clip);
    float direction = g;
    if (has_buffer) {
      m = starts ? g : fmaf(momentum, m, g);
      direction = nesterov ? fmaf(momentum, m, g) : m;
    }
    p = fmaf(-lr, direction, p);
  }
};

template <class Table>
__global__ void __launch_bounds__(kUpdateThreads)
    sgd_kernel(const __grid_constant__ Table table, const SgdScalars s) {
  if (s.finite.get() == 0.0) return;
  const SgdStep step{static_cast<float>(s.learning_rate.get()),
                     static_cast<float>(s.clip.get()),
                     s.weight_decay,
                     s.momentum,
                     s.step != nullptr,
                     s.step != nullptr && *s.step == 1,
                     s.nesterov};
  for (uint32_t chunk = blockIdx.x; chunk < table.num_chunks; chunk += gridDim.x) {
    update_chunk(table, chunk, step);
  }
}

}  // namespace
}  // namespace cuda

void sgd_cuda(const SgdArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "sgd_cuda";
  PLIMSOLL_CHECK(args.nesterov == Nesterov::kOff || args.momentum > 0.0, "Nesterov needs a momentum");
  const bool has_momentum = args.momentum != 0.0;
  const cuda::SgdScalars scalars{
      .learning_rate = cuda::scalar_of(kKernel, "learning_rate", args.learning_rate),
      .step = has_momentum ? args.step.as<int64_t>() : nullptr,
      .clip = cuda::optional_scalar(kKernel, "clip_coefficient", args.clip_coefficient),
      .finite = cuda::optional_scalar(kKernel, "finite", args.finite),
      .momentum = static_cast<float>(args.momentum),
      .weight_decay = static_cast<float>(args.weight_decay),
      .nesterov = args.nesterov == Nesterov::kOn};
  cuda::for_each_table<cuda::UpdateEntry>(
      args.tensors, cuda::kUpdateChunk, cuda::UpdateEntryMaker{kKernel, has_momentum, false},
      [&](const auto& table) {
        if (table.num_chunks == 0) return;
        const auto kernel = cuda::sgd_kernel<std::remove_cvref_t<decltype(table)>>;
        kernel<<<cuda::update_blocks(kernel, table.num_chunks), cuda::kUpdateThreads, 0, stream>>>(table,
                                                                                                   scalars);
        PLIMSOLL_CHECK_LAUNCH("sgd");
      });
}

}  // namespace plimsoll
