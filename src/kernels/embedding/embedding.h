// Sums of rows of tables (word, position, token type) and their gradients. Contract; no graph, no allocation.
//
//   fwd:  x[t, c] = sum over k of table_k[ids_k[t], c]          for t < num_tokens;  0 for t >= num_tokens
//   bwd:  d_table[v, c] (+)= sum over the pairs (v, t) of sorted of d_x[t, c];  nothing is added to row
//         padding_id (the padding_idx of PyTorch's Embedding)
//   bwd of some rows: d_table holds rows [first_row, first_row + V) of a table of table_rows; the same bits
//         as in the gradient of the whole table
//
// Legend: T rows of the bucket, C columns, V rows of a table; all row-major and dense.
// Types: ids i32, sorted i32 (what sort_ids.h writes). Tables f32 or bf16, x f32 or bf16; d_x f32 or bf16,
// d_table f32. The references take any floating type.
// Accumulation: fwd adds in fp32 in the order of the tables and rounds once. bwd adds in fp32 in the order of
// t, starting from the old value when it accumulates, else from zero; every row of d_table is written.
// Error: fwd: embedding_sum_fwd_error_bound; bwd: embedding_bwd_error_bound.
// Repeatability: same bits on every machine, whatever the number of threads.
// Aliasing: outputs overlap nothing. Scratch: none; of the GPU's kernel see embedding_cuda.h.
// Cost: fwd (K - 1) T C FLOPs, (K + 1) T C elements moved. bwd T C FLOPs; T C elements read, V C written.
// Requires: 0 <= ids_k[t] < V_k for t < num_tokens: the caller validated them (they come from data), the
// kernels do not look; ids beyond num_tokens are never read. 0 <= num_tokens <= T. 1 <= num_tables <=
// kMaxEmbeddingTables. sorted rises by id and by token within an id.
// Thread-safe: distinct calls may run at once on distinct outputs. Ownership: views borrow.
// Errors: kInternal if a view is absent or of another type.
#pragma once

#include <array>
#include <cstdint>

#include "base/view.h"
#include "kernels/embedding/embedding_catalog.h"

namespace plimsoll {

inline constexpr int kMaxEmbeddingTables = 4;

struct EmbeddingSumFwdArgs {
  std::array<ConstView, kMaxEmbeddingTables> tables = {};  // [V_k, C], all of one type
  std::array<ConstView, kMaxEmbeddingTables> ids = {};     // [T] i32
  int num_tables = 0;
  View x;  // [T, C]
  int64_t T = 0;
  int64_t C = 0;
  int64_t num_tokens = 0;
};
void embedding_sum_fwd_ref(const EmbeddingSumFwdArgs& args);
void embedding_sum_fwd_cpu(const EmbeddingSumFwdArgs& args);

// An element of sorted.
struct IdOfToken {
  int32_t id, token;
};

struct EmbeddingBwdArgs {
  ConstView d_x;     // [T, C]
  ConstView sorted;  // [T, 2] i32: (id, token)
  View d_table;      // [V, C]
  int64_t T = 0;
  int64_t C = 0;
  int64_t V = 0;  // rows of d_table
  int64_t first_row = 0;
  int64_t table_rows = 0;   // 0: V, all of them
  int64_t padding_id = -1;  // tokens of this id leave its row as it is (or zero); -1: there is none
  Accumulate accumulate = Accumulate::kOverwrite;
  View scratch;  // of the GPU's kernel (embedding_cuda.h); the others need none
};
void embedding_bwd_ref(const EmbeddingBwdArgs& args);
void embedding_bwd_cpu(const EmbeddingBwdArgs& args);

// With `abs_sum` = the sum of the magnitudes of an element's terms: num_tables - 1 additions in fp32, then
// the store.
double embedding_sum_fwd_error_bound(int num_tables, DType x, double abs_sum);
// With `num_terms` terms (the old value included) and the sum of their magnitudes.
double embedding_bwd_error_bound(int64_t num_terms, double abs_sum);

}  // namespace plimsoll
