// One step of adamw.h on a GPU: its scalars in device memory and what they make of one element. Only for .cu
// files. Thread-safe: no state.
#pragma once

#include <cmath>

#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/cuda/noise.cuh"
#include "kernels/optimizer/cuda/tensor_table.cuh"

namespace plimsoll::cuda {

struct AdamwScalars {
  Scalar learning_rate;
  const int64_t* step;
  OptionalScalar clip, finite;
  double beta1, beta2, epsilon, weight_decay;
  NoiseScalars noise;
  double log_beta1, log_beta2;  // taken by the host: a power is then one exponential
};

// The call's coefficients, computed in double and rounded to fp32 once.
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
  // Square root and quotient to one rounding each as IEEE's are, without the branches for arguments that do
  // not occur: a Newton step behind the hardware's approximation, its last operation fused.
  // Of a number below 2^-126 the root is anything from 0 to 2^-63; far below any epsilon.
  static __device__ __forceinline__ float sqrt_of(float x) {
    float inverse;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(fmaxf(x, 0x1p-126f)));
    const float root = x * inverse;
    return fmaf(fmaf(-root, root, x), 0.5f * inverse, root);
  }
  // 0 where y is infinite, or NaN because a second moment is infinite. Requires: y is 0 or its inverse a
  // number; a / 0 is NaN.
  static __device__ __forceinline__ float quotient_of(float x, float y) {
    const float divisor = fminf(y, 0x1.fffffep127f);
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(divisor));
    const float quotient = x * inverse;
    return fmaf(fmaf(-quotient, divisor, x), inverse, quotient);
  }
};

inline __device__ AdamwStep adamw_step(const AdamwScalars& s) {
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

// Args: AdamwArgs or another with its fields. Errors: kInternal for a beta outside [0, 1).
template <class Args>
AdamwScalars adamw_scalars(const char* kernel, const Args& args) {
  PLIMSOLL_CHECK(args.beta1 >= 0.0 && args.beta1 < 1.0, "beta1 is {}", args.beta1);
  PLIMSOLL_CHECK(args.beta2 >= 0.0 && args.beta2 < 1.0, "beta2 is {}", args.beta2);
  return {.learning_rate = scalar_of(kernel, "learning_rate", args.learning_rate),
          .step = args.step.template as<int64_t>(),
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

}  // namespace plimsoll::cuda
