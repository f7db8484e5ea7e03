// The forward pass on Hopper. A thread block is one warpgroup that computes 64 query rows and loops over the keys; four blocks share a
// multiprocessor. While the tensor cores multiply the probabilities of one tile of keys by its values, the warps compute the probabilities
// of the next tile. On an H200 (32 sequences of 512 rows, 16 heads of 64, bf16) it takes 0.101 ms. Two warpgroups per block take 0.106 ms;
// without the overlap of products and probabilities it takes 0.126 ms.
//
// Reading k and v from the L2 cache does not limit this kernel, as these experiments show. Two warpgroups that read the same tiles, loaded
// by TMA into a ring of six stages, take 0.103 ms (with dropout 0.150 instead of 0.157 ms), four take 0.113 ms, and persistent blocks that
// prefetch the next queries and keys take 0.130 ms. The variant of 0.103 ms takes 0.080 ms if the softmax is removed, 0.076 ms if the
// products are removed, and 0.056 ms without both. A block waits for memory most of the 9500 cycles before its first product; it
// runs for 30600 cycles in total.
//
// For heads of 65 to 128 the tiles have 128 columns, and two blocks share a multiprocessor. On an H200 the forward pass over 4096 causal
// rows of 32 heads of 128, with 8 heads of k and v, takes 0.361 ms in bf16; the kernel with mma.sync takes 0.746 ms.
#include <cstddef>

#include "device/cuda/cuda_error.h"
#include "kernels/attention/attention_grid.cuh"
#include "kernels/attention/attention_wgmma.cuh"

namespace plimsoll {
namespace attention {
namespace {

constexpr int kRows = 64;

// Shared memory: the queries, and two tiles each of keys and values, one in use and one being copied.
template <int kDim>
constexpr int kSharedBytes = 5 * kWgmmaTile<kDim>;

template <DType kType, int kDim, bool kDropout>
__global__ __launch_bounds__(kWarpgroup, kDim == 64 ? 4 : 2) void attention_fwd_cuda_wgmma_kernel(
    const AttentionKernelArgs args) {
  constexpr uint32_t kTile = kWgmmaTile<kDim>;
  const Work work = find_work(args, kRows, args.causal ? TileOrder::kBackward : TileOrder::kForward);
  const int64_t columns = static_cast<int64_t>(args.heads) * args.head_dim;
  if (work.is_tail) {
    clear_tail(args, work, args.o, columns);
    if (args.lse != nullptr) clear_tail_of_row_values(args, work, args.lse);
    return;
  }
  if (work.row >= work.count) return;
  extern __shared__ __align__(1024) std::byte shared[];
  const uint32_t queries = shared_address(shared), keys = queries + kTile, values = keys + 2 * kTile;
  const Dropout dropout = load_dropout(args);
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  const int begin = first_key(args, work.row) / kKeys * kKeys,
            end = end_key(args, work, work.row + kRows - 1);
  const int first_hidden = args.causal ? min(work.count, work.row + warp_row) : work.count;
  const float exponent = args.scale * kLog2E;
  float score[1][8][4], out[1][kDim / 8][4], largest[1][2], sum[1][2], old[1][2];
  uint32_t p[4][1][4];
  clear(out);
  largest[0][0] = largest[0][1] = kNoScore;
  sum[0][0] = sum[0][1] = 0.0f;

  const Work keys_work = work_of_keys(args, work);
  TileReader<kDim> of_keys(args, keys_work, args.k, args.k_stride, begin),
      of_values(args, keys_work, args.v, args.v_stride, begin);
  // Waits until the requested tiles have arrived, then starts copying the values of the tile that begins at key `key` and the keys of the
  // tile after it.
  const auto wait_and_request_next = [&](int key, int stage) {
    wait_for_copies();
    fence_async_proxy();
    __syncthreads();
    if (key >= end) return;
    if (key + kKeys < end) of_keys.copy_next(keys + (stage ^ 1) * kTile);
    of_values.copy_next(values + stage * kTile);
  };
  const auto multiply_by_keys = [&](int stage) {
    multiply_whole_tiles<kType, kDim>(score[0], queries, keys + stage * kTile);
    close_products();
  };
  const auto multiply_by_values = [&](int stage) {
    multiply_by_tile<kType, kDim>(out[0], p, values + stage * kTile);
    close_products();
  };
  const auto draw = [&](KeepDraw<1>& keep) {
    if constexpr (kDropout) {
#pragma unroll
      for (int part = 0; part < KeepDraw<1>::kParts; ++part) keep.draw(args, dropout, part);
    }
  };
  const auto softmax_tile = [&](int key) {
    hold(score[0]);
    if (key + kKeys > first_hidden) hide_keys<1>(args, work, work.row + warp_row, key, score);
    if (reaches_far(args.window, work.row + warp_row, 16, key, kKeys))
      hide_far<1>(args.window, work.row + warp_row, key, score);
    softmax_scores<1>(exponent, score, largest, sum, old);
    hold(score[0]);
  };
  const auto take_probabilities = [&](const KeepDraw<1>& keep) {
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      take_fragment<kType>(p[step][0], score[0], step);
      if constexpr (kDropout) drop<kType, 1>(keep, 0, step, p[step][0]);
    }
  };

  TileReader<kDim>(args, work, args.q, args.q_stride, work.row).copy_next(queries);
  of_keys.copy_next(keys);
  wait_and_request_next(begin, 0);
  {
    begin_products();
    multiply_by_keys(0);
    KeepDraw<1> keep(args, work, warp_row, begin);
    draw(keep);
    wait_for_products<0>();
    softmax_tile(begin);
    take_probabilities(keep);
  }
  int stage = 0;
  for (int key = begin + kKeys; key < end; key += kKeys) {
    stage ^= 1;
    wait_and_request_next(key, stage);
    begin_products();
    multiply_by_keys(stage);
    multiply_by_values(stage ^ 1);
    KeepDraw<1> keep(args, work, warp_row, key);
    draw(keep);
    wait_for_products<1>();
    softmax_tile(key);
    wait_for_products<0>();
    hold(out[0]);
    multiply_by_row(old, out);
    take_probabilities(keep);
  }
  wait_and_request_next(end, stage);
  begin_products();
  multiply_by_values(stage);
  wait_for_products<0>();
  hold(out[0]);

  if (work.row + warp_row >= work.count) return;
  float factor[1][2];
  finish_softmax(args, work, warp_row, largest, sum, factor);
  store_rows<kType, kDim, 1>(args, work, args.o, columns, shared, wgmma_offset, out, factor);
}

template <DType kType, int kDim>
void launch_fwd(const AttentionKernelArgs& args, CudaStream stream) {
  launch_on_grid(args.dropout ? attention_fwd_cuda_wgmma_kernel<kType, kDim, true>
                              : attention_fwd_cuda_wgmma_kernel<kType, kDim, false>,
                 kRows, args.heads, kWarpgroup, kSharedBytes<kDim>, args, stream);
  PLIMSOLL_CHECK_LAUNCH("attention_fwd_cuda_wgmma");
}

}  // namespace
}  // namespace attention

void launch_attention_fwd_wgmma(const AttentionKernelArgs& args, CudaStream stream) {
  attention::launch_for_warpgroups(
      args, [&]<DType kType, int kDim>() { attention::launch_fwd<kType, kDim>(args, stream); });
}

}  // namespace plimsoll
