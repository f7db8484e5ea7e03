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

// Whether updates on a CPU take a parameter and a gradient of these types: a parameter in f32, or in bf16
// alone or split; a gradient in f32, bf16 or f16.
bool is_updated_on_cpu(const OptimizerTensor& tensor);
// Elements [begin, begin + count) of a parameter as fp32 that is to be changed: a parameter in f32 itself,
// else `buffer`.
float* parameter_to_change(const OptimizerTensor& tensor, int64_t begin, int64_t count, float* buffer);
// The same elements back from there: split, rounded with the tensor's noise, or, of a parameter in f32, into
// its 16-bit copy.
void store_parameter(const float* whole, const OptimizerTensor& tensor, const RandomSite& noise,
                     int64_t begin, int64_t count);

// Elements [begin, begin + count) of a view of f32, bf16 or f16 as fp32. An f32 view is not copied: the
// result is then within it, else `buffer`. Errors: kInternal for another type.
const float* floats_of(const ConstView& view, int64_t begin, int64_t count, float* buffer);
// As floats_of for numbers that are to be changed: an f32 view's own, else a copy in `buffer`.
float* floats_to_change(const View& view, int64_t begin, int64_t count, float* buffer);
// The same elements of a bf16 view from fp32, to nearest with ties to even. An f32 view is left as it is.
void narrow_piece(const float* whole, const View& view, int64_t begin, int64_t count);
// The same elements of a bf16 view from fp32, by round_stochastically with each element's number. The view's
// first element is `first` of its parameter.
struct PieceNoise {
  RandomSite site;
  int64_t first = 0;
};
void round_piece(const float* whole, const View& view, const PieceNoise& noise, int64_t begin, int64_t count);

}  // namespace plimsoll
