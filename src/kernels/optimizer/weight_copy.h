// Weights in fp32 into the 16-bit copies that products read, once after they were loaded: contract. Updates
// write the copies by themselves, by the same rounding. Thread-safe: kernels keep no state. Views are
// borrowed for the call.
//
// Formula: low = round(weight), bf16 to nearest with ties away from zero (base/split_f32.h), f16 with ties to
// even. Types: weight f32; low bf16 or f16. Scratch: none. Aliasing: none. Repeatability: same bits
// everywhere. Error: none beside the rounding. Cost: reads 4 bytes and writes 2 per element.
#pragma once

#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"

namespace plimsoll {

struct WeightCopyArgs {
  ConstView weight = {};
  View low = {};
  int64_t n = 0;
};

void copy_weights_cpu(const WeightCopyArgs& args);

// The function below runs on an NVIDIA GPU; kernels/element_wise/add.h states the rules for all CUDA kernels.

void copy_weights_cuda(const WeightCopyArgs& args, CudaStream stream);

}  // namespace plimsoll
