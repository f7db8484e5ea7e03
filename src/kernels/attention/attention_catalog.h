// The sizes of an attention problem and the scratch memory of each implementation: the host-only part of the
// contract in attention.h. Thread-safe: pure functions.
#pragma once

#include <cstdint>

namespace plimsoll {

// T, B, the bound on S_b, H and D of attention.h.
struct AttentionDims {
  int64_t tokens = 0;
  int64_t sequences = 0;
  int64_t longest = 0;  // at most kAttentionLongest
  int64_t heads = 0;
  int64_t head_dim = 0;
};

inline constexpr int64_t kAttentionLongest = int64_t{1} << 20;

// Rows of queries and of keys that are multiplied at a time. Tiles of 64 x 64 floats are a third of a 48 KiB
// L1 cache, and a product over 64 terms amortises the loads and stores of its result.
inline constexpr int64_t kAttentionTile = 64;

constexpr int64_t attention_round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
// Floats of a row of a tile of q, k or v: D padded with zeros to the widest vector.
constexpr int64_t attention_padded_dim(int64_t head_dim) {
  return attention_round_up(head_dim, 16);
}
constexpr int64_t attention_padded_keys(int64_t longest) {
  return longest <= kAttentionTile ? kAttentionTile : attention_round_up(longest, kAttentionTile);
}
// Query rows whose scores are held at a time in the forward pass: 64 up to 2048 keys, then fewer, at
// least 16.
constexpr int64_t attention_fwd_query_rows(int64_t longest) {
  const int64_t rows = int64_t{131072} / attention_padded_keys(longest) / 16 * 16;
  return rows < 16 ? 16 : rows > kAttentionTile ? kAttentionTile : rows;
}
// Floats from one row of scores to the next: an odd number of cache lines, so that a column of scores does
// not fall into few sets of the cache.
constexpr int64_t attention_score_stride(int64_t keys) {
  return attention_padded_keys(keys) + 16;
}

// Floats of one thread's part of the scratch.
constexpr int64_t attention_fwd_thread_floats(const AttentionDims& dims) {
  const int64_t row = attention_padded_dim(dims.head_dim);
  const int64_t keys = attention_padded_keys(dims.longest);
  const int64_t queries = attention_fwd_query_rows(dims.longest);
  return 2 * keys * row                                    // k transposed, v
         + (kAttentionTile + 2 * queries) * row            // a tile of k, q, o
         + queries * attention_score_stride(dims.longest)  // scores
         + keys + queries;                                 // a row of dropout factors, factors of rows
}
constexpr int64_t attention_bwd_thread_floats(const AttentionDims& dims) {
  const int64_t row = attention_padded_dim(dims.head_dim);
  const int64_t keys = attention_padded_keys(dims.longest);
  return 5 * keys * row              // k, k transposed, v transposed, d_k, d_v
         + 4 * kAttentionTile * row  // q, d_o, d_q, a tile of v or a row of o
         + 2 * kAttentionTile * attention_score_stride(kAttentionTile)  // probabilities, gradients of scores
         + 3 * kAttentionTile;  // a row of dropout factors, lse, delta
}

// The sequences in order of length, for all threads.
constexpr int64_t attention_order_bytes(const AttentionDims& dims) {
  return attention_round_up(dims.sequences * 4, 64);
}

constexpr int64_t attention_fwd_cpu_scratch_bytes(const AttentionDims& dims, int threads) {
  return attention_order_bytes(dims) + threads * attention_fwd_thread_floats(dims) * 4;
}
constexpr int64_t attention_bwd_cpu_scratch_bytes(const AttentionDims& dims, int threads) {
  return attention_order_bytes(dims) + threads * attention_bwd_thread_floats(dims) * 4;
}
// The references hold rows of doubles and use one thread.
constexpr int64_t attention_fwd_ref_scratch_bytes(const AttentionDims& dims) {
  return dims.longest * 8;
}
constexpr int64_t attention_bwd_ref_scratch_bytes(const AttentionDims& dims) {
  return (2 * dims.longest + 3 * dims.head_dim) * 8;
}

// On the GPU the backward pass keeps delta and, for the tensor cores' kernels and sequences up to
// kAttentionKeepLongest, a bit for each pair of rows that dropout keeps; beyond that length the second kernel
// draws the numbers again. The keep bits of 32 keys are a word; words of adjacent query rows are adjacent.
inline constexpr int64_t kAttentionKeepLongest = 2048;
constexpr int64_t attention_cuda_delta_bytes(const AttentionDims& dims) {
  return attention_round_up(dims.tokens * dims.heads * 4, 256);
}
constexpr int64_t attention_cuda_keep_bytes(const AttentionDims& dims) {
  if (dims.longest > kAttentionKeepLongest) return 0;
  return attention_round_up(dims.longest, 32) / 32 * dims.tokens * dims.heads * 4;
}
constexpr int64_t attention_bwd_cuda_tiled_scratch_bytes(const AttentionDims& dims) {
  return attention_cuda_delta_bytes(dims);
}
constexpr int64_t attention_bwd_cuda_mma_scratch_bytes(const AttentionDims& dims) {
  return attention_cuda_delta_bytes(dims) + attention_cuda_keep_bytes(dims);
}

// first_token_attention of a GPU: each sequence in parts of so many rows, no more than 32 of them.
constexpr int64_t first_token_attention_part_rows(int64_t longest) {
  constexpr int64_t kRows = 256, kMostParts = 32;
  const int64_t rows = attention_round_up((longest + kMostParts - 1) / kMostParts, 32);
  return rows < kRows ? kRows : rows;
}
constexpr int64_t first_token_attention_parts(int64_t longest) {
  const int64_t rows = first_token_attention_part_rows(longest);
  return longest <= rows ? 1 : (longest + rows - 1) / rows;
}
// The queries, each head's numbers for x in their place, and of each part and head the sum of rows with the
// largest score and the sum of probabilities.
constexpr int64_t first_token_attention_query_bytes(const AttentionDims& dims) {
  return attention_round_up(dims.sequences * dims.heads * dims.head_dim * 4, 256);
}
constexpr int64_t first_token_attention_key_bytes(const AttentionDims& dims, int64_t columns) {
  return attention_round_up(dims.sequences * dims.heads * columns * 2, 256);
}
constexpr int64_t first_token_attention_sum_bytes(const AttentionDims& dims, int64_t columns) {
  const int64_t parts = dims.sequences * dims.heads * first_token_attention_parts(dims.longest);
  return attention_round_up(parts * columns * 4, 256) + attention_round_up(parts * 8, 256);
}
constexpr int64_t first_token_attention_cuda_scratch_bytes(const AttentionDims& dims, int64_t columns) {
  return first_token_attention_query_bytes(dims) + first_token_attention_key_bytes(dims, columns) +
         first_token_attention_sum_bytes(dims, columns);
}
// Columns that the kernel is compiled for, heads that fill the 16 rows of a product at most, and head sizes
// whose outputs come 32 at a time.
constexpr bool first_token_attention_sizes_fit(const AttentionDims& dims, int64_t columns) {
  const bool columns_fit = columns == 384 || columns == 512 || columns == 768 || columns == 1024;
  return columns_fit && dims.heads <= 16 && dims.head_dim % 32 == 0 && dims.head_dim <= 128;
}

// Where most sequences fit a block of 64 rows, small blocks waste less of their last rows. On an H200 in bf16
// with dropout, 32 sequences of 53 rows on average and 12 heads of 64 take 55 us with blocks of 64 rows and
// 68 us with 128 (both passes); of sequences of 512 rows large blocks are the faster ones.
constexpr bool attention_is_of_short_sequences(const AttentionDims& dims) {
  return dims.tokens <= 64 * dims.sequences;
}

// The widest head that the kernels for the GPU take.
inline constexpr int64_t kAttentionCudaHeadDim = 128;

}  // namespace plimsoll
