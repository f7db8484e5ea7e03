// Computes d_q on tensor cores, the first kernel of the backward pass. A thread block computes a tile of query rows. It also writes delta
// of these rows (attention.h) and, with dropout, one bit per pair of a query and a key that states whether dropout keeps the pair. The
// second kernel (attention_dkv_cuda_mma.cu) reads delta and these bits.
#include <cstddef>

#include "device/cuda/cuda_error.h"
#include "kernels/attention/attention_grid.cuh"
#include "kernels/attention/attention_steps.cuh"

namespace plimsoll {
namespace attention {
namespace {

// Shared memory of a thread block: its rows of q and d_o, two tiles each of keys and values, and delta of its rows.
constexpr int dq_mma_bytes(int dim, int rows) {
  return 2 * dim * (2 * rows + 4 * kKeys) + 4 * rows;
}

// Computes d_x, the gradients of the scores, for 16 keys (number `step` of the tile) from their scores x and the products y of d_o and v.
// Returns d_x as left operand of the next matrix product.
template <DType kType, int kM, bool kDropout>
__device__ void differentiate(const AttentionKernelArgs& args, const RowValues<kM>& rows, float exponent,
                              const KeepDraw<kM>& keep, int step, float (&x)[kM][2][4], float (&y)[kM][2][4],
                              uint32_t (&d_x)[16 / kDepth<kType>][kM][4]) {
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float p = exp2_approx(fmaf(x[m][n][e], exponent, -rows.lse[m][e / 2]));
        float factor = y[m][n][e];
        if constexpr (kDropout) {
          factor = keep.keeps(2 * m + e / 2, 2 * step + n, e % 2) ? factor * args.keep_scale : 0.0f;
        }
        x[m][n][e] = p * (factor - rows.delta[m][e / 2]);
      }
    }
#pragma unroll
    for (int part = 0; part < 16 / kDepth<kType>; ++part) take_fragment<kType>(d_x[part][m], x[m], part);
  }
}

template <DType kType, int kDim, int kM, bool kDropout>
__global__ __launch_bounds__(kMmaThreads) void attention_dq_cuda_mma_kernel(const AttentionKernelArgs args) {
#ifdef PLIMSOLL_HAS_MMA
  constexpr int kRows = 64 * kM;
  const Work work = find_work(args, kRows, args.causal ? TileOrder::kBackward : TileOrder::kForward);
  if (work.is_tail) {
    clear_tail(args, work, args.d_q, args.d_q_stride);
    return;
  }
  if (work.row >= work.count) return;
  extern __shared__ __align__(128) std::byte shared[];
  constexpr int kWidth = kHalves<kType, kDim>;
  constexpr uint32_t kTile = kKeys * kWidth * 2, kOwn = kRows * kWidth * 2;
  const uint32_t base = shared_address(shared), keys = base + 2 * kOwn;
  float* const delta = reinterpret_cast<float*>(shared + 2 * kOwn + 4 * kTile);
  const Dropout dropout = load_dropout(args);
  const uint32_t by_columns = lane_by_columns<kWidth>(), by_rows = lane_by_rows<kWidth>();
  const ColumnLanes<kType, kDim> of_keys;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16 * kM;

  const Work keys_work = work_of_keys(args, work);
  const int begin = first_key(args, work.row) / kKeys * kKeys,
            end = end_key(args, work, work.row + kRows - 1);
  const auto fetch = [&](int key, int stage) {
    copy_tile<kType, kDim, kKeys>(args, keys_work, args.k, args.k_stride, key, keys + stage * kTile);
    copy_tile<kType, kDim, kKeys>(args, keys_work, args.v, args.v_stride, key, keys + (2 + stage) * kTile);
  };
  copy_tile<kType, kDim, kRows>(args, work, args.q, args.q_stride, work.row, base);
  copy_tile<kType, kDim, kRows>(args, work, args.d_o, static_cast<int64_t>(args.heads) * args.head_dim,
                                work.row, base + kOwn);
  fetch(begin, 0);
  const bool is_used = work.row + warp_row < work.count;
  KeepDraw<kM> keep;
  if constexpr (kDropout) {
    if (is_used) {
      keep = KeepDraw<kM>(args, work, warp_row, begin);
#pragma unroll
      for (int part = 0; part < KeepDraw<kM>::kParts; ++part) keep.draw(args, dropout, part);
    }
  }

  // True if the registers suffice to keep a warp's rows of q and d_o.
  constexpr bool kHolds = kWidth * kM <= 128;
  uint32_t held[2][kM][kHolds ? kWidth / 16 : 1][4];
  const auto own = [&](uint32_t(&a)[4], int which, int m, int step) {
    if constexpr (kHolds) {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = held[which][m][step][i];
    } else {
      load_matrices(a, fragment_at<kWidth>(base + which * kOwn, by_columns, warp_row + 16 * m, step));
    }
  };
  float d_q[kM][kDim / 8][4];
  RowValues<kM> rows;
  clear(d_q);
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
    if (key == begin) {
      find_delta<kType, kDim, kM>(args, work, shared + kOwn, lane_offset<kWidth>, delta);
      rows = load_row_values<kM>(args, work, warp_row, delta);
#pragma unroll
      for (int m = 0; m < kM; ++m) {
#pragma unroll
        for (int step = 0; step < (kHolds ? kWidth / 16 : 0); ++step) {
          load_matrices(held[0][m][step], fragment_at<kWidth>(base, by_columns, warp_row + 16 * m, step));
          load_matrices(held[1][m][step],
                        fragment_at<kWidth>(base + kOwn, by_columns, warp_row + 16 * m, step));
        }
      }
    }
    const bool hides = key + kKeys > (args.causal ? min(work.count, work.row + warp_row) : work.count);
    KeepDraw<kM> next_keep(args, work, warp_row, key + kKeys);
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step) {
      if (key + 16 * step >= end) break;
      float x[kM][2][4], y[kM][2][4];
      clear(x);
      clear(y);
#pragma unroll
      for (int d = 0; d < kWidth / 16; ++d) {
        uint32_t b[4], c[4];
        load_matrices(b, fragment_at<kWidth>(k, by_rows, 16 * step, d));
        load_matrices(c, fragment_at<kWidth>(v, by_rows, 16 * step, d));
#pragma unroll
        for (int m = 0; m < kM; ++m) {
          uint32_t q[4], d_o[4];
          own(q, 0, m, d);
          own(d_o, 1, m, d);
          multiply_add<kType>(x[m][0], q, b[0], b[1]);
          multiply_add<kType>(x[m][1], q, b[2], b[3]);
          multiply_add<kType>(y[m][0], d_o, c[0], c[1]);
          multiply_add<kType>(y[m][1], d_o, c[2], c[3]);
        }
        if constexpr (kDropout) {
          constexpr int kPartsOfGroup = kWidth < 64 ? 64 / kWidth : 1;
#pragma unroll
          for (int i = 0; i < kPartsOfGroup; ++i) {
            const int part = (step * kWidth / 16 + d) * kPartsOfGroup + i;
            if (part < KeepDraw<kM>::kParts) next_keep.draw(args, dropout, part);
          }
        }
      }
      if (hides) hide_keys<kM>(args, work, work.row + warp_row, key + 16 * step, x);
      if (reaches_far(args.window, work.row + warp_row, 16 * kM, key + 16 * step, 16)) {
        hide_far<kM>(args.window, work.row + warp_row, key + 16 * step, x);
      }
      uint32_t d_x[16 / kDepth<kType>][kM][4];
      differentiate<kType, kM, kDropout>(args, rows, exponent, keep, step, x, y, d_x);
#pragma unroll
      for (int part = 0; part < 16 / kDepth<kType>; ++part) {
        multiply_by_rows<kType, kDim>(d_x[part], k, of_keys, 16 * step + kDepth<kType> * part, d_q);
      }
    }
    if constexpr (kDropout) {
      keep.store(args, work, warp_row, key);
      keep = next_keep;
    }
  }
  if (!is_used) return;
  float factor[kM][2];
#pragma unroll
  for (int m = 0; m < kM; ++m) factor[m][0] = factor[m][1] = args.scale;
  store_rows<kType, kDim, kM>(args, work, args.d_q, args.d_q_stride, shared, lane_offset<kWidth>, d_q,
                              factor);
#endif
}

template <DType kType, int kDim, int kM>
void launch(const AttentionKernelArgs& args, CudaStream stream) {
  launch_on_grid(args.dropout ? attention_dq_cuda_mma_kernel<kType, kDim, kM, true>
                              : attention_dq_cuda_mma_kernel<kType, kDim, kM, false>,
                 64 * kM, args.heads, kMmaThreads, dq_mma_bytes(kHalves<kType, kDim>, 64 * kM), args, stream);
  PLIMSOLL_CHECK_LAUNCH("attention_dq_cuda_mma");
}

}  // namespace
}  // namespace attention

void launch_attention_dq_mma(const AttentionKernelArgs& args, int rows, CudaStream stream) {
  attention::launch_mma<1>(
      args, rows, [&]<DType kType, int kDim, int kM>() { attention::launch<kType, kDim, kM>(args, stream); });
}

}  // namespace plimsoll
