#include "device/cuda/cuda_error.h"
#include "kernels/attention/attention_grid.cuh"
#include "kernels/attention/attention_tiles.cuh"

namespace plimsoll {
namespace attention {
namespace {

// Masks one tile of scores, computes its exponentials, applies dropout and rescales the results of earlier tiles: the online softmax of Dao
// et al., arXiv 2205.14135, algorithm 1. Each thread keeps partial sums over its own elements, which are added up after the last tile.
template <int kR, int kN, int kWidth>
__device__ void online_softmax_step(const AttentionKernelArgs& args, const Work& work, const Dropout& dropout,
                                    int key, int ty, int tx, float (&score)[kR][4 * kN], float (&largest)[kR],
                                    float (&sum)[kR], float (&out)[kR][kWidth]) {
#pragma unroll
  for (int i = 0; i < kR; ++i) {
    const int row = work.row + kR * ty + i;
    const int first = first_key(args, row), end = end_key(args, work, row);
    float top = largest[i];
#pragma unroll
    for (int j = 0; j < 4 * kN; ++j) {
      const int column = key + 4 * tx + 32 * (j / 4) + j % 4;
      score[i][j] = column >= first && column < end ? score[i][j] * args.scale : -INFINITY;
      top = fmaxf(top, score[i][j]);
    }
    top = max_of_group(top);
    const float old = expf(largest[i] - top);
    largest[i] = top;
    sum[i] *= old;
#pragma unroll
    for (int c = 0; c < kWidth; ++c) out[i][c] *= old;
    uint32_t words[kN] = {};
    if (args.dropout) {
      keep_of_group<kN>(dropout, keep_row(args, work.first + row, work.head), key, tx, words);
    }
#pragma unroll
    for (int n = 0; n < kN; ++n) {
      const uint32_t keep = args.dropout ? keep_of_columns(words[n], tx) : 0xffffffffu;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float p = expf(score[i][4 * n + e] - top);
        sum[i] += p;
        score[i][4 * n + e] = (keep >> 4 * e & 1) != 0 ? p : 0.0f;
      }
    }
  }
}

template <int kDim, int kR, int kKeys>
__global__ __launch_bounds__(kTileThreads) void attention_fwd_cuda_tiled_kernel(
    const AttentionKernelArgs args) {
  constexpr int kRows = 16 * kR;
  const Work work = find_work(args, kRows, args.causal ? TileOrder::kBackward : TileOrder::kForward);
  if (work.is_tail) {
    clear_tail(args, work, args.o, static_cast<int64_t>(args.heads) * args.head_dim);
    if (args.lse != nullptr) clear_tail_of_row_values(args, work, args.lse);
    return;
  }
  if (work.row >= work.count) return;
  extern __shared__ float4 tiles[];
  float4* q = tiles;
  float4* k = q + kRows * kDim / 4;
  float4* v = k + kKeys * kDim / 4;
  float4* p = v + kKeys * kDim / 4;
  const int tx = static_cast<int>(threadIdx.x) % 8, ty = static_cast<int>(threadIdx.x) / 8;
  const Dropout dropout = load_dropout(args);

  float out[kR][kDim / 8], largest[kR], sum[kR];
  clear(out);
  clear(sum);
#pragma unroll
  for (float& x : largest) x = kNoScore;
  const Work of_keys = work_of_keys(args, work);
  const int begin = first_key(args, work.row) / kKeys * kKeys,
            end = end_key(args, work, work.row + kRows - 1);
  fetch_tile<kDim, kRows>(args, work, args.q, args.q_stride, work.row, q);
  fetch_tile<kDim, kKeys>(args, of_keys, args.k, args.k_stride, begin, k);
  for (int key = begin; key < end; key += kKeys) {
    // The loop overlaps copies with products: the values of a tile are copied while its scores are computed, and the keys of the next tile
    // are copied while the values are summed. This call waits for the keys.
    wait_for_fetches();
    __syncthreads();
    fetch_tile<kDim, kKeys>(args, of_keys, args.v, args.v_stride, key, v);
    float score[kR][kKeys / 8];
    clear(score);
    add_rows_by_rows<kDim, kR, kKeys / 32>(q, k, ty, tx, score);
    online_softmax_step<kR, kKeys / 32, kDim / 8>(args, work, dropout, key, ty, tx, score, largest, sum, out);
    store_scores<kKeys, kR>(score, ty, tx, p);
    wait_for_fetches();
    __syncthreads();
    if (key + kKeys < end) fetch_tile<kDim, kKeys>(args, of_keys, args.k, args.k_stride, key + kKeys, k);
    add_rows_by_columns<kKeys, kDim, kR>(p, v, ty, tx, out);
  }

  float factor[kR];
#pragma unroll
  for (int i = 0; i < kR; ++i) {
    const float total = sum_of_group(sum[i]);
    factor[i] = args.keep_scale / total;
    const int row = work.row + kR * ty + i;
    if (args.lse != nullptr && tx == 0 && row < work.count) {
      args.lse[static_cast<int64_t>(work.head) * args.tokens + work.first + row] = largest[i] + logf(total);
    }
  }
  store_result<kDim, kR>(args, work, args.o, static_cast<int64_t>(args.heads) * args.head_dim, ty, tx, out,
                         factor);
}

template <int kDim, int kR, int kKeys>
void launch(const AttentionKernelArgs& args, CudaStream stream) {
  launch_on_grid(attention_fwd_cuda_tiled_kernel<kDim, kR, kKeys>, 16 * kR, args.heads, kTileThreads,
                 fwd_tile_bytes(kDim, 16 * kR, kKeys), args, stream);
  PLIMSOLL_CHECK_LAUNCH("attention_fwd_cuda_tiled");
}

}  // namespace
}  // namespace attention

void launch_attention_fwd_tiled(const AttentionKernelArgs& args, CudaStream stream) {
  using namespace attention;
  const int64_t shared = shared_bytes_of_block();
  // For sequences of at most 64 tokens on average, thread blocks compute fewer rows.
  const bool is_short = args.tokens <= 64 * args.sequences;
  if (args.head_dim <= 32 && is_short) {
    launch<32, 4, 64>(args, stream);
  } else if (args.head_dim <= 32) {
    launch<32, 8, 64>(args, stream);
  } else if (args.head_dim <= 64 && !is_short && shared >= fwd_tile_bytes(64, 128, 64)) {
    launch<64, 8, 64>(args, stream);
  } else if (args.head_dim <= 64) {
    launch<64, 4, 64>(args, stream);
  } else {
    launch<128, 4, 32>(args, stream);
  }
}

}  // namespace plimsoll
