// Attention of only the first row of each sequence, including the projections of queries, keys and values. A classifier that reads only
// first tokens needs nothing else from its last layer. This header contains the contract, the reference and the declarations of the GPU
// functions. There is no backward pass. The functions allocate no memory.
//
// Shape letters: T rows of x (the tokens, then unused tail rows), B sequences, H heads, D head size, C columns of x, S_b rows of
// sequence b. w stacks the weights of q, k and v of all heads. x_0 is the first row of sequence b. For each
// sequence b and head h, with W_q, W_k and W_v the head's D rows of w:
//
//   q = W_q x_0 + b_q      k_j = W_k x_j + b_k      v_j = W_v x_j + b_v
//   p_j = softmax over j of scale q . k_j           o = sum_j p_j v_j
//
// The GPU kernel computes neither keys nor values, which would be T H D numbers each. Because q . k_j is (W_k^T q) . x_j plus a number that
// does not depend on j, and because the p_j add up to 1, it computes
//
//   u = scale W_k^T q      p_j = softmax over j of u . x_j      o = W_v (sum_j p_j x_j) + b_v
//
// Types: x, w and o have one type, bf16 or f16; bias has that type or f32; cu_seqlens is i32 and rises from 0
// to at most T. The reference takes any floating types.
//
// Accumulation: fp32. u and p_j are rounded to the type of x for the tensor cores; sum_j p_j x_j is split
// into two numbers of that type, which together hold twice its bits.
//
// Tail rows of x are not read. Empty sequences give zeros. Aliasing: o overlaps no other operand.
//
// Error bound: first_token_attention_error_bounds() below.
//
// Repeatability: the same bits on the same GPU model, whatever the other sequences of the batch are. Sums are taken per part of a sequence.
// If dims.longest exceeds 8192 rows, the length of these parts, and therefore the bits, depend on dims.longest.
//
// Cost: 6 B H D C + 4 T H C FLOPs, and x is read once. The usual projection of all T rows to q, k and v alone takes 6 T H D C FLOPs.
// Thread-safety and ownership: as in attention.h.
#pragma once

#include <vector>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/attention/attention_catalog.h"

namespace plimsoll {

struct FirstTokenAttentionArgs {
  AttentionDims dims;
  int64_t columns = 0;  // number of columns of x, called C above
  double scale = 1.0;   // factor of the scores, positive and finite
  ConstView x_TC;
  ConstView w_3HDC;
  ConstView bias_3HD;
  ConstView cu_seqlens;  // first row of each sequence and the total, i32, shape [B + 1]
  View o_BHD;
  View scratch = {};          // scratch memory, aligned to 256 bytes; the reference needs none
  int64_t scratch_bytes = 0;  // at least first_token_attention_cuda_scratch_bytes(dims, columns)
};

// Computes o in double from keys and values as in the formula, with plain loops, and rounds it once.
void first_token_attention_ref(const FirstTokenAttentionArgs& args);

// Returns a bound of |error| for each element of o that the GPU kernel computes. Symbols: C is the number of columns, D the width of a
// head, S_b the length of sequence b; x_j is row j of the sequence, p_j its probability, v_j = W_v x_j its value. Sums are over rows j and
// columns c. u_c (with an index) is an element of the vector u of the formula above; u without an index is a rounding error. u = 2^-22 for
// sums on tensor cores (attention.h); r = 2^-8 in bf16 and 2^-11 in f16; w = 2^-25 in f16 (the rounding error below 2^-14) and 0 in bf16. A
// prime marks the quantity that results if every weight, bias and input in its formula is replaced by its absolute value (q' = |W_q| |x_0|
// + |b_q|; v'_j likewise):
//
//   e       = max_j ((2 C + D + 8) u scale sum_c (|W_k|^T q')_c |x_jc| + r sum_c |u_c x_jc| + w sum_c |x_jc|)
//   |error| <= (exp(2 e) - 1 + r + r^2 + (S_b + 2 C + 32) u) sum_j p_j v'_j + w sum_j v'_j + u |b_v| + r |o|
std::vector<double> first_token_attention_error_bounds(const FirstTokenAttentionArgs& args);

// The function below needs a GPU of compute capability 9.0, whose 227 KiB of shared memory per thread block hold two tiles of rows of x.
// Views point to device memory; x, w and scratch are aligned to 16 bytes. The function allocates nothing and may be captured in a CUDA
// graph. It does not check the contents of cu_seqlens (attention_cuda.h states what they must be).

// Computes o. Requires: first_token_attention_sizes_fit() and a GPU of compute capability 9.0. Errors: kInternal if the sizes do not fit or
// scratch is too small, kDevice for an error from CUDA.
void first_token_attention_cuda(const FirstTokenAttentionArgs& args, CudaStream stream);

}  // namespace plimsoll
