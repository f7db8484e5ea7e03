// Sums over the rows of [T, C] tensors in CUDA kernels: each block adds its rows, and a second launch adds
// the partial sums of the blocks. cuda_row_blocks (element_wise_catalog.h) gives the number of blocks;
// column_sum_cuda_depth describes the order of additions. Thread-safe: no state.
#pragma once

#include "kernels/element_wise/cuda/early_launch.cuh"
#include "kernels/element_wise/cuda/vectors.cuh"
#include "kernels/element_wise/element_wise_catalog.h"

namespace plimsoll::cuda {

inline constexpr int kColumnSumWarps = static_cast<int>(kCudaWarpsPerRowBlock);
// The number of blocks per multiprocessor, chosen such that all blocks of a large tensor run at the same time on a GPU like the H100.
inline constexpr int kColumnSumBlocks = 4;
inline constexpr int kMaxColumnSums = 3;

// The array of partial sums in scratch memory: fp32 [num_sums, num_blocks, stride].
struct PartialSums {
  float* data = nullptr;
  int64_t num_blocks = 0;
  int64_t stride = 0;

  __device__ __forceinline__ float* row(int sum, int64_t block) const {
    return data + (sum * num_blocks + block) * stride;
  }
};
inline PartialSums partial_sums(const View& scratch, int64_t num_blocks, int64_t C) {
  return {static_cast<float*>(scratch.data), num_blocks, cuda_partial_stride(C)};
}

struct SumDestinations {
  AnyFloatsOut sum[kMaxColumnSums];  // destination of the sum; null if the sum is not needed
};

// Adds up the partial sums into the destinations. Defined in column_sums.cu. The previous launch on the stream must be the one that
// computes the partial sums; it may let this launch begin early.
void add_up_partials(const PartialSums& partials, const SumDestinations& to, int num_sums, int64_t C,
                     const AddFlag& add, CudaStream stream);

// Warp w of block i processes row i * kColumnSumWarps + w, and then every row that is one sweep further; a sweep is one row per warp of
// all blocks. The rows that the GPU reads at the same time are therefore adjacent, and memory delivers adjacent rows faster than distant
// ones.
//
// Members of Function: kInputs is the number of tensors, 1 (a) or 2 (a and b); kSums is the number of sums;
// kHasOutput says if there is an output; f.prepare<N>(c, p) is as in rows.cuh; f.apply<N>(a, b, p, out, terms)
// computes the output and each sum's terms of N columns. out may be a or b.
template <typename X, int N, class Function>
__global__ void __launch_bounds__(kColumnSumWarps * 32, N == 1 ? 2 : kColumnSumBlocks)
    column_sums_kernel(const X* a, const X* b, X* out, int64_t T, int64_t C, int64_t row_stride,
                       PartialSums partials, Function function) {
  constexpr int kSums = Function::kSums;
  // The number of rows that a warp loads before it computes the first one. With two input tensors it is one, which is faster: the backward
  // kernel of bias and GELU for 16384 x 4096 elements in bf16 takes 0.103 ms on an H200, and with two (adjacent) rows 0.113 ms.
  constexpr int kRows = Function::kInputs == 1 ? 4 : 1;
  __shared__ float shared[kSums][kColumnSumWarps - 1][N][32];
  let_next_launch_begin();
  const int lane = static_cast<int>(threadIdx.x);
  const int warp = static_cast<int>(threadIdx.y);
  const int64_t c = (static_cast<int64_t>(blockIdx.x) * 32 + lane) * N;
  const bool inside = c < C;
  const int64_t sweep = partials.num_blocks * kColumnSumWarps * row_stride;
  const int64_t end = T * row_stride;
  float sums[kSums][N] = {};
  if (inside) {
    float columns[2][N];
    function.template prepare<N>(c, columns);
    int64_t at = (static_cast<int64_t>(blockIdx.y) * kColumnSumWarps + warp) * row_stride + c;
#pragma unroll 1
    for (; at < end; at += kRows * sweep) {
      Raw<X, N> raw_a[kRows] = {}, raw_b[kRows] = {};
#pragma unroll
      for (int u = 0; u < kRows; ++u) {
        if (at + u * sweep < end) {
          raw_a[u] = load_raw<X, N>(a + at + u * sweep);
          if constexpr (Function::kInputs == 2) raw_b[u] = load_raw<X, N>(b + at + u * sweep);
        }
      }
#pragma unroll
      for (int u = 0; u < kRows; ++u) {
        if (at + u * sweep < end) {
          float from_a[N], from_b[N], result[N], terms[kSums][N];
          unpack<X, N>(raw_a[u], from_a);
          unpack<X, N>(raw_b[u], from_b);
          function.template apply<N>(from_a, from_b, columns, result, terms);
          if constexpr (Function::kHasOutput) store_floats<X, N>(out + at + u * sweep, result);
#pragma unroll
          for (int s = 0; s < kSums; ++s) {
#pragma unroll
            for (int i = 0; i < N; ++i) sums[s][i] += terms[s][i];
          }
        }
      }
    }
  }
  if (warp > 0) {
#pragma unroll
    for (int s = 0; s < kSums; ++s) {
#pragma unroll
      for (int i = 0; i < N; ++i) shared[s][warp - 1][i][lane] = sums[s][i];
    }
  }
  __syncthreads();
  if (warp > 0 || !inside) return;
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
    for (int other = 0; other < kColumnSumWarps - 1; ++other) {
#pragma unroll
      for (int i = 0; i < N; ++i) sums[s][i] += shared[s][other][i][lane];
    }
    store_floats<float, N>(partials.row(s, blockIdx.y) + c, sums[s]);
  }
}

// Launches both kernels: the one that computes partial sums, and the one that adds them. `operands` contains the addresses of the operands
// per column; `row_stride` is the distance in elements between two rows of a tensor.
template <typename X, class Function>
void launch_column_sums(const ConstView& a, const ConstView& b, const View& out, const View& scratch,
                        int64_t T, int64_t C, int64_t row_stride, const Function& function,
                        const SumDestinations& to, const AddFlag& add,
                        std::initializer_list<const void*> operands, CudaStream stream) {
  if (C <= 0) return;
  const RowBlocks blocks = cuda_row_blocks(T, C);
  const PartialSums partials = partial_sums(scratch, blocks.num_blocks, C);
  if (blocks.num_blocks > 0) {
    const auto launch = [&](auto n) {
      constexpr int kN = decltype(n)::value;
      const dim3 grid(static_cast<unsigned>(ceil_div(C, 32 * kN)), static_cast<unsigned>(blocks.num_blocks));
      column_sums_kernel<X, kN><<<grid, dim3(32, kColumnSumWarps), 0, stream>>>(
          static_cast<const X*>(a.data), static_cast<const X*>(b.data), static_cast<X*>(out.data), T, C,
          row_stride, partials, function);
      PLIMSOLL_CHECK_LAUNCH("a kernel of column sums");
    };
    if (C % kPack<X> == 0 && row_stride % kPack<X> == 0 &&
        aligned_to_packs({a.data, b.data, out.data, scratch.data}) && aligned_to_packs(operands)) {
      launch(std::integral_constant<int, kPack<X>>());
    } else {
      launch(std::integral_constant<int, 1>());
    }
  }
  add_up_partials(partials, to, Function::kSums, C, add, stream);
}

}  // namespace plimsoll::cuda
