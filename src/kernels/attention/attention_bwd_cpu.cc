// Attention backward on the CPU, one task per sequence and group of heads. For every block of 64 query rows and tile of 64 keys, the
// probabilities are recomputed from q, k and lse, and five products of 64 x 64 tiles follow while the tiles are in the cache. d_q of the
// block and d_k and d_v of the sequence are summed in fp32 in the scratch memory of the thread, in the order of the rows.
#include "device/cpu/simd_targets.h"
// foreach_target.h includes this file once per instruction set, by this name, which must be defined before any Highway header.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_bwd_cpu.cc"
#include "hwy/foreach_target.h"
// highway.h must be included after foreach_target.h.
#include "hwy/highway.h"
#include "kernels/attention/attention_rows-inl.h"
#include "kernels/attention/attention_tiles-inl.h"

#ifndef PLIMSOLL_ATTENTION_BWD_CPU_TYPES_
#define PLIMSOLL_ATTENTION_BWD_CPU_TYPES_
#include <algorithm>
#include <span>

#include "device/cpu/parallel.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_schedule.h"

namespace plimsoll {
namespace {

// One task of a thread: the gradients of heads h .. end_head - 1 of one sequence, and the scratch memory of the thread.
struct BwdTask {
  const AttentionBwdArgs& args;
  AttentionSequence sequence;
  int64_t h;
  int64_t end_head;
  float* scratch;
  bool amx;  // true if this thread has configured its AMX tiles for bf16 products
};

inline constexpr int64_t kBwdScoreStride = attention_score_stride(kAttentionTile);

// The arrays into which the scratch memory of one thread is divided.
struct BwdTiles {
  explicit BwdTiles(const AttentionDims& dims, float* scratch) {
    const int64_t row = attention_padded_dim(dims.head_dim);
    const int64_t keys = attention_padded_keys(dims.longest);
    k = scratch;
    k_transposed = k + keys * row;
    v_transposed = k_transposed + keys * row;
    d_k = v_transposed + keys * row;
    d_v = d_k + keys * row;
    q = d_v + keys * row;
    d_o = q + kAttentionTile * row;
    d_q = d_o + kAttentionTile * row;
    other = d_q + kAttentionTile * row;
    scores = other + kAttentionTile * row;
    products = scores + kAttentionTile * kBwdScoreStride;
    dropout_factors = products + kAttentionTile * kBwdScoreStride;
    lse = dropout_factors + kAttentionTile;
    delta = lse + kAttentionTile;
    PLIMSOLL_CHECK(delta + kAttentionTile - scratch == attention_bwd_thread_floats(dims));
  }
  // Matrices of [keys][padded D] floats: k, d_k and d_v. The transposed k and v are stored in tiles of [D][64 keys].
  float *k, *k_transposed, *v_transposed, *d_k, *d_v;
  // Matrices of [64][padded D] floats. `other` contains a tile of v before it is transposed, or a tile of o.
  float *q, *d_o, *d_q, *other;
  // Matrices of [64][kBwdScoreStride] floats: scores, and products of d_o and v.
  float *scores, *products;
  // Arrays of 64 floats: the dropout factors of one query row, and lse and delta of a block of query rows.
  float *dropout_factors, *lse, *delta;
};

}  // namespace
}  // namespace plimsoll
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// Returns a pointer to the elements of one head in the first row of the task's sequence.
template <typename T>
const T* bwd_rows(const BwdTask& task, const ConstRows& rows, int64_t head) {
  return rows.view.as<T>() + task.sequence.first * rows.row_stride + head * task.args.dims.head_dim;
}
template <typename T>
T* bwd_rows(const BwdTask& task, const Rows& rows, int64_t head) {
  return rows.view.as<T>() + task.sequence.first * rows.row_stride + head * task.args.dims.head_dim;
}
// Returns the head of k and v that head h of q reads.
inline int64_t bwd_kv_head(const BwdTask& task, int64_t h) {
  return h / task.args.dims.group_heads();
}

template <typename T>
void bwd_pack_keys(const BwdTask& task, const BwdTiles& tiles) {
  const AttentionBwdArgs& args = task.args;
  const int64_t row = attention_padded_dim(args.dims.head_dim);
  const int64_t kv_head = bwd_kv_head(task, task.h);
  const T* k = bwd_rows<T>(task, args.k, kv_head);
  const T* v = bwd_rows<T>(task, args.v, kv_head);
  for (int64_t j = 0; j < task.sequence.count; j += kAttentionTile) {
    const int64_t count = std::min(kAttentionTile, task.sequence.count - j);
    pack_rows(k + j * args.k.row_stride, args.k.row_stride, count, args.dims.head_dim, tiles.k + j * row);
    transpose_tile(tiles.k + j * row, count, args.dims.head_dim, tiles.k_transposed + j * row);
    pack_rows(v + j * args.v.row_stride, args.v.row_stride, count, args.dims.head_dim, tiles.other);
    transpose_tile(tiles.other, count, args.dims.head_dim, tiles.v_transposed + j * row);
  }
}

// Copies query rows i .. i + count - 1 of q and d_o into fp32 tiles and computes delta of these rows.
template <typename T>
void bwd_pack_queries(const BwdTask& task, const BwdTiles& tiles, int64_t i, int64_t count) {
  const AttentionBwdArgs& args = task.args;
  const int64_t columns = args.dims.heads * args.dims.head_dim;
  const int64_t row = attention_padded_dim(args.dims.head_dim);
  pack_rows(bwd_rows<T>(task, args.q, task.h) + i * args.q.row_stride, args.q.row_stride, count,
            args.dims.head_dim, tiles.q);
  pack_rows(bwd_rows<T>(task, ConstRows{args.d_o, columns}, task.h) + i * columns, columns, count,
            args.dims.head_dim, tiles.d_o);
  pack_rows(bwd_rows<T>(task, ConstRows{args.o, columns}, task.h) + i * columns, columns, count,
            args.dims.head_dim, tiles.other);
  const float* lse = args.lse.as<float>() + task.h * args.dims.tokens + task.sequence.first + i;
  for (int64_t r = 0; r < count; ++r) {
    tiles.delta[r] = dot_rows(tiles.other + r * row, tiles.d_o + r * row, args.dims.head_dim);
    tiles.lse[r] = lse[r];
  }
}

// Prefetches row t of q, k, v, o and d_o for the head that is computed after this one.
[[gnu::always_inline]] inline void bwd_fetch_next_head(const BwdTask& task, int64_t t) {
  const AttentionBwdArgs& args = task.args;
  const int64_t columns = args.dims.heads * args.dims.head_dim;
  if (task.h + 1 == task.end_head) return;
  fetch_head<Fetch::kRead>(args.q, t, task.h + 1, args.dims.head_dim);
  fetch_head<Fetch::kRead>(args.k, t, bwd_kv_head(task, task.h + 1), args.dims.head_dim);
  fetch_head<Fetch::kRead>(args.v, t, bwd_kv_head(task, task.h + 1), args.dims.head_dim);
  fetch_head<Fetch::kRead>({args.o, columns}, t, task.h + 1, args.dims.head_dim);
  fetch_head<Fetch::kRead>({args.d_o, columns}, t, task.h + 1, args.dims.head_dim);
}
// Prefetches, for writing, the cache lines of d_q, d_k and d_v into which the results of row t and this head will be stored.
[[gnu::always_inline]] inline void bwd_fetch_gradients(const BwdTask& task, int64_t t) {
  const AttentionBwdArgs& args = task.args;
  const int64_t kv_head = bwd_kv_head(task, task.h), head_dim = args.dims.head_dim;
  fetch_head<Fetch::kWrite>({args.d_q.view, args.d_q.row_stride}, t, task.h, head_dim);
  fetch_head<Fetch::kWrite>({args.d_k.view, args.d_k.row_stride}, t, kv_head, head_dim);
  fetch_head<Fetch::kWrite>({args.d_v.view, args.d_v.row_stride}, t, kv_head, head_dim);
}

// The range of keys that the query rows of a block see. `first` is rounded down to the beginning of a tile of keys; `end` is the end of the
// last tile.
struct BwdKeys {
  int64_t first = 0, end = 0;
};

// Computes, for query rows i .. i + queries - 1 and the tile of keys j .. j + keys - 1, the probabilities with dropout and the gradients of
// the scores.
void bwd_gradient_rows(const BwdTask& task, const BwdTiles& tiles, const DropoutRow& dropout, int64_t i,
                       int64_t queries, const BwdKeys& range, int64_t j, int64_t keys) {
  const AttentionOptions& options = task.args.options;
  const AttentionReach reach = attention_reach(task.args, task.sequence);
  const bool last_tile = j + keys == range.end;
  for (int64_t r = 0; r < queries; ++r) {
    const int64_t hidden = std::clamp<int64_t>(reach.first_key(i + r) - j, 0, keys);
    const int64_t visible = std::clamp<int64_t>(reach.end_key(i + r) - j, 0, keys);
    const int64_t t = task.sequence.first + i + r;
    // Inputs of the next head are prefetched while the first tile of keys is processed, and outputs of this head while the last tile is. If
    // a block has several tiles, the two groups of prefetched cache lines are therefore not in the cache at the same time.
    if (j == range.first) bwd_fetch_next_head(task, t);
    if (last_tile) bwd_fetch_gradients(task, t);
    const float* factors = nullptr;
    if (options.dropout > 0) {
      dropout.fill(random_row(task.args, t, task.h), j, keys, tiles.dropout_factors);
      factors = tiles.dropout_factors;
    }
    gradient_row(tiles.scores + r * kBwdScoreStride, tiles.products + r * kBwdScoreStride, hidden, visible,
                 keys, static_cast<float>(options.scale), tiles.lse[r], tiles.delta[r], factors);
  }
}

// Computes all products of one block of queries with one tile of keys.
void bwd_tile(const BwdTask& task, const BwdTiles& tiles, const DropoutRow& dropout, int64_t i,
              int64_t queries, const BwdKeys& range, int64_t j) {
  const int64_t keys = std::min(kAttentionTile, range.end - j);
  const int64_t head_dim = task.args.dims.head_dim;
  const int64_t row = attention_padded_dim(head_dim);
  constexpr int64_t kStride = kBwdScoreStride;
  multiply<LeftOperand::kByRow>(task.amx, queries, keys, head_dim, tiles.q, row, tiles.k_transposed + j * row,
                                kAttentionTile, tiles.scores, kStride, ProductStart::kZero);
  multiply<LeftOperand::kByRow>(task.amx, queries, keys, head_dim, tiles.d_o, row,
                                tiles.v_transposed + j * row, kAttentionTile, tiles.products, kStride,
                                ProductStart::kZero);
  bwd_gradient_rows(task, tiles, dropout, i, queries, range, j, keys);
  multiply<LeftOperand::kByDepth>(task.amx, keys, head_dim, queries, tiles.scores, kStride, tiles.d_o, row,
                                  tiles.d_v + j * row, row, ProductStart::kStored);
  multiply<LeftOperand::kByDepth>(task.amx, keys, head_dim, queries, tiles.products, kStride, tiles.q, row,
                                  tiles.d_k + j * row, row, ProductStart::kStored);
  multiply<LeftOperand::kByRow>(task.amx, queries, head_dim, keys, tiles.products, kStride, tiles.k + j * row,
                                row, tiles.d_q, row,
                                j == range.first ? ProductStart::kZero : ProductStart::kStored);
}

// Computes the heads of a task one after another. The query heads of a group share one head of k and v: the first query head of a group
// copies these keys and values into tiles, and the last one stores the sums of their gradients.
template <typename T>
void bwd_head(const BwdTask& task) {
  const AttentionBwdArgs& args = task.args;
  const int64_t head_dim = args.dims.head_dim;
  const int64_t row = attention_padded_dim(head_dim);
  const int64_t count = task.sequence.count;
  const float scale = static_cast<float>(args.options.scale);
  const float one = 1.0f;
  const BwdTiles tiles(args.dims, task.scratch);
  const DropoutRow dropout(args.options.random, args.options.dropout);

  const AttentionReach reach = attention_reach(args, task.sequence);
  const int64_t group = args.dims.group_heads();
  if (task.h % group == 0) {
    bwd_pack_keys<T>(task, tiles);
    std::fill(tiles.d_k, tiles.d_k + count * row, 0.0f);
    std::fill(tiles.d_v, tiles.d_v + count * row, 0.0f);
  }
  for (int64_t i = 0; i < count; i += kAttentionTile) {
    const int64_t queries = std::min(kAttentionTile, count - i);
    bwd_pack_queries<T>(task, tiles, i, queries);
    const BwdKeys range{reach.first_key(i) / kAttentionTile * kAttentionTile, reach.end_key(i + queries - 1)};
    for (int64_t j = range.first; j < range.end; j += kAttentionTile) {
      bwd_tile(task, tiles, dropout, i, queries, range, j);
    }
    unpack_rows(tiles.d_q, queries, head_dim, &scale, 0,
                bwd_rows<T>(task, args.d_q, task.h) + i * args.d_q.row_stride, args.d_q.row_stride);
  }
  if (task.h % group != group - 1) return;
  const int64_t kv_head = bwd_kv_head(task, task.h);
  unpack_rows(tiles.d_k, count, head_dim, &scale, 0, bwd_rows<T>(task, args.d_k, kv_head),
              args.d_k.row_stride);
  unpack_rows(tiles.d_v, count, head_dim, &one, 0, bwd_rows<T>(task, args.d_v, kv_head), args.d_v.row_stride);
}

void bwd_task(BwdTask task) {
  run_heads(task, bwd_head<float>, bwd_head<BF16>);
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
namespace {
HWY_EXPORT(bwd_task);
}  // namespace

void attention_bwd_cpu(const AttentionBwdArgs& args) {
  const AttentionDims& dims = args.dims;
  check_attention_args(args, attention_bwd_cpu_scratch_bytes(dims, num_threads()));
  check_cpu_type(args.q.view.dtype);
  const int32_t* cu_seqlens = args.cu_seqlens.as<int32_t>();
  const AttentionCpuScratch scratch = lay_out_scratch(dims, cu_seqlens, args.scratch);

  const int64_t task_heads = heads_of_task(dims, num_threads());
  const int64_t head_tasks = (dims.heads + task_heads - 1) / task_heads;
  parallel_for(dims.sequences * head_tasks, [&](int64_t index, int thread) {
    const AttentionSequence sequence =
        attention_sequence(cu_seqlens, scratch.order[static_cast<size_t>(index / head_tasks)]);
    if (sequence.count == 0) return;
    const int64_t h = index % head_tasks * task_heads;
    HWY_DYNAMIC_DISPATCH(bwd_task)
    ({args, sequence, h, std::min(h + task_heads, dims.heads),
      scratch.tiles + thread * attention_bwd_thread_floats(dims), false});
  });

  clear_gradient_tails(args, cu_seqlens[dims.sequences]);
}

}  // namespace plimsoll
#endif
