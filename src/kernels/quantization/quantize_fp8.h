// This header states the contract of the quantization of a matrix to 8-bit floating point with one scale ("current scaling"). The functions
// allocate no memory.
//
//   amax = max |x|                            over the rows that count
//   s    = max(amax / L, 2^-126)              L: largest_fp8() of the type of q; s is NaN if amax is infinite or NaN
//   q    = fp8(x / s),  q_t = q transposed    x is close to s q
//
// Source: Micikevicius et al., FP8 Formats for Deep Learning, arXiv 2209.05433, section 3. A product of two quantized matrices is the
// product of their codes times both scales (kernels/matmul/matmul.h). On GPUs of compute capability 8.9 and 9.0, tensor cores need fp8
// operands in which the terms of a sum are adjacent in memory. The three products of a linear layer sum along different dimensions of x, w
// and d_y, so they need q and q_t of these matrices, and one call writes both.
//
// Types: x f32, bf16 or f16 (on a GPU bf16 or f16; the reference takes f64 too); q and q_t both e4m3 or both e5m2; scale f32.
// Rounding: s, then 1 / s and then x (1 / s) are rounded to fp32, and the quotient is rounded to fp8 to nearest, ties to even,
// saturating. All implementations perform these roundings and give the same bits.
// Rows: if num_rows is given, rows from there on do not count for amax, and their codes are 0.
// Special values: an infinity or NaN in x makes s NaN and with it every element of a product, so that the check of the global
// norm finds it. If amax is 0, all codes are 0. Codes of x and s q differ by at most quantize_fp8_error_bound().
// Aliasing: none. Scratch: none; scale[1] holds amax while the kernel runs, and is unspecified after a call with kAdd.
// Repeatability: exact. Cost: x is read twice, or once with a known scale, and each output is written once.
// Thread-safety: distinct calls may run concurrently. Ownership: views do not own memory.
#pragma once

#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"

namespace plimsoll {

struct QuantizeFp8Args {
  ConstView x;  // input, shape [rows, columns]
  // An f32 array of two elements, the `scale` of an earlier call for the same x; if absent, the scale is computed.
  ConstView known;
  View q;      // codes, shape [rows, columns]; absent if they are not needed
  View q_t;    // transposed codes, shape [columns, rows]; absent if they are not needed
  View scale;  // f32 [2]: s and amax; may be absent if `known` is given
  int64_t rows = 0;
  int64_t columns = 0;
  DType format = DType::kE4M3;
  int64_t num_rows = -1;  // amax is computed from this number of rows; -1 means all
  // With kAdd the call does nothing, which keeps the outputs of an earlier call: only the first micro-batch of a step quantizes weights.
  Accumulate accumulate = Accumulate::kOverwrite;
};

// Returns the scale s of a matrix whose largest magnitude is `amax`.
float fp8_scale(float amax, DType format);

void quantize_fp8_ref(const QuantizeFp8Args& args);

// Returns a bound of |x - s q|, the error of an element x with the scale s and the code q. A normal code has a relative error of at most
// half a unit in the last place, 2^-4 for e4m3 and 2^-3 for e5m2; a subnormal one an absolute error of s 2^-10 or s 2^-17. The two fp32
// roundings before the conversion to fp8 change x / s by a relative error of at most 2^-23, which may move it across the boundary between
// two codes.
double quantize_fp8_error_bound(DType format, double scale, double x);

// quantize_fp8_cuda() runs on an NVIDIA GPU. element_wise/add.h states the rules for all CUDA kernels. `num_rows` and `accumulate` are in
// device memory; if they are null, all rows count and the outputs are written. Requires: rows and columns are multiples of 16.

void quantize_fp8_cuda(const QuantizeFp8Args& args, const int32_t* num_rows, const int32_t* accumulate,
                       CudaStream stream);
inline constexpr int64_t kFp8Multiple = 16;

}  // namespace plimsoll
