// Functions on contiguous ranges ("pieces") of fp32 numbers that several kernels of this folder use, dispatched to the best instruction set
// of the CPU. Internal to the folder. Thread-safe: pure.
#pragma once

#include <cstdint>

#include "base/philox.h"
#include "kernels/optimizer/tensor_list.h"

namespace plimsoll {

// Returns the sum of squares in double, added in groups (grains) of kTensorGrain elements. It is NaN or infinite if and only if an element
// is, because no square of a finite fp32 overflows a double.
double piece_square_sum(const float* x, int64_t count);

// Returns the index of the first NaN or infinity, or -1.
int64_t piece_first_non_finite(const float* x, int64_t count);

// Rounds elements [begin, begin + count) of the parameter into its 16-bit copy, if it has one. Errors:
// kInternal if the copy is of another type.
void store_low_copy(const OptimizerTensor& tensor, int64_t begin, int64_t count);

// Convert elements [begin, begin + count) of a parameter that is split into two 16-bit halves (tensor_list.h) to fp32, and back.
void join_piece(const OptimizerTensor& tensor, int64_t begin, int64_t count, float* whole);
void split_piece(const float* whole, const OptimizerTensor& tensor, int64_t begin, int64_t count);

// Returns true if the updates on a CPU support the types of this parameter and its gradient: a parameter in f32, only in bf16, or split
// into two halves (tensor_list.h), and a gradient in f32, bf16 or f16.
bool is_updated_on_cpu(const OptimizerTensor& tensor);
// Returns elements [begin, begin + count) of a parameter in fp32 for an update in place: the parameter itself
// if it is f32, else a copy in `buffer`.
float* parameter_to_change(const OptimizerTensor& tensor, int64_t begin, int64_t count, float* buffer);
// Stores elements [begin, begin + count) of a parameter after the update. Splits them if the parameter is split, and rounds them with the
// random numbers of the tensor if it is stored only in bf16. For a parameter in f32, rounds them into its 16-bit copy.
void store_parameter(const float* whole, const OptimizerTensor& tensor, const RandomSite& noise,
                     int64_t begin, int64_t count);

// Returns elements [begin, begin + count) of a view of f32, bf16 or f16 in fp32: a pointer into the view if
// it is f32, else `buffer`. Errors: kInternal for another type.
const float* floats_of(const ConstView& view, int64_t begin, int64_t count, float* buffer);
// Returns the elements as floats_of() does, but so that an update can change them: a pointer into an f32 view, otherwise a copy in
// `buffer`.
float* floats_to_change(const View& view, int64_t begin, int64_t count, float* buffer);
// Writes the updated fp32 numbers of floats_to_change() back to the elements of a bf16 view, rounded to nearest with ties to even. Does
// nothing for an f32 view.
void narrow_piece(const float* whole, const View& view, int64_t begin, int64_t count);
// Writes updated fp32 numbers back to a bf16 view by round_stochastically, with the random number of each element. The first element of the
// view is element `first` of its parameter.
struct PieceNoise {
  RandomSite site;
  int64_t first = 0;
};
void round_piece(const float* whole, const View& view, const PieceNoise& noise, int64_t begin, int64_t count);

}  // namespace plimsoll
