// Fills one flat tensor with a value: contract. Thread-safe: kernels keep no state. Views are borrowed for the
// call.
//
// Types: any, integers too. Scratch: none. Repeatability: the same bits for any number of threads. Error: none.
// Cost: writes every element once.
#pragma once

#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"

namespace plimsoll {

struct FillArgs {
  View x = {};
  int64_t count = 0;
  double value = 0.0;  // rounded to x's type as View::store does
};

void fill_ref(const FillArgs& args);
void fill_cpu(const FillArgs& args);

// The function below runs on an NVIDIA GPU; kernels/element_wise/add.h states the rules for all CUDA kernels.

// Any element type.
void fill_cuda(const FillArgs& args, CudaStream stream);

}  // namespace plimsoll
