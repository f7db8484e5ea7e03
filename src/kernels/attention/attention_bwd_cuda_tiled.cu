#include "device/cuda/cuda_error.h"
#include "kernels/attention/attention_grid.cuh"
#include "kernels/attention/attention_tiles.cuh"

namespace plimsoll {
namespace attention {
namespace {

// Computes delta, the dot product of a row of o and the same row of d_o, for each of the thread block's rows. o is in global memory and d_o
// in shared memory. Writes delta to scratch memory, where the kernel for d_k and d_v reads it.
template <int kDim, int kR>
__device__ void find_delta(const AttentionKernelArgs& args, const Work& work, const float4* d_o, int ty,
                           int tx, float (&delta)[kR]) {
#pragma unroll
  for (int i = 0; i < kR; ++i) {
    const int row = work.row + kR * ty + i;
    float sum = 0.0f;
#pragma unroll
    for (int n = 0; n < kDim / 32; ++n) {
      const int column = 4 * tx + 32 * n;
      const int64_t offset =
          (static_cast<int64_t>(work.first + row) * args.heads + work.head) * args.head_dim + column;
      const float4 o =
          load_four(args.o, args.dtype, offset, row < work.count ? args.head_dim - column : 0, args.vectors);
      const float4 d = d_o[unit_at<kDim>(kR * ty + i, tx + 8 * n)];
      sum = fmaf(o.x, d.x, fmaf(o.y, d.y, fmaf(o.z, d.z, fmaf(o.w, d.w, sum))));
    }
    delta[i] = sum_of_group(sum);
    if (tx == 0 && row < work.count) {
      args.delta[static_cast<int64_t>(work.head) * args.tokens + work.first + row] = delta[i];
    }
  }
}

template <int kDim, int kR, int kKeys>
__global__ __launch_bounds__(kTileThreads) void attention_dq_cuda_tiled_kernel(
    const AttentionKernelArgs args) {
  constexpr int kRows = 16 * kR;
  const Work work = find_work(args, kRows, args.causal ? TileOrder::kBackward : TileOrder::kForward);
  if (work.is_tail) {
    clear_tail(args, work, args.d_q, args.d_q_stride);
    return;
  }
  if (work.row >= work.count) return;
  extern __shared__ float4 tiles[];
  float4* q = tiles;
  float4* d_o = q + kRows * kDim / 4;
  float4* k = d_o + kRows * kDim / 4;
  float4* v = k + kKeys * kDim / 4;
  float4* d_x = v + kKeys * kDim / 4;
  const int tx = static_cast<int>(threadIdx.x) % 8, ty = static_cast<int>(threadIdx.x) / 8;
  const Dropout dropout = load_dropout(args);

  fetch_tile<kDim, kRows>(args, work, args.q, args.q_stride, work.row, q);
  fetch_tile<kDim, kRows>(args, work, args.d_o, static_cast<int64_t>(args.heads) * args.head_dim, work.row,
                          d_o);
  const Work of_keys = work_of_keys(args, work);
  const int begin = first_key(args, work.row) / kKeys * kKeys,
            end = end_key(args, work, work.row + kRows - 1);
  fetch_tile<kDim, kKeys>(args, of_keys, args.v, args.v_stride, begin, v);
  wait_for_fetches();
  __syncthreads();
  float d_q[kR][kDim / 8], delta[kR], lse[kR], factor[kR];
  clear(d_q);
  find_delta<kDim, kR>(args, work, d_o, ty, tx, delta);
#pragma unroll
  for (int i = 0; i < kR; ++i) {
    const int row = min(work.row + kR * ty + i, work.count - 1);
    lse[i] = args.lse[static_cast<int64_t>(work.head) * args.tokens + work.first + row];
    factor[i] = args.scale;
  }
  for (int key = begin; key < end; key += kKeys) {
    // Copies and products overlap in this loop. While d_o is multiplied by the values of a tile, the keys of the same tile are copied.
    // While q is multiplied by these keys, the values of the next tile are copied. This call waits for the values.
    wait_for_fetches();
    __syncthreads();
    fetch_tile<kDim, kKeys>(args, of_keys, args.k, args.k_stride, key, k);
    float score[kR][kKeys / 8], y[kR][kKeys / 8];
    clear(score);
    clear(y);
    add_rows_by_rows<kDim, kR, kKeys / 32>(d_o, v, ty, tx, y);
    wait_for_fetches();
    __syncthreads();
    if (key + kKeys < end) fetch_tile<kDim, kKeys>(args, of_keys, args.v, args.v_stride, key + kKeys, v);
    add_rows_by_rows<kDim, kR, kKeys / 32>(q, k, ty, tx, score);
#pragma unroll
    for (int i = 0; i < kR; ++i) {
      const int row = work.row + kR * ty + i;
      const int nearest = first_key(args, row), last = end_key(args, work, row);
      uint32_t words[kKeys / 32] = {};
      if (args.dropout) {
        keep_of_group<kKeys / 32>(dropout, keep_row(args, work.first + row, work.head), key, tx, words);
      }
#pragma unroll
      for (int n = 0; n < kKeys / 32; ++n) {
        const int first = key + 4 * tx + 32 * n;
        const uint32_t keep = args.dropout ? keep_of_columns(words[n], tx) : 0xffffffffu;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int j = 4 * n + e;
          const bool seen = first + e >= nearest && first + e < last;
          const float p = seen ? expf(score[i][j] * args.scale - lse[i]) : 0.0f;
          const float kept = (keep >> 4 * e & 1) != 0 ? y[i][j] * args.keep_scale : 0.0f;
          score[i][j] = p * (kept - delta[i]);
        }
      }
    }
    store_scores<kKeys, kR>(score, ty, tx, d_x);
    __syncwarp();
    add_rows_by_columns<kKeys, kDim, kR>(d_x, k, ty, tx, d_q);
    __syncwarp();
  }
  store_result<kDim, kR>(args, work, args.d_q, args.d_q_stride, ty, tx, d_q, factor);
}

// Computes d_k and d_v. In this kernel the rows of a tile of scores are keys and the columns are queries. The heads of q that read the same
// head of k and v are processed one after another.
template <int kDim, int kR, int kQueries>
__global__ __launch_bounds__(kTileThreads) void attention_dkv_cuda_tiled_kernel(
    const AttentionKernelArgs args) {
  constexpr int kRows = 16 * kR;
  const Work work = find_work(args, kRows, TileOrder::kForward);
  if (work.is_tail) {
    clear_tail(args, work, args.d_k, args.d_k_stride);
    clear_tail(args, work, args.d_v, args.d_v_stride);
    return;
  }
  if (work.row >= work.count) return;
  extern __shared__ float4 tiles[];
  float4* k = tiles;
  float4* v = k + kRows * kDim / 4;
  float4* q = v + kRows * kDim / 4;
  float4* d_o = q + kQueries * kDim / 4;
  float4* p = d_o + kQueries * kDim / 4;
  const int tx = static_cast<int>(threadIdx.x) % 8, ty = static_cast<int>(threadIdx.x) / 8;
  const Dropout dropout = load_dropout(args);
  const int64_t columns = static_cast<int64_t>(args.heads) * args.head_dim;
  const int start = first_query(args, work.row) / kQueries * kQueries;
  const int end = end_query(args, work, work.row + kRows - 1);
  Work of_query = work;
  of_query.head = work.head * args.group;
  const int last_head = of_query.head + args.group - 1;
  fetch_tile<kDim, kRows>(args, work, args.k, args.k_stride, work.row, k);
  fetch_tile<kDim, kRows>(args, work, args.v, args.v_stride, work.row, v);
  fetch_tile<kDim, kQueries>(args, of_query, args.d_o, columns, start, d_o);
  float d_k[kR][kDim / 8], d_v[kR][kDim / 8];
  clear(d_k);
  clear(d_v);
  const int key = work.row + kR * ty;
  for (; of_query.head <= last_head; ++of_query.head) {
    const int64_t first_value = static_cast<int64_t>(of_query.head) * args.tokens + work.first;
    for (int row = start; row < end; row += kQueries) {
      // Copies and products overlap in this loop. While d_o of a tile is multiplied, the queries of the same tile are copied. While these
      // queries are multiplied, d_o of the next tile is copied. This call waits for d_o.
      wait_for_fetches();
      __syncthreads();
      fetch_tile<kDim, kQueries>(args, of_query, args.q, args.q_stride, row, q);
      float score[kR][kQueries / 8], y[kR][kQueries / 8];
      clear(score);
      clear(y);
      add_rows_by_rows<kDim, kR, kQueries / 32>(v, d_o, ty, tx, y);
      wait_for_fetches();
      __syncthreads();
      add_rows_by_rows<kDim, kR, kQueries / 32>(k, q, ty, tx, score);
#pragma unroll
      for (int j = 0; j < kQueries / 8; ++j) {
        const int query = row + 4 * tx + 32 * (j / 4) + j % 4;
        const int64_t at = first_value + min(query, work.count - 1);
        const float lse = args.lse[at], delta = args.delta[at];
        const uint32_t keep =
            args.dropout
                ? keep_of_warp(dropout, keep_row(args, work.first + query, of_query.head), key / 32 * 32, ty)
                : 0xffffffffu;
#pragma unroll
        for (int i = 0; i < kR; ++i) {
          const bool near = args.window == 0 || abs(query - key - i) < args.window;
          const bool seen =
              query < work.count && near && (args.causal ? key + i <= query : key + i < work.count);
          const float x = seen ? expf(score[i][j] * args.scale - lse) : 0.0f;
          const float factor = (keep >> keep_place((key + i) % 32) & 1) != 0 ? args.keep_scale : 0.0f;
          y[i][j] = x * (y[i][j] * factor - delta);
          score[i][j] = x * factor;
        }
      }
      store_scores<kQueries, kR>(score, ty, tx, p);
      __syncwarp();
      add_rows_by_columns<kQueries, kDim, kR>(p, d_o, ty, tx, d_v);
      __syncthreads();
      if (row + kQueries < end) {
        fetch_tile<kDim, kQueries>(args, of_query, args.d_o, columns, row + kQueries, d_o);
      } else if (of_query.head < last_head) {
        Work next = of_query;
        ++next.head;
        fetch_tile<kDim, kQueries>(args, next, args.d_o, columns, start, d_o);
      }
      store_scores<kQueries, kR>(y, ty, tx, p);
      __syncwarp();
      add_rows_by_columns<kQueries, kDim, kR>(p, q, ty, tx, d_k);
      __syncwarp();
    }
  }
  float one[kR], scale[kR];
#pragma unroll
  for (int i = 0; i < kR; ++i) one[i] = 1.0f, scale[i] = args.scale;
  store_result<kDim, kR>(args, work, args.d_k, args.d_k_stride, ty, tx, d_k, scale);
  store_result<kDim, kR>(args, work, args.d_v, args.d_v_stride, ty, tx, d_v, one);
}

// Launches the kernel for d_q and the kernel for d_k and d_v. A thread block computes the gradients of 16 kR rows (queries for d_q, keys
// for d_k and d_v) and keeps the tiles of these rows in shared memory. It loops over the other rows of the products (keys for d_q, queries
// for d_k and d_v), in tiles of kPassing rows.
template <int kDim, int kR, int kPassing>
void launch(const AttentionKernelArgs& args, CudaStream stream) {
  constexpr int64_t kBytes = bwd_tile_bytes(kDim, 16 * kR, kPassing);
  launch_on_grid(attention_dq_cuda_tiled_kernel<kDim, kR, kPassing>, 16 * kR, args.heads, kTileThreads,
                 kBytes, args, stream);
  PLIMSOLL_CHECK_LAUNCH("attention_dq_cuda_tiled");
  launch_on_grid(attention_dkv_cuda_tiled_kernel<kDim, kR, kPassing>, 16 * kR, args.kv_heads, kTileThreads,
                 kBytes, args, stream);
  PLIMSOLL_CHECK_LAUNCH("attention_dkv_cuda_tiled");
}

}  // namespace
}  // namespace attention

void launch_attention_bwd_tiled(const AttentionKernelArgs& args, CudaStream stream) {
  using namespace attention;
  const int64_t shared = shared_bytes_of_block();
  if (args.head_dim <= 32) {
    launch<32, 4, 64>(args, stream);
  } else if (args.head_dim <= 64 && shared >= bwd_tile_bytes(64, 64, 64)) {
    launch<64, 4, 64>(args, stream);
  } else if (args.head_dim <= 64) {
    launch<64, 2, 32>(args, stream);
  } else if (shared >= bwd_tile_bytes(128, 64, 32)) {
    launch<128, 4, 32>(args, stream);
  } else {
    launch<128, 2, 32>(args, stream);
  }
}

}  // namespace plimsoll
