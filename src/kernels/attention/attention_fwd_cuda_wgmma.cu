// The forward pass on Hopper: a block of two warpgroups takes 128 query rows, 64 for each, and goes over the
// keys.
#include <cstddef>

#include "device/cuda/error.h"
#include "kernels/attention/attention_grid.cuh"
#include "kernels/attention/attention_wgmma.cuh"

namespace plimsoll {
namespace attention {
namespace {

constexpr int kWarpgroups = 2;  // of a block, two of which share a multiprocessor
constexpr int kRows = 64 * kWarpgroups;

// The queries, then two tiles of keys and of values, one in use and one on its way.
constexpr int kSharedBytes = 6 * kWgmmaTile;

template <DType kType, bool kDropout>
__global__ __launch_bounds__(kWarpgroups* kWarpgroup,
                             2) void attention_fwd_cuda_wgmma_kernel(const AttentionKernelArgs args) {
  const Work work = find_work(args, kRows, args.causal ? TileOrder::kBackward : TileOrder::kForward);
  const int64_t columns = static_cast<int64_t>(args.heads) * args.head_dim;
  if (work.is_tail) {
    clear_tail(args, work, args.o, columns);
    if (args.lse != nullptr) clear_tail_of_row_values(args, work, args.lse);
    return;
  }
  if (work.row >= work.count) return;
  extern __shared__ __align__(1024) std::byte shared[];
  const uint32_t base = shared_address(shared), keys = base + 2 * kWgmmaTile;
  const Dropout dropout = load_dropout(args);
  const int group = static_cast<int>(threadIdx.x) / kWarpgroup;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  // One warpgroup brings the keys, the other one the values.
  const auto fetch = [&](int key, int stage) {
    if (group == 0) {
      copy_64<kType>(args, work, args.k, args.k_stride, key, keys + stage * kWgmmaTile);
    } else {
      copy_64<kType>(args, work, args.v, args.v_stride, key, keys + (2 + stage) * kWgmmaTile);
    }
  };
  copy_64<kType>(args, work, args.q, args.q_stride, work.row + 64 * group, base + group * kWgmmaTile);
  fetch(0, 0);
  float out[1][8][4], largest[1][2], sum[1][2];
  clear(out);
  largest[0][0] = largest[0][1] = -INFINITY;
  sum[0][0] = sum[0][1] = 0.0f;
  const float exponent = args.scale * kLog2E;
  const int end = args.causal ? min(work.count, work.row + kRows) : work.count;
  const int first_hidden = args.causal ? min(work.count, work.row + warp_row) : work.count;
  for (int key = 0, stage = 0; key < end; key += kKeys, stage ^= 1) {
    wait_for_copies();
    show_to_products();
    __syncthreads();
    if (key + kKeys < end) fetch(key + kKeys, stage ^ 1);
    const uint64_t q = descriptor(base + group * kWgmmaTile), k = descriptor(keys + stage * kWgmmaTile),
                   v = descriptor(keys + (2 + stage) * kWgmmaTile);
    float score[1][8][4];
    begin_products();
#pragma unroll
    for (int step = 0; step < 4; ++step) multiply_tiles<kType>(score[0], q + 2 * step, k + 2 * step, step);
    close_products();
    KeepDraw<1> keep(args, work, warp_row, key);
    if constexpr (kDropout) {
#pragma unroll
      for (int part = 0; part < KeepDraw<1>::kParts; ++part) keep.draw(args, dropout, part);
    }
    wait_for_products<0>();
    hold(score[0]);
    if (key + kKeys > first_hidden) hide_keys<1>(args, work, work.row + warp_row, key, score);
    soften<kWgmmaDim, 1>(exponent, score, largest, sum, out);
    uint32_t p[4][4];
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      take_fragment<kType>(p[step], score[0], step);
      if constexpr (kDropout) drop<kType, 1>(keep, 0, step, p[step]);
    }
    begin_products();
#pragma unroll
    for (int step = 0; step < 4; ++step) multiply_rows_of<kType>(out[0], p[step], v + 128 * step, 1);
    close_products();
    wait_for_products<0>();
    hold(out[0]);
  }
  if (work.row + warp_row >= work.count) return;
  float factor[1][2];
  finish_softmax(args, work, warp_row, largest, sum, factor);
  store_rows<kType, kWgmmaDim, 1>(args, work, args.o, columns, shared, out, factor);
}

template <DType kType>
void launch_fwd(const AttentionKernelArgs& args, CudaStream stream) {
  launch_on_grid(args.dropout ? attention_fwd_cuda_wgmma_kernel<kType, true>
                              : attention_fwd_cuda_wgmma_kernel<kType, false>,
                 kRows, kWarpgroups * kWarpgroup, kSharedBytes, args, stream);
  PLIMSOLL_CHECK_LAUNCH("attention_fwd_cuda_wgmma");
}

}  // namespace
}  // namespace attention

void launch_attention_fwd_wgmma(const AttentionKernelArgs& args, CudaStream stream) {
  args.dtype == DType::kBF16 ? attention::launch_fwd<DType::kBF16>(args, stream)
                             : attention::launch_fwd<DType::kF16>(args, stream);
}

}  // namespace plimsoll
