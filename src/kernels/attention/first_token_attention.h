// Attention of the first row of each sequence alone, with the projections of queries, keys and values in it:
// what a classifier that reads first tokens needs of its last layer. Contract and reference; forward only. No
// graph, no allocation.
//
// Shape letters: T rows of the bucket, B sequences, H heads, D head size, C columns of x, S_b rows of
// sequence b; w holds the weights of q, k and v of all heads one below the other. x_0 is the first row of
// sequence b, and all that follows is per sequence b and head h, with W_q, W_k, W_v the head's D rows of w:
//
//   q = W_q x_0 + b_q      k_j = W_k x_j + b_k      v_j = W_v x_j + b_v
//   p_j = softmax over j of scale q . k_j           o = sum_j p_j v_j
//
// The kernel for a GPU makes neither keys nor values, of which there would be T H D each: as q . k_j is
// (W_k^T q) . x_j and a number that does not depend on j, and the p_j add up to 1,
//
//   u = scale W_k^T q      p_j = softmax over j of u . x_j      o = W_v (sum_j p_j x_j) + b_v
//
// Types: x, w and o of one type, bf16 or f16; bias that type or f32; cu_seqlens i32, rising from 0 to at most
// T. The reference takes any floating types. Accumulation: fp32; u and p_j are rounded to the type of x for
// the tensor cores, sum_j p_j x_j to twice its bits. Tail rows of x are not read. Empty sequences give zeros.
// Aliasing: o overlaps nothing. Error of each element: first_token_attention_error_bounds below.
// Repeatability: the same bits on the same card, whatever sequences are beside; for plans of sequences longer
// than 8192 rows the parts in which sums are taken depend on the longest.
// Cost: 6 B H D C + 4 T H C FLOPs; x is read once, where attention after a product takes 6 T H D C FLOPs
// more. Thread-safety and ownership: as attention.h.
#pragma once

#include <vector>

#include "base/view.h"
#include "kernels/attention/attention_catalog.h"

namespace plimsoll {

struct FirstTokenAttentionArgs {
  AttentionDims dims;
  int64_t columns = 0;  // C
  double scale = 1.0;   // of the scores, > 0 and finite
  ConstView x_TC;
  ConstView w_3HDC;
  ConstView bias_3HD;
  ConstView cu_seqlens;  // i32[B + 1]
  View o_BHD;
  View scratch = {};          // aligned to 256 bytes; the reference needs none
  int64_t scratch_bytes = 0;  // at least first_token_attention_cuda_scratch_bytes(dims, columns)
};

// Plain loops in double, with keys and values as the formula has them; o is rounded once.
void first_token_attention_ref(const FirstTokenAttentionArgs& args);

// |error| of each element of o of the kernel for a GPU. With u = 2^-22 for sums on tensor cores
// (attention.h), r = 2^-8 in bf16 and 2^-11 in f16, w = 2^-25 in f16 (what rounding loses below 2^-14) and 0
// in bf16, and a bar for a sum of absolute values through all factors before it (q' = |W_q| |x_0| + |b_q| and
// so on):
//
//   e       = max_j ((2 C + D + 8) u scale sum_c (|W_k|^T q')_c |x_jc| + r sum_c |u_c x_jc| + w sum_c |x_jc|)
//   |error| <= (exp(2 e) - 1 + r + r^2 + (S_b + 2 C + 32) u) sum_j p_j v'_j + w sum_j v'_j + u |b_v| + r |o|
std::vector<double> first_token_attention_error_bounds(const FirstTokenAttentionArgs& args);

}  // namespace plimsoll
