#include "base/check.h"
#include "kernels/element_wise/cuda/early_launch.cuh"
#include "kernels/element_wise/cuda/reductions.cuh"
#include "kernels/element_wise/cuda/vectors.cuh"
#include "kernels/matmul/few_rows_cuda.h"

namespace plimsoll {
namespace {

constexpr int kMostThreads = 1024;

struct NormFewRowsArgs {
  const void* x;
  const void* residual;
  cuda::AnyFloats norm_bias, gain, beta;
  void* sum;
  void* h;
  int terms;
  float eps;
  NormKind norm;
  bool
      constant_parameters;  // true if no preceding launch that may still run writes norm_bias, gain or beta (early_launch.cuh)
};

// The parameters of the norm for the terms of one thread.
template <int N>
struct NormParameters {
  float norm_bias[N] = {}, gain[N] = {}, beta[N] = {};

  __device__ __forceinline__ void load(const NormFewRowsArgs& args, int first) {
    args.norm_bias.load_or_zero<N>(first, norm_bias);
    args.gain.load<N>(first, gain);
    args.beta.load_or_zero<N>(first, beta);
  }
};

// Normalizes one row per thread block. Most of the time passes between loads and their results. A thread therefore loads its part of the
// parameters while the preceding launches are still running, and after their end starts all loads of its part of the row before it uses
// the first of them.
template <typename T>
__global__ void __launch_bounds__(kMostThreads)
    norm_few_rows_kernel(const __grid_constant__ NormFewRowsArgs args) {
  cuda::let_next_launch_begin();
  constexpr int kN = cuda::kPack<T>;
  __shared__ float slots[2][kMostThreads / 32];
  const int thread = static_cast<int>(threadIdx.x), warps = static_cast<int>(blockDim.x) / 32;
  const int first = thread * kN;
  const bool is_inside = first < args.terms;
  NormParameters<kN> parameters;
  if (is_inside && args.constant_parameters) parameters.load(args, first);
  cuda::wait_for_launch_before();
  const int64_t at = int64_t{blockIdx.x} * args.terms + first;
  float s[kN] = {};
  float total = 0.0f, squares = 0.0f;
  if (is_inside) {
    const auto x = cuda::load_raw<T, kN>(static_cast<const T*>(args.x) + at);
    cuda::Raw<T, kN> residual = {};
    if (args.residual != nullptr) residual = cuda::load_raw<T, kN>(static_cast<const T*>(args.residual) + at);
    if (!args.constant_parameters) parameters.load(args, first);
    cuda::unpack<T, kN>(x, s);
    if (args.residual != nullptr) {
      float other[kN];
      cuda::unpack<T, kN>(residual, other);
#pragma unroll
      for (int i = 0; i < kN; ++i) s[i] = s[i] + parameters.norm_bias[i] + other[i];
      const auto rounded = cuda::pack<T, kN>(s);
      if (args.sum != nullptr) cuda::store_raw<T, kN>(static_cast<T*>(args.sum) + at, rounded);
      cuda::unpack<T, kN>(rounded, s);
    }
#pragma unroll
    for (int i = 0; i < kN; ++i) total += s[i];
  }
  const auto terms = static_cast<float>(args.terms);
  const float mean =
      args.norm == NormKind::kLayer ? cuda::block_sum(total, thread, warps, slots[0]) / terms : 0.0f;
  if (is_inside) {
#pragma unroll
    for (int i = 0; i < kN; ++i) squares = fmaf(s[i] - mean, s[i] - mean, squares);
  }
  const float rstd = 1.0f / sqrtf(cuda::block_sum(squares, thread, warps, slots[1]) / terms + args.eps);
  if (!is_inside) return;
#pragma unroll
  for (int i = 0; i < kN; ++i) s[i] = fmaf((s[i] - mean) * rstd, parameters.gain[i], parameters.beta[i]);
  cuda::store_floats<T, kN>(static_cast<T*>(args.h) + at, s);
}

template <typename T>
void launch_norm(const NormFewRowsArgs& args, int64_t rows, CudaStream stream) {
  constexpr int kTermsPerWarp = 32 * cuda::kPack<T>;
  const int warps = (args.terms + kTermsPerWarp - 1) / kTermsPerWarp;
  cuda::launch_early(
      norm_few_rows_kernel<T>,
      {.grid = dim3(static_cast<unsigned>(rows)), .block = dim3(static_cast<unsigned>(32 * warps))}, stream,
      args);
}

}  // namespace

void norm_few_rows_cuda(const NormLinearProblem& problem, const NormLinearArgs& args, View h,
                        SecondOperand parameters, CudaStream stream) {
  const MatmulProblem& product = problem.product;
  PLIMSOLL_CHECK(
      product.k % 8 == 0 && product.k <= kNormFewRowsTerms &&
          cuda::aligned_to_packs({args.x.data, args.residual.data, args.sum.data, h.data}),
      "the norm of few rows needs rows of at most {} elements, a multiple of 8, that are aligned to 16 "
      "bytes, but they have {} elements",
      kNormFewRowsTerms, product.k);
  if (product.m <= 0) return;
  const NormFewRowsArgs norm{.x = args.x.data,
                             .residual = args.residual.data,
                             .norm_bias = cuda::any_floats(args.norm_bias),
                             .gain = cuda::any_floats(args.gain),
                             .beta = cuda::any_floats(args.beta),
                             .sum = args.sum.data,
                             .h = h.data,
                             .terms = static_cast<int>(product.k),
                             .eps = static_cast<float>(args.eps),
                             .norm = problem.norm,
                             .constant_parameters = parameters == SecondOperand::kConstant};
  product.a == DType::kBF16 ? launch_norm<__nv_bfloat16>(norm, product.m, stream)
                            : launch_norm<__half>(norm, product.m, stream);
}

}  // namespace plimsoll
