// One step of adagrad.h on a GPU: its scalars in device memory and what they make of one element. Only for
// .cu files. Thread-safe: no state.
#pragma once

#include "kernels/optimizer/adagrad.h"
#include "kernels/optimizer/cuda/noise.cuh"
#include "kernels/optimizer/cuda/tensor_table.cuh"

namespace plimsoll::cuda {

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

inline __device__ AdagradStep adagrad_step(const AdagradScalars& s) {
  const double rate = s.learning_rate.get() / (1.0 + static_cast<double>(*s.step - 1) * s.lr_decay);
  return {static_cast<float>(rate), static_cast<float>(s.clip.get()), s.weight_decay, s.epsilon};
}

inline AdagradScalars adagrad_scalars(const char* kernel, const AdagradArgs& args) {
  return {.learning_rate = scalar_of(kernel, "learning_rate", args.learning_rate),
          .step = args.step.as<int64_t>(),
          .clip = optional_scalar(kernel, "clip_coefficient", args.clip_coefficient),
          .finite = optional_scalar(kernel, "finite", args.finite),
          .lr_decay = args.lr_decay,
          .epsilon = static_cast<float>(args.epsilon),
          .weight_decay = static_cast<float>(args.weight_decay),
          .noise = NoiseScalars::of(args)};
}

}  // namespace plimsoll::cuda
