#include "kernels/element_wise/cuda/attributes.cuh"
#include "kernels/element_wise/cuda/column_sums.cuh"
#include "kernels/layer_norm/cuda/norm_bwd_rows.cuh"
#include "kernels/layer_norm/cuda/norm_bwd_sums.cuh"

namespace plimsoll::cuda {
namespace norm_bwd {
namespace {

// Adds this thread's elements of the rows to its sums for d_gain and d_beta, replaces g = d_y + d_y2 with g * gain, and returns for each
// row the thread's parts of the sums of g * gain and of g * gain * x_hat.
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

// Draws the random numbers of dropout for kRows rows. They do not depend on the contents of the rows, so they are drawn before the rows'
// sums are complete.
template <int N, int kRows>
__device__ __forceinline__ void draw_numbers(const NormBwd& a, const Place& at, int first,
                                             const RandomSite& site,
                                             uint32_t (&numbers)[kRows * kElements / N][(N + 1) / 2]) {
  constexpr int kPacks = kElements / N;
  int64_t elements[kRows * kPacks];
#pragma unroll
  for (int k = 0; k < kRows * kPacks; ++k) {
    elements[k] = row_of(at, first, k / kPacks) * a.C + (at.thread + k % kPacks * at.threads) * N;
  }
  a.dropout.draw<kRows * kPacks, N>(site, elements, numbers);
}

// The values that store_rows needs in addition to the rows: rstd, the two sums of each row, and the random numbers of dropout.
template <int N, int kRows>
struct RowGroupValues {
  float rstd[kRows];
  float sums[2 * kRows];
  // The random numbers for elements that are loaded in vectors. If elements are loaded one by one (N = 1), this array is unused, and the
  // random number of an element is drawn when its gradient is stored.
  uint32_t numbers[kRows * kElements / N][(N + 1) / 2];
};

template <typename T, int N, int kRows, bool kSums>
__device__ __forceinline__ void store_rows(const NormBwd& a, const Destinations<T>& to, const Place& at,
                                           int first, const RandomSite& site, float inverse_columns,
                                           const Rows<T, N, kRows>& rows,
                                           const RowGroupValues<N, kRows>& group_values,
                                           ColumnState& column) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int row = row_of(at, first, r);
    if (row >= at.rows) continue;
    const float of_mean = -(group_values.sums[2 * r] * inverse_columns) * group_values.rstd[r];
    const float of_x_hat = -(group_values.sums[2 * r + 1] * inverse_columns) * group_values.rstd[r];
#pragma unroll
    for (int j = 0; j < kElements / N; ++j) {
      const int c = (at.thread + j * at.threads) * N;
      if (c >= a.C) continue;
      float d_s[N], x_hat[N];
      unpack<T, N>(rows.x_hat[r][j], x_hat);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        d_s[i] = fmaf(x_hat[i], of_x_hat, fmaf(rows.g[r][j][i], group_values.rstd[r], of_mean));
      }
      if (a.d_sum_term != nullptr) {
        float term[N];
        unpack<T, N>(rows.d_sum_term[r][j], term);
#pragma unroll
        for (int i = 0; i < N; ++i) d_s[i] += term[i];
      }
      const uint32_t element = element_of(at, r, a.C, c);
      if (a.d_residual != nullptr) store_floats<T, N>(to.d_residual + element, d_s);
      if constexpr (N == 1) {
        if (a.dropout.on) a.dropout.apply<N>(site, row * a.C + c, d_s);
      } else if (a.dropout.on) {
        a.dropout.apply<N>(group_values.numbers[r * (kElements / N) + j], d_s);
      }
      if (a.d_x != nullptr) store_floats<T, N>(to.d_x + element, d_s);
      if constexpr (kSums) {
#pragma unroll
        for (int i = 0; i < N; ++i) column.d_bias[j * N + i] += d_s[i];
      }
    }
  }
}

// Computes the gradients. Launched with blockDim = (threads per group, groups per block). A thread processes the same columns in every row.
// If kStages > 0, the launch needs ring_bytes() of dynamic shared memory.
template <typename T, int N, int kRows, int kThreads, int kStages, bool kSums>
__global__ void __launch_bounds__(kThreads, kThreads == kSmallThreads ? 2 : 1)
    norm_bwd_kernel(const __grid_constant__ NormBwd a, PartialSums partials) {
  if constexpr (kSums) let_next_launch_begin();
  extern __shared__ uint4 ring_memory[];
  __shared__ float slots[2][kThreads / 32 * 2 * kRows];
  __shared__ float shared[kThreads == kSmallThreads ? kSmallThreads * kElements : 1];
  Place at;
  at.rows = static_cast<int>(a.T);
  at.thread = static_cast<int>(threadIdx.x);
  at.threads = static_cast<int>(blockDim.x);
  at.group = static_cast<int>(threadIdx.y);
  at.groups = static_cast<int>(blockDim.y);
  const int turn_rows = at.groups * kRows;
  const int step = static_cast<int>(gridDim.x) * turn_rows;
  const int64_t step_elements = step * a.C;
  int first = static_cast<int>(blockIdx.x) * turn_rows;
  Sources<T> sources(a, first * a.C);
  Destinations<T> destinations(a, first * a.C);
  float next_rstd[kRows];
  load_rstd<kRows>(a.rstd, at, first, next_rstd);
  [[maybe_unused]] const Ring<T, kRows> ring{ring_memory + at.group * at.threads + at.thread,
                                             a.d_y2 != nullptr, a.d_sum_term != nullptr};
  [[maybe_unused]] int stage = 0;
#pragma unroll
  for (int ahead = 0; ahead < kStages - 1; ++ahead) {
    ring.fetch(sources, a.C, at, first + ahead * step, ahead);
    sources.advance(step_elements);
  }
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
  const float inverse_columns = 1.0f / static_cast<float>(a.C);
  int slot = 0;
#pragma unroll 1
  for (; first < at.rows; first += step) {
    Rows<T, N, kRows> rows;
    RowGroupValues<N, kRows> group_values;
#pragma unroll
    for (int r = 0; r < kRows; ++r) group_values.rstd[r] = next_rstd[r];
    load_rstd<kRows>(a.rstd, at, first + step, next_rstd);
    if constexpr (kStages > 0) {
      ring.fetch(sources, a.C, at, first + (kStages - 1) * step, stage == 0 ? kStages - 1 : stage - 1);
      wait_for_copies<kStages - 1>();
      read_rows<T, kRows>(ring, stage, rows);
      stage = stage + 1 == kStages ? 0 : stage + 1;
    } else {
      load_rows<T, N, kRows>(a, sources, at, first, rows);
    }
    sum_rows<T, N, kRows, kSums>(rows, column, group_values.sums);
    if (N > 1 && a.dropout.on) draw_numbers<N, kRows>(a, at, first, site, group_values.numbers);
    reduce_over_group<kRows>(at, slots[slot], group_values.sums);
    slot ^= 1;
    store_rows<T, N, kRows, kSums>(a, destinations, at, first, site, inverse_columns, rows, group_values,
                                   column);
    sources.advance(step_elements);
    destinations.advance(step_elements);
  }
  if constexpr (kSums) {
    store_partial<N>(at, a.C, column.d_gain, shared, partials.row(0, blockIdx.x));
    store_partial<N>(at, a.C, column.d_beta, shared, partials.row(1, blockIdx.x));
    store_partial<N>(at, a.C, column.d_bias, shared, partials.row(2, blockIdx.x));
  }
}

// Returns the bytes of dynamic shared memory for the ring buffer of a thread block of kSmallThreads threads.
template <typename T, int kRows>
int64_t ring_bytes(const NormBwd& operands) {
  const int64_t tensors = 2 + int64_t{operands.d_y2 != nullptr} + int64_t{operands.d_sum_term != nullptr};
  return kRingStages * tensors * kRows * (kElements / kPack<T>)*kSmallThreads * 16;
}
inline constexpr int64_t kOwnSharedBytes = 12288;

template <typename T, int N, int kRows, int kThreads, int kStages, bool kSums>
void launch_as(const NormBwd& operands, const NormBwdSums& sums, CudaStream stream) {
  const int64_t warps = ceil_div(operands.C, kColumnsPerWarp);
  const int64_t groups = kThreads == kSmallThreads ? kSmallThreads / 32 / warps : 1;
  const dim3 block(static_cast<unsigned>(32 * warps), static_cast<unsigned>(groups));
  const auto kernel = norm_bwd_kernel<T, N, kRows, kThreads, kStages, kSums>;
  size_t shared_bytes = 0;
  if constexpr (kStages > 0) {
    shared_bytes = static_cast<size_t>(ring_bytes<T, kRows>(operands));
    PLIMSOLL_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                       cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       static_cast<int>(shared_bytes)));
  }
  // If sums over rows are requested, there are only as many blocks as partial sums, and each processes many rows. Otherwise there are
  // enough blocks for one iteration each.
  const int64_t blocks =
      kSums ? norm_bwd_cuda_blocks(operands.T).num_blocks : ceil_div(operands.T, groups * kRows);
  const PartialSums partials = partial_sums(sums.scratch, blocks, operands.C);
  kernel<<<static_cast<unsigned>(blocks), block, shared_bytes, stream>>>(operands, partials);
  PLIMSOLL_CHECK_LAUNCH("norm_bwd");
  if constexpr (kSums) {
    add_up_partials(partials,
                    {{any_floats_out(sums.d_gain), any_floats_out(sums.d_beta), any_floats_out(sums.d_bias)}},
                    3, operands.C, sums.add, stream);
  }
}

// Chooses the variant of the kernel. Each iteration of a thread loads two vectors of 16 bytes per operand at a time, or four without the
// ring buffer.
template <typename T, int N, bool kSums>
void launch_packs(const NormBwd& operands, const NormBwdSums& sums, CudaStream stream) {
  constexpr int kRows = sizeof(T) == 2 ? 2 : 1;
  // GPUs of compute capability 7.5 have less shared memory. If the ring buffer does not fit, the variant without it is used.
  const bool has_ring = N > 1 && kSums;
  const bool ring_fits = ring_bytes<T, kRows>(operands) + kOwnSharedBytes <=
                         device_attribute<cudaDevAttrMaxSharedMemoryPerBlockOptin>();
  if (operands.C > kSmallThreads / 32 * kColumnsPerWarp || (has_ring && !ring_fits)) {
    launch_as<T, N, 1, kLargeThreads, 0, kSums>(operands, sums, stream);
  } else if constexpr (N == 1) {
    launch_as<T, N, 1, kSmallThreads, 0, kSums>(operands, sums, stream);
  } else if constexpr (kSums) {
    launch_as<T, N, kRows, kSmallThreads, kRingStages, kSums>(operands, sums, stream);
  } else {
    launch_as<T, N, 2 * kRows, kSmallThreads, 0, kSums>(operands, sums, stream);
  }
}

template <typename T, int N>
void launch_sums(const NormBwd& operands, const NormBwdSums& sums, CudaStream stream) {
  if (sums.any()) {
    launch_packs<T, N, true>(operands, sums, stream);
  } else {
    launch_packs<T, N, false>(operands, sums, stream);
  }
}

}  // namespace
}  // namespace norm_bwd

void launch_norm_bwd(const NormBwd& operands, const NormBwdSums& sums, DType dtype, CudaStream stream) {
  if (operands.T <= 0) return;
  // The kernel numbers rows in 32 bits and computes numbers of some rows after the last one, so the limit is lower than 2^31.
  PLIMSOLL_CHECK(operands.T < int64_t{1} << 30,
                 "norm_bwd: the number of rows must be less than 2^30, but is {}", operands.T);
  with_cuda_type(dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int kN = kPack<T>;
    const bool packs =
        operands.C % kN == 0 &&
        aligned_to_packs({operands.d_y, operands.d_y2, operands.x_hat, operands.gain.data,
                          operands.d_sum_term, operands.d_residual, operands.d_x, sums.scratch.data});
    if (packs) {
      norm_bwd::launch_sums<T, kN>(operands, sums, stream);
    } else {
      norm_bwd::launch_sums<T, 1>(operands, sums, stream);
    }
  });
}

}  // namespace plimsoll::cuda
