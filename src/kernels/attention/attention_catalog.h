// The sizes by which a kernel of attention is selected ("kernel problems"), and the bytes of scratch memory of each implementation.
// attention.h, first_token_attention.h and paged_attention.h describe the kernels. Thread-safe: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/dtype.h"
#include "kernels/catalog/kernel_target.h"

namespace plimsoll {

// The sizes of a call of attention_fwd and attention_bwd: T, B, an upper bound of S_b, H, D, G and W of attention.h.
struct AttentionDims {
  int64_t tokens = 0;
  int64_t sequences = 0;
  int64_t longest = 0;  // upper bound of the rows of a sequence, at most kAttentionLongest
  int64_t heads = 0;
  int64_t head_dim = 0;
  int64_t kv_heads = 0;  // number of heads of k and v (G); 0 means as many as `heads`
  int64_t window = 0;    // window (W): a row sees rows less than W apart; 0 means no limit

  constexpr int64_t num_kv_heads() const { return kv_heads == 0 ? heads : kv_heads; }
  // The number of query heads that share one head of k and v.
  constexpr int64_t group_heads() const { return heads / num_kv_heads(); }
};
// The sizes and types of a call of first_token_attention.
struct FirstTokenAttentionProblem {
  AttentionDims dims = {};
  int64_t columns = 0;    // C, the number of columns of the layer's input x
  DType w = DType::kF32;  // element type of the weights
};

// The sizes of a call of paged_attention and append_kv, with the letters of paged_attention.h: T, B, an upper bound of n_b, H, G, D, P, S,
// M and W.
struct PagedAttentionDims {
  int64_t tokens = 0;
  int64_t sequences = 0;
  int64_t longest = 0;  // upper bound of the new rows of a sequence
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t num_pages = 0;
  int64_t page_size = 0;
  int64_t max_pages = 0;  // largest number of pages per sequence
  int64_t window = 0;     // number of visible tokens; 0 means that every earlier token is visible
};

inline constexpr int64_t kAttentionLongest = int64_t{1} << 20;

// The size of tiles in the matrix products: the number of query rows and the number of key rows that are multiplied at a time. A tile of 64
// x 64 floats fills a third of an L1 cache of 48 KiB. For sums of 64 terms, loading and storing the result takes little of the time.
inline constexpr int64_t kAttentionTile = 64;

constexpr int64_t attention_round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
// Returns the number of floats per row of a tile of q, k or v: D, padded with zeros to a multiple of the widest vector (16 floats).
constexpr int64_t attention_padded_dim(int64_t head_dim) {
  return attention_round_up(head_dim, 16);
}
constexpr int64_t attention_padded_keys(int64_t longest) {
  return longest <= kAttentionTile ? kAttentionTile : attention_round_up(longest, kAttentionTile);
}
// Returns the number of query rows for which the forward pass stores scores at the same time: 64 for up to 2048 keys, fewer for more keys,
// and at least 16.
constexpr int64_t attention_fwd_query_rows(int64_t longest) {
  const int64_t rows = int64_t{131072} / attention_padded_keys(longest) / 16 * 16;
  return rows < 16 ? 16 : rows > kAttentionTile ? kAttentionTile : rows;
}
// Returns the distance in floats between two rows of scores. It is an odd number of cache lines, so that the elements of a column are
// spread over many sets of the cache.
constexpr int64_t attention_score_stride(int64_t keys) {
  return attention_padded_keys(keys) + 16;
}

// Returns the number of floats of scratch memory per thread in the forward pass: the sum of the sizes of these arrays, in this order: the
// transposed k, and v; a tile of k, and the query rows of q and o; the scores of the query rows; the dropout factors of one query row, and
// 1 / (sum of exponentials) of each query row.
constexpr int64_t attention_fwd_thread_floats(const AttentionDims& dims) {
  const int64_t row = attention_padded_dim(dims.head_dim);
  const int64_t keys = attention_padded_keys(dims.longest);
  const int64_t queries = attention_fwd_query_rows(dims.longest);
  return 2 * keys * row + (kAttentionTile + 2 * queries) * row +
         queries * attention_score_stride(dims.longest) + keys + queries;
}
// Returns the number of floats of scratch memory per thread in the backward pass. The terms are the sizes of these arrays, in this order:
// k, the transposed k, the transposed v, d_k and d_v; tiles of q, d_o and d_q, and a tile of v or o; tiles of probabilities and of
// gradients of the scores; the dropout factors of one query row, and lse and delta of a tile of query rows.
constexpr int64_t attention_bwd_thread_floats(const AttentionDims& dims) {
  const int64_t row = attention_padded_dim(dims.head_dim);
  const int64_t keys = attention_padded_keys(dims.longest);
  return 5 * keys * row + 4 * kAttentionTile * row +
         2 * kAttentionTile * attention_score_stride(kAttentionTile) + 3 * kAttentionTile;
}

// Returns the bytes of the array that contains the indices of the sequences, sorted by length (longest first). All threads read it.
constexpr int64_t attention_order_bytes(const AttentionDims& dims) {
  return attention_round_up(dims.sequences * 4, 64);
}

constexpr int64_t attention_fwd_cpu_scratch_bytes(const AttentionDims& dims, int threads) {
  return attention_order_bytes(dims) + threads * attention_fwd_thread_floats(dims) * 4;
}
constexpr int64_t attention_bwd_cpu_scratch_bytes(const AttentionDims& dims, int threads) {
  return attention_order_bytes(dims) + threads * attention_bwd_thread_floats(dims) * 4;
}
// The reference implementations use one thread. Their scratch memory contains arrays of doubles.
constexpr int64_t attention_fwd_ref_scratch_bytes(const AttentionDims& dims) {
  return dims.longest * 8;
}
constexpr int64_t attention_bwd_ref_scratch_bytes(const AttentionDims& dims) {
  return (2 * dims.longest * dims.group_heads() + 3 * dims.head_dim) * 8;
}

// On a GPU the backward pass stores delta, one number per query row and head (attention.h), in scratch memory. For sequences of up to
// kAttentionKeepLongest rows, the kernels for tensor cores also store one bit per pair of a query row and a key row, which is set if
// dropout keeps the pair. For longer sequences the kernel for d_k and d_v draws the random numbers again. A 32-bit word contains the bits
// of 32 keys; words of adjacent query rows are adjacent.
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

// Returns the number of rows that one thread block of first_token_attention processes on a GPU. Each sequence is divided into at most 32
// parts of this many rows, which different thread blocks compute.
constexpr int64_t first_token_attention_part_rows(int64_t longest) {
  constexpr int64_t kRows = 256, kMostParts = 32;
  const int64_t rows = attention_round_up((longest + kMostParts - 1) / kMostParts, 32);
  return rows < kRows ? kRows : rows;
}
constexpr int64_t first_token_attention_parts(int64_t longest) {
  const int64_t rows = first_token_attention_part_rows(longest);
  return longest <= rows ? 1 : (longest + rows - 1) / rows;
}
// These three functions return the bytes of arrays in the scratch memory of first_token_attention. The first array contains the queries.
// The second contains, for each head, the vector whose product with a row of x is the score of that row. The third contains, for each part
// of a sequence and each head, the weighted sum of rows, the largest score and the sum of probabilities.
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
// Returns true if the CUDA kernel of first_token_attention supports the sizes. The kernel is compiled for four numbers of columns, its
// matrix products have one row per head and at most 16 rows, and it computes 32 outputs of a head at a time.
constexpr bool first_token_attention_sizes_fit(const AttentionDims& dims, int64_t columns) {
  const bool columns_fit = columns == 384 || columns == 512 || columns == 768 || columns == 1024;
  return columns_fit && dims.heads <= 16 && dims.head_dim % 32 == 0 && dims.head_dim <= 128;
}

// paged_attention divides the tokens of a sequence into parts of this many positions. Softmax is computed per part, and the results are
// joined. The scores of all heads for one part fit into the second-level cache.
inline constexpr int64_t kPagedPart = 256;
// The number of adjacent query rows of a sequence that are computed in one pass over the keys on a CPU.
inline constexpr int64_t kPagedRows = 8;

// Returns the largest number of parts (of kPagedPart positions) into which a sequence is divided.
constexpr int64_t paged_attention_parts(const PagedAttentionDims& dims) {
  return (dims.max_pages * dims.page_size + kPagedPart - 1) / kPagedPart;
}
// Returns true if a CPU divides each sequence into parts that different threads compute. It does so if there are several threads and the
// call has fewer than four rows per thread. The division does not change any bit of the results.
constexpr bool paged_attention_divides_sequences(const PagedAttentionDims& dims, int threads) {
  return threads > 1 && dims.tokens < 4 * threads;
}
// Returns the number of floats for the result of a row (or of a row and one part of its sequence). It consists of o of all heads, padded to
// whole vectors, and of two numbers per head: the lse, and the sum of the weights with which the parts are joined.
constexpr int64_t paged_attention_result_floats(const PagedAttentionDims& dims) {
  return dims.heads * (attention_padded_dim(dims.head_dim) + 2);
}
// The distance of two rows of scores in floats. It leaves space for one vector after the last score.
constexpr int64_t kPagedScoreStride = kPagedPart + 32;
// Returns the number of floats for the queries in a thread's scratch memory: all heads of kPagedRows rows, then up to 15 heads of zeros.
// The scratch memory also contains the scores and results of kPagedRows rows, and the joined results of the parts.
constexpr int64_t paged_attention_q_floats(const PagedAttentionDims& dims) {
  return (kPagedRows * dims.heads + 16) * attention_padded_dim(dims.head_dim);
}
constexpr int64_t paged_attention_thread_floats(const PagedAttentionDims& dims) {
  const int64_t row = dims.heads * kPagedScoreStride + 2 * paged_attention_result_floats(dims);
  return attention_round_up(paged_attention_q_floats(dims) + kPagedRows * row, 16);
}
constexpr int64_t paged_attention_cpu_scratch_bytes(const PagedAttentionDims& dims, int threads) {
  // Reserves memory for the results of parts even if a call with dims.tokens rows has too many rows to divide sequences into parts. The
  // same scratch memory serves calls with fewer rows, which do divide sequences, because its size is computed only once, for the largest
  // number of rows.
  const int64_t divided_rows = threads > 1 ? std::min<int64_t>(dims.tokens, 4 * threads - 1) : 0;
  const int64_t stored = divided_rows * paged_attention_parts(dims) * paged_attention_result_floats(dims);
  return (threads * paged_attention_thread_floats(dims) + stored) * 4;
}
constexpr int64_t paged_attention_ref_scratch_bytes(const PagedAttentionDims& dims) {
  return dims.max_pages * dims.page_size * 8;
}
// The division of sequences on a GPU. A call of few rows (at most kPagedCudaDividedRows) would leave most of the GPU idle, so it divides
// each sequence into parts, one per thread block. The number of parts is such that there are about kPagedCudaBlocks thread blocks, as many
// as an H100 or H200 runs at a time. The sizes of parts are multiples of 64, the number of keys that a thread block loads at once. If the
// page table has space for at most 2048 positions per sequence, there are at most kPagedCudaJoinedParts parts; otherwise a part has at
// least kPagedPart positions. A call of more rows does not divide sequences.
inline constexpr int64_t kPagedCudaDividedRows = 128;
inline constexpr int64_t kPagedCudaBlocks = 640;
// If a row has at most this number of parts, GPUs of compute capability 9.0 join their results in the same launch. More parts need a second
// launch.
inline constexpr int64_t kPagedCudaJoinedParts = 8;
// Returns the number of positions (tokens) of a sequence that form one part on a GPU. Requires: dims.tokens and dims.kv_heads are positive.
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
// Returns the scratch bytes for up to dims.tokens rows. A call of fewer rows divides its sequences into more parts and can need more bytes,
// so the maximum over all numbers of rows is returned.
constexpr int64_t paged_attention_cuda_scratch_bytes(const PagedAttentionDims& dims) {
  int64_t most = 0;  // the largest number of results of parts (rows x parts per row) of a call
  for (int64_t rows = 1; rows <= std::min(dims.tokens, kPagedCudaDividedRows); ++rows) {
    PagedAttentionDims fewer = dims;
    fewer.tokens = rows;
    const int64_t parts = paged_attention_cuda_parts(fewer);
    if (parts > 1) most = std::max(most, rows * parts);
  }
  return most * dims.heads * (dims.head_dim + 1) * 4;
}
inline constexpr int64_t kPagedCudaHeadDim = 256;

// Returns true if sequences have at most 64 rows on average, so that tiles of 64 rows waste fewer rows than tiles of 128. On an H200 in
// bf16 with dropout, both passes over 32 sequences of 53 rows on average and 12 heads of 64 take 55 us with tiles of 64 rows and 68 us with
// tiles of 128 rows. For sequences of 512 rows the large tiles are faster.
constexpr bool attention_is_of_short_sequences(const AttentionDims& dims) {
  return dims.tokens <= 64 * dims.sequences;
}

// The largest head size that the CUDA kernels of attention support.
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
