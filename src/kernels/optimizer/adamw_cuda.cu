#include "kernels/optimizer/adamw_cuda.h"

#include <cmath>

#include "kernels/optimizer/cuda/update.cuh"

namespace plimsoll {
namespace cuda {
namespace {

struct AdamwScalars {
  Scalar learning_rate;
  const int64_t* step;
  OptionalScalar clip, finite;
  double beta1, beta2, epsilon, weight_decay;
  uint64_t noise_seed;
  uint32_t noise_site;
  double log_beta1, log_beta2;  // taken by the host: a power is then one exponential
};

// The call's coefficients, computed in double and rounded to fp32 once.
struct AdamwStep {
  float decay, step_size, inverse_sqrt_bc2, one_minus_beta1, one_minus_beta2, clip, epsilon;

  __device__ __forceinline__ void apply(float& p, float g, float& m, float& v) const {
    g *= clip;
    m = fmaf(one_minus_beta1, g - m, m);
    v = fmaf(one_minus_beta2, fmaf(g, g, -v), v);
    const float denominator = fmaf(sqrtf(v), inverse_sqrt_bc2, epsilon);
    const float adam = step_size * m / denominator;
    p -= fmaf(decay, p, adam);
  }
};

__device__ AdamwStep adamw_step(const AdamwScalars& s) {
  const double lr = s.learning_rate.get();
  const auto t = static_cast<double>(*s.step);
  AdamwStep step;
  step.decay = static_cast<float>(lr * s.weight_decay);
  step.step_size = static_cast<float>(lr / -expm1(t * s.log_beta1));
  step.inverse_sqrt_bc2 = static_cast<float>(1.0 / sqrt(-expm1(t * s.log_beta2)));
  step.one_minus_beta1 = static_cast<float>(1.0 - s.beta1);
  step.one_minus_beta2 = static_cast<float>(1.0 - s.beta2);
  step.clip = static_cast<float>(s.clip.get());
  step.epsilon = static_cast<float>(s.epsilon);
  return step;
}

template <class Table>
__global__ void __launch_bounds__(kUpdateThreads)
    adamw_kernel(const __grid_constant__ Table table, const AdamwScalars scalars) {
  if (scalars.finite.get() == 0.0) return;
  __shared__ AdamwStep shared;
  if (threadIdx.x == 0) shared = adamw_step(scalars);
  __syncthreads();
  const AdamwStep step = shared;
  const RandomSite noise{scalars.noise_seed, static_cast<uint32_t>(*scalars.step), scalars.noise_site};
  for (uint32_t chunk = blockIdx.x; chunk < table.num_chunks; chunk += gridDim.x) {
    update_chunk(table, chunk, step, noise);
  }
}

}  // namespace
}  // namespace cuda

void adamw_cuda(const AdamwArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "adamw_cuda";
  PLIMSOLL_CHECK(args.beta1 >= 0.0 && args.beta1 < 1.0, "beta1 is {}", args.beta1);
  PLIMSOLL_CHECK(args.beta2 >= 0.0 && args.beta2 < 1.0, "beta2 is {}", args.beta2);
  const cuda::AdamwScalars scalars{
      .learning_rate = cuda::scalar_of(kKernel, "learning_rate", args.learning_rate),
      .step = args.step.as<int64_t>(),
      .clip = cuda::optional_scalar(kKernel, "clip_coefficient", args.clip_coefficient),
      .finite = cuda::optional_scalar(kKernel, "finite", args.finite),
      .beta1 = args.beta1,
      .beta2 = args.beta2,
      .epsilon = args.epsilon,
      .weight_decay = args.weight_decay,
      .noise_seed = args.noise_seed,
      .noise_site = args.noise_site,
      .log_beta1 = std::log(args.beta1),
      .log_beta2 = std::log(args.beta2)};
  cuda::for_each_table<cuda::UpdateEntry>(
      args.tensors, cuda::kUpdateChunk, cuda::UpdateEntryMaker{kKernel, true, true, true},
      [&](const auto& table) {
        if (table.num_chunks == 0) return;
        cuda::adamw_kernel<<<cuda::update_blocks(table.num_chunks), cuda::kUpdateThreads, 0, stream>>>(
            table, scalars);
        PLIMSOLL_CHECK_LAUNCH("adamw");
      });
}

}  // namespace plimsoll
