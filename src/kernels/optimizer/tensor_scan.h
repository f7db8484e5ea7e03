// Fills one flat tensor with a value. This comment states the contract of the kernels. Thread-safe: they keep no state. Views are used only
// during the call.
//
// Types: any, including integers. Scratch: none. Repeatability: the same bits for any number of threads. Error:
// none.
// Cost: writes every element once.
#pragma once

#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"

namespace plimsoll {

struct FillArgs {
  View x = {};
  int64_t count = 0;
  double value = 0.0;  // the value of every element, rounded to the type of x as View::store does
};

void fill_ref(const FillArgs& args);
void fill_cpu(const FillArgs& args);

// The function below runs on an NVIDIA GPU; kernels/element_wise/add.h states the rules for all CUDA kernels.

// Fills a tensor of any element type on a GPU.
void fill_cuda(const FillArgs& args, CudaStream stream);

// Rounds fp32 weights into the 16-bit copies that matrix products read, once after the weights were loaded. Later, updates of the weights
// write the copies with the same rounding. Thread-safe: the kernels keep no state. Views are used only during the call.
//
// Formula: low = round(weight), bf16 to nearest with ties away from zero (base/split_f32.h), f16 with ties to even. Types: weight f32; low
// bf16 or f16. Scratch: none. Aliasing: none. Repeatability: the same bits everywhere. Error: only the rounding. Cost: reads 4 bytes and
// writes 2 per element.

struct WeightCopyArgs {
  ConstView weight = {};
  View low = {};
  int64_t n = 0;
};

void copy_weights_cpu(const WeightCopyArgs& args);

// The function below runs on an NVIDIA GPU. kernels/element_wise/add.h states the rules for all
// CUDA kernels.
void copy_weights_cuda(const WeightCopyArgs& args, CudaStream stream);

}  // namespace plimsoll
