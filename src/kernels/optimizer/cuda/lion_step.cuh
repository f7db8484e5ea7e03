// One step of lion.h on a GPU: its scalars in device memory and what they make of one element. Only for .cu
// files. Thread-safe: no state.
#pragma once

#include "kernels/optimizer/cuda/noise.cuh"
#include "kernels/optimizer/cuda/tensor_table.cuh"
#include "kernels/optimizer/lion.h"

namespace plimsoll::cuda {

struct LionScalars {
  Scalar learning_rate;
  OptionalScalar clip, finite;
  double weight_decay;
  float beta1, one_minus_beta1, one_minus_beta2;
  NoiseScalars noise;
};

// The call's coefficients, computed in double and rounded to fp32 once.
struct LionStep {
  float lr, decay, beta1, one_minus_beta1, one_minus_beta2, clip;

  __device__ __forceinline__ void apply(float& p, float g, float& m, float&) const {
    g *= clip;
    const float c = fmaf(beta1, m, one_minus_beta1 * g);
    // 0 and NaN are their own signs.
    const float step = fabsf(c) > 0.0f ? copysignf(lr, c) : c;
    m = fmaf(one_minus_beta2, g - m, m);
    p -= fmaf(decay, p, step);
  }
};

inline __device__ LionStep lion_step(const LionScalars& s) {
  const double lr = s.learning_rate.get();
  return {static_cast<float>(lr), static_cast<float>(lr * s.weight_decay), s.beta1, s.one_minus_beta1,
          s.one_minus_beta2,      static_cast<float>(s.clip.get())};
}

// Args: LionArgs or another with its fields. Errors: kInternal for a beta outside [0, 1).
template <class Args>
LionScalars lion_scalars(const char* kernel, const Args& args) {
  PLIMSOLL_CHECK(args.beta1 >= 0.0 && args.beta1 < 1.0, "beta1 is {}", args.beta1);
  PLIMSOLL_CHECK(args.beta2 >= 0.0 && args.beta2 < 1.0, "beta2 is {}", args.beta2);
  return {.learning_rate = scalar_of(kernel, "learning_rate", args.learning_rate),
          .clip = optional_scalar(kernel, "clip_coefficient", args.clip_coefficient),
          .finite = optional_scalar(kernel, "finite", args.finite),
          .weight_decay = args.weight_decay,
          .beta1 = static_cast<float>(args.beta1),
          .one_minus_beta1 = static_cast<float>(1.0 - args.beta1),
          .one_minus_beta2 = static_cast<float>(1.0 - args.beta2),
          .noise = NoiseScalars::of(args)};
}

}  // namespace plimsoll::cuda
