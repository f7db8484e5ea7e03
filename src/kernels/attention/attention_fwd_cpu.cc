// Attention forward on the CPU. For each sequence and head, k (transposed) and v are copied once into fp32 tiles. Then, for each block of
// up to 64 query rows, all scores of the block are computed into the thread's scratch, turned into probabilities row by row and multiplied
// by v.
#include "device/cpu/simd_targets.h"
// foreach_target.h includes this file once per instruction set, by this name, which must be defined before any Highway header.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_fwd_cpu.cc"
#include "hwy/foreach_target.h"
// highway.h must be included after foreach_target.h.
#include "hwy/highway.h"
#include "kernels/attention/attention_rows-inl.h"
#include "kernels/attention/attention_tiles-inl.h"

#ifndef PLIMSOLL_ATTENTION_FWD_CPU_TYPES_
#define PLIMSOLL_ATTENTION_FWD_CPU_TYPES_
#include <algorithm>
#include <span>

#include "device/cpu/parallel.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_schedule.h"

namespace plimsoll {
namespace {

// One task of a thread: o and lse of query rows first_row .. end_row - 1 and heads h .. end_head - 1 of one sequence, and the scratch
// memory of the thread.
struct FwdTask {
  const AttentionFwdArgs& args;
  AttentionSequence sequence;
  int64_t h;
  int64_t end_head;
  int64_t first_row;
  int64_t end_row;
  float* scratch;
  bool amx;                     // true if this thread has configured its AMX tiles for bf16 products
  int64_t packed_kv_head = -1;  // head of k and v whose tiles are in scratch memory, or -1
};

// The arrays into which the scratch memory of one thread is divided.
struct FwdTiles {
  explicit FwdTiles(const AttentionDims& dims, float* scratch) {
    const int64_t row = attention_padded_dim(dims.head_dim);
    const int64_t keys = attention_padded_keys(dims.longest);
    const int64_t queries = attention_fwd_query_rows(dims.longest);
    k_transposed = scratch;
    v = k_transposed + keys * row;
    k = v + keys * row;
    q = k + kAttentionTile * row;
    o = q + queries * row;
    scores = o + queries * row;
    dropout_factors = scores + queries * attention_score_stride(dims.longest);
    row_factors = dropout_factors + keys;
    PLIMSOLL_CHECK(row_factors + queries - scratch == attention_fwd_thread_floats(dims));
  }
  float* k_transposed;  // the transposed k, an array of tiles of [D][64 keys] floats
  float* v;             // v, array [keys][padded D]
  float* k;             // a tile of k before it is transposed, array [64][padded D]
  float* q;             // q of a block of query rows, array [query rows][padded D]
  float* o;             // o of a block of query rows, array [query rows][padded D]
  float* scores;        // scores or probabilities, array [query rows][attention_score_stride]
  float* dropout_factors;
  float* row_factors;
};

}  // namespace
}  // namespace plimsoll
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// Replaces the scores of query rows first .. first + count - 1 and keys first_key .. first_key + width - 1 by probabilities with dropout.
// The probabilities are not yet divided by their sums.
void fwd_softmax(const FwdTask& task, const FwdTiles& tiles, int64_t first, int64_t count, int64_t first_key,
                 int64_t width) {
  const AttentionFwdArgs& args = task.args;
  const AttentionReach reach = attention_reach(args, task.sequence);
  const int64_t stride = attention_score_stride(args.dims.longest);
  const DropoutRow dropout(args.options.random, args.options.dropout);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t t = task.sequence.first + first + i;
    const int64_t hidden = reach.first_key(first + i) - first_key;
    const int64_t visible = reach.end_key(first + i) - first_key;
    if (task.h + 1 < task.end_head) {
      const int64_t next_kv_head = (task.h + 1) / args.dims.group_heads();
      fetch_head<Fetch::kRead>(args.q, t, task.h + 1, args.dims.head_dim);
      fetch_head<Fetch::kRead>(args.k, t, next_kv_head, args.dims.head_dim);
      fetch_head<Fetch::kRead>(args.v, t, next_kv_head, args.dims.head_dim);
    }
    fetch_head<Fetch::kWrite>({args.o, args.dims.heads * args.dims.head_dim}, t, task.h, args.dims.head_dim);
    const float* factors = nullptr;
    if (args.options.dropout > 0) {
      dropout.fill(random_row(args, t, task.h), first_key, visible, tiles.dropout_factors);
      factors = tiles.dropout_factors;
    }
    const SoftmaxRow row = softmax_row(tiles.scores + i * stride, hidden, visible, width,
                                       static_cast<float>(args.options.scale), factors);
    tiles.row_factors[i] = row.inverse_sum;
    if (args.lse) args.lse.as<float>()[task.h * args.dims.tokens + t] = row.lse;
  }
}

// Copies the keys and values that the rows of the task see into tiles. Does nothing if the tiles already contain them, because the task's
// previous query head reads the same head of k and v.
template <typename T>
void fwd_pack_keys(FwdTask& task, const FwdTiles& tiles, int64_t first_key, int64_t end_key) {
  const AttentionFwdArgs& args = task.args;
  const int64_t head_dim = args.dims.head_dim, row = attention_padded_dim(head_dim);
  const int64_t kv_head = task.h / args.dims.group_heads();
  if (task.packed_kv_head == kv_head) return;
  task.packed_kv_head = kv_head;
  const T* k = args.k.view.as<T>() + task.sequence.first * args.k.row_stride + kv_head * head_dim;
  const T* v = args.v.view.as<T>() + task.sequence.first * args.v.row_stride + kv_head * head_dim;
  for (int64_t j = first_key; j < end_key; j += kAttentionTile) {
    const int64_t count = std::min(kAttentionTile, end_key - j);
    pack_rows(k + j * args.k.row_stride, args.k.row_stride, count, head_dim, tiles.k);
    transpose_tile(tiles.k, count, head_dim, tiles.k_transposed + j * row);
  }
  pack_rows(v + first_key * args.v.row_stride, args.v.row_stride, end_key - first_key, head_dim,
            tiles.v + first_key * row);
}

template <typename T>
void fwd_head(FwdTask& task) {
  const AttentionFwdArgs& args = task.args;
  const int64_t head_dim = args.dims.head_dim;
  const int64_t row = attention_padded_dim(head_dim);
  const int64_t stride = attention_score_stride(args.dims.longest);
  const int64_t column = task.h * head_dim;
  const T* q = args.q.view.as<T>() + task.sequence.first * args.q.row_stride + column;
  T* o = args.o.as<T>() + task.sequence.first * args.dims.heads * head_dim + column;
  const FwdTiles tiles(args.dims, task.scratch);
  const AttentionReach reach = attention_reach(args, task.sequence);
  // Returns the first tile that contains a key that row i sees.
  const auto first_tile = [&](int64_t i) { return reach.first_key(i) / kAttentionTile * kAttentionTile; };
  fwd_pack_keys<T>(task, tiles, first_tile(task.first_row), reach.end_key(task.end_row - 1));

  const int64_t block = attention_fwd_query_rows(args.dims.longest);
  for (int64_t i = task.first_row; i < task.end_row; i += block) {
    const int64_t count = std::min(block, task.end_row - i);
    const int64_t first_key = first_tile(i), end_key = reach.end_key(i + count - 1);
    const int64_t width = end_key - first_key;
    pack_rows(q + i * args.q.row_stride, args.q.row_stride, count, head_dim, tiles.q);
    for (int64_t j = first_key; j < end_key; j += kAttentionTile) {
      multiply<LeftOperand::kByRow>(task.amx, count, std::min(kAttentionTile, end_key - j), head_dim, tiles.q,
                                    row, tiles.k_transposed + j * row, kAttentionTile,
                                    tiles.scores + j - first_key, stride, ProductStart::kZero);
    }
    fwd_softmax(task, tiles, i, count, first_key, width);
    multiply<LeftOperand::kByRow>(task.amx, count, head_dim, width, tiles.scores, stride,
                                  tiles.v + first_key * row, row, tiles.o, row, ProductStart::kZero);
    unpack_rows(tiles.o, count, head_dim, tiles.row_factors, 1, o + i * args.dims.heads * head_dim,
                args.dims.heads * head_dim);
  }
}

void fwd_task(FwdTask task) {
  run_heads(task, fwd_head<float>, fwd_head<BF16>);
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll {
namespace {

HWY_EXPORT(fwd_task);

// Returns the number of query rows per task. If the sequences and heads alone give enough tasks for all threads, a task has all rows of a
// sequence. Otherwise the number is a multiple of 64 such that each thread gets about four tasks. Each task copies k and v into tiles
// again, so tasks with more rows spend a smaller share of their time on copies.
int64_t rows_of_task(const AttentionDims& dims, int threads) {
  if (threads == 1) return attention_padded_keys(dims.longest);
  const int64_t pairs = std::max<int64_t>(1, dims.sequences * dims.heads);
  const int64_t parts = std::max<int64_t>(1, (4 * threads + pairs - 1) / pairs);
  return std::max(kAttentionTile, attention_round_up((dims.longest + parts - 1) / parts, kAttentionTile));
}

}  // namespace

void attention_fwd_cpu(const AttentionFwdArgs& args) {
  const AttentionDims& dims = args.dims;
  const int threads = num_threads();
  check_attention_args(args, attention_fwd_cpu_scratch_bytes(dims, threads));
  check_cpu_type(args.q.view.dtype);
  const int32_t* cu_seqlens = args.cu_seqlens.as<int32_t>();
  const AttentionCpuScratch scratch = lay_out_scratch(dims, cu_seqlens, args.scratch);

  const int64_t task_heads = heads_of_task(dims, threads);
  const int64_t head_tasks = (dims.heads + task_heads - 1) / task_heads;
  const int64_t task_rows = rows_of_task(dims, threads);
  const int64_t row_tasks = (dims.longest + task_rows - 1) / task_rows;
  parallel_for(dims.sequences * head_tasks * row_tasks, [&](int64_t index, int thread) {
    const int64_t b = scratch.order[static_cast<size_t>(index / (head_tasks * row_tasks))];
    const AttentionSequence sequence = attention_sequence(cu_seqlens, b);
    const int64_t h = index / row_tasks % head_tasks * task_heads;
    const int64_t first_row = index % row_tasks * task_rows;
    const int64_t end_row = std::min(first_row + task_rows, sequence.count);
    if (first_row >= end_row) return;
    HWY_DYNAMIC_DISPATCH(fwd_task)
    ({args, sequence, h, std::min(h + task_heads, dims.heads), first_row, end_row,
      scratch.tiles + thread * attention_fwd_thread_floats(dims), false});
  });

  const int64_t used = cu_seqlens[dims.sequences];
  clear_rows({args.o, dims.heads * dims.head_dim}, dims.heads * dims.head_dim, used, dims.tokens);
  for (int64_t h = 0; args.lse && h < dims.heads; ++h) {
    std::fill(args.lse.as<float>() + h * dims.tokens + used, args.lse.as<float>() + (h + 1) * dims.tokens,
              0.0f);
  }
}

}  // namespace plimsoll
#endif
