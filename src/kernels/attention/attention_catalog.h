// The kernel problems of attention and the scratch memory of each implementation: the host-only part of the contracts in attention.h,
// first_token_attention.h and paged_attention.h. Thread-safe: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/dtype.h"
#include "kernels/catalog/kernel_target.h"

namespace plimsoll {

// The kernel problem of attention_fwd and attention_bwd: the sizes T, B, the bound on S_b, H, D, G and W of attention.h.
struct AttentionDims {
  int64_t tokens = 0;
  int64_t sequences = 0;
  int64_t longest = 0;  // at most kAttentionLongest
  int64_t heads = 0;
  int64_t head_dim = 0;
  int64_t kv_heads = 0;  // G; 0: as many as heads
  int64_t window = 0;    // W: a row sees rows less than W apart; 0: no limit

  constexpr int64_t num_kv_heads() const { return kv_heads == 0 ? heads : kv_heads; }
  // The number of query heads that share one head of k and v.
  constexpr int64_t group_heads() const { return heads / num_kv_heads(); }
};
// The kernel problem of first_token_attention.
struct FirstTokenAttentionProblem {
  AttentionDims dims = {};
  int64_t columns = 0;    // C, the number of columns of x
  DType w = DType::kF32;  // element type of the weights
};

// The kernel problem of paged_attention and append_kv (paged_attention.h): the sizes T, B, a bound on n_b, H, G, D, P, S, M and W.
struct PagedAttentionDims {
  int64_t tokens = 0;
  int64_t sequences = 0;
  int64_t longest = 0;  // bound on the new rows of a sequence
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t num_pages = 0;
  int64_t page_size = 0;
  int64_t max_pages = 0;  // largest number of pages of one sequence
  int64_t window = 0;     // 0: every earlier token is visible
};

inline constexpr int64_t kAttentionLongest = int64_t{1} << 20;

// The number of query rows and of key rows that are multiplied at a time. Tiles of 64 x 64 floats fill a third of a 48 KiB L1 cache, and a
// matrix product of depth 64 amortizes the loads and stores of its result.
inline constexpr int64_t kAttentionTile = 64;

constexpr int64_t attention_round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
// Returns the number of floats in a row of a tile of q, k or v: D, padded with zeros to the widest vector.
constexpr int64_t attention_padded_dim(int64_t head_dim) {
  return attention_round_up(head_dim, 16);
}
constexpr int64_t attention_padded_keys(int64_t longest) {
  return longest <= kAttentionTile ? kAttentionTile : attention_round_up(longest, kAttentionTile);
}
// Returns the number of query rows whose scores the forward pass holds at a time: 64 for up to 2048 keys, fewer for more
// keys, and at least 16.
constexpr int64_t attention_fwd_query_rows(int64_t longest) {
  const int64_t rows = int64_t{131072} / attention_padded_keys(longest) / 16 * 16;
  return rows < 16 ? 16 : rows > kAttentionTile ? kAttentionTile : rows;
}
// Returns the number of floats from one row of scores to the next: an odd number of cache lines, so that the elements of a
// column are spread over many sets of the cache.
constexpr int64_t attention_score_stride(int64_t keys) {
  return attention_padded_keys(keys) + 16;
}

// Returns the number of floats that one thread needs in the scratch memory.
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

// Returns the bytes of the list of sequences by length, which all threads share.
constexpr int64_t attention_order_bytes(const AttentionDims& dims) {
  return attention_round_up(dims.sequences * 4, 64);
}

constexpr int64_t attention_fwd_cpu_scratch_bytes(const AttentionDims& dims, int threads) {
  return attention_order_bytes(dims) + threads * attention_fwd_thread_floats(dims) * 4;
}
constexpr int64_t attention_bwd_cpu_scratch_bytes(const AttentionDims& dims, int threads) {
  return attention_order_bytes(dims) + threads * attention_bwd_thread_floats(dims) * 4;
}
// The references store rows of doubles and use one thread.
constexpr int64_t attention_fwd_ref_scratch_bytes(const AttentionDims& dims) {
  return dims.longest * 8;
}
constexpr int64_t attention_bwd_ref_scratch_bytes(const AttentionDims& dims) {
  return (2 * dims.longest * dims.group_heads() + 3 * dims.head_dim) * 8;
}

// On a GPU the backward pass stores delta in scratch memory. The kernels for tensor cores also store one bit per pair of a query row and a
// key row, which is set if dropout keeps the pair, for sequences of up to kAttentionKeepLongest rows; for longer sequences the second
// kernel draws the random numbers again. The bits of 32 keys form a word; words of adjacent query rows are adjacent.
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

// Returns the number of rows per part of a sequence: first_token_attention on a GPU divides each sequence into at most 32 parts, which
// different thread blocks compute.
constexpr int64_t first_token_attention_part_rows(int64_t longest) {
  constexpr int64_t kRows = 256, kMostParts = 32;
  const int64_t rows = attention_round_up((longest + kMostParts - 1) / kMostParts, 32);
  return rows < kRows ? kRows : rows;
}
constexpr int64_t first_token_attention_parts(int64_t longest) {
  const int64_t rows = first_token_attention_part_rows(longest);
  return longest <= rows ? 1 : (longest + rows - 1) / rows;
}
// The arrays in the scratch memory of first_token_attention: the queries; for each head, the vector whose product with a row of x is the
// score of that row; and, for each part of a sequence and each head, the weighted sum of rows, the largest score and the sum of
// probabilities. These functions return the bytes of each array.
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
// Returns true if the CUDA kernel supports the sizes. It is compiled for some numbers of columns, one matrix product has at most 16 heads
// as its rows, and outputs of a head are computed 32 at a time.
constexpr bool first_token_attention_sizes_fit(const AttentionDims& dims, int64_t columns) {
  const bool columns_fit = columns == 384 || columns == 512 || columns == 768 || columns == 1024;
  return columns_fit && dims.heads <= 16 && dims.head_dim % 32 == 0 && dims.head_dim <= 128;
}

// The number of positions per part of a sequence in paged_attention. Each part has its own softmax; the scores of all heads for one part
// fit into the second-level cache.
inline constexpr int64_t kPagedPart = 256;
// The number of adjacent query rows of a sequence that are computed in one pass over the keys on a CPU.
inline constexpr int64_t kPagedRows = 8;

// Returns the largest number of parts into which a sequence is divided.
constexpr int64_t paged_attention_parts(const PagedAttentionDims& dims) {
  return (dims.max_pages * dims.page_size + kPagedPart - 1) / kPagedPart;
}
// Returns true if different threads compute the parts of one sequence, because there are too few rows for all threads. The bits of the
// results are the same either way.
constexpr bool paged_attention_divides_sequences(const PagedAttentionDims& dims, int threads) {
  return threads > 1 && dims.tokens < 4 * threads;
}
// Returns the number of floats that store the result of a row: o of all heads, padded, and per head an lse and a sum of weights.
constexpr int64_t paged_attention_result_floats(const PagedAttentionDims& dims) {
  return dims.heads * (attention_padded_dim(dims.head_dim) + 2);
}
// The number of floats from one row of scores to the next, with space for a vector after the last score.
constexpr int64_t kPagedScoreStride = kPagedPart + 32;
// Returns the number of floats of a thread's queries in scratch memory: those of kPagedRows rows, followed by up to 15 rows of zeros. The
// scratch memory of a thread also contains scores and results of kPagedRows rows, and the sums over their parts.
constexpr int64_t paged_attention_q_floats(const PagedAttentionDims& dims) {
  return (kPagedRows * dims.heads + 16) * attention_padded_dim(dims.head_dim);
}
constexpr int64_t paged_attention_thread_floats(const PagedAttentionDims& dims) {
  const int64_t row = dims.heads * kPagedScoreStride + 2 * paged_attention_result_floats(dims);
  return attention_round_up(paged_attention_q_floats(dims) + kPagedRows * row, 16);
}
constexpr int64_t paged_attention_cpu_scratch_bytes(const PagedAttentionDims& dims, int threads) {
  // Includes the results of divided sequences even if `dims` has too many rows to divide them: a smaller bucket, which does divide its
  // sequences, uses the scratch memory that was computed for the largest bucket.
  const int64_t divided_rows = threads > 1 ? std::min<int64_t>(dims.tokens, 4 * threads - 1) : 0;
  const int64_t stored = divided_rows * paged_attention_parts(dims) * paged_attention_result_floats(dims);
  return (threads * paged_attention_thread_floats(dims) + stored) * 4;
}
constexpr int64_t paged_attention_ref_scratch_bytes(const PagedAttentionDims& dims) {
  return dims.max_pages * dims.page_size * 8;
}
// On a GPU, sequences are divided into parts if a call has few rows, which would otherwise leave most of the GPU idle: into as many parts
// as give kPagedCudaBlocks thread blocks, which is about the number that an H100 or H200 runs at a time. Up to 2048 positions form at most
// kPagedCudaJoinedParts parts, each a multiple of 64 positions, the number of keys that the warps of a thread block load at once. More
// positions form parts of at least kPagedPart. Calls of more than kPagedCudaDividedRows rows use one part per row and head.
inline constexpr int64_t kPagedCudaDividedRows = 128;
inline constexpr int64_t kPagedCudaBlocks = 640;
// GPUs of compute capability 9.0 join up to this number of parts without another launch.
inline constexpr int64_t kPagedCudaJoinedParts = 8;
// The number of positions of a part. Requires: dims.tokens and dims.kv_heads are positive.
constexpr int64_t paged_attention_cuda_part(const PagedAttentionDims& dims) {
  const int64_t positions = std::max<int64_t>(1, dims.max_pages * dims.page_size);
  if (dims.tokens > kPagedCudaDividedRows) return positions;
  const int64_t wanted =
      std::max<int64_t>(1, kPagedCudaBlocks / std::max<int64_t>(1, dims.tokens * dims.kv_heads));
  const int64_t least = attention_round_up((positions + wanted - 1) / wanted, 64);
  if (positions > 2048) return std::max(kPagedPart, least);
  return std::max(least,
                  attention_round_up((positions + kPagedCudaJoinedParts - 1) / kPagedCudaJoinedParts, 64));
}
constexpr int64_t paged_attention_cuda_parts(const PagedAttentionDims& dims) {
  const int64_t part = paged_attention_cuda_part(dims);
  return (dims.max_pages * dims.page_size + part - 1) / part;
}
// A smaller bucket, whose sequences have more parts, runs in the scratch memory of the largest one. Therefore the bytes are those of the
// number of rows that needs most of them.
constexpr int64_t paged_attention_cuda_scratch_bytes(const PagedAttentionDims& dims) {
  int64_t most = 0;  // rows times parts
  for (int64_t rows = 1; rows <= std::min(dims.tokens, kPagedCudaDividedRows); ++rows) {
    PagedAttentionDims fewer = dims;
    fewer.tokens = rows;
    const int64_t parts = paged_attention_cuda_parts(fewer);
    if (parts > 1) most = std::max(most, rows * parts);
  }
  return most * dims.heads * (dims.head_dim + 1) * 4;
}
inline constexpr int64_t kPagedCudaHeadDim = 256;

// Returns true if most sequences fit a tile of 64 rows, so that tiles of 64 rows have fewer unused rows than tiles of 128. On an H200 in
// bf16 with dropout, 32 sequences of 53 rows on average and 12 heads of 64 take 55 us with tiles of 64 rows and 68 us with tiles of 128
// rows (both passes); for sequences of 512 rows large tiles are faster.
constexpr bool attention_is_of_short_sequences(const AttentionDims& dims) {
  return dims.tokens <= 64 * dims.sequences;
}

// The largest head size that the CUDA kernels support.
inline constexpr int64_t kAttentionCudaHeadDim = 128;

struct Problem;
namespace catalog_rows {
Support attention_fits(const AttentionDims& dims);
Support attention_cuda_wgmma_fits(const Problem& problem, const AttentionDims& dims);
Support attention_cuda_mma_fits(const Problem& problem, const AttentionDims& dims);
Support attention_cuda_tf32_wgmma_fits(const Problem& problem, const AttentionDims& dims);
Support attention_cuda_tf32_fits(const Problem& problem, const AttentionDims& dims);
Support attention_cuda_tiled_fits(const Problem& problem, const AttentionDims& dims);
Support first_token_attention_cuda_fits(const Problem& problem, const FirstTokenAttentionProblem& attention);
Support paged_attention_fits(const PagedAttentionDims& dims);
Support paged_attention_cuda_fits(const Problem& problem, const PagedAttentionDims& dims);
int64_t paged_attention_cpu_scratch(const Problem& problem, const PagedAttentionDims& dims);
int64_t paged_attention_ref_scratch(const PagedAttentionDims& dims);
int64_t paged_attention_cuda_scratch(const PagedAttentionDims& dims);
int64_t attention_fwd_cpu_scratch(const Problem& problem, const AttentionDims& dims);
int64_t attention_bwd_cpu_scratch(const Problem& problem, const AttentionDims& dims);
int64_t attention_fwd_ref_scratch(const AttentionDims& dims);
int64_t attention_bwd_ref_scratch(const AttentionDims& dims);
int64_t attention_bwd_cuda_mma_scratch(const AttentionDims& dims);
int64_t attention_bwd_cuda_tiled_scratch(const AttentionDims& dims);
int64_t first_token_attention_cuda_scratch(const FirstTokenAttentionProblem& attention);
}  // namespace catalog_rows

}  // namespace plimsoll
