// Rotary position embeddings: a table of cosines and sines per token, and the rotation of the heads of q and k by it.
// base/rope_parameters.h has the frequencies. The header states the contracts of these kernels, which allocate no memory.
//
// Shape letters: T rows (one per token, then unused tail rows), B sequences, D head size (even), H heads that are rotated, N elements of a
// row. A row of x has H heads of D elements and then elements that are not rotated (v).
//
// Formula, for pair i < D / 2 of a head, with c and s from the table (as in Hugging Face's rotate_half, pair i consists of element i of the
// first half of the head and of the second):
//
//   y_i       = x_i c_i - x_(i + D/2) s_i             y_(i + D/2) = x_(i + D/2) c_i + x_i s_i
//   c_i = scale cos(n f_i)    s_i = scale sin(n f_i)  for position n
//
// The gradient is the transposed rotation: the same formula with -s_i.
//
// Types: x and y have one floating type; the table is f32, or f64 for the references. The *_ref functions compute in
// double and take any floating type. The *_cpu functions take f32 and bf16 and compute in fp32.
//
// Error bounds against exact arithmetic: rope_table_error_bound and rope_error_bound. Angles are computed in double,
// so that a position of 10^6 has an angle with an error of 10^-10. Repeatability: the same bits for any number of
// threads on one instruction set. Thread-safe: distinct calls may run concurrently on distinct outputs. Ownership:
// views do not own memory. Errors: kInternal if a view is absent or has an unsupported type.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/rope_parameters.h"
#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/element_wise/rounding.h"

namespace plimsoll {

// Computes table[t, i] = c_i and table[t, D/2 + i] = s_i of each row. The frequencies of some RoPE types depend on the length of
// the row's sequence, the difference of two neighbours in cu_seqlens; for rows from cu_seqlens[B] on the length is 0.
//   Scratch: none. Cost: T D / 2 sines and cosines in double; T D elements moved.
struct RopeTableArgs {
  ConstView positions;   // position of each token in its sequence, i32, shape [T]
  ConstView cu_seqlens;  // first row of each sequence and end of the last one, i32, shape [B + 1]
  View table;            // output, the cosines and sines of each row, shape [T, D]
  int64_t T = 0;
  int64_t B = 0;
  int64_t D = 0;
  RopeFrequencies frequencies = {};
};
void rope_table_ref(const RopeTableArgs& args);
void rope_table_cpu(const RopeTableArgs& args);
void rope_table_cuda(const RopeTableArgs& args, CudaStream stream);

enum class RopeDirection : uint8_t { kForward, kTransposed };

// Rotates x by the table. Rows of zeros give rows of zeros. Aliasing: y may be x. Scratch: none. Cost: 3 T H D FLOPs;
// 2 T N + T D elements moved, 2 T H D + T D if y is x.
struct RopeArgs {
  ConstView x;      // input, shape [T, N]
  ConstView table;  // cosines and sines of each row, shape [T, D]
  View y;           // output, shape [T, N]
  int64_t T = 0;
  int64_t N = 0;
  int64_t H = 0;
  int64_t D = 0;
  RopeDirection direction = RopeDirection::kForward;
};
void rope_ref(const RopeArgs& args);
void rope_cpu(const RopeArgs& args);
void rope_cuda(const RopeArgs& args, CudaStream stream);

// Returns the error bound of an element of the table. A cosine in double is correct to two units of its last place, and is then rounded to
// the type of the table.
inline double rope_table_error_bound(double scale, double angle, DType stored) {
  return 1.01 * std::abs(scale) * (unit_roundoff(stored) + 0x1p-50 * (1.0 + std::abs(angle)));
}
// Returns the error bound of an element y = a c - b s, where a and b are the elements of a pair, and c and s the cosine and sine of its
// angle. One product is rounded; the other product and the subtraction are one fused operation.
inline double rope_error_bound(double a, double b, double c, double s, double y, DType stored) {
  return 2.02 * kRoundoffF32 * (std::abs(a * c) + std::abs(b * s)) + store_error_bound(stored, y);
}

}  // namespace plimsoll
