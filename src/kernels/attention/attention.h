// Multi-head attention over sequences of different lengths laid end to end, forward and backward, without a
// matrix of longest x longest in memory. It is not the projections before and after it, and it knows no
// key/value cache.
//
// Shape letters: T rows of the bucket (tokens and unused tail), B sequences, S_b rows of sequence b, H heads,
// D head size. Sequence b owns rows cu_seqlens[b] .. cu_seqlens[b+1]-1; rows from cu_seqlens[B] on are the
// tail.
//
// Formula, per sequence and head, for query row i and key row j of the same sequence (Vaswani et al., arXiv
// 1706.03762, eq. 1; computed in tiles as in Dao et al., arXiv 2205.14135 and 2307.08691):
//
//   x_ij   = scale * sum_d q_id k_jd                         (-infinity where the mask hides j from i)
//   lse_i  = log sum_j exp(x_ij)             p_ij = exp(x_ij - lse_i)
//   m_ij   = 0 with probability `dropout`, else dropout_scale(dropout)
//   o_id   = sum_j p_ij m_ij v_jd
//   delta_i = sum_d d_o_id o_id              d_x_ij = p_ij (m_ij sum_d d_o_id v_jd - delta_i)
//   d_q_id = scale * sum_j d_x_ij k_jd       d_k_jd = scale * sum_i d_x_ij q_id
//   d_v_jd = sum_i p_ij m_ij d_o_id
//
// The random number of (i, j) is attention_number(random, attention_row(t, H, h), j) with t the row of i in
// the batch (0..T-1) and j the position of the key in its sequence; the pair is kept when the number is at
// least dropout_threshold(dropout). It depends on nothing else: not on the bucket, the tiles, the threads or
// the device.
//
// Types: q, k, v, o, d_o, d_q, d_k and d_v have one floating type; cu_seqlens is i32; lse is f32. The *_cpu
// functions take f32 and bf16, hold tiles in fp32 and round once on storing; the *_ref functions take any
// floating type and compute in double. attention_cuda.h has those for GPUs: f32, bf16 and f16.
//
// Tail rows: zero in o, lse, d_q, d_k and d_v; never read elsewhere. Empty sequences are allowed and own no
// row. Aliasing: outputs overlap no input and each other only where the row strides interleave them (the
// thirds of one d_qkv).
//
// Error bound of *_cpu against exact arithmetic, u = 2^-24, n = keys that row i sees, r = 0 for f32 and 2^-8
// for bf16 results, s = 2^-8 for bf16 on AMX tiles, which round p_ij m_ij and d_x_ij on their way into a
// product, else 0 (the test takes its limits from these lines). *_cuda_tiled is as *_cpu with s = 0 and r =
// 2^-11 for f16; *_cuda_mma has s = r, and u = 2^-22 because tensor cores cut sums off instead of rounding
// them and because exponentials are ex2.approx of x_ij log2(e), relative error 2^-22 (what the product with
// log2(e) loses is a fraction of e_i). f16 has no relative error below 2^-14: there each of these roundings
// also adds w = 2^-25, that is w times the sum without its factor of p_ij, m_ij at its largest or d_x_ij, and
// w itself for r. *_cuda_tf32 is as *_cuda_mma with r = 0 and s = 2^-11, and rounds every other operand of a
// product too, by t = 2^-11: 2 t scale sum_d |q_id k_jd| more in e_i, t beside each s, and in err d_x 2 t
// m_ij sum_d |d_o_id v_jd| beside its (D + 4) u:
//   e_i         = max_j ((D + 4) u scale sum_d |q_id k_jd|)
//   |err o|    <= (2 e_i + (2 n + 16) u + s) sum_j p_ij m_ij |v_jd| + r |o|
//   |err lse|  <= 2 e_i + (n + 8 + |lse_i|) u
//   eta_i       = 3 e_i + (n + 16 + 3 |lse_i|) u                        (relative, of a recomputed p_ij)
//   err d_x     = p_ij ((eta_i + 4 u) |y_ij - delta_i|
//                       + (D + 4) u (m_ij sum_d |d_o_id v_jd| + sum_d |d_o_id o_id|)
//                       + sum_d |d_o_id| |err o_id|)                    with y_ij = m_ij sum_d d_o_id v_jd
//   |err d_q|  <= scale sum_j (err d_x + ((n + 4) u + s) |d_x_ij|) |k_jd| + r |d_q|
//   |err d_k|     likewise, over i with n = S_b
//   |err d_v|  <= sum_i (eta_i + (S_b + 4) u + s) p_ij m_ij |d_o_id| + r |d_v|
//
// Repeatability: same bits for any number of threads and any schedule; the sums of a row depend on its
// sequence alone (and, with dropout, on its row in the batch), not on the batch around it. Other instruction
// sets give other bits.
//
// Cost per head: forward 4 S_b^2 D floating-point operations, backward 10 S_b^2 D (probabilities are
// recomputed), each about half when causal, and S_b^2 exponentials (and S_b^2 / 8 Philox blocks with dropout)
// in either; bytes moved: 4 T H D elements forward, 8 T H D backward.
//
// Thread-safety: the functions use all threads of parallel_for; call them from one thread at a time per
// scratch. They allocate nothing and own nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/philox.h"
#include "base/view.h"
#include "kernels/attention/attention_catalog.h"

namespace plimsoll {

// Which keys a query row sees: all of its sequence, or those at or before its own position.
enum class AttentionMask : uint8_t { kBidirectional, kCausal };

// The number of query row t (in the batch) and head h among all rows and heads. Requires: below 2^32.
constexpr uint64_t attention_row(int64_t t, int64_t heads, int64_t h) {
  return static_cast<uint64_t>(t) * static_cast<uint64_t>(heads) + static_cast<uint64_t>(h);
}

// The 16-bit number of key position j (in its sequence) for a query row and head, by which dropout decides:
// one of the eight of random_halves(where, 2^32 row + block). With j = 32 a + 8 n + 2 q + e (n and q below 4,
// e below 2) the block is 4 a + q, and the number is half e of its word n: the keys of one row that one lane
// holds of an accumulator of a tensor core, as attention_mma.cuh says, are so the numbers of one block.
// Requires: 0 <= j < 2^20.
constexpr uint64_t attention_random_block(uint64_t row, int64_t j) {
  return (row << 32) + static_cast<uint64_t>(j / 32 * 4 + j % 8 / 2);
}
constexpr uint32_t attention_number(const RandomSite& where, uint64_t row, int64_t j) {
  const uint32_t word = random_halves(where, attention_random_block(row, j))[static_cast<size_t>(j / 8 % 4)];
  return j % 2 == 0 ? word & 0xffffu : word >> 16;
}

struct AttentionOptions {
  double scale = 1.0;  // of the scores, > 0 and finite; usually 1 / sqrt(D)
  AttentionMask mask = AttentionMask::kBidirectional;
  double dropout = 0.0;  // in [0, 1); 0 when evaluating
  RandomSite random = {};
};

// Rows of T x (H * D) elements within a wider tensor: element (t, h, d) is at [t * row_stride + h * D + d].
struct ConstRows {
  ConstView view;
  int64_t row_stride = 0;  // in elements, >= H * D
};
struct Rows {
  View view;
  int64_t row_stride = 0;
};

struct AttentionFwdArgs {
  AttentionDims dims;
  AttentionOptions options;
  ConstRows q, k, v;
  ConstView cu_seqlens;       // i32[B + 1], from 0, never decreasing, last <= T
  View o;                     // [T, H * D]
  View lse;                   // f32[H * T]; null when no backward pass follows
  View scratch;               // aligned to 64 bytes
  int64_t scratch_bytes = 0;  // at least attention_fwd_{cpu,ref}_scratch_bytes(dims, num_threads())
};

struct AttentionBwdArgs {
  AttentionDims dims;
  AttentionOptions options;  // as in the forward call
  ConstRows q, k, v;
  ConstView cu_seqlens;
  ConstView o;    // [T, H * D], of the forward call
  ConstView lse;  // f32[H * T], of the forward call
  ConstView d_o;  // [T, H * D]
  Rows d_q, d_k, d_v;
  View scratch;               // aligned to 64 bytes
  int64_t scratch_bytes = 0;  // at least attention_bwd_{cpu,ref}_scratch_bytes(dims, num_threads())
};

// Writes o and lse. Requires: as the fields say; dims.longest >= every S_b. Errors: kInternal otherwise.
void attention_fwd_cpu(const AttentionFwdArgs& args);
void attention_fwd_ref(const AttentionFwdArgs& args);

// Writes d_q, d_k and d_v. The reference recomputes lse and delta from q, k, v and d_o and does not read o or
// lse.
void attention_bwd_cpu(const AttentionBwdArgs& args);
void attention_bwd_ref(const AttentionBwdArgs& args);

}  // namespace plimsoll
