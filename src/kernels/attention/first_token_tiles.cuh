// Code that the kernels of first_token_attention_cuda.cu share: their arguments, and products of 16 rows with
// weights on the tensor cores. Device code only, compute capability 9.0.
#pragma once

#include "kernels/attention/attention_mma.cuh"
#include "kernels/element_wise/cuda/vectors.cuh"

namespace plimsoll::first_token {

using attention::multiply_add;
using attention::pack;
using attention::unpack;

inline constexpr int kThreads = 256;
inline constexpr int kWarps = kThreads / 32;
inline constexpr int kSide = 16;     // number of rows (sequences or heads) of the left operand of a product
inline constexpr int kOutputs = 32;  // number of output columns per thread block
// The largest head size for which the array of queries in shared memory has space. first_token_attention_sizes_fit() declines larger heads.
inline constexpr int kMostHeadDim = 128;
// The distance in floats between two rows of results in shared memory. The eight extra floats put adjacent rows into different banks.
inline constexpr int kRowStride = 32 + 8;

struct KernelArgs {
  const void* x = nullptr;
  const void* w = nullptr;
  cuda::AnyFloats bias;
  const int32_t* cu_seqlens = nullptr;
  cuda::AnyFloatsOut o;
  float* q = nullptr;     // queries, shape [B, H D], multiplied by scale log2(e)
  void* u = nullptr;      // vectors u, shape [B, H, C], in the type of x
  float* sums = nullptr;  // weighted sums of rows of x, shape [B, parts, H, C]
  // The largest score and the sum of 2^(score - largest) of each part, shape [B, parts, H].
  float2* parts = nullptr;
  float scale = 1.0f;
  int sequences = 0, heads = 0, head_dim = 0, num_parts = 0, part_rows = 0;
};

__device__ inline int lane() {
  return static_cast<int>(threadIdx.x) % 32;
}
__device__ inline int warp() {
  return static_cast<int>(threadIdx.x) / 32;
}
// Loads two adjacent 16-bit numbers as one word.
__device__ inline uint32_t pair_at(const void* data, int64_t element) {
  return *reinterpret_cast<const uint32_t*>(static_cast<const std::byte*>(data) + 2 * element);
}

// Multiplies 16 rows by the transpose of rows `output` .. output + 31 of w, which gives 16 x 32 results. Thread t returns results 2 t and 2
// t + 1. Each warp sums over an eighth of the columns. fragment(column, a) sets the left operands of this warp: the rounded numbers and,
// for kTerms = 2, also the differences between the original and the rounded numbers.
template <DType kType, int kColumns, int kTerms, typename Fragment>
__device__ inline float2 rows_times_weights(const void* w, int64_t output, const Fragment& fragment) {
  constexpr int kSteps = kColumns / kWarps / 16;
  __shared__ float parts[kWarps][kSide][kRowStride];
  float acc[kOutputs / 8][4] = {};
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const int column = (warp() * kSteps + step) * 16 + lane() % 4 * 2;
    uint32_t a[kTerms][4];
    fragment(column, a);
#pragma unroll
    for (int n = 0; n < kOutputs / 8; ++n) {
      const int64_t at = (output + 8 * n + lane() / 4) * kColumns + column;
      const uint32_t b0 = pair_at(w, at), b1 = pair_at(w, at + 8);
#pragma unroll
      for (int term = 0; term < kTerms; ++term) multiply_add<kType>(acc[n], a[term], b0, b1);
    }
  }
#pragma unroll
  for (int n = 0; n < kOutputs / 8; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      *reinterpret_cast<float2*>(&parts[warp()][8 * half + lane() / 4][8 * n + lane() % 4 * 2]) = {
          acc[n][2 * half], acc[n][2 * half + 1]};
    }
  }
  __syncthreads();
  const int row = static_cast<int>(threadIdx.x) / 16, column = static_cast<int>(threadIdx.x) % 16 * 2;
  float2 total = {0.0f, 0.0f};
#pragma unroll
  for (int i = 0; i < kWarps; ++i) {
    total.x += parts[i][row][column];
    total.y += parts[i][row][column + 1];
  }
  return total;
}

}  // namespace plimsoll::first_token
