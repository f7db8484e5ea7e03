#include "kernels/optimizer/tensor_scan.h"

#include <cstring>

#include "kernels/element_wise/cast.h"
#include "kernels/element_wise/cuda/vectors.cuh"
#include "kernels/optimizer/cuda/split.cuh"

namespace plimsoll {

namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kPacks = 4;

// Fills a tensor. `pattern` contains 16 bytes, which are several copies of one element.
template <typename Element>
__global__ void __launch_bounds__(kThreads)
    fill_kernel(Element* x, int64_t count, uint4 pattern, bool packs) {
  constexpr int kN = static_cast<int>(16 / sizeof(Element));
  Element element;
  memcpy(&element, &pattern, sizeof(Element));
  const int64_t whole = packs ? count / kN : 0;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (kThreads * kPacks) + threadIdx.x;
#pragma unroll
  for (int u = 0; u < kPacks; ++u) {
    const int64_t pack_index = first + u * kThreads;
    if (pack_index < whole) reinterpret_cast<uint4*>(x)[pack_index] = pattern;
  }
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = whole * kN + static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += stride) {
    x[i] = element;
  }
}

template <typename Element>
void launch_fill(const FillArgs& args, CudaStream stream) {
  alignas(16) unsigned char bits[16];
  View{bits, args.x.dtype}.store(0, args.value);
  for (size_t i = sizeof(Element); i < 16; ++i) bits[i] = bits[i - sizeof(Element)];
  uint4 pattern;
  std::memcpy(&pattern, bits, 16);
  const int64_t per_block = kThreads * kPacks * (16 / static_cast<int64_t>(sizeof(Element)));
  fill_kernel<Element><<<static_cast<unsigned>(ceil_div(args.count, per_block)), kThreads, 0, stream>>>(
      static_cast<Element*>(args.x.data), args.count, pattern, aligned_to_packs({args.x.data}));
  PLIMSOLL_CHECK_LAUNCH("fill");
}

}  // namespace
}  // namespace cuda

void fill_cuda(const FillArgs& args, CudaStream stream) {
  if (args.count <= 0) return;
  switch (dtype_bytes(args.x.dtype)) {
    case 8:
      return cuda::launch_fill<uint64_t>(args, stream);
    case 4:
      return cuda::launch_fill<uint32_t>(args, stream);
    case 2:
      return cuda::launch_fill<uint16_t>(args, stream);
    default:
      return cuda::launch_fill<uint8_t>(args, stream);
  }
}

namespace cuda {
namespace {

constexpr int kCopyThreads = 256;

__global__ void __launch_bounds__(kCopyThreads)
    copy_weights_kernel(const float* weight, __nv_bfloat16* low, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kCopyThreads + threadIdx.x;
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
  const auto blocks = static_cast<unsigned>(cuda::ceil_div(args.n, cuda::kCopyThreads));
  cuda::copy_weights_kernel<<<blocks, cuda::kCopyThreads, 0, stream>>>(
      args.weight.as<float>(), static_cast<__nv_bfloat16*>(args.low.data), args.n);
  PLIMSOLL_CHECK_LAUNCH("copy_weights");
}

}  // namespace plimsoll
