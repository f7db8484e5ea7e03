// Contiguous pieces of fp32 that several kernels of this folder work on, dispatched to the CPU's best
// instruction set. Internal to the folder. Thread-safe: pure.
#pragma once

#include <cstdint>

#include "base/philox.h"
#include "kernels/optimizer/tensor_list.h"

namespace plimsoll {

// Sum of squares in double, grain by grain (kTensorGrain). NaN or infinite exactly when an element is: no
// square of a finite fp32 overflows a double.
double piece_square_sum(const float* x, int64_t count);

// Index of the first NaN or infinity, -1 if there is none.
int64_t piece_first_non_finite(const float* x, int64_t count);

// Rounds elements [begin, begin + count) of the parameter into its 16-bit copy, where it has one. Errors:
// kInternal if the copy is of another type.
void store_low_copy(const OptimizerTensor& tensor, int64_t begin, int64_t count);

// Elements [begin, begin + count) of a split parameter as fp32, and back.
void join_piece(const OptimizerTensor& tensor, int64_t begin, int64_t count, float* whole);
void split_piece(const float* whole, const OptimizerTensor& tensor, int64_t begin, int64_t count);

// Elements [begin, begin + count) of a view of f32, bf16 or f16 as fp32. An f32 view is not copied: the
// result is then within it, else `buffer`. Errors: kInternal for another type.
const float* floats_of(const ConstView& view, int64_t begin, int64_t count, float* buffer);
// The same elements of a bf16 parameter from fp32, by round_stochastically.
void round_piece(const float* whole, const OptimizerTensor& tensor, const RandomSite& noise, int64_t begin,
                 int64_t count);

}  // namespace plimsoll
