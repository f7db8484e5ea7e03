#include <algorithm>

#include "kernels/element_wise/cuda/attributes.cuh"
#include "kernels/element_wise/cuda/early_launch.cuh"
#include "kernels/element_wise/cuda/reductions.cuh"
#include "kernels/layer_norm/cuda/norm_rows.cuh"

namespace plimsoll::cuda {
namespace {

// The largest number of columns for which a row is processed by one warp, so that no barrier is needed.
constexpr int kColumnsPerWarp = 1024;
constexpr int kMaxWarps = static_cast<int>(kMaxNormCudaColumns / kColumnsPerWarp);
constexpr int kRowsPerBlock = 4;  // number of rows per block if one warp processes a row

// The number of thread blocks (of up to four warps) that must fit on a multiprocessor, which limits the registers per thread. 16-bit rows
// use 16 warps per multiprocessor. fp32 rows, and rows that are read element by element, use 12, because they need more registers: on an
// H200, fp32 rows of 1023 columns take 0.26 ms with 12 warps and 0.49 ms with 16. Each warp always has the loads of its next row in flight:
// 4 KiB of 16-bit elements or 8 KiB of fp32, with a residual.
template <int N>
inline constexpr int kBlocks = N == 8 ? 4 : 3;

// If there are enough rows for each thread block to run at least kMinIterations iterations, the grid has up to kMaxWaves times as many
// blocks as run at once. When a block ends, the next one starts in its place, whereas a grid that runs all at once waits for its slowest
// block. On an H200, 65536 rows of 1024 bf16 with dropout take 145 us, and 151 us in a grid that runs all at once. 16384 rows take less
// time in a grid that runs all at once.
constexpr int kMinIterations = 7;
constexpr int kMaxWaves = 4;

// Two ways to read gain, beta and bias: Typed knows their type at compile time, Untyped reads it from AnyFloats at run time.
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

// The elements of a row that one thread loads, possibly still in flight: kPacks vectors of N elements. Neighbouring threads load
// neighbouring vectors.
template <typename T, int N, int kPacks>
struct Incoming {
  Raw<T, N> x[kPacks], residual[kPacks];

  __device__ __forceinline__ void load(const NormFwd& a, int64_t row, int thread, int threads) {
    const auto* from = static_cast<const T*>(a.x) + row * a.C;
    const auto* other = static_cast<const T*>(a.residual) + row * a.C;
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      const int c = (thread + j * threads) * N;
      if (c < a.C) x[j] = load_raw<T, N>(from + c);
    }
    if (a.residual == nullptr) return;
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      const int c = (thread + j * threads) * N;
      if (c < a.C) residual[j] = load_raw<T, N>(other + c);
    }
  }
};

// Computes the sum s = residual + dropout(x + bias) of a loaded row in fp32, and stores it if it is an output. Elements of s after the end
// of the row become zero.
template <typename T, class Parameters, int N, int kPacks>
__device__ __forceinline__ void add_up(const NormFwd& a, const RandomSite& site, int64_t row_begin,
                                       int thread, int threads, const Incoming<T, N, kPacks>& row,
                                       float (&s)[kPacks][N]) {
  // Draws the random numbers of sixteen elements at a time. They need two Philox blocks, which share the computation of the round keys.
  constexpr int kTogether = N == 1 ? 1 : 16 / N;
  static_assert(kPacks % kTogether == 0);
#pragma unroll
  for (int g = 0; g < kPacks; g += kTogether) {
    uint32_t numbers[kTogether][(N + 1) / 2];
    if (a.dropout.on) {
      int64_t first[kTogether];
#pragma unroll
      for (int k = 0; k < kTogether; ++k) first[k] = row_begin + (thread + (g + k) * threads) * N;
      a.dropout.draw<kTogether, N>(site, first, numbers);
    }
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const int j = g + k;
      const int c = (thread + j * threads) * N;
      if (c >= a.C) {
#pragma unroll
        for (int i = 0; i < N; ++i) s[j][i] = 0.0f;
        continue;
      }
      unpack<T, N>(row.x[j], s[j]);
      if (a.bias.data != nullptr) {
        float bias[N];
        Parameters::template load<N>(a.bias, c, bias);
#pragma unroll
        for (int i = 0; i < N; ++i) s[j][i] += bias[i];
      }
      if (a.dropout.on) a.dropout.apply<N>(numbers[k], s[j]);
      if (a.residual != nullptr) {
        float other[N];
        unpack<T, N>(row.residual[j], other);
#pragma unroll
        for (int i = 0; i < N; ++i) s[j][i] += other[i];
      }
      if (a.sum != nullptr) {
        const Raw<T, N> stored = pack<T, N>(s[j]);
        store_raw<T, N>(static_cast<T*>(a.sum) + row_begin + c, stored);
        unpack<T, N>(stored, s[j]);
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
      float gain[N], beta[N] = {};
      Parameters::template load<N>(a.gain, c, gain);
      if (a.beta.data != nullptr) Parameters::template load<N>(a.beta, c, beta);
#pragma unroll
      for (int i = 0; i < N; ++i) s[j][i] = fmaf(s[j][i], gain[i], beta[i]);
      store_floats<T, N>(y + c, s[j]);
    }
  }
}

// Normalizes rows. Launched with blockDim = (threads per row, rows per block); a block has several rows only if one warp processes a row.
// The threads of a row process every `step`-th row, and load the next one while they compute.
template <typename T, class Parameters, int N, int kPacks>
__global__ void __launch_bounds__(kMaxWarps * 32, kBlocks<N>)
    norm_fwd_kernel(const __grid_constant__ NormFwd a) {
  let_next_launch_begin();
  __shared__ float slots[2][2][kMaxWarps];
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    const int c = (thread + j * threads) * N;
    if (c >= a.C) continue;
    for (const AnyFloats* operand : {&a.bias, &a.gain, &a.beta}) {
      if (operand->data != nullptr) prefetch_to_l2(operand->address(c));
    }
  }
  wait_for_launch_before();
  const int warps = threads / 32;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
  int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= a.T) return;
  Incoming<T, N, kPacks> incoming;
  incoming.load(a, row, thread, threads);
  const RandomSite site = a.dropout.site();
  const auto columns = static_cast<float>(a.C);
  int slot = 0;
#pragma unroll 1
  for (; row < a.T; row += step, slot ^= 1) {
    float s[kPacks][N];
    add_up<T, Parameters, N, kPacks>(a, site, row * a.C, thread, threads, incoming, s);
    if (row + step < a.T) incoming.load(a, row + step, thread, threads);
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
#pragma unroll
      for (int i = 0; i < N; ++i) sum += s[j][i];
    }
    // Successive iterations of a thread block alternate between two arrays of `slots`. Before an array is written again, every thread has
    // passed two barriers since it read the array, so no thread still needs the old contents.
    const float mean = block_sum(sum, thread, warps, slots[slot][0]) / columns;
    float squares = 0.0f;
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if ((thread + j * threads) * N >= a.C) continue;
#pragma unroll
      for (int i = 0; i < N; ++i) squares = fmaf(s[j][i] - mean, s[j][i] - mean, squares);
    }
    const float variance = block_sum(squares, thread, warps, slots[slot][1]) / columns;
    const float rstd = 1.0f / sqrtf(variance + a.eps);
    store_results<T, Parameters, N, kPacks>(a, row * a.C, thread, threads, mean, rstd, s);
    if (a.rstd != nullptr && thread == 0) a.rstd[row] = rstd;
  }
}

template <typename T, class Parameters, int N, int kElements>
void launch_as(const NormFwd& operands, CudaStream stream) {
  const auto warps = static_cast<unsigned>(ceil_div(operands.C, 32 * kElements));
  const unsigned rows = warps == 1 ? kRowsPerBlock : 1;
  // A multiprocessor runs kBlocks thread blocks of kMaxWarps warps at once, and correspondingly more blocks if they have fewer warps.
  const int64_t resident = static_cast<int64_t>(device_attribute<cudaDevAttrMultiProcessorCount>()) *
                           (kBlocks<N> * kMaxWarps / (rows * warps));
  const int64_t all = ceil_div(operands.T, rows);
  const int64_t waves = std::clamp<int64_t>(all / (resident * kMinIterations), 1, kMaxWaves);
  const auto blocks = static_cast<unsigned>(std::min(all, resident * waves));
  launch_early(norm_fwd_kernel<T, Parameters, N, kElements / N>, {dim3(blocks), dim3(32 * warps, rows)},
               stream, operands);
}

template <typename T, class Parameters>
void launch_packs(const NormFwd& operands, CudaStream stream) {
  if (operands.C <= 512) {
    launch_as<T, Parameters, kPack<T>, 16>(operands, stream);
  } else {
    launch_as<T, Parameters, kPack<T>, 32>(operands, stream);
  }
}

// Returns true if all parameters that are present have this type.
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
    const bool packs =
        operands.C % kPack<T> == 0 &&
        aligned_to_packs({operands.x, operands.residual, operands.bias.data, operands.gain.data,
                          operands.beta.data, operands.y, operands.x_hat, operands.sum});
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
