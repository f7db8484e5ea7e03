// One step of sgd.h on a GPU: its scalars in device memory and what they make of one element. Only for .cu
// files. Thread-safe: no state.
#pragma once

#include "kernels/optimizer/cuda/noise.cuh"
#include "kernels/optimizer/cuda/tensor_table.cuh"
#include "kernels/optimizer/sgd.h"

namespace plimsoll::cuda {

struct SgdScalars {
  Scalar learning_rate;
  const int64_t* step;  // null without momentum
  NoiseScalars noise;
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

inline __device__ SgdStep sgd_step(const SgdScalars& s) {
  return {static_cast<float>(s.learning_rate.get()),
          static_cast<float>(s.clip.get()),
          s.weight_decay,
          s.momentum,
          s.step != nullptr,
          s.step != nullptr && *s.step == 1,
          s.nesterov};
}

// Errors: kInternal for Nesterov without momentum.
inline SgdScalars sgd_scalars(const char* kernel, const SgdArgs& args) {
  PLIMSOLL_CHECK(args.nesterov == Nesterov::kOff || args.momentum > 0.0, "Nesterov needs a momentum");
  return {.learning_rate = scalar_of(kernel, "learning_rate", args.learning_rate),
          .step = args.momentum != 0.0 ? args.step.as<int64_t>() : nullptr,
          .noise = NoiseScalars::of(args),
          .clip = optional_scalar(kernel, "clip_coefficient", args.clip_coefficient),
          .finite = optional_scalar(kernel, "finite", args.finite),
          .momentum = static_cast<float>(args.momentum),
          .weight_decay = static_cast<float>(args.weight_decay),
          .nesterov = args.nesterov == Nesterov::kOn};
}

}  // namespace plimsoll::cuda
