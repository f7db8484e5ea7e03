// Multi-head attention, forward and backward, over a batch of sequences of different lengths that are stored
// one after another without padding. No matrix of longest x longest scores is stored. The projections before
// and after attention are not part of it, and there is no key/value cache.
//
// Shape letters: T rows of the tensors (the tokens, then unused tail rows), B sequences, S_b rows of sequence b, H
// heads of q and o, G heads of k and v, D head size, W window. Sequence b owns rows cu_seqlens[b] ..
// cu_seqlens[b+1]-1; the rows from cu_seqlens[B] on are the tail.
//
// Grouped queries (Ainslie et al., arXiv 2305.13245): H is a multiple of G, and head h of q reads head h / (H / G)
// of k and v. The gradients of a head of k and v are the sums over the H / G heads of q that read it. G = H is
// attention with a head of k and v per head of q, G = 1 multi-query attention.
//
// Window: with W > 0 the mask also hides key rows whose distance from the query row is W or more. Mistral's
// sliding window (Jiang et al., arXiv 2310.06825) is a causal mask with a window.
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
// Dropout: the random number of (i, j) is attention_number(random, attention_row(t, H, h), j), where t is the
// row of i in the batch (0..T-1) and j is the position of the key in its sequence. The pair is kept if the
// number is at least dropout_threshold(dropout). The number depends on nothing else: not on T, the
// tiles, the threads or the device.
//
// Types: q, k, v, o, d_o, d_q, d_k and d_v have one floating type; cu_seqlens is i32; lse is f32. The *_cpu functions take f32 and bf16,
// compute in fp32 and round once when they store. The *_ref functions take any floating type and compute in double. The GPU functions in
// attention_cuda.h take f32, bf16 and f16.
//
// Tail rows: the functions write zeros to the tail rows of o, lse, d_q, d_k and d_v and never read the tail rows of other tensors. Empty
// sequences are allowed and own no row. Aliasing: no output overlaps an input. Outputs may share memory only if their row strides
// interleave them, as when d_q, d_k and d_v are columns of one tensor.
//
// Error bound against exact arithmetic (the tests compute their limits with these formulas). n is the number of
// keys that row i sees. The other letters depend on the implementation:
//
//   u  rounding of an fp32 operation: 2^-24 for *_cpu and *_cuda_tiled. 2^-22 for *_cuda_mma and *_cuda_tf32, because tensor
//      cores truncate sums instead of rounding them, and because exponentials are ex2.approx of x_ij log2(e),
//      with a relative error of 2^-22 (the error of the product with log2(e) is a fraction of e_i).
//   r  rounding of a result: 0 for f32, 2^-8 for bf16, 2^-11 for f16.
//   s  rounding of p_ij m_ij and d_x_ij before a product: 2^-8 for *_cpu in bf16 on AMX tiles, r for *_cuda_mma,
//      2^-11 for *_cuda_tf32, otherwise 0.
//   t  rounding of the other operands of a product: 2^-11 for *_cuda_tf32, otherwise 0. This rounding adds
//      2 t scale sum_d |q_id k_jd| to e_i, t to each s, and 2 t m_ij sum_d |d_o_id v_jd| to the (D + 4) u terms
//      of err d_x.
//   w  2^-25 for f16, otherwise 0: f16 has no relative error bound below 2^-14. Each term below that contains
//      s therefore grows by w times the same sum without p_ij or d_x_ij and with the largest m_ij, and each term
//      that contains r grows by w.
//
//   e_i         = max_j ((D + 4) u scale sum_d |q_id k_jd|)
//   |err o|    <= (2 e_i + (2 n + 16) u + s) sum_j p_ij m_ij |v_jd| + r |o|
//   |err lse|  <= 2 e_i + (n + 8 + |lse_i|) u
//   eta_i       = 3 e_i + (n + 16 + 3 |lse_i|) u                        (relative, of a recomputed p_ij)
//   err d_x     = p_ij ((eta_i + 4 u) |y_ij - delta_i|
//                       + (D + 4) u (m_ij sum_d |d_o_id v_jd| + sum_d |d_o_id o_id|)
//                       + sum_d |d_o_id| |err o_id|)                    with y_ij = m_ij sum_d d_o_id v_jd
//   |err d_q|  <= scale sum_j (err d_x + ((n + 4) u + s) |d_x_ij|) |k_jd| + r |d_q|
//   |err d_k|     likewise, over i of all heads of the group with n = S_b H / G
//   |err d_v|  <= sum_i (eta_i + (S_b H / G + 4) u + s) p_ij m_ij |d_o_id| + r |d_v|, over the same i
//
// Repeatability: the results have the same bits for any number of threads and any schedule. The sums of a row
// depend on its own sequence (and, with dropout, on its row in the batch), not on the rest of the batch.
// Other instruction sets give other bits.
//
// Cost per head: the forward pass takes 4 S_b^2 D floating-point operations, the backward pass 10 S_b^2 D (it recomputes probabilities);
// each takes about half of that with a causal mask, and 2 W / S_b of it with a window. Either pass computes S_b^2 exponentials and, with
// dropout, S_b^2 / 8 Philox blocks. The forward pass moves T D (2 H + 2 G) elements, the backward pass twice as many.
//
// Thread-safety: the functions use all threads of parallel_for, so only one thread at a time may call them
// with the same scratch. They allocate nothing and own nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/philox.h"
#include "base/view.h"
#include "kernels/attention/attention_catalog.h"

namespace plimsoll {

// Selects the keys that a query row sees: all keys of its sequence, or only those up to its own position.
enum class AttentionMask : uint8_t { kBidirectional, kCausal };

// The range of keys that each query row of a sequence of `count` rows sees, given a mask and a window.
struct AttentionReach {
  AttentionMask mask = AttentionMask::kBidirectional;
  int64_t window = 0;
  int64_t count = 0;

  // Query row i sees the key rows first_key(i) .. end_key(i) - 1.
  constexpr int64_t first_key(int64_t i) const { return window == 0 || i < window ? 0 : i - window + 1; }
  constexpr int64_t end_key(int64_t i) const {
    if (mask == AttentionMask::kCausal) return i + 1;
    return window == 0 || count - i < window ? count : i + window;
  }
  constexpr bool sees(int64_t i, int64_t j) const { return j >= first_key(i) && j < end_key(i); }
};

// Returns a number that identifies the pair of query row t of the batch and head h. It selects the random numbers of dropout. Requires: the
// returned number is below 2^32.
constexpr uint64_t attention_row(int64_t t, int64_t heads, int64_t h) {
  return static_cast<uint64_t>(t) * static_cast<uint64_t>(heads) + static_cast<uint64_t>(h);
}

// Returns the 16-bit random number that decides whether dropout keeps the probability of key j (a position in its sequence) for a query row
// and head. One Philox block, random_halves(where, 2^32 row + block), consists of four 32-bit words and therefore yields eight such
// numbers. With j = 32 a + 8 n + 2 q + e (n and q below 4, e below 2), key j takes the lower (e = 0) or upper (e = 1) half of word n of
// block 4 a + q. In a tensor core's accumulator (layout in attention_mma.cuh), one lane holds the keys of a row that share q, so it needs
// only one Philox block per row and 32 keys. Requires: 0 <= j < 2^20.
constexpr uint64_t attention_random_block(uint64_t row, int64_t j) {
  return (row << 32) + static_cast<uint64_t>(j / 32 * 4 + j % 8 / 2);
}
constexpr uint32_t attention_number(const RandomSite& where, uint64_t row, int64_t j) {
  const uint32_t word = random_halves(where, attention_random_block(row, j))[static_cast<size_t>(j / 8 % 4)];
  return j % 2 == 0 ? word & 0xffffu : word >> 16;
}

struct AttentionOptions {
  double scale = 1.0;  // factor of the scores, positive and finite, usually 1 / sqrt(D)
  AttentionMask mask = AttentionMask::kBidirectional;
  double dropout = 0.0;  // dropout probability in [0, 1); 0 in evaluation
  RandomSite random = {};
  // These two fields describe this rank if several ranks divide the heads of an attention layer: the number of heads of all ranks, and the
  // index of the first head of this rank. The random numbers of dropout depend on both fields. all_heads = 0 means that this rank computes
  // all heads.
  int64_t all_heads = 0;
  int64_t first_head = 0;
};

// A view of T rows of H * D elements (G * D for k and v) within a wider tensor: element (t, h, d) is at [t * row_stride + h * D + d].
struct ConstRows {
  ConstView view;
  int64_t row_stride = 0;  // distance of two rows in elements, at least the number of elements per row
};
struct Rows {
  View view;
  int64_t row_stride = 0;
};

struct AttentionFwdArgs {
  AttentionDims dims;
  AttentionOptions options;
  ConstRows q, k, v;
  ConstView cu_seqlens;  // i32[B + 1]: starts at 0, never decreases, ends with at most T
  View o;                // output of attention, shape [T, H * D]
  View lse;              // log-sum-exp of the scores, f32, shape [H, T]; null if no backward pass follows
  View scratch;          // scratch memory, aligned to 64 bytes
  int64_t scratch_bytes = 0;  // at least attention_fwd_{cpu,ref}_scratch_bytes(dims, num_threads())
};

struct AttentionBwdArgs {
  AttentionDims dims;
  AttentionOptions options;  // the options that the forward pass was called with
  ConstRows q, k, v;
  ConstView cu_seqlens;
  ConstView o;    // output of the forward pass, shape [T, H * D]
  ConstView lse;  // lse of the forward pass, f32, shape [H, T]
  ConstView d_o;  // gradient of o, shape [T, H * D]
  Rows d_q, d_k, d_v;
  View scratch;               // scratch memory, aligned to 64 bytes
  int64_t scratch_bytes = 0;  // at least attention_bwd_{cpu,ref}_scratch_bytes(dims, num_threads())
};

// Returns attention_row() of query row t and head h of this rank, with the number that this head has among the heads of all ranks.
template <typename Args>
uint64_t random_row(const Args& args, int64_t t, int64_t h) {
  const AttentionOptions& options = args.options;
  return attention_row(t, options.all_heads > 0 ? options.all_heads : args.dims.heads,
                       options.first_head + h);
}

// Computes o and lse. Requires: the conditions stated at the members of the arguments, and dims.longest >= every S_b. Errors: kInternal if
// one does not hold.
void attention_fwd_cpu(const AttentionFwdArgs& args);
void attention_fwd_ref(const AttentionFwdArgs& args);

// Computes d_q, d_k and d_v. The reference recomputes lse and delta from q, k, v and d_o and does not read o
// or lse.
void attention_bwd_cpu(const AttentionBwdArgs& args);
void attention_bwd_ref(const AttentionBwdArgs& args);

}  // namespace plimsoll
