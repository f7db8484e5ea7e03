#include "kernels/embedding/sequence_mean.h"

#include "kernels/element_wise/cuda/vectors.cuh"

namespace plimsoll {
namespace cuda {
namespace {

constexpr int kMeanWidth = 32;

// Each block computes kMeanWidth columns of the mean of one sequence. The dimensions of a block are kMeanWidth columns and
// kSequenceMeanParts partial sums over rows.
__global__ void __launch_bounds__(kMeanWidth* kSequenceMeanParts)
    sequence_mean_fwd_kernel(AnyFloats x, const int32_t* cu_seqlens, AnyFloatsOut y, int64_t C) {
  __shared__ float sums[kSequenceMeanParts][kMeanWidth];
  const int64_t b = blockIdx.x, c = static_cast<int64_t>(blockIdx.y) * kMeanWidth + threadIdx.x;
  const int first = cu_seqlens[b], end = cu_seqlens[b + 1];
  float sum = 0.0f;
  if (c < C) {
    for (int t = first + static_cast<int>(threadIdx.y); t < end; t += kSequenceMeanParts)
      sum += x.at(static_cast<int64_t>(t) * C + c);
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= C) return;
#pragma unroll
  for (int part = 1; part < kSequenceMeanParts; ++part) sum += sums[part][threadIdx.x];
  y.store(b * C + c, end > first ? sum / static_cast<float>(end - first) : 0.0f);
}

// Computes the gradient of one row per block.
__global__ void __launch_bounds__(256) sequence_mean_bwd_kernel(AnyFloats d_y, const int32_t* cu_seqlens,
                                                                AnyFloatsOut d_x, int64_t C, int64_t B) {
  const int64_t row = blockIdx.x;
  // Finds the sequence that contains the row by a binary search: cu_seqlens[low] <= row < cu_seqlens[high], with cu_seqlens[B] = infinity.
  int64_t low = 0, high = B;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (cu_seqlens[middle] <= row ? low : high) = middle;
  }
  const bool is_used = row < cu_seqlens[low + 1];
  const auto rows = static_cast<float>(cu_seqlens[low + 1] - cu_seqlens[low]);
  for (int64_t c = threadIdx.x; c < C; c += blockDim.x)
    d_x.store(row * C + c, is_used ? d_y.at(low * C + c) / rows : 0.0f);
}

void check_mean_operands(const char* kernel, const ConstView& from, const ConstView& to,
                         const ConstView& cu_seqlens) {
  check_cuda_operands(kernel, {{"input", from}, {"output", to}});
  PLIMSOLL_CHECK(cu_seqlens && cu_seqlens.dtype == DType::kI32, "{}: cu_seqlens must be present and i32",
                 kernel);
}

}  // namespace
}  // namespace cuda

void sequence_mean_fwd_cuda(const SequenceMeanFwdArgs& args, CudaStream stream) {
  cuda::check_mean_operands("sequence_mean_fwd_cuda", args.x, args.y, args.cu_seqlens);
  if (args.B <= 0) return;
  const dim3 grid(static_cast<unsigned>(args.B),
                  static_cast<unsigned>(cuda::ceil_div(args.C, cuda::kMeanWidth)));
  cuda::sequence_mean_fwd_kernel<<<grid, dim3(cuda::kMeanWidth, kSequenceMeanParts), 0, stream>>>(
      cuda::any_floats(args.x), args.cu_seqlens.as<int32_t>(), cuda::any_floats_out(args.y), args.C);
  PLIMSOLL_CHECK_LAUNCH("sequence_mean_fwd");
}

void sequence_mean_bwd_cuda(const SequenceMeanBwdArgs& args, CudaStream stream) {
  cuda::check_mean_operands("sequence_mean_bwd_cuda", args.d_y, args.d_x, args.cu_seqlens);
  if (args.T <= 0 || args.B <= 0) return;
  cuda::sequence_mean_bwd_kernel<<<static_cast<unsigned>(args.T), 256, 0, stream>>>(
      cuda::any_floats(args.d_y), args.cu_seqlens.as<int32_t>(), cuda::any_floats_out(args.d_x), args.C,
      args.B);
  PLIMSOLL_CHECK_LAUNCH("sequence_mean_bwd");
}

}  // namespace plimsoll
