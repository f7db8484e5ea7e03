#include "kernels/optimizer/adamw.h"

#include <cmath>

#include "kernels/optimizer/cuda/eight_bit_update.cuh"
#include "kernels/optimizer/cuda/noise.cuh"
#include "kernels/optimizer/cuda/tensor_table.cuh"
#include "kernels/optimizer/cuda/update.cuh"

namespace plimsoll {
namespace cuda {

// The arguments of an AdamW kernel other than the tensors: the addresses of scalars in device memory, and constants.
struct AdamwScalars {
  Scalar learning_rate;
  const int64_t* step;
  OptionalScalar clip, finite;
  double beta1, beta2, epsilon, weight_decay;
  NoiseScalars noise;
  // The logarithms of beta1 and beta2, computed on the host, so that the GPU needs only one exponential to compute beta^t.
  double log_beta1, log_beta2;
};

// The update of one element, and its coefficients, which are computed in double and rounded to fp32 once.
struct AdamwStep {
  float decay, step_size, inverse_sqrt_bc2, one_minus_beta1, one_minus_beta2, clip, epsilon;

  __device__ __forceinline__ void apply(float& p, float g, float& m, float& v) const {
    g *= clip;
    m = fmaf(one_minus_beta1, g - m, m);
    v = fmaf(one_minus_beta2, fmaf(g, g, -v), v);
    const float denominator = fmaf(sqrt_of(v), inverse_sqrt_bc2, epsilon);
    const float adam = step_size * quotient_of(m, denominator);
    p -= fmaf(decay, p, adam);
  }

 private:
  // sqrt_of() and quotient_of() compute a square root and a quotient, each rounded once as IEEE requires: a Newton step whose last
  // operation is fused corrects the hardware's approximation. Unlike the functions of the compiler, they have no branches for special
  // arguments, because these do not occur in this update. For a number below 2^-126, sqrt_of() returns a root between 0 and 2^-63, which is
  // far below any epsilon.
  static __device__ __forceinline__ float sqrt_of(float x) {
    float inverse;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(fmaxf(x, 0x1p-126f)));
    const float root = x * inverse;
    return fmaf(fmaf(-root, root, x), 0.5f * inverse, root);
  }
  // Returns x / y. The result is 0 if y is infinite or NaN (sqrt_of() returns NaN for an infinite second moment), and it is NaN if y is 0.
  // Requires: y is 0 or 1 / y is finite.
  static __device__ __forceinline__ float quotient_of(float x, float y) {
    const float divisor = fminf(y, 0x1.fffffep127f);
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(divisor));
    const float quotient = x * inverse;
    return fmaf(fmaf(-quotient, divisor, x), inverse, quotient);
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

// Returns the arguments of a launch. Errors: kInternal for a beta outside [0, 1).
AdamwScalars adamw_scalars(const char* kernel, const AdamwArgs& args) {
  PLIMSOLL_CHECK(args.beta1 >= 0.0 && args.beta1 < 1.0, "beta1 must be in [0, 1), but is {}", args.beta1);
  PLIMSOLL_CHECK(args.beta2 >= 0.0 && args.beta2 < 1.0, "beta2 must be in [0, 1), but is {}", args.beta2);
  return {.learning_rate = scalar_of(kernel, "learning_rate", args.learning_rate),
          .step = args.step.as<int64_t>(),
          .clip = optional_scalar(kernel, "clip_coefficient", args.clip_coefficient),
          .finite = optional_scalar(kernel, "finite", args.finite),
          .beta1 = args.beta1,
          .beta2 = args.beta2,
          .epsilon = args.epsilon,
          .weight_decay = args.weight_decay,
          .noise = NoiseScalars::of(args),
          .log_beta1 = std::log(args.beta1),
          .log_beta2 = std::log(args.beta2)};
}

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

void adamw_8bit_cuda(const AdamwArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "adamw_8bit_cuda";
  cuda::launch_eight_bit<true, cuda::adamw_step>(kKernel, args.tensors, cuda::adamw_scalars(kKernel, args),
                                                 stream);
}

}  // namespace plimsoll
