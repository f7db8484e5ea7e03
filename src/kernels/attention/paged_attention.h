// Attention of new tokens to all tokens of their sequence, whose keys and values are in the pages of a KV cache, and the op that writes the
// keys and values of new tokens into the pages. Forward only, for text generation: a decoding step has one new row per sequence, a prefill
// or a part of one has many. The kernels do not choose pages (generate/page_table.h does) and allocate no memory.
//
// Shape letters: T rows of qkv (n_b new rows of each sequence b, then unused tail rows), B sequences, L_b tokens of b including the new
// ones, H query heads, G heads of keys and values (H is a multiple of G), D head size, P pages of S tokens, M pages per sequence at most.
//
//   qkv          [T, (H + 2 G) D]   q of all heads, then k, then v; sequence b owns rows cu_seqlens[b] .. cu_seqlens[b+1]-1
//   cache        [P, 2, S, G, D]    keys (0) and values (1)
//   page_table   i32 [B, M]         token j of sequence b is in slot j % S of page page_table[b, j / S]
//   lengths      i32 [B]            L_b, at least n_b; the entries of sequences without new rows are not used
//   copy_from    i32 [B] or null    a page whose first tokens sequence b continues, or -1
//
// append_kv writes the keys and values of new tokens: row i of sequence b has position t = L_b - n_b + i; its k and v go to slot t % S of
// page page_table[b, t / S]. If copy_from[b] is a page, the (L_b - n_b) % S tokens before the new ones are first copied from it to the
// sequence's page: beams that share a partly filled page each continue a copy of it. No element is rounded. All other slots keep their
// bytes.
//
// paged_attention: with t as above, query head h reads the keys and values of head g = h / (H / G) (grouped-query attention, Ainslie et
// al., arXiv 2305.13245) at positions j with max(0, t - W + 1) <= j <= t, where W is the window, or from 0 without one:
//
//   x_j = scale sum_d q_hd k_jgd        p_j = exp(x_j) / sum_j exp(x_j)        o_hd = sum_j p_j v_jgd
//
// It reads k and v from the cache only, so append_kv must run first.
//
// Types: qkv, cache and o have one floating type: f32 and bf16 on a CPU, also f16 on a GPU; the references take any. Accumulation
// is in fp32 (references: double), and the result is rounded once. On a GPU, S must be a power of two.
//
// Summation order: the positions of a sequence are divided into parts of kPagedPart. Softmax and lse are computed per part; the results are
// joined from the first part to the last, with the weights exp(lse - the larger lse). Parts begin at multiples of kPagedPart, so the bits
// of a row depend on its own sequence only, not on T, the batch, the pages, the number of rows per call, or the number of threads.
// Different devices and instruction sets give other bits. On a GPU the number of positions per part (paged_attention_cuda_part()) depends
// on the number of rows per call, and so do the bits of a row.
//
// Tail rows of o are set to zero; tail rows of qkv are not read. Sequences without new rows are allowed. Aliasing: o overlaps no input. The
// pages that different sequences write must differ; copy_from pages may be read by several sequences and written by one of them in
// slots from (L_b - n_b) % S on.
//
// Error bound of paged_attention against exact arithmetic (the test computes its limits with these formulas), with u = 2^-24, r = 0 for
// f32, 2^-8 for bf16 and 2^-11 for f16, n the number of keys of the row and P_i = n / 64 + 2 an upper bound of the number of parts. The
// letters e_i and the factors are those of attention.h; a part adds an exponential, a product and a sum. Scores enter exponents three times
// (in a part, in its lse, and in the weight), each with an error of at most 4 u |x|:
//
//   e_i      = max_j ((D + 12) u scale sum_d |q_id k_jd|)
//   |err o| <= (2 e_i + (2 n + 32 + 12 P_i) u) sum_j p_j |v_jd| + r |o|
//
// On a GPU exponentials are ex2.approx of x log2(e), and u = 2^-22.
//
// Cost: 4 n H D FLOPs per row. A decoding step moves 2 L_b G D elements per sequence, which bounds its time. Thread-safety and
// ownership: as in attention.h.
#pragma once

#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/attention/attention_catalog.h"

namespace plimsoll {

struct AppendKvArgs {
  PagedAttentionDims dims;
  ConstView qkv;         // queries, keys and values of the new rows, shape [T, (H + 2 G) D]
  ConstView cu_seqlens;  // first new row of each sequence and the total, i32, shape [B + 1]
  ConstView page_table;  // pages of each sequence, i32, shape [B, M]
  ConstView lengths;     // number of tokens of each sequence, i32, shape [B]
  // Per sequence, a page whose first tokens are copied to a page of the sequence, or -1; i32, shape [B]. Null if no page is copied.
  ConstView copy_from;
  View cache;  // pages of keys and values, shape [P, 2, S, G, D]
};

struct PagedAttentionArgs {
  PagedAttentionDims dims;
  double scale = 1.0;         // factor of the scores, positive and finite
  ConstView qkv;              // projections of the new rows, shape [T, (H + 2 G) D]; only q is read
  ConstView cu_seqlens;       // first new row of each sequence and the total, i32, shape [B + 1]
  ConstView page_table;       // pages of each sequence, i32, shape [B, M]
  ConstView lengths;          // number of tokens of each sequence, i32, shape [B]
  ConstView cache;            // pages of keys and values, shape [P, 2, S, G, D]
  View o;                     // output, shape [T, H D]
  View scratch;               // scratch memory, aligned to 64 bytes
  int64_t scratch_bytes = 0;  // size of scratch, at least paged_attention_{cpu,ref,cuda}_scratch_bytes()
};

// Write k and v of the new rows into their pages. Requires: the conditions stated above and at the members of the arguments. Errors:
// kInternal if one is violated, for example by a page number outside the cache.
void append_kv_ref(const AppendKvArgs& args);
void append_kv_cpu(const AppendKvArgs& args);

// Compute o. Errors: kInternal under the same conditions as append_kv.
void paged_attention_ref(const PagedAttentionArgs& args);
void paged_attention_cpu(const PagedAttentionArgs& args);

// The functions below run on an NVIDIA GPU. Views point to device memory. The functions may be captured in a CUDA graph and do not check
// the contents of cu_seqlens, page_table, lengths and copy_from, which are in device memory. They start early
// (element_wise/cuda/early_launch.cuh): while previous launches may still run, they read these arrays, the tokens to be copied, and all
// pages before the one with the first new token of a sequence. The launches directly before them must therefore write none of these.
void append_kv_cuda(const AppendKvArgs& args, CudaStream stream);
void paged_attention_cuda(const PagedAttentionArgs& args, CudaStream stream);

// Returns the offset in the cache, in elements, of head 0 of a token's key (part 0) or value (part 1).
constexpr int64_t cache_element(const PagedAttentionDims& dims, int64_t page, int64_t part, int64_t slot) {
  return ((page * 2 + part) * dims.page_size + slot) * dims.kv_heads * dims.head_dim;
}

// Check the arguments against the contract, including all page numbers. The *_cpu and *_ref functions call the first function of each pair.
// The GPU functions call the second one, which checks only what the host can read.
void check_paged_args(const AppendKvArgs& args);
void check_paged_device_args(const AppendKvArgs& args);
void check_paged_args(const PagedAttentionArgs& args, int64_t scratch_bytes);
void check_paged_device_args(const PagedAttentionArgs& args, int64_t scratch_bytes);

}  // namespace plimsoll
