// Kernels over one flat tensor: fill, sum of squares, search for the first value that is not finite:
// contracts. Thread-safe: the kernels keep no state. Views are borrowed for the call.
//
// Types: the reference of fill takes any type, including integers; those of the scans take any floating type.
// The CPU fill takes any type, the CPU scans f32. out is 1 element of f32 or f64; index is 1 element of i64.
// Accumulation (sum_of_squares): double, in grains of kTensorGrain elements and tasks in order, as
// global_norm.h. Scratch: none (2 KiB of stack). Repeatability: the same bits for any number of threads.
// Error: fill and first_non_finite are exact; sum_of_squares: square_sum_error(count) relative
// (tensor_list.h), plus 2^-24 if stored as f32. Cost: fill writes count elements once; the scans read them
// once (first_non_finite reads all of them).
#pragma once

#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"

namespace plimsoll {

struct FillArgs {
  View x = {};
  int64_t count = 0;
  double value = 0.0;  // rounded to the type of x, as by View::store
};

struct SumOfSquaresArgs {
  ConstView x = {};
  View out = {};  // 1 element
  int64_t count = 0;
  Accumulate accumulate = Accumulate::kOverwrite;
};

struct FirstNonFiniteArgs {
  ConstView x = {};
  View index = {};  // 1 element of i64: the index of the first NaN or infinity, -1 if all are finite
  int64_t count = 0;
};

void fill_ref(const FillArgs& args);
void sum_of_squares_ref(const SumOfSquaresArgs& args);
void first_non_finite_ref(const FirstNonFiniteArgs& args);

void fill_cpu(const FillArgs& args);
// Requires: x is f32.
void sum_of_squares_cpu(const SumOfSquaresArgs& args);
void first_non_finite_cpu(const FirstNonFiniteArgs& args);

// Runs on an NVIDIA GPU and takes any element type. kernels/element_wise/add.h states the rules for all CUDA
// kernels.
void fill_cuda(const FillArgs& args, CudaStream stream);

}  // namespace plimsoll
