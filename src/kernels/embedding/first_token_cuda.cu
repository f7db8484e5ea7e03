#include "kernels/embedding/first_token.h"

#include "kernels/element_wise/cuda/early_launch.cuh"
#include "kernels/element_wise/cuda/vectors.cuh"

namespace plimsoll {
namespace cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    first_token_fwd_kernel(AnyFloats x, const int32_t* cu_seqlens, AnyFloatsOut out, int64_t C,
                           SequenceRow which) {
  begin_early_launch();
  const int64_t b = blockIdx.x;
  const bool used = cu_seqlens[b] < cu_seqlens[b + 1];
  const int64_t row = row_of_sequence(cu_seqlens, b, which);
  for (int64_t c = threadIdx.x; c < C; c += kThreads) out.store(b * C + c, used ? x.at(row * C + c) : 0.0f);
}

// Returns the sequence that begins (kFirst) or ends (kLast) with a row, or -1 if there is none. If several sequences begin at the row, all
// but the last of them are empty, and the last one is returned. Requires: cu_seqlens does not decrease.
__device__ int64_t sequence_of_row(int64_t row, const int32_t* cu_seqlens, int64_t B, SequenceRow which) {
  int64_t low = 0;  // invariant: cu_seqlens[low] <= row < cu_seqlens[high], with cu_seqlens[B] = infinity
  int64_t high = B;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (cu_seqlens[middle] <= row) {
      low = middle;
    } else {
      high = middle;
    }
  }
  if (row >= cu_seqlens[low + 1]) return -1;
  return row == row_of_sequence(cu_seqlens, low, which) ? low : -1;
}

__global__ void __launch_bounds__(kThreads)
    first_token_bwd_kernel(AnyFloats d_out, const int32_t* cu_seqlens, AnyFloatsOut d_x, int64_t C, int64_t B,
                           SequenceRow which) {
  const int64_t row = blockIdx.x;
  const int64_t b = sequence_of_row(row, cu_seqlens, B, which);
  for (int64_t c = threadIdx.x; c < C; c += kThreads) {
    d_x.store(row * C + c, b < 0 ? 0.0f : d_out.at(b * C + c));
  }
}

// Computes the gradient with stores of 16 bytes. Requires: d_x and d_out have the same type.
template <typename X>
__global__ void __launch_bounds__(kThreads)
    first_token_bwd_packs_kernel(const X* d_out, const int32_t* cu_seqlens, X* d_x, int64_t T, int64_t C,
                                 int64_t B, SequenceRow which) {
  constexpr int kN = kPack<X>;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= T) return;
  const int64_t b = sequence_of_row(row, cu_seqlens, B, which);
  for (int64_t c = static_cast<int64_t>(threadIdx.x) * kN; c < C;
       c += static_cast<int64_t>(blockDim.x) * kN) {
    Raw<X, kN> raw = {};
    if (b >= 0) raw = load_raw<X, kN>(d_out + b * C + c);
    store_raw<X, kN>(d_x + row * C + c, raw);
  }
}

void check_cu_seqlens(const char* kernel, const ConstView& cu_seqlens) {
  PLIMSOLL_CHECK(cu_seqlens && cu_seqlens.dtype == DType::kI32, "{}: cu_seqlens must be present and i32",
                 kernel);
}

}  // namespace
}  // namespace cuda

void first_token_fwd_cuda(const FirstTokenFwdArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "first_token_fwd_cuda";
  cuda::check_cuda_operands(kKernel, {{"x", args.x}, {"out", args.out}});
  cuda::check_cu_seqlens(kKernel, args.cu_seqlens);
  if (args.B <= 0) return;
  cuda::launch_early(cuda::first_token_fwd_kernel,
                     {dim3(static_cast<unsigned>(args.B)), dim3(cuda::kThreads)}, stream,
                     cuda::any_floats(args.x), args.cu_seqlens.as<int32_t>(), cuda::any_floats_out(args.out),
                     args.C, args.row);
}

void first_token_bwd_cuda(const FirstTokenBwdArgs& args, CudaStream stream) {
  constexpr const char* kKernel = "first_token_bwd_cuda";
  cuda::check_cuda_operands(kKernel, {{"d_out", args.d_out}, {"d_x", args.d_x}});
  cuda::check_cu_seqlens(kKernel, args.cu_seqlens);
  if (args.T <= 0 || args.B <= 0) return;
  const int32_t* cu_seqlens = args.cu_seqlens.as<int32_t>();
  const bool packs = args.d_out.dtype == args.d_x.dtype && args.C * dtype_bytes(args.d_x.dtype) % 16 == 0 &&
                     cuda::aligned_to_packs({args.d_out.data, args.d_x.data});
  if (packs) {
    cuda::with_cuda_type(args.d_x.dtype, [&](auto type) {
      using X = decltype(type);
      const dim3 block(64, cuda::kThreads / 64);
      const auto blocks = static_cast<unsigned>(cuda::ceil_div(args.T, block.y));
      cuda::first_token_bwd_packs_kernel<X>
          <<<blocks, block, 0, stream>>>(static_cast<const X*>(args.d_out.data), cu_seqlens,
                                         static_cast<X*>(args.d_x.data), args.T, args.C, args.B, args.row);
    });
  } else {
    cuda::first_token_bwd_kernel<<<static_cast<unsigned>(args.T), cuda::kThreads, 0, stream>>>(
        cuda::any_floats(args.d_out), cu_seqlens, cuda::any_floats_out(args.d_x), args.C, args.B, args.row);
  }
  PLIMSOLL_CHECK_LAUNCH("first_token_bwd");
}

}  // namespace plimsoll
