#include "kernels/optimizer/adagrad_cuda.h"

#include "kernels/optimizer/cuda/update.cuh"

namespace plimsoll {
namespace cuda {
namespace {

struct AdagradScalars {
  Scalar learning_rate;
  const int64_t* step;
  OptionalScalar clip, finite;
  double lr_decay;
  float epsilon, weight_decay;
  NoiseScalars noise;
};

struct AdagradStep {
  float rate, clip, weight_decay, epsilon;

  __device__ __forceinline__ void apply(float& p, float g, float& v, float&) const {
    g = fmaf(weight_decay, p, g * clip);
    v = fmaf(g, g, v);
    p = fmaf(-rate, g / (sqrtf(v) + epsilon), p);
  }
};

template <class Table>
__global__ void __launch_bounds__(kUpdateThreads)
    adagrad_kernel(const __grid_constant__ Table table, const AdagradScalars s) {
  if (s.finite.get() == 0.0) return;
  const double rate = s.learning_rate.get() / (1.0 + static_cast<double>(*s.step - 1) * s.lr_decay);
  const AdagradStep step{static_cast<float>(rate), static_cast<float>(s.clip.get()), s.weight_decay,
                         s.epsilon};
  const RandomSite noise = s.noise.get();
  for (uint32_t chunk = blockIdx.x; chunk < table.num_chunks; chunk += gridDim.x) {
    update_chunk(table, chunk, step, noise);
  }
}

}  // namespace
}  // namespace cuda

void adagrad_cuda(const AdagradArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "adagrad_cuda";
  const cuda::AdagradScalars scalars{
      .learning_rate = cuda::scalar_of(kKernel, "learning_rate", args.learning_rate),
      .step = args.step.as<int64_t>(),
      .clip = cuda::optional_scalar(kKernel, "clip_coefficient", args.clip_coefficient),
      .finite = cuda::optional_scalar(kKernel, "finite", args.finite),
      .lr_decay = args.lr_decay,
      .epsilon = static_cast<float>(args.epsilon),
      .weight_decay = static_cast<float>(args.weight_decay),
      .noise = cuda::NoiseScalars::of(args)};
  cuda::for_each_table<cuda::UpdateEntry>(
      args.tensors, cuda::kUpdateChunk, cuda::UpdateEntryMaker{kKernel, true, false}, [&](const auto& table) {
        if (table.num_chunks == 0) return;
        const auto kernel = cuda::adagrad_kernel<std::remove_cvref_t<decltype(table)>>;
        kernel<<<cuda::update_blocks(kernel, table.num_chunks), cuda::kUpdateThreads, 0, stream>>>(table,
                                                                                                   scalars);
        PLIMSOLL_CHECK_LAUNCH("adagrad");
      });
}

}  // namespace plimsoll
