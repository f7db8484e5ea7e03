#include "kernels/element_wise/cast.h"
#include "kernels/optimizer/cuda/split.cuh"
#include "kernels/optimizer/weight_copy.h"

namespace plimsoll {
namespace cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    copy_weights_kernel(const float* weight, __nv_bfloat16* low, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const float x[1] = {weight[i]};
  store_copy<1>(low + i, x);
}

}  // namespace
}  // namespace cuda

void copy_weights_cuda(const WeightCopyArgs& args, CudaStream stream) {
  if (args.n <= 0) return;
  if (args.low.dtype != DType::kBF16)
    return cast_fwd_cuda({.x = args.weight, .y = args.low, .n = args.n}, stream);
  const auto blocks = static_cast<unsigned>(cuda::ceil_div(args.n, cuda::kThreads));
  cuda::copy_weights_kernel<<<blocks, cuda::kThreads, 0, stream>>>(
      args.weight.as<float>(), static_cast<__nv_bfloat16*>(args.low.data), args.n);
  PLIMSOLL_CHECK_LAUNCH("copy_weights");
}

}  // namespace plimsoll
