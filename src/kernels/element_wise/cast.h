// Conversion between floating types. The header states the contract of these kernels, which allocate no memory.
//
//   y[i] = x[i] in the type of y, rounded to nearest, ties to even
//
// f64 is converted to the 16-bit types through f32 (two roundings), like View::store. Overflow gives
// infinity; NaN stays NaN.
//
// Thread-safe: distinct calls may run concurrently on distinct outputs. Ownership: views do not own memory. cast_fwd_ref
// and cast_fwd_cpu take any pair of f64, f32, bf16 and f16. Errors: kInternal if a view is absent or has an unsupported
// type. Aliasing: y may be x only if both types have the same size. Scratch: none. Error: none beyond the rounding
// above. A thread that flushes denormals (device/cpu/parallel.h) flushes them here, too. Repeatability: exact. Cost: 2n elements
// moved.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"

namespace plimsoll {

struct CastFwdArgs {
  ConstView x;  // input, shape [n]
  View y;       // output, shape [n]
  int64_t n = 0;
};
void cast_fwd_ref(const CastFwdArgs& args);
void cast_fwd_cpu(const CastFwdArgs& args);

// The function below runs on an NVIDIA GPU, between any two of f32, bf16 and f16. add.h states the rules
// for all CUDA kernels. Denormal numbers are kept.

void cast_fwd_cuda(const CastFwdArgs& args, CudaStream stream);

// Copies bytes to another address, possibly in another memory. The type of the data does not matter.
//
// Requires: the two ranges do not overlap. On a GPU one of them may be in pinned host memory; the copy is
// enqueued on the stream and runs concurrently with the work of other streams. Exact. Cost: `bytes` read and
// written. Thread-safe.

struct CopyArgs {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t bytes = 0;
};

void copy_ref(const CopyArgs& args);
void copy_cpu(const CopyArgs& args);

// The function below runs on an NVIDIA GPU. add.h states the rules for all CUDA kernels.

void copy_cuda(const CopyArgs& args, CudaStream stream);

}  // namespace plimsoll
