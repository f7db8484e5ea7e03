#include "kernels/optimizer/lion.h"

#include "kernels/optimizer/cuda/eight_bit_update.cuh"
#include "kernels/optimizer/cuda/noise.cuh"
#include "kernels/optimizer/cuda/tensor_table.cuh"
#include "kernels/optimizer/cuda/update.cuh"

namespace plimsoll {
namespace cuda {

// The arguments of a Lion kernel other than the tensors: the addresses of scalars in device memory, and constants.
struct LionScalars {
  Scalar learning_rate;
  OptionalScalar clip, finite;
  double weight_decay;
  float beta1, one_minus_beta1, one_minus_beta2;
  NoiseScalars noise;
};

// The update of one element, and its coefficients, which are computed in double and rounded to fp32 once.
struct LionStep {
  float lr, decay, beta1, one_minus_beta1, one_minus_beta2, clip;

  __device__ __forceinline__ void apply(float& p, float g, float& m, float&) const {
    g *= clip;
    const float c = fmaf(beta1, m, one_minus_beta1 * g);
    // The sign of 0 is 0 and the sign of a NaN is that NaN.
    const float step = fabsf(c) > 0.0f ? copysignf(lr, c) : c;
    m = fmaf(one_minus_beta2, g - m, m);
    p -= fmaf(decay, p, step);
  }
};

__device__ LionStep lion_step(const LionScalars& s) {
  const double lr = s.learning_rate.get();
  return {static_cast<float>(lr), static_cast<float>(lr * s.weight_decay), s.beta1, s.one_minus_beta1,
          s.one_minus_beta2,      static_cast<float>(s.clip.get())};
}

// Returns the arguments of a launch. Errors: kInternal for a beta outside [0, 1).
LionScalars lion_scalars(const char* kernel, const LionArgs& args) {
  PLIMSOLL_CHECK(args.beta1 >= 0.0 && args.beta1 < 1.0, "beta1 must be in [0, 1), but is {}", args.beta1);
  PLIMSOLL_CHECK(args.beta2 >= 0.0 && args.beta2 < 1.0, "beta2 must be in [0, 1), but is {}", args.beta2);
  return {.learning_rate = scalar_of(kernel, "learning_rate", args.learning_rate),
          .clip = optional_scalar(kernel, "clip_coefficient", args.clip_coefficient),
          .finite = optional_scalar(kernel, "finite", args.finite),
          .weight_decay = args.weight_decay,
          .beta1 = static_cast<float>(args.beta1),
          .one_minus_beta1 = static_cast<float>(1.0 - args.beta1),
          .one_minus_beta2 = static_cast<float>(1.0 - args.beta2),
          .noise = NoiseScalars::of(args)};
}

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

void lion_8bit_cuda(const LionArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "lion_8bit_cuda";
  cuda::launch_eight_bit<false, cuda::lion_step>(kKernel, args.tensors, cuda::lion_scalars(kKernel, args),
                                                 stream);
}

}  // namespace plimsoll
