// The forward pass in tf32 on Hopper. A thread block is one warpgroup that computes 64 query rows and loops over the keys; three blocks
// share a multiprocessor.
#include <cstddef>

#include "device/cuda/cuda_error.h"
#include "kernels/attention/attention_grid.cuh"
#include "kernels/attention/attention_wgmma_tf32.cuh"

namespace plimsoll {
namespace attention {
namespace {

constexpr int kRows = 64;

// Shared memory: two tiles of keys, one tile of values as they were copied and one of transposed values.
constexpr int kSharedBytes = 4 * kTf32Tile;

template <bool kDropout>
__global__ __launch_bounds__(kWarpgroup,
                             3) void attention_fwd_cuda_wgmma_tf32_kernel(const AttentionKernelArgs args) {
  const Work work = find_work(args, kRows, args.causal ? TileOrder::kBackward : TileOrder::kForward);
  const int64_t columns = static_cast<int64_t>(args.heads) * args.head_dim;
  if (work.is_tail) {
    clear_tail(args, work, args.o, columns);
    if (args.lse != nullptr) clear_tail_of_row_values(args, work, args.lse);
    return;
  }
  if (work.row >= work.count) return;
  extern __shared__ __align__(1024) std::byte shared[];
  const uint32_t base = shared_address(shared), v = base + 2 * kTf32Tile, transposed_v = base + 3 * kTf32Tile;
  const Dropout dropout = load_dropout(args);
  const Tf32Part part;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  // Loads the query rows that this block computes into registers, where they stay. They are copied through the second tile of keys, which
  // the loop does not use yet.
  copy_tf32(args, work, part, args.q, args.q_stride, work.row, base + kTf32Tile);
  copy_tf32(args, work, part, args.k, args.k_stride, 0, base);
  copy_tf32(args, work, part, args.v, args.v_stride, 0, v);
  wait_for_copies();
  __syncthreads();
  Tf32Rows q;
  load_tf32_rows(q, base + kTf32Tile, warp_row);
  float out[1][8][4], largest[1][2], sum[1][2];
  clear(out);
  largest[0][0] = largest[0][1] = -INFINITY;
  sum[0][0] = sum[0][1] = 0.0f;
  const float exponent = args.scale * kLog2E, minus_zero = args.tokens > 0 ? -0.0f : 0.0f;
  const int end = args.causal ? min(work.count, work.row + kRows) : work.count;
  const int first_hidden = args.causal ? min(work.count, work.row + warp_row) : work.count;
  for (int key = 0, stage = 0; key < end; key += kKeys, stage ^= 1) {
    const uint32_t k = base + stage * kTf32Tile;
    const bool goes_on = key + kKeys < end;
    wait_for_copies();
    __syncthreads();
    if (goes_on)
      copy_tf32(args, work, part, args.k, args.k_stride, key + kKeys, base + (stage ^ 1) * kTf32Tile);
    round_tf32_tile(part, k);
    transpose_tf32<Rounded::kGoes>(part, v, transposed_v);
    fence_async_proxy();
    __syncthreads();
    if (goes_on) copy_tf32(args, work, part, args.v, args.v_stride, key + kKeys, v);
    float score[1][8][4];
    keep_alive(q, minus_zero);
    begin_products();
    multiply_tf32(score[0], q, k, 0);
    close_products();
    KeepDraw<1> keep(args, work, warp_row, key);
    if constexpr (kDropout) {
#pragma unroll
      for (int i = 0; i < KeepDraw<1>::kParts; ++i) keep.draw(args, dropout, i);
    }
    wait_for_products<0>();
    hold(score[0]);
    if (key + kKeys > first_hidden) hide_keys<1>(args, work, work.row + warp_row, key, score);
    online_softmax_step<kWgmmaDim, 1>(exponent, score, largest, sum, out);
    Tf32Rows p;
#pragma unroll
    for (int step = 0; step < 8; ++step) {
      take_fragment<DType::kF32>(p[step][0], score[0], step);
      if constexpr (kDropout) drop<DType::kF32, 1>(keep, 0, step, p[step][0]);
    }
    begin_products();
    multiply_tf32(out[0], p, transposed_v, 1);
    close_products();
    wait_for_products<0>();
    hold(out[0]);
  }
  // The results are first written to the memory of the tiles, so all warps must have completed the products that read the tiles.
  __syncthreads();
  if (work.row + warp_row >= work.count) return;
  float factor[1][2];
  finish_softmax(args, work, warp_row, largest, sum, factor);
  store_rows<DType::kF32, kWgmmaDim, 1>(args, work, args.o, columns, shared, lane_offset<2 * kWgmmaDim>, out,
                                        factor);
}

}  // namespace
}  // namespace attention

void launch_attention_fwd_wgmma_tf32(const AttentionKernelArgs& args, CudaStream stream) {
  using namespace attention;
  launch_on_grid(
      args.dropout ? attention_fwd_cuda_wgmma_tf32_kernel<true> : attention_fwd_cuda_wgmma_tf32_kernel<false>,
      kRows, args.heads, kWarpgroup, kSharedBytes, args, stream);
  PLIMSOLL_CHECK_LAUNCH("attention_fwd_cuda_wgmma_tf32");
}

}  // namespace plimsoll
