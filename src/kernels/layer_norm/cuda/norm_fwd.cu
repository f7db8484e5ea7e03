#include "kernels/element_wise/cuda/reductions.cuh"
#include "kernels/layer_norm/cuda/norm_rows.cuh"

namespace plimsoll::cuda {
namespace {

// Rows of up to this many columns belong to one warp, so that nothing waits at a barrier.
constexpr int kColumnsPerWarp = 1024;
constexpr int kMaxWarps = static_cast<int>(kMaxNormCudaColumns / kColumnsPerWarp);
constexpr int kRowsPerBlock = 4;  // where a row belongs to one warp

// Blocks that a multiprocessor holds at least: four of packs of fp32, which would take too many registers; as
// the compiler likes it elsewhere.
template <int N>
inline constexpr int kMinBlocks = N == 4 ? 4 : 0;

// How gain, beta and bias are read: as a type known at compile time, or as whatever they are.
template <typename P>
struct Typed {
  template <int N>
  static __device__ __forceinline__ void load(const AnyFloats& from, int c, float (&x)[N]) {
    load_floats<P, N>(static_cast<const P*>(from.data) + c, x);
  }
};
struct Untyped {
  template <int N>
  static __device__ __forceinline__ void load(const AnyFloats& from, int c, float (&x)[N]) {
    from.load<N>(c, x);
  }
};

// A thread holds kPacks packs of N elements of its row in fp32; neighbouring threads hold neighbouring packs.
template <typename T, class Parameters, int N, int kPacks>
__device__ __forceinline__ void load_sums(const NormFwd& a, int64_t row_begin, int thread, int threads,
                                          float (&s)[kPacks][N]) {
  const auto* x = static_cast<const T*>(a.x) + row_begin;
  const auto* residual = static_cast<const T*>(a.residual) + row_begin;
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
  // Sixteen numbers at a time are drawn together.
  constexpr int kTogether = N == 1 ? 1 : 16 / N;
  static_assert(kPacks % kTogether == 0);
#pragma unroll
  for (int g = 0; g < kPacks; g += kTogether) {
    float factors[kTogether][N];
    if (a.dropout.on) {
      int64_t first[kTogether];
#pragma unroll
      for (int k = 0; k < kTogether; ++k) first[k] = row_begin + (thread + (g + k) * threads) * N;
      a.dropout.factors<kTogether, N>(site, first, factors);
    }
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const int j = g + k;
      const int c = (thread + j * threads) * N;
      unpack<T, N>(raw_x[j], s[j]);
      if (c >= a.C) continue;
      if (a.bias.data != nullptr) {
        float bias[N];
        Parameters::template load<N>(a.bias, c, bias);
#pragma unroll
        for (int i = 0; i < N; ++i) s[j][i] += bias[i];
      }
      if (a.dropout.on) {
#pragma unroll
        for (int i = 0; i < N; ++i) s[j][i] *= factors[k][i];
      }
      if (a.residual != nullptr) {
        float other[N];
        unpack<T, N>(raw_residual[j], other);
#pragma unroll
        for (int i = 0; i < N; ++i) s[j][i] += other[i];
      }
    }
  }
}

template <typename T, class Parameters, int N, int kPacks>
__device__ __forceinline__ void store_results(const NormFwd& a, int64_t row_begin, int thread, int threads,
                                              float mean, float rstd, float (&s)[kPacks][N]) {
  auto* y = static_cast<T*>(a.y) + row_begin;
  auto* x_hat = static_cast<T*>(a.x_hat) + row_begin;
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    const int c = (thread + j * threads) * N;
    if (c >= a.C) continue;
#pragma unroll
    for (int i = 0; i < N; ++i) s[j][i] = (s[j][i] - mean) * rstd;
    if (a.x_hat != nullptr) store_floats<T, N>(x_hat + c, s[j]);
    if (a.y != nullptr) {
      float gain[N], beta[N];
      Parameters::template load<N>(a.gain, c, gain);
      Parameters::template load<N>(a.beta, c, beta);
#pragma unroll
      for (int i = 0; i < N; ++i) s[j][i] = fmaf(s[j][i], gain[i], beta[i]);
      store_floats<T, N>(y + c, s[j]);
    }
  }
}

// blockDim = (threads of a row, rows). More than one row only where a row is one warp's.
template <typename T, class Parameters, int N, int kPacks>
__global__ void __launch_bounds__(kMaxWarps * 32, kMinBlocks<N>)
    norm_fwd_kernel(const __grid_constant__ NormFwd a) {
  __shared__ float slots[2][kMaxWarps];
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= a.T) return;
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int warps = threads / 32;
  float s[kPacks][N];
  load_sums<T, Parameters, N, kPacks>(a, row * a.C, thread, threads, s);
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
  store_results<T, Parameters, N, kPacks>(a, row * a.C, thread, threads, mean, rstd, s);
  if (a.rstd != nullptr && thread == 0) a.rstd[row] = rstd;
}

template <typename T, class Parameters, int N, int kElements>
void launch_as(const NormFwd& operands, CudaStream stream) {
  const auto warps = static_cast<unsigned>(ceil_div(operands.C, 32 * kElements));
  const unsigned rows = warps == 1 ? kRowsPerBlock : 1;
  const auto blocks = static_cast<unsigned>(ceil_div(operands.T, rows));
  norm_fwd_kernel<T, Parameters, N, kElements / N><<<blocks, dim3(32 * warps, rows), 0, stream>>>(operands);
  PLIMSOLL_CHECK_LAUNCH("norm_fwd");
}

template <typename T, class Parameters>
void launch_packs(const NormFwd& operands, CudaStream stream) {
  if (operands.C <= 512) {
    launch_as<T, Parameters, kPack<T>, 16>(operands, stream);
  } else {
    launch_as<T, Parameters, kPack<T>, 32>(operands, stream);
  }
}

// Whether the parameters that are there have this type.
bool parameters_are(const NormFwd& operands, DType dtype) {
  for (const AnyFloats* parameter : {&operands.bias, &operands.gain, &operands.beta}) {
    if (parameter->data != nullptr && parameter->dtype != dtype) return false;
  }
  return true;
}

}  // namespace

void launch_norm_fwd(const NormFwd& operands, DType dtype, CudaStream stream) {
  if (operands.T <= 0) return;
  with_cuda_type(dtype, [&](auto type) {
    using T = decltype(type);
    const bool packs = operands.C % kPack<T> == 0 &&
                       aligned_to_packs({operands.x, operands.residual, operands.bias.data,
                                         operands.gain.data, operands.beta.data, operands.y, operands.x_hat});
    if (packs && parameters_are(operands, DType::kF32)) {
      launch_packs<T, Typed<float>>(operands, stream);
    } else if (packs && parameters_are(operands, dtype)) {
      launch_packs<T, Typed<T>>(operands, stream);
    } else {
      launch_as<T, Untyped, 1, 32>(operands, stream);
    }
  });
}

}  // namespace plimsoll::cuda
