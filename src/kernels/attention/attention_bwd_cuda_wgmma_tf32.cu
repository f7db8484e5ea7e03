// The backward pass in tf32 on Hopper: the kernels of attention_bwd_cuda_wgmma.cu for floats. Tensor cores cannot transpose floats, so
// these kernels transpose tiles themselves for the products that need it. A thread block is one warpgroup that computes 64 rows, and two
// blocks share a multiprocessor. On an H200 (32 sequences of 512 rows, 16 heads of 64, dropout 0.1) the backward pass takes 0.859 ms. Two
// changes were slower: overlapping the transposition with the first products and the last product of d_q with the next iteration (0.929
// ms), and keeping the block's rows of q and d_o in shared memory (0.928 ms).
#include <cstddef>

#include "device/cuda/cuda_error.h"
#include "kernels/attention/attention_grid.cuh"
#include "kernels/attention/attention_wgmma_tf32.cuh"

namespace plimsoll {
namespace attention {
namespace {

constexpr int kRows = 64;
// The number of 32-bit values per tile of queries: lse, delta and the dropout bits.
constexpr int kValues = 2 * kQueries + kRows / 32 * kQueries;

// Shared memory: two tiles for each of the two operands over which the loop runs; one transposed tile in the kernel for d_q, two in the
// kernel for d_k and d_v; and values per row. The kernel for d_q stores delta of each row. The other kernel stores lse, delta and the
// dropout bits of two tiles of queries.
constexpr int kDqBytes = 5 * kTf32Tile + 4 * kRows;
constexpr int kDkvBytes = 6 * kTf32Tile + 2 * 4 * kValues;

template <bool kDropout>
__global__ __launch_bounds__(kWarpgroup,
                             2) void attention_dq_cuda_wgmma_tf32_kernel(const AttentionKernelArgs args) {
  const Work work = find_work(args, kRows, args.causal ? TileOrder::kBackward : TileOrder::kForward);
  if (work.is_tail) {
    clear_tail(args, work, args.d_q, args.d_q_stride);
    return;
  }
  if (work.row >= work.count) return;
  extern __shared__ __align__(1024) std::byte shared[];
  const uint32_t base = shared_address(shared), transposed_k = base + 4 * kTf32Tile;
  float* const delta = reinterpret_cast<float*>(shared + 5 * kTf32Tile);
  const Dropout dropout = load_dropout(args);
  const Tf32Part part;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  const auto fetch = [&](int key, int stage) {
    copy_tf32(args, work, part, args.k, args.k_stride, key, base + stage * kTf32Tile);
    copy_tf32(args, work, part, args.v, args.v_stride, key, base + (2 + stage) * kTf32Tile);
  };
  // Loads the rows that this block computes into registers, where they stay. They are copied through the second tiles of k and v, which the
  // loop does not use yet.
  copy_tf32(args, work, part, args.q, args.q_stride, work.row, base + kTf32Tile);
  copy_tf32(args, work, part, args.d_o, static_cast<int64_t>(args.heads) * args.head_dim, work.row,
            base + 3 * kTf32Tile);
  fetch(0, 0);
  wait_for_copies();
  __syncthreads();
  Tf32Rows q, d_o;
  load_tf32_rows(q, base + kTf32Tile, warp_row);
  load_tf32_rows(d_o, base + 3 * kTf32Tile, warp_row);
  __syncwarp();
  find_delta<DType::kF32, kWgmmaDim, 1>(args, work, shared + 3 * kTf32Tile, wgmma_offset, delta);
  const RowValues<1> rows = load_row_values<1>(args, work, warp_row, delta);
  float d_q[1][8][4];
  clear(d_q);
  const float exponent = args.scale * kLog2E, minus_zero = args.tokens > 0 ? -0.0f : 0.0f;
  const int end = args.causal ? min(work.count, work.row + kRows) : work.count;
  const int first_hidden = args.causal ? min(work.count, work.row + warp_row) : work.count;
  for (int key = 0, stage = 0; key < end; key += kKeys, stage ^= 1) {
    const uint32_t k = base + stage * kTf32Tile, v = base + (2 + stage) * kTf32Tile;
    wait_for_copies();
    __syncthreads();
    if (key + kKeys < end) fetch(key + kKeys, stage ^ 1);
    transpose_tf32<Rounded::kStays>(part, k, transposed_k);
    round_tf32_tile(part, v);
    fence_async_proxy();
    __syncthreads();
    float x[1][8][4], y[1][8][4];
    keep_alive(q, minus_zero);
    keep_alive(d_o, minus_zero);
    begin_products();
    multiply_tf32(x[0], q, k, 0);
    close_products();
    multiply_tf32(y[0], d_o, v, 0);
    close_products();
    KeepDraw<1> keep(args, work, warp_row, key);
    if constexpr (kDropout) {
#pragma unroll
      for (int i = 0; i < KeepDraw<1>::kParts; ++i) keep.draw(args, dropout, i);
      keep.store(args, work, warp_row, key);
    }
    wait_for_products<1>();
    hold(x[0]);
    if (key + kKeys > first_hidden) hide_keys<1>(args, work, work.row + warp_row, key, x);
    exponentiate(rows, exponent, x);
    wait_for_products<0>();
    hold(y[0]);
    differentiate<kDropout>(args, rows, keep, x, y);
    Tf32Rows d_x;
#pragma unroll
    for (int step = 0; step < 8; ++step) take_fragment<DType::kF32>(d_x[step][0], x[0], step);
    begin_products();
    multiply_tf32(d_q[0], d_x, transposed_k, 1);
    close_products();
    wait_for_products<0>();
    hold(d_q[0]);
  }
  // The results are first written to the memory of the tiles, so all warps must have completed the products that read the tiles.
  __syncthreads();
  if (work.row + warp_row >= work.count) return;
  const float factor[1][2] = {{args.scale, args.scale}};
  store_rows<DType::kF32, kWgmmaDim, 1>(args, work, args.d_q, args.d_q_stride, shared,
                                        lane_offset<2 * kWgmmaDim>, d_q, factor);
}

template <bool kDropout>
__global__ __launch_bounds__(kWarpgroup,
                             2) void attention_dkv_cuda_wgmma_tf32_kernel(const AttentionKernelArgs args) {
  const Work work = find_work(args, kRows, TileOrder::kForward);
  if (work.is_tail) {
    clear_tail(args, work, args.d_k, args.d_k_stride);
    clear_tail(args, work, args.d_v, args.d_v_stride);
    return;
  }
  if (work.row >= work.count) return;
  extern __shared__ __align__(1024) std::byte shared[];
  const uint32_t base = shared_address(shared), transposed_q = base + 4 * kTf32Tile,
                 transposed_d_o = base + 5 * kTf32Tile;
  float* const row_values = reinterpret_cast<float*>(shared + 6 * kTf32Tile);
  const Dropout dropout = load_dropout(args);
  const Tf32Part part;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  const int keep_of_row = keep_place(warp_row % 32 + static_cast<int>(threadIdx.x) % 32 / 4);
  const int64_t columns = static_cast<int64_t>(args.heads) * args.head_dim;
  const auto fetch = [&](int row, int stage) {
    copy_tf32(args, work, part, args.q, args.q_stride, row, base + stage * kTf32Tile);
    copy_tf32(args, work, part, args.d_o, columns, row, base + (2 + stage) * kTf32Tile);
    fetch_row_values<kRows, kWarpgroup, kDropout>(args, work, dropout, row, row_values + stage * kValues);
  };
  // Loads the rows that this block computes into registers, where they stay. They are copied through the second tiles of q and d_o, which
  // the loop does not use yet.
  copy_tf32(args, work, part, args.k, args.k_stride, work.row, base + kTf32Tile);
  copy_tf32(args, work, part, args.v, args.v_stride, work.row, base + 3 * kTf32Tile);
  const int start = args.causal ? work.row : 0;
  fetch(start, 0);
  wait_for_copies();
  __syncthreads();
  Tf32Rows k, v;
  load_tf32_rows(k, base + kTf32Tile, warp_row);
  load_tf32_rows(v, base + 3 * kTf32Tile, warp_row);
  float d_k[1][8][4], d_v[1][8][4];
  clear(d_k);
  clear(d_v);
  const float exponent = args.scale * kLog2E, minus_zero = args.tokens > 0 ? -0.0f : 0.0f;
  for (int row = start, stage = 0; row < work.count; row += kQueries, stage ^= 1) {
    const uint32_t q = base + stage * kTf32Tile, d_o = base + (2 + stage) * kTf32Tile;
    wait_for_copies();
    __syncthreads();
    if (row + kQueries < work.count) fetch(row + kQueries, stage ^ 1);
    transpose_tf32<Rounded::kStays>(part, q, transposed_q);
    transpose_tf32<Rounded::kStays>(part, d_o, transposed_d_o);
    fence_async_proxy();
    __syncthreads();
    const float* values = row_values + stage * kValues;
    const auto* keep = reinterpret_cast<const uint32_t*>(values + 2 * kQueries) + warp_row / 32 * kQueries;
    float x[1][8][4], y[1][8][4];
    keep_alive(k, minus_zero);
    keep_alive(v, minus_zero);
    begin_products();
    multiply_tf32(x[0], k, q, 0);
    multiply_tf32(y[0], v, d_o, 0);
    close_products();
    wait_for_products<0>();
    hold(x[0]);
    hold(y[0]);
    if (args.causal && row < work.row + warp_row + 16) hide_queries<1, 8>(work.row + warp_row, row, x);
    Tf32Rows p, d_x;
    differentiate<DType::kF32, 1, 8, kDropout>(args, exponent, values, keep, keep_of_row, x, y, p, d_x);
    begin_products();
    multiply_tf32(d_v[0], p, transposed_d_o, 1);
    multiply_tf32(d_k[0], d_x, transposed_q, 1);
    close_products();
    wait_for_products<0>();
    hold(d_v[0]);
    hold(d_k[0]);
  }
  // The results are first written to the memory of the tiles, so all warps must have completed the products that read the tiles.
  __syncthreads();
  if (work.row + warp_row >= work.count) return;
  const float of_k[1][2] = {{args.scale, args.scale}}, of_v[1][2] = {{args.keep_scale, args.keep_scale}};
  store_rows<DType::kF32, kWgmmaDim, 1>(args, work, args.d_k, args.d_k_stride, shared,
                                        lane_offset<2 * kWgmmaDim>, d_k, of_k);
  store_rows<DType::kF32, kWgmmaDim, 1>(args, work, args.d_v, args.d_v_stride, shared + kTf32Tile,
                                        lane_offset<2 * kWgmmaDim>, d_v, of_v);
}

}  // namespace
}  // namespace attention

void launch_attention_dq_wgmma_tf32(const AttentionKernelArgs& args, CudaStream stream) {
  using namespace attention;
  launch_on_grid(
      args.dropout ? attention_dq_cuda_wgmma_tf32_kernel<true> : attention_dq_cuda_wgmma_tf32_kernel<false>,
      kRows, args.heads, kWarpgroup, kDqBytes, args, stream);
  PLIMSOLL_CHECK_LAUNCH("attention_dq_cuda_wgmma_tf32");
}
void launch_attention_dkv_wgmma_tf32(const AttentionKernelArgs& args, CudaStream stream) {
  using namespace attention;
  launch_on_grid(
      args.dropout ? attention_dkv_cuda_wgmma_tf32_kernel<true> : attention_dkv_cuda_wgmma_tf32_kernel<false>,
      kRows, args.kv_heads, kWarpgroup, kDkvBytes, args, stream);
  PLIMSOLL_CHECK_LAUNCH("attention_dkv_cuda_wgmma_tf32");
}

}  // namespace plimsoll
