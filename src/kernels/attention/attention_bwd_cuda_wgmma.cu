// The backward pass on Hopper, in two kernels: like attention_dq_cuda_mma.cu, the first computes d_q of a block of query rows; like
// attention_dkv_cuda_mma.cu, the second computes d_k and d_v of a block of key rows. A thread block is one warpgroup that computes 64 rows;
// three blocks share a multiprocessor for heads of up to 64. One warpgroup per block is faster than several: warpgroups of one block wait
// for each other at every tile and would therefore all use the tensor cores at the same time and then all leave them idle, whereas separate
// blocks take turns. On an H200 (32 sequences of 512 rows, 16 heads of 64, bf16) the backward pass takes 0.302 ms; the kernels with
// mma.sync take 0.451 ms.
//
// For heads of 65 to 128 the tiles have 128 columns, and two blocks share a multiprocessor. On an H200 the backward pass over 4096 causal
// rows of 32 heads of 128, with 8 heads of k and v, takes 1.010 ms in bf16 (0.451 for d_q and 0.559 for d_k and d_v); the kernels with
// mma.sync take 2.283 ms.
#include <cstddef>

#include "device/cuda/cuda_error.h"
#include "kernels/attention/attention_grid.cuh"
#include "kernels/attention/attention_wgmma.cuh"

namespace plimsoll {
namespace attention {
namespace {

constexpr int kRows = 64;

// The bytes of shared memory of the two kernels. The first kernel keeps one tile of q and one of d_o, and loops over k and v, for each of
// which it has two tiles; it also stores delta of each row (attention.h). The second kernel keeps one tile of k and one of v, and loops
// over q and d_o, for each of which it has two tiles. For each of the two tiles of queries it also stores lse, delta and the dropout bits.
template <int kDim>
constexpr int kDqBytes = 6 * kWgmmaTile<kDim> + 4 * kRows;
template <int kDim>
constexpr int kDkvBytes = 6 * kWgmmaTile<kDim> + 2 * 4 * (2 * kQueries + kRows / 32 * kQueries);

template <DType kType, int kDim, bool kDropout>
__global__ __launch_bounds__(kWarpgroup, kDim == 64 ? 3 : 2) void attention_dq_cuda_wgmma_kernel(
    const AttentionKernelArgs args) {
  constexpr uint32_t kTile = kWgmmaTile<kDim>;
  const Work work = find_work(args, kRows, args.causal ? TileOrder::kBackward : TileOrder::kForward);
  if (work.is_tail) {
    clear_tail(args, work, args.d_q, args.d_q_stride);
    return;
  }
  if (work.row >= work.count) return;
  extern __shared__ __align__(1024) std::byte shared[];
  const uint32_t base = shared_address(shared), keys = base + 2 * kTile;
  float* const delta = reinterpret_cast<float*>(shared + 6 * kTile);
  const Dropout dropout = load_dropout(args);
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  const Work keys_work = work_of_keys(args, work);
  const int begin = first_key(args, work.row) / kKeys * kKeys,
            end = end_key(args, work, work.row + kRows - 1);
  TileReader<kDim> of_k(args, keys_work, args.k, args.k_stride, begin),
      of_v(args, keys_work, args.v, args.v_stride, begin);
  const auto fetch = [&](int stage) {
    of_k.copy_next(keys + stage * kTile);
    of_v.copy_next(keys + (2 + stage) * kTile);
  };
  TileReader<kDim>(args, work, args.q, args.q_stride, work.row).copy_next(base);
  TileReader<kDim>(args, work, args.d_o, static_cast<int64_t>(args.heads) * args.head_dim, work.row)
      .copy_next(base + kTile);
  fetch(0);
  float d_q[1][kDim / 8][4];
  RowValues<1> rows;
  clear(d_q);
  const float exponent = args.scale * kLog2E;
  const int first_hidden = args.causal ? min(work.count, work.row + warp_row) : work.count;
  for (int key = begin, stage = 0; key < end; key += kKeys, stage ^= 1) {
    wait_for_copies();
    fence_async_proxy();
    __syncthreads();
    if (key + kKeys < end) fetch(stage ^ 1);
    if (key == begin) {
      find_delta<kType, kDim, 1>(args, work, shared + kTile, wgmma_offset, delta);
      rows = load_row_values<1>(args, work, warp_row, delta);
    }
    const uint32_t k = keys + stage * kTile, v = keys + (2 + stage) * kTile;
    float x[1][8][4], y[1][8][4];
    begin_products();
    multiply_whole_tiles<kType, kDim>(x[0], base, k);
    close_products();
    multiply_whole_tiles<kType, kDim>(y[0], base + kTile, v);
    close_products();
    KeepDraw<1> keep(args, work, warp_row, key);
    if constexpr (kDropout) {
#pragma unroll
      for (int part = 0; part < KeepDraw<1>::kParts; ++part) keep.draw(args, dropout, part);
      keep.store(args, work, warp_row, key);
    }
    wait_for_products<1>();
    hold(x[0]);
    if (key + kKeys > first_hidden) hide_keys<1>(args, work, work.row + warp_row, key, x);
    if (reaches_far(args.window, work.row + warp_row, 16, key, kKeys))
      hide_far<1>(args.window, work.row + warp_row, key, x);
    exponentiate(rows, exponent, x);
    wait_for_products<0>();
    hold(y[0]);
    differentiate<kDropout>(args, rows, keep, x, y);
    uint32_t d_x[4][1][4];
#pragma unroll
    for (int step = 0; step < 4; ++step) take_fragment<kType>(d_x[step][0], x[0], step);
    begin_products();
    multiply_by_tile<kType, kDim>(d_q[0], d_x, k);
    close_products();
    wait_for_products<0>();
    hold(d_q[0]);
  }
  if (work.row + warp_row >= work.count) return;
  const float factor[1][2] = {{args.scale, args.scale}};
  store_rows<kType, kDim, 1>(args, work, args.d_q, args.d_q_stride, shared, wgmma_offset, d_q, factor);
}

template <DType kType, int kDim, bool kDropout>
__global__ __launch_bounds__(kWarpgroup, kDim == 64 ? 3 : 2) void attention_dkv_cuda_wgmma_kernel(
    const AttentionKernelArgs args) {
  constexpr uint32_t kTile = kWgmmaTile<kDim>;
  const Work work = find_work(args, kRows, TileOrder::kForward);
  if (work.is_tail) {
    clear_tail(args, work, args.d_k, args.d_k_stride);
    clear_tail(args, work, args.d_v, args.d_v_stride);
    return;
  }
  if (work.row >= work.count) return;
  extern __shared__ __align__(1024) std::byte shared[];
  // The number of 32-bit values per tile of queries: lse, delta and the dropout bits.
  constexpr int kValues = 2 * kQueries + kRows / 32 * kQueries;
  const uint32_t base = shared_address(shared), queries = base + 2 * kTile;
  float* const row_values = reinterpret_cast<float*>(shared + 6 * kTile);
  const Dropout dropout = load_dropout(args);
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16, lane = static_cast<int>(threadIdx.x) % 32;
  const int keep_of_row = keep_place(warp_row % 32 + lane / 4);
  const int64_t columns = static_cast<int64_t>(args.heads) * args.head_dim;
  // The loop starts with the tile of queries that contains the first query that sees the block's first key. Under a causal mask this is the
  // query at the position of that key.
  const int start = first_query(args, work.row) / kQueries * kQueries,
            end = end_query(args, work, work.row + kRows - 1);
  // The heads of q that read this head of k and v are processed one after another.
  Work query_work = work;
  query_work.head = work.head * args.group;
  const int end_head = query_work.head + args.group;
  TileReader<kDim> of_q(args, query_work, args.q, args.q_stride, start),
      of_d_o(args, query_work, args.d_o, columns, start);
  const auto fetch = [&](int row, int stage) {
    of_q.copy_next(queries + stage * kTile);
    of_d_o.copy_next(queries + (2 + stage) * kTile);
    fetch_row_values<kRows, kWarpgroup, kDropout>(args, query_work, dropout, row,
                                                  row_values + stage * kValues);
  };
  const auto fetch_after = [&](int row, int stage) {
    if (row + kQueries < end) return fetch(row + kQueries, stage);
    if (++query_work.head == end_head) return;
    of_q = TileReader<kDim>(args, query_work, args.q, args.q_stride, start);
    of_d_o = TileReader<kDim>(args, query_work, args.d_o, columns, start);
    fetch(start, stage);
  };
  TileReader<kDim>(args, work, args.k, args.k_stride, work.row).copy_next(base);
  TileReader<kDim>(args, work, args.v, args.v_stride, work.row).copy_next(base + kTile);
  fetch(start, 0);
  float d_k[1][kDim / 8][4], d_v[1][kDim / 8][4];
  clear(d_k);
  clear(d_v);
  const float exponent = args.scale * kLog2E;
  const int steps = args.group * ((end - start + kQueries - 1) / kQueries);
  for (int step = 0, row = start, stage = 0; step < steps; ++step, stage ^= 1) {
    wait_for_copies();
    fence_async_proxy();
    __syncthreads();
    fetch_after(row, stage ^ 1);
    const uint32_t q = queries + stage * kTile, d_o = queries + (2 + stage) * kTile;
    const float* values = row_values + stage * kValues;
    const auto* keep = reinterpret_cast<const uint32_t*>(values + 2 * kQueries) + warp_row / 32 * kQueries;
    float x[1][8][4], y[1][8][4];
    begin_products();
    multiply_whole_tiles<kType, kDim>(x[0], base, q);
    close_products();
    multiply_whole_tiles<kType, kDim>(y[0], base + kTile, d_o);
    close_products();
    wait_for_products<0>();
    hold(x[0]);
    hold(y[0]);
    if (args.causal && row < work.row + warp_row + 16) hide_queries<1, 8>(work.row + warp_row, row, x);
    if (reaches_far(args.window, work.row + warp_row, 16, row, kQueries))
      hide_far<1>(args.window, work.row + warp_row, row, x);
    row = row + kQueries < end ? row + kQueries : start;
    uint32_t p[4][1][4], d_x[4][1][4];
    differentiate<kType, 1, 8, kDropout>(args, exponent, values, keep, keep_of_row, x, y, p, d_x);
    begin_products();
    multiply_by_tile<kType, kDim>(d_v[0], p, d_o);
    multiply_by_tile<kType, kDim>(d_k[0], d_x, q);
    close_products();
    wait_for_products<0>();
    hold(d_v[0]);
    hold(d_k[0]);
  }
  if (work.row + warp_row >= work.count) return;
  const float of_k[1][2] = {{args.scale, args.scale}}, of_v[1][2] = {{args.keep_scale, args.keep_scale}};
  store_rows<kType, kDim, 1>(args, work, args.d_k, args.d_k_stride, shared, wgmma_offset, d_k, of_k);
  store_rows<kType, kDim, 1>(args, work, args.d_v, args.d_v_stride, shared + kTile, wgmma_offset, d_v, of_v);
}

template <DType kType, int kDim>
void launch_dq(const AttentionKernelArgs& args, CudaStream stream) {
  launch_on_grid(args.dropout ? attention_dq_cuda_wgmma_kernel<kType, kDim, true>
                              : attention_dq_cuda_wgmma_kernel<kType, kDim, false>,
                 kRows, args.heads, kWarpgroup, kDqBytes<kDim>, args, stream);
  PLIMSOLL_CHECK_LAUNCH("attention_dq_cuda_wgmma");
}

template <DType kType, int kDim>
void launch_dkv(const AttentionKernelArgs& args, CudaStream stream) {
  launch_on_grid(args.dropout ? attention_dkv_cuda_wgmma_kernel<kType, kDim, true>
                              : attention_dkv_cuda_wgmma_kernel<kType, kDim, false>,
                 kRows, args.kv_heads, kWarpgroup, kDkvBytes<kDim>, args, stream);
  PLIMSOLL_CHECK_LAUNCH("attention_dkv_cuda_wgmma");
}

}  // namespace
}  // namespace attention

void launch_attention_dq_wgmma(const AttentionKernelArgs& args, CudaStream stream) {
  attention::launch_for_warpgroups(
      args, [&]<DType kType, int kDim>() { attention::launch_dq<kType, kDim>(args, stream); });
}
void launch_attention_dkv_wgmma(const AttentionKernelArgs& args, CudaStream stream) {
  attention::launch_for_warpgroups(
      args, [&]<DType kType, int kDim>() { attention::launch_dkv<kType, kDim>(args, stream); });
}

}  // namespace plimsoll
