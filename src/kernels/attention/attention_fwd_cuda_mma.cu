#include <cstddef>

#include "device/cuda/cuda_error.h"
#include "kernels/attention/attention_grid.cuh"
#include "kernels/attention/attention_steps.cuh"

namespace plimsoll {
namespace attention {
namespace {

// Shared memory: the queries, and two tiles each of keys and values, one in use and one being copied.
constexpr int fwd_mma_bytes(int dim, int rows) {
  return 2 * dim * (rows + 4 * kKeys);
}

// Computes score[m][n], the products of a warp's query rows with the 64 keys of a tile. Between the mma instructions it calls between(part)
// once for each part from 0 to 15. The caller passes arithmetic that is divided into 16 parts (drawing dropout numbers), which then runs
// while the tensor cores work.
template <DType kType, int kDim, int kM, typename Queries, typename Between>
__device__ void multiply_by_keys(const Queries& queries, uint32_t k, uint32_t by_rows,
                                 float (&score)[kM][kKeys / 8][4], const Between& between) {
  constexpr int kWidth = kHalves<kType, kDim>, kPartsOfGroup = kWidth < 64 ? 64 / kWidth : 1;
#pragma unroll
  for (int step = 0; step < kWidth / 16; ++step) {
    uint32_t a[kM][4];
#pragma unroll
    for (int m = 0; m < kM; ++m) queries(a[m], m, step);
#pragma unroll
    for (int n = 0; n < kKeys / 16; ++n) {
      uint32_t b[4];
      load_matrices(b, fragment_at<kWidth>(k, by_rows, 16 * n, step));
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        multiply_add<kType>(score[m][2 * n], a[m], b[0], b[1]);
        multiply_add<kType>(score[m][2 * n + 1], a[m], b[2], b[3]);
      }
      const int group = step * kKeys / 16 + n;
#pragma unroll
      for (int i = 0; i < kPartsOfGroup; ++i) {
        if (group * kPartsOfGroup + i < 16) between(group * kPartsOfGroup + i);
      }
    }
  }
}

// Adds the product of the probabilities p and the values of a tile to out[m].
template <DType kType, int kDim, int kM, bool kDropout>
__device__ void multiply_by_values(const float (&p)[kM][kKeys / 8][4], const KeepDraw<kM>& keep, uint32_t v,
                                   const ColumnLanes<kType, kDim>& by_columns,
                                   float (&out)[kM][kDim / 8][4]) {
#pragma unroll
  for (int step = 0; step < kKeys / kDepth<kType>; ++step) {
    uint32_t a[kM][4];
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      take_fragment<kType>(a[m], p[m], step);
      if constexpr (kDropout) drop<kType, kM>(keep, m, step, a[m]);
    }
    multiply_by_rows<kType, kDim>(a, v, by_columns, kDepth<kType> * step, out);
  }
}

template <DType kType, int kDim, int kM, bool kDropout>
__global__ __launch_bounds__(kMmaThreads) void attention_fwd_cuda_mma_kernel(const AttentionKernelArgs args) {
#ifdef PLIMSOLL_HAS_MMA
  constexpr int kRows = 64 * kM;
  const Work work = find_work(args, kRows, args.causal ? TileOrder::kBackward : TileOrder::kForward);
  const int64_t columns = static_cast<int64_t>(args.heads) * args.head_dim;
  if (work.is_tail) {
    clear_tail(args, work, args.o, columns);
    if (args.lse != nullptr) clear_tail_of_row_values(args, work, args.lse);
    return;
  }
  if (work.row >= work.count) return;
  extern __shared__ __align__(128) std::byte shared[];
  constexpr int kWidth = kHalves<kType, kDim>;
  constexpr uint32_t kTile = kKeys * kWidth * 2;
  const uint32_t base = shared_address(shared), keys = base + kRows * kWidth * 2;
  const Dropout dropout = load_dropout(args);
  const uint32_t by_columns = lane_by_columns<kWidth>(), by_rows = lane_by_rows<kWidth>();
  const ColumnLanes<kType, kDim> of_values;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16 * kM,
            lane = static_cast<int>(threadIdx.x) % 32;

  const Work of_keys = work_of_keys(args, work);
  const int begin = first_key(args, work.row) / kKeys * kKeys,
            end = end_key(args, work, work.row + kRows - 1);
  const auto fetch = [&](int key, int stage) {
    copy_tile<kType, kDim, kKeys>(args, of_keys, args.k, args.k_stride, key, keys + stage * kTile);
    copy_tile<kType, kDim, kKeys>(args, of_keys, args.v, args.v_stride, key, keys + (2 + stage) * kTile);
  };
  copy_tile<kType, kDim, kRows>(args, work, args.q, args.q_stride, work.row, base);
  fetch(begin, 0);

  // True if a warp's queries are kept in registers. Only 16-bit queries fit.
  constexpr bool kHolds = kType != DType::kF32;
  uint32_t q[kM][kHolds ? kWidth / 16 : 1][4];
  const auto queries = [&](uint32_t(&a)[4], int m, int step) {
    if constexpr (kHolds) {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = q[m][step][i];
    } else {
      load_matrices(a, fragment_at<kWidth>(base, by_columns, warp_row + 16 * m, step));
    }
  };
  float out[kM][kDim / 8][4], largest[kM][2], sum[kM][2];
  clear(out);
#pragma unroll
  for (int m = 0; m < kM; ++m) largest[m][0] = largest[m][1] = kNoScore, sum[m][0] = sum[m][1] = 0.0f;
  const bool is_used = work.row + warp_row < work.count;
  const float exponent = args.scale * kLog2E;
  for (int key = begin, stage = 0; key < end; key += kKeys, stage ^= 1) {
    const uint32_t k = keys + stage * kTile, v = keys + (2 + stage) * kTile;
    wait_for_copies();
    if (key == begin) round_tile<kType, kDim, kRows>(base);
    round_tile<kType, kDim, kKeys>(k);
    round_tile<kType, kDim, kKeys>(v);
    __syncthreads();
    if (key + kKeys < end) fetch(key + kKeys, stage ^ 1);
    if (!is_used) continue;
    if (kHolds && key == begin) {
#pragma unroll
      for (int m = 0; m < kM; ++m) {
#pragma unroll
        for (int step = 0; step < (kHolds ? kWidth / 16 : 0); ++step) {
          load_matrices(q[m][step], fragment_at<kWidth>(base, by_columns, warp_row + 16 * m, step));
        }
      }
    }
    float score[kM][kKeys / 8][4];
    clear(score);
    KeepDraw<kM> keep(args, work, warp_row, key);
    multiply_by_keys<kType, kDim, kM>(queries, k, by_rows, score, [&](int part) {
      if constexpr (kDropout) keep.draw(args, dropout, part);
    });
    if (key + kKeys > (args.causal ? min(work.count, work.row + warp_row) : work.count)) {
      hide_keys<kM>(args, work, work.row + warp_row, key, score);
    }
    if (reaches_far(args.window, work.row + warp_row, 16 * kM, key, kKeys)) {
      hide_far<kM>(args.window, work.row + warp_row, key, score);
    }
    online_softmax_step<kDim, kM>(exponent, score, largest, sum, out);
    multiply_by_values<kType, kDim, kM, kDropout>(score, keep, v, of_values, out);
  }

  if (!is_used) return;
  float factor[kM][2];
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float total = sum_of_quad(sum[m][half]);
      factor[m][half] = args.keep_scale / total;
      const int row = work.row + warp_row + 16 * m + 8 * half + lane / 4;
      if (args.lse != nullptr && lane % 4 == 0 && row < work.count) {
        args.lse[static_cast<int64_t>(work.head) * args.tokens + work.first + row] =
            fmaf(largest[m][half], args.scale, logf(total));
      }
    }
  }
  store_rows<kType, kDim, kM>(args, work, args.o, columns, shared, lane_offset<kWidth>, out, factor);
#endif
}

template <DType kType, int kDim, int kM>
void launch(const AttentionKernelArgs& args, CudaStream stream) {
  launch_on_grid(args.dropout ? attention_fwd_cuda_mma_kernel<kType, kDim, kM, true>
                              : attention_fwd_cuda_mma_kernel<kType, kDim, kM, false>,
                 64 * kM, args.heads, kMmaThreads, fwd_mma_bytes(kHalves<kType, kDim>, 64 * kM), args,
                 stream);
  PLIMSOLL_CHECK_LAUNCH("attention_fwd_cuda_mma");
}

}  // namespace
}  // namespace attention

void launch_attention_fwd_mma(const AttentionKernelArgs& args, int rows, CudaStream stream) {
  attention::launch_mma<2>(
      args, rows, [&]<DType kType, int kDim, int kM>() { attention::launch<kType, kDim, kM>(args, stream); });
}

}  // namespace plimsoll
