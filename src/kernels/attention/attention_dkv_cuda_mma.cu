// Computes d_k and d_v on tensor cores, the second kernel of the backward pass. A thread block computes a tile of key rows and loops over
// the queries of the heads that read its head of k and v. The rows of its products are keys and the columns are queries. The rounded
// probabilities and d_x are therefore already in the registers of the left operands of the products for d_v and d_k, and need no transfer
// through shared memory.
#include <cstddef>

#include "device/cuda/cuda_error.h"
#include "kernels/attention/attention_grid.cuh"
#include "kernels/attention/attention_steps.cuh"

namespace plimsoll {
namespace attention {
namespace {

// Shared memory: k and v, two tiles each of q and d_o, then lse, delta and the dropout bits of both tiles of queries.
constexpr int dkv_mma_bytes(int dim, int rows) {
  return 2 * dim * (2 * rows + 4 * kQueries) + 2 * 4 * (2 * kQueries + rows / 32 * kQueries);
}

// Adds to acc[m] the products of a warp's rows of the tile `left` with 8 * kN rows of `tile`: dot products over the elements of a head.
template <DType kType, int kWidth, int kM, int kN>
__device__ void multiply_rows(uint32_t left, uint32_t by_columns, int warp_row, uint32_t tile,
                              uint32_t by_rows, int row, float (&acc)[kM][kN][4]) {
#pragma unroll
  for (int d = 0; d < kWidth / 16; ++d) {
    uint32_t a[kM][4];
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      load_matrices(a[m], fragment_at<kWidth>(left, by_columns, warp_row + 16 * m, d));
    }
#pragma unroll
    for (int n = 0; n < kN; n += 2) {
      uint32_t b[4];
      load_matrices(b, fragment_at<kWidth>(tile, by_rows, row + 8 * n, d));
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        multiply_add<kType>(acc[m][n], a[m], b[0], b[1]);
        multiply_add<kType>(acc[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

template <DType kType, int kDim, int kM, bool kDropout>
__global__ __launch_bounds__(kMmaThreads) void attention_dkv_cuda_mma_kernel(const AttentionKernelArgs args) {
#ifdef PLIMSOLL_HAS_MMA
  constexpr int kRows = 64 * kM;
  // The number of queries that a warp multiplies at a time. A larger number reuses the loaded rows of k and v more often; this is the
  // largest that the registers allow.
  constexpr int kStep = kHalves<kType, kDim> * kM <= 128 ? 32 : 16;
  const Work work = find_work(args, kRows, TileOrder::kForward);
  if (work.is_tail) {
    clear_tail(args, work, args.d_k, args.d_k_stride);
    clear_tail(args, work, args.d_v, args.d_v_stride);
    return;
  }
  if (work.row >= work.count) return;
  extern __shared__ __align__(128) std::byte shared[];
  constexpr int kWidth = kHalves<kType, kDim>;
  constexpr uint32_t kTile = kQueries * kWidth * 2, kOwn = kRows * kWidth * 2;
  // The number of 32-bit values per tile of queries: lse, delta and the dropout bits.
  constexpr int kValues = 2 * kQueries + kRows / 32 * kQueries;
  const uint32_t base = shared_address(shared), queries = base + 2 * kOwn;
  float* const row_values = reinterpret_cast<float*>(shared + 2 * kOwn + 4 * kTile);
  const Dropout dropout = load_dropout(args);
  const uint32_t by_columns = lane_by_columns<kWidth>(), by_rows = lane_by_rows<kWidth>();
  const ColumnLanes<kType, kDim> of_queries;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16 * kM;
  // The position of the dropout bit of this lane's first key in a word with the bits of 32 keys. The next three bits of the word belong to
  // the keys 8, 16 and 24 rows after that key.
  const int keep_of_row = keep_place(warp_row % 32 + static_cast<int>(threadIdx.x) % 32 / 4);

  const auto fetch = [&](int head, int row, int stage) {
    Work of_query = work;
    of_query.head = head;
    copy_tile<kType, kDim, kQueries>(args, of_query, args.q, args.q_stride, row, queries + stage * kTile);
    copy_tile<kType, kDim, kQueries>(args, of_query, args.d_o,
                                     static_cast<int64_t>(args.heads) * args.head_dim, row,
                                     queries + (2 + stage) * kTile);
    fetch_row_values<kRows, kMmaThreads, kDropout>(args, of_query, dropout, row,
                                                   row_values + stage * kValues);
  };
  copy_tile<kType, kDim, kRows>(args, work, args.k, args.k_stride, work.row, base);
  copy_tile<kType, kDim, kRows>(args, work, args.v, args.v_stride, work.row, base + kOwn);
  // The loop starts with the tile of queries that contains the first query that sees the block's first key. Under a causal mask this is the
  // query at the position of that key.
  const int start = first_query(args, work.row) / kQueries * kQueries;
  const int end = end_query(args, work, work.row + kRows - 1);
  const int first_head = work.head * args.group, end_head = first_head + args.group;
  fetch(first_head, start, 0);

  float d_k[kM][kDim / 8][4], d_v[kM][kDim / 8][4];
  clear(d_k);
  clear(d_v);
  const bool is_used = work.row + warp_row < work.count;
  const float exponent = args.scale * kLog2E;
  // The range of queries that see at least one key row of the warp.
  const int warp_start = first_query(args, work.row + warp_row);
  const int warp_end = end_query(args, work, work.row + warp_row + 16 * kM - 1);
  int stage = 0;
  for (int head = first_head; head < end_head; ++head) {
    for (int row = start; row < end; row += kQueries, stage ^= 1) {
      const uint32_t q = queries + stage * kTile, d_o = queries + (2 + stage) * kTile;
      wait_for_copies();
      if (row == start && head == first_head) {
        round_tile<kType, kDim, kRows>(base);
        round_tile<kType, kDim, kRows>(base + kOwn);
      }
      round_tile<kType, kDim, kQueries>(q);
      round_tile<kType, kDim, kQueries>(d_o);
      __syncthreads();
      if (row + kQueries < end) {
        fetch(head, row + kQueries, stage ^ 1);
      } else if (head + 1 < end_head) {
        fetch(head + 1, start, stage ^ 1);
      }
      if (!is_used) continue;
      const float* values = row_values + stage * kValues;
      const auto* keep = reinterpret_cast<const uint32_t*>(values + 2 * kQueries) + warp_row / 32 * kQueries;
#pragma unroll 1
      for (int step = 0; step < kQueries; step += kStep) {
        const int query = row + step;
        if (query >= warp_end || query + kStep <= warp_start) continue;
        float x[kM][kStep / 8][4], y[kM][kStep / 8][4];
        clear(x);
        clear(y);
        multiply_rows<kType, kWidth>(base, by_columns, warp_row, q, by_rows, step, x);
        multiply_rows<kType, kWidth>(base + kOwn, by_columns, warp_row, d_o, by_rows, step, y);
        if (args.causal && query < work.row + warp_row + 16 * kM) {
          hide_queries(work.row + warp_row, query, x);
        }
        if (reaches_far(args.window, work.row + warp_row, 16 * kM, query, kStep)) {
          hide_far(args.window, work.row + warp_row, query, x);
        }
        constexpr int kParts = kStep / kDepth<kType>;
        uint32_t p[kParts][kM][4], d_x[kParts][kM][4];
        differentiate<kType, kM, kStep / 8, kDropout>(args, exponent, values + step, keep + step, keep_of_row,
                                                      x, y, p, d_x);
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          multiply_by_rows<kType, kDim>(p[part], d_o, of_queries, step + kDepth<kType> * part, d_v);
        }
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          multiply_by_rows<kType, kDim>(d_x[part], q, of_queries, step + kDepth<kType> * part, d_k);
        }
      }
    }
  }
  if (!is_used) return;
  float factor[kM][2];
#pragma unroll
  for (int m = 0; m < kM; ++m) factor[m][0] = factor[m][1] = args.scale;
  store_rows<kType, kDim, kM>(args, work, args.d_k, args.d_k_stride, shared, lane_offset<kWidth>, d_k,
                              factor);
#pragma unroll
  for (int m = 0; m < kM; ++m) factor[m][0] = factor[m][1] = args.keep_scale;
  store_rows<kType, kDim, kM>(args, work, args.d_v, args.d_v_stride, shared + kOwn, lane_offset<kWidth>, d_v,
                              factor);
#endif
}

template <DType kType, int kDim, int kM>
void launch(const AttentionKernelArgs& args, CudaStream stream) {
  launch_on_grid(args.dropout ? attention_dkv_cuda_mma_kernel<kType, kDim, kM, true>
                              : attention_dkv_cuda_mma_kernel<kType, kDim, kM, false>,
                 64 * kM, args.kv_heads, kMmaThreads, dkv_mma_bytes(kHalves<kType, kDim>, 64 * kM), args,
                 stream);
  PLIMSOLL_CHECK_LAUNCH("attention_dkv_cuda_mma");
}

}  // namespace
}  // namespace attention

void launch_attention_dkv_mma(const AttentionKernelArgs& args, int rows, CudaStream stream) {
  attention::launch_mma<1>(
      args, rows, [&]<DType kType, int kDim, int kM>() { attention::launch<kType, kDim, kM>(args, stream); });
}

}  // namespace plimsoll
