// Sums of rows of tables (word, position, token type) and their gradients. The header states the contract of these kernels, which allocate
// no memory.
//
//   fwd:  x[t, c] = sum over k of table_k[ids_k[t], c]          for t < num_tokens;  0 for t >= num_tokens
//   fwd if ranks divide table 0: table_0 contains its rows [first_row, first_row + num_rows); other ids add nothing
//   bwd:  d_table[v, c] = (or +=) sum over the pairs (v, t) of sorted of d_x[t, c];  nothing is added to row
//         padding_id (the padding_idx of PyTorch's Embedding)
//   bwd if ranks divide the table: d_table contains rows [first_row, first_row + V) of a table of table_rows rows;
//         the bits are the same as in the gradient of the whole table
//
// Legend: T rows of x, C columns, V rows of a table; all row-major and dense.
//
// Types: ids i32, sorted i32 (as written by sort_ids.h). Tables and x f32 or bf16; d_x f32 or bf16, d_table
// f32. The references take any floating type.
//
// Accumulation: fwd adds in fp32 in the order of the tables and rounds once. bwd adds in fp32 in the order of
// t, starting from the old value if it accumulates and from zero otherwise. Every row of d_table is written.
//
// Error: fwd: embedding_sum_fwd_error_bound; bwd: embedding_bwd_error_bound.
//
// Repeatability: the same bits on every machine, for any number of threads.
//
// Aliasing: outputs overlap no operand. Scratch: none; only the CUDA kernel needs it (see below).
//
// Cost: fwd (K - 1) T C FLOPs, (K + 1) T C elements moved. bwd T C FLOPs; T C elements read, V C written.
//
// Requires: 0 <= ids_k[t] < V_k for t < num_tokens. The ids come from data; the caller has validated them and
// the kernels do not check. ids past num_tokens are never read. 0 <= num_tokens <= T. 1 <= num_tables <=
// kMaxEmbeddingTables. sorted is in the order of ids, and of tokens within an id.
//
// Thread-safe: distinct calls may run concurrently on distinct outputs. Ownership: views do not own memory. Errors:
// kInternal if a view is absent or has an unsupported type.
#pragma once

#include <array>
#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"
#include "kernels/embedding/embedding_catalog.h"

namespace plimsoll {

inline constexpr int kMaxEmbeddingTables = 4;

struct EmbeddingSumFwdArgs {
  std::array<ConstView, kMaxEmbeddingTables> tables = {};  // tables, shape [V_k, C]; on a CPU all of one type
  std::array<ConstView, kMaxEmbeddingTables> ids = {};     // ids of the tokens, i32, shape [T], one per table
  int num_tables = 0;
  View x;  // output, shape [T, C]
  int64_t T = 0;
  int64_t C = 0;
  int64_t num_tokens = 0;
  int64_t first_row = 0;  // the row of the whole table that is stored as row 0 of table_0
  int64_t num_rows = 0;   // number of rows that table_0 contains; 0 means the whole table
};
// Returns the index in table_0 of the row for an id. Returns -1 if table_0 contains only some rows of the whole table and the row for this
// id is not among them.
constexpr int64_t row_in_first_table(int64_t id, int64_t first_row, int64_t num_rows) {
  if (num_rows == 0) return id;
  return id >= first_row && id - first_row < num_rows ? id - first_row : -1;
}
void embedding_sum_fwd_ref(const EmbeddingSumFwdArgs& args);
void embedding_sum_fwd_cpu(const EmbeddingSumFwdArgs& args);

// A token and its id: an element of `sorted`, which is in the order of the ids.
struct IdOfToken {
  int32_t id, token;
};

struct EmbeddingBwdArgs {
  ConstView d_x;     // gradient of x, shape [T, C]
  ConstView sorted;  // the pairs (id, token) in the order of the ids, i32, shape [T, 2]
  View d_table;      // output, the gradient of the table or of some of its rows, shape [V, C]
  int64_t T = 0;
  int64_t C = 0;
  int64_t V = 0;  // number of rows that d_table contains
  int64_t first_row = 0;
  int64_t table_rows = 0;  // number of rows of the whole table; 0 means that d_table is the whole table
  // Tokens with this id add nothing to the gradient (padding_idx of PyTorch's Embedding); -1 means that there is no such id.
  int64_t padding_id = -1;
  Accumulate accumulate = Accumulate::kOverwrite;
  View scratch;  // scratch memory, used only by the CUDA kernel
};
void embedding_bwd_ref(const EmbeddingBwdArgs& args);
void embedding_bwd_cpu(const EmbeddingBwdArgs& args);

// Returns the error bound of an element, where `abs_sum` is the sum of the magnitudes of its terms. Each of the num_tables - 1 additions in
// fp32 rounds the element once, and so does the store.
double embedding_sum_fwd_error_bound(int num_tables, DType x, double abs_sum);
// Returns the error bound of a sum of `num_terms` terms (including the old value), where `abs_sum` is the sum
// of their magnitudes.
double embedding_bwd_error_bound(int64_t num_terms, double abs_sum);

// The functions below run on an NVIDIA GPU. element_wise/add.h states the rules for all CUDA kernels. Tables and x may each be f32, bf16 or
// f16; d_table is f32.

// Computes embedding_sum_fwd on a GPU. Reads the number of tokens from *num_tokens in device memory; if `num_tokens` is null, it is
// args.num_tokens.
void embedding_sum_fwd_cuda(const EmbeddingSumFwdArgs& args, const int32_t* num_tokens, CudaStream stream);

// Computes embedding_bwd on a GPU. The sorted tokens are divided into pieces of kEmbeddingPiece tokens, or longer ones for large batches.
// Within a piece, the terms of an id are added in the order of its tokens; then the sums of the pieces are added in an order that depends
// only on the ids, so that every run gives the same bits. For tables of two rows, each warp adds the tokens that it handles for each row,
// and then the sums of the blocks are added. Adds to d_table if *accumulate is not 0; if `accumulate` is null, args.accumulate decides.
// Error: embedding_bwd_error_bound. Scratch: embedding_bwd_cuda_scratch_bytes, aligned to 16.
void embedding_bwd_cuda(const EmbeddingBwdArgs& args, const int32_t* accumulate, CudaStream stream);

}  // namespace plimsoll
