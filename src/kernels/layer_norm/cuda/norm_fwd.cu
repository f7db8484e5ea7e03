#include "kernels/element_wise/cuda/reductions.cuh"
#include "kernels/layer_norm/cuda/norm_rows.cuh"

namespace plimsoll::cuda {
namespace {

// Rows of up to this many columns belong to one warp, so that nothing waits at a barrier.
constexpr int kColumnsPerWarp = 1024;
constexpr int kMaxWarps = static_cast<int>(kMaxNormCudaColumns / kColumnsPerWarp);
constexpr int kRowsPerBlock = 4;  // where a row belongs to one warp

// A thread holds kPacks packs of N elements of its row in fp32; neighbouring threads hold neighbouring packs.
template <typename T, int N, int kPacks>
__device__ __forceinline__ void load_sums(const NormFwd& a, int64_t row, int thread, int threads,
                                          float (&s)[kPacks][N]) {
  const auto* x = static_cast<const T*>(a.x) + row * a.C;
  const auto* residual = static_cast<const T*>(a.residual) + row * a.C;
  Raw<T, N> raw_x[kPacks] = {}, raw_residual[kPacks] = {};
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    const int c = (thread + j * threads) * N;
    if (c < a.C) raw_x[j] = load_raw<T, N>(x + c);
  }
  if (a.residual != nullptr) {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      const int c = (thread + j * threads) * N;
      if (c < a.C) raw_residual[j] = load_raw<T, N>(residual + c);
    }
  }
  const RandomSite site = a.dropout.site();
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    const int c = (thread + j * threads) * N;
    unpack<T, N>(raw_x[j], s[j]);
    if (c >= a.C) continue;
    if (a.bias.data != nullptr) {
      float bias[N];
      a.bias.load<N>(c, bias);
#pragma unroll
      for (int i = 0; i < N; ++i) s[j][i] += bias[i];
    }
    if (a.dropout.on) a.dropout.apply<N>(site, row * a.C + c, s[j]);
    if (a.residual != nullptr) {
      float other[N];
      unpack<T, N>(raw_residual[j], other);
#pragma unroll
      for (int i = 0; i < N; ++i) s[j][i] += other[i];
    }
  }
}

template <typename T, int N, int kPacks>
__device__ __forceinline__ void store_results(const NormFwd& a, int64_t row, int thread, int threads,
                                              float mean, float rstd, float (&s)[kPacks][N]) {
  auto* y = static_cast<T*>(a.y) + row * a.C;
  auto* x_hat = static_cast<T*>(a.x_hat) + row * a.C;
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    const int c = (thread + j * threads) * N;
    if (c >= a.C) continue;
#pragma unroll
    for (int i = 0; i < N; ++i) s[j][i] = (s[j][i] - mean) * rstd;
    if (a.x_hat != nullptr) store_floats<T, N>(x_hat + c, s[j]);
    if (a.y != nullptr) {
      float gain[N], beta[N];
      a.gain.load<N>(c, gain);
      a.beta.load<N>(c, beta);
#pragma unroll
      for (int i = 0; i < N; ++i) s[j][i] = fmaf(s[j][i], gain[i], beta[i]);
      store_floats<T, N>(y + c, s[j]);
    }
  }
}

// blockDim = (threads of a row, rows). More than one row only where a row is one warp's.
template <typename T, int N, int kPacks>
__global__ void __launch_bounds__(kMaxWarps * 32) norm_fwd_kernel(const __grid_constant__ NormFwd a) {
  __shared__ float slots[2][kMaxWarps];
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= a.T) return;
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int warps = threads / 32;
  float s[kPacks][N];
  load_sums<T, N, kPacks>(a, row, thread, threads, s);
  // What lies beyond the row is 0 here.
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
#pragma unroll
    for (int i = 0; i < N; ++i) sum += s[j][i];
  }
  const auto columns = static_cast<float>(a.C);
  const float mean = block_sum(sum, thread, warps, slots[0]) / columns;
  float squares = 0.0f;
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    if ((thread + j * threads) * N >= a.C) continue;
#pragma unroll
    for (int i = 0; i < N; ++i) squares = fmaf(s[j][i] - mean, s[j][i] - mean, squares);
  }
  const float variance = block_sum(squares, thread, warps, slots[1]) / columns;
  const float rstd = 1.0f / sqrtf(variance + a.eps);
  store_results<T, N, kPacks>(a, row, thread, threads, mean, rstd, s);
  if (a.rstd != nullptr && thread == 0) a.rstd[row] = rstd;
}

template <typename T, int N, int kElements>
void launch_as(const NormFwd& operands, CudaStream stream) {
  const auto warps = static_cast<unsigned>(ceil_div(operands.C, 32 * kElements));
  const unsigned rows = warps == 1 ? kRowsPerBlock : 1;
  const auto blocks = static_cast<unsigned>(ceil_div(operands.T, rows));
  norm_fwd_kernel<T, N, kElements / N><<<blocks, dim3(32 * warps, rows), 0, stream>>>(operands);
  PLIMSOLL_CHECK_LAUNCH("norm_fwd");
}

}  // namespace

void launch_norm_fwd(const NormFwd& operands, DType dtype, CudaStream stream) {
  if (operands.T <= 0) return;
  with_cuda_type(dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int kN = kPack<T>;
    const bool packs = operands.C % kN == 0 &&
                       aligned_to_packs({operands.x, operands.residual, operands.bias.data,
                                         operands.gain.data, operands.beta.data, operands.y, operands.x_hat});
    if (!packs) {
      launch_as<T, 1, 32>(operands, stream);
    } else if (operands.C <= 512) {
      launch_as<T, kN, 16>(operands, stream);
    } else {
      launch_as<T, kN, 32>(operands, stream);
    }
  });
}

}  // namespace plimsoll::cuda
