#include "kernels/element_wise/cuda/column_sums.cuh"
#include "kernels/element_wise/cuda/reductions.cuh"
#include "kernels/layer_norm/cuda/norm_rows.cuh"

namespace plimsoll::cuda {
namespace {

// A group of warps holds a row, eight elements in each thread; a block is a few groups, and each group takes
// kRows rows at a time, all of them loaded before the first is computed.
constexpr int kElements = 8;
constexpr int kColumnsPerWarp = 32 * kElements;
constexpr int kSmallThreads = 256;
constexpr int kLargeThreads = 512;
static_assert(kMaxNormCudaColumns <= kLargeThreads / 32 * kColumnsPerWarp);

// What a thread keeps of its columns while it walks over rows.
struct ColumnState {
  float gain[kElements];
  float d_gain[kElements] = {};
  float d_beta[kElements] = {};
  float d_bias[kElements] = {};
};

// Of kRows rows: g = d_y + d_y2, and x_hat as it lies in memory, which takes fewer registers.
template <typename T, int N, int kRows>
struct Rows {
  static constexpr int kPacks = kElements / N;
  float g[kRows][kPacks][N];
  Raw<T, N> x_hat[kRows][kPacks];
  float rstd[kRows];
};

struct Place {
  int64_t begin, end;   // rows of the block
  int thread, threads;  // within the group
  int group, groups;
};

template <typename T, int N, int kRows>
__device__ __forceinline__ void load_rows(const NormBwd& a, const Place& at, int64_t first,
                                          Rows<T, N, kRows>& rows) {
  constexpr int kPacks = kElements / N;
  Raw<T, N> raw_g[kRows][kPacks] = {}, raw_g2[kRows][kPacks] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int64_t row = first + r * at.groups;
    rows.rstd[r] = row < at.end ? a.rstd[row] : 0.0f;
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      const int c = (at.thread + j * at.threads) * N;
      rows.x_hat[r][j] = {};
      if (row < at.end && c < a.C) {
        raw_g[r][j] = load_raw<T, N>(static_cast<const T*>(a.d_y) + row * a.C + c);
        rows.x_hat[r][j] = load_raw<T, N>(static_cast<const T*>(a.x_hat) + row * a.C + c);
        if (a.d_y2 != nullptr) {
          raw_g2[r][j] = load_raw<T, N>(static_cast<const T*>(a.d_y2) + row * a.C + c);
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      unpack<T, N>(raw_g[r][j], rows.g[r][j]);
      if (a.d_y2 != nullptr) {
        float g2[N];
        unpack<T, N>(raw_g2[r][j], g2);
#pragma unroll
        for (int i = 0; i < N; ++i) rows.g[r][j][i] += g2[i];
      }
    }
  }
}

// Adds to the sums over rows, turns g into g * gain, and gives each row's sums of it and of it times x_hat.
template <typename T, int N, int kRows, bool kSums>
__device__ __forceinline__ void sum_rows(Rows<T, N, kRows>& rows, ColumnState& column,
                                         float (&sums)[2 * kRows]) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    float of_g = 0.0f, of_product = 0.0f;
#pragma unroll
    for (int j = 0; j < kElements / N; ++j) {
      float x_hat[N];
      unpack<T, N>(rows.x_hat[r][j], x_hat);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const int e = j * N + i;
        const float g = rows.g[r][j][i];
        if constexpr (kSums) {
          column.d_gain[e] = fmaf(g, x_hat[i], column.d_gain[e]);
          column.d_beta[e] += g;
        }
        const float scaled = g * column.gain[e];
        rows.g[r][j][i] = scaled;
        of_g += scaled;
        of_product = fmaf(scaled, x_hat[i], of_product);
      }
    }
    sums[2 * r] = of_g;
    sums[2 * r + 1] = of_product;
  }
}

// The sums of a group's warps, given to all of its threads. `slots`: [groups][warps][2 * kRows] floats that
// no thread uses since the barrier before the last.
template <int kRows>
__device__ __forceinline__ void reduce_over_group(const Place& at, float* slots, float (&sums)[2 * kRows]) {
#pragma unroll
  for (int k = 0; k < 2 * kRows; ++k) sums[k] = warp_sum(sums[k]);
  const int warps = at.threads / 32;
  if (warps == 1) return;
  float* mine = slots + at.group * warps * 2 * kRows;
  if (at.thread % 32 == 0) {
#pragma unroll
    for (int k = 0; k < 2 * kRows; ++k) mine[at.thread / 32 * 2 * kRows + k] = sums[k];
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 2 * kRows; ++k) sums[k] = mine[k];
  for (int warp = 1; warp < warps; ++warp) {
#pragma unroll
    for (int k = 0; k < 2 * kRows; ++k) sums[k] += mine[warp * 2 * kRows + k];
  }
}

template <typename T, int N, int kRows, bool kSums>
__device__ __forceinline__ void store_rows(const NormBwd& a, const Place& at, int64_t first,
                                           const RandomSite& site, const Rows<T, N, kRows>& rows,
                                           const float (&sums)[2 * kRows], ColumnState& column) {
  const auto columns = static_cast<float>(a.C);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int64_t row = first + r * at.groups;
    if (row >= at.end) continue;
    const float mean_g = sums[2 * r] / columns;
    const float mean_product = sums[2 * r + 1] / columns;
#pragma unroll
    for (int j = 0; j < kElements / N; ++j) {
      const int c = (at.thread + j * at.threads) * N;
      if (c >= a.C) continue;
      float d_s[N], x_hat[N];
      unpack<T, N>(rows.x_hat[r][j], x_hat);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        d_s[i] = rows.rstd[r] * fmaf(-x_hat[i], mean_product, rows.g[r][j][i] - mean_g);
      }
      if (a.d_residual != nullptr) store_floats<T, N>(static_cast<T*>(a.d_residual) + row * a.C + c, d_s);
      if (a.dropout.on) a.dropout.apply<N>(site, row * a.C + c, d_s);
      if (a.d_x != nullptr) store_floats<T, N>(static_cast<T*>(a.d_x) + row * a.C + c, d_s);
      if constexpr (kSums) {
#pragma unroll
        for (int i = 0; i < N; ++i) column.d_bias[j * N + i] += d_s[i];
      }
    }
  }
}

// Adds a sum over the groups, in order, and leaves it as the block's partial sum. `shared`: one float for
// each element of the groups after the first.
template <int N>
__device__ __forceinline__ void store_partial(const Place& at, int64_t C, float (&sum)[kElements],
                                              float* shared, float* partial) {
  const int stride = at.threads * kElements;
  __syncthreads();
  if (at.group > 0) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      shared[(at.group - 1) * stride + i * at.threads + at.thread] = sum[i];
    }
  }
  __syncthreads();
  if (at.group > 0) return;
  for (int group = 1; group < at.groups; ++group) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      sum[i] += shared[(group - 1) * stride + i * at.threads + at.thread];
    }
  }
#pragma unroll
  for (int j = 0; j < kElements / N; ++j) {
    const int c = (at.thread + j * at.threads) * N;
    if (c >= C) continue;
#pragma unroll
    for (int i = 0; i < N; ++i) partial[c + i] = sum[j * N + i];
  }
}

// blockDim = (threads of a group, groups). A thread's columns are the same in every row.
template <typename T, int N, int kRows, int kThreads, bool kSums>
__global__ void __launch_bounds__(kThreads, kThreads == kSmallThreads ? 2 : 1)
    norm_bwd_kernel(const __grid_constant__ NormBwd a, int64_t rows_per_block, PartialSums partials) {
  __shared__ float slots[2][kThreads / 32 * 2 * kRows];
  __shared__ float shared[kThreads == kSmallThreads ? kSmallThreads * kElements : 1];
  Place at;
  at.begin = static_cast<int64_t>(blockIdx.x) * rows_per_block;
  at.end = at.begin + rows_per_block < a.T ? at.begin + rows_per_block : a.T;
  at.thread = static_cast<int>(threadIdx.x);
  at.threads = static_cast<int>(blockDim.x);
  at.group = static_cast<int>(threadIdx.y);
  at.groups = static_cast<int>(blockDim.y);
  ColumnState column;
#pragma unroll
  for (int j = 0; j < kElements / N; ++j) {
    const int c = (at.thread + j * at.threads) * N;
    float gain[N];
#pragma unroll
    for (int i = 0; i < N; ++i) gain[i] = 1.0f;
    if (a.gain.data != nullptr && c < a.C) a.gain.load<N>(c, gain);
#pragma unroll
    for (int i = 0; i < N; ++i) column.gain[j * N + i] = gain[i];
  }
  const RandomSite site = a.dropout.site();
  int turn = 0;
  for (int64_t base = at.begin; base < at.end; base += at.groups * kRows) {
    const int64_t first = base + at.group;
    Rows<T, N, kRows> rows;
    float sums[2 * kRows];
    load_rows<T, N, kRows>(a, at, first, rows);
    sum_rows<T, N, kRows, kSums>(rows, column, sums);
    reduce_over_group<kRows>(at, slots[turn], sums);
    turn ^= 1;
    store_rows<T, N, kRows, kSums>(a, at, first, site, rows, sums, column);
  }
  if constexpr (kSums) {
    store_partial<N>(at, a.C, column.d_gain, shared, partials.row(0, blockIdx.x));
    store_partial<N>(at, a.C, column.d_beta, shared, partials.row(1, blockIdx.x));
    store_partial<N>(at, a.C, column.d_bias, shared, partials.row(2, blockIdx.x));
  }
}

template <typename T, int N, int kRows, int kThreads>
void launch_as(const NormBwd& operands, const NormBwdSums& sums, CudaStream stream) {
  const int64_t warps = ceil_div(operands.C, kColumnsPerWarp);
  const int64_t groups = kThreads == kSmallThreads ? kSmallThreads / 32 / warps : 1;
  const dim3 block(static_cast<unsigned>(32 * warps), static_cast<unsigned>(groups));
  if (!sums.any()) {
    const int64_t rows = groups * kRows;
    const auto blocks = static_cast<unsigned>(ceil_div(operands.T, rows));
    norm_bwd_kernel<T, N, kRows, kThreads, false><<<blocks, block, 0, stream>>>(operands, rows, {});
    PLIMSOLL_CHECK_LAUNCH("norm_bwd");
    return;
  }
  const RowBlocks cut = norm_bwd_cuda_blocks(operands.T);
  const PartialSums partials = partial_sums(sums.scratch, cut.num_blocks, operands.C);
  norm_bwd_kernel<T, N, kRows, kThreads, true>
      <<<static_cast<unsigned>(cut.num_blocks), block, 0, stream>>>(operands, cut.rows_per_block, partials);
  PLIMSOLL_CHECK_LAUNCH("norm_bwd");
  add_up_partials(partials,
                  {{any_floats_out(sums.d_gain), any_floats_out(sums.d_beta), any_floats_out(sums.d_bias)}},
                  3, operands.C, sums.add, stream);
}

template <typename T, int N>
void launch_packs(const NormBwd& operands, const NormBwdSums& sums, CudaStream stream) {
  if (operands.C <= kSmallThreads / 32 * kColumnsPerWarp) {
    // Four packs of 16 bytes in flight for each operand.
    launch_as<T, N, N == 8 ? 4 : 2, kSmallThreads>(operands, sums, stream);
  } else {
    launch_as<T, N, 1, kLargeThreads>(operands, sums, stream);
  }
}

}  // namespace

void launch_norm_bwd(const NormBwd& operands, const NormBwdSums& sums, DType dtype, CudaStream stream) {
  if (operands.T <= 0) return;
  with_cuda_type(dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int kN = kPack<T>;
    const bool packs =
        operands.C % kN == 0 && aligned_to_packs({operands.d_y, operands.d_y2, operands.x_hat,
                                                  operands.gain.data, operands.d_residual, operands.d_x});
    if (packs) {
      launch_packs<T, kN>(operands, sums, stream);
    } else {
      launch_packs<T, 1>(operands, sums, stream);
    }
  });
}

}  // namespace plimsoll::cuda
