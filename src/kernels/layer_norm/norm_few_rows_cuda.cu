#include "kernels/layer_norm/norm_few_rows.h"

#include "base/check.h"
#include "kernels/element_wise/cuda/early_launch.cuh"
#include "kernels/element_wise/cuda/reductions.cuh"
#include "kernels/element_wise/cuda/vectors.cuh"

namespace plimsoll {
namespace {

constexpr int kMostThreads = 1024;

struct NormRowOperands {
  const void* x;
  const void* residual;
  cuda::AnyFloats norm_bias, gain, beta;
  void* sum;
  void* y;
  int columns;
  float eps;
  NormKind norm;
  bool constant_parameters;
};

// The parameters of the norm for the columns of one thread.
template <int N>
struct NormParameters {
  float norm_bias[N] = {}, gain[N] = {}, beta[N] = {};

  __device__ __forceinline__ void load(const NormRowOperands& args, int first) {
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
    norm_few_rows_kernel(const __grid_constant__ NormRowOperands args) {
  cuda::let_next_launch_begin();
  constexpr int kN = cuda::kPack<T>;
  __shared__ float slots[2][kMostThreads / 32];
  const int thread = static_cast<int>(threadIdx.x), warps = static_cast<int>(blockDim.x) / 32;
  const int first = thread * kN;
  const bool is_inside = first < args.columns;
  NormParameters<kN> parameters;
  if (is_inside && args.constant_parameters) parameters.load(args, first);
  cuda::wait_for_launch_before();
  const int64_t at = int64_t{blockIdx.x} * args.columns + first;
  float s[kN] = {};
  float total = 0.0f, squares = 0.0f;
  if (is_inside) {
    const auto x = cuda::load_raw<T, kN>(static_cast<const T*>(args.x) + at);
    cuda::Raw<T, kN> residual = {};
    if (args.residual != nullptr) residual = cuda::load_raw<T, kN>(static_cast<const T*>(args.residual) + at);
    if (!args.constant_parameters) parameters.load(args, first);
    cuda::unpack<T, kN>(x, s);
    float other[kN];
    cuda::unpack<T, kN>(residual, other);
#pragma unroll
    for (int i = 0; i < kN; ++i) s[i] = s[i] + parameters.norm_bias[i] + other[i];
    if (args.sum != nullptr) {
      const auto rounded = cuda::pack<T, kN>(s);
      cuda::store_raw<T, kN>(static_cast<T*>(args.sum) + at, rounded);
      cuda::unpack<T, kN>(rounded, s);
    }
#pragma unroll
    for (int i = 0; i < kN; ++i) total += s[i];
  }
  const auto columns = static_cast<float>(args.columns);
  const float mean =
      args.norm == NormKind::kLayer ? cuda::block_sum(total, thread, warps, slots[0]) / columns : 0.0f;
  if (is_inside) {
#pragma unroll
    for (int i = 0; i < kN; ++i) squares = fmaf(s[i] - mean, s[i] - mean, squares);
  }
  const float rstd = 1.0f / sqrtf(cuda::block_sum(squares, thread, warps, slots[1]) / columns + args.eps);
  if (!is_inside) return;
#pragma unroll
  for (int i = 0; i < kN; ++i) s[i] = fmaf((s[i] - mean) * rstd, parameters.gain[i], parameters.beta[i]);
  cuda::store_floats<T, kN>(static_cast<T*>(args.y) + at, s);
}

template <typename T>
void launch_few_rows(const NormRowOperands& args, int64_t rows, CudaStream stream) {
  constexpr int kColumnsPerWarp = 32 * cuda::kPack<T>;
  const int warps = (args.columns + kColumnsPerWarp - 1) / kColumnsPerWarp;
  cuda::launch_early(
      norm_few_rows_kernel<T>,
      {.grid = dim3(static_cast<unsigned>(rows)), .block = dim3(static_cast<unsigned>(32 * warps))}, stream,
      args);
}

}  // namespace

bool norm_few_rows_fit(const NormFewRowsArgs& args) {
  return (args.x.dtype == DType::kBF16 || args.x.dtype == DType::kF16) && args.T <= kNormFewRows &&
         args.C % 8 == 0 && args.C <= kNormFewRowsColumns &&
         cuda::aligned_to_packs({args.x.data, args.residual.data, args.norm_bias.data, args.gain.data,
                                 args.beta.data, args.y.data, args.sum.data});
}

void norm_few_rows_cuda(const NormFewRowsArgs& args, CudaStream stream) {
  PLIMSOLL_CHECK(norm_few_rows_fit(args),
                 "the norm of few rows does not support {} rows of {} {} elements (norm_few_rows_fit())",
                 args.T, args.C, dtype_name(args.x.dtype));
  if (args.T <= 0) return;
  const NormRowOperands operands{.x = args.x.data,
                                 .residual = args.residual.data,
                                 .norm_bias = cuda::any_floats(args.norm_bias),
                                 .gain = cuda::any_floats(args.gain),
                                 .beta = cuda::any_floats(args.beta),
                                 .sum = args.sum.data,
                                 .y = args.y.data,
                                 .columns = static_cast<int>(args.C),
                                 .eps = static_cast<float>(args.eps),
                                 .norm = args.norm,
                                 .constant_parameters = args.constant_parameters};
  args.x.dtype == DType::kBF16 ? launch_few_rows<__nv_bfloat16>(operands, args.T, stream)
                               : launch_few_rows<__half>(operands, args.T, stream);
}

}  // namespace plimsoll
