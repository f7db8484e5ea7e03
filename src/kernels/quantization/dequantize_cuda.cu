#include <cstring>

#include "kernels/element_wise/cuda/vectors.cuh"
#include "kernels/quantization/dequantize_cuda.h"

namespace plimsoll {
namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kElementsPerThread = 8;

// By value: a launch carries them in its parameters, which lie in constant memory.
struct FourBitTable {
  float numbers[16];
};
struct ScaleTable {
  float numbers[256];
};

struct FourBitShape {
  int64_t count;          // elements of a part
  int64_t blocks;         // of a part
  int64_t second_blocks;  // of a part
};

// A thread takes eight elements of a part, all of one block: blocks begin at multiples of 64. The grid's
// second dimension is the part.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    four_bit_kernel(const uint8_t* codes, const void* scales, const float* second_scales,
                    const float* offsets, T* w, FourBitShape shape, FourBitTable table,
                    ScaleTable scale_table) {
  __shared__ float numbers[16];
  __shared__ float scale_numbers_of[256];
  if (threadIdx.x < 16) numbers[threadIdx.x] = table.numbers[threadIdx.x];
  if (second_scales != nullptr) scale_numbers_of[threadIdx.x] = scale_table.numbers[threadIdx.x];
  __syncthreads();
  const int64_t part = blockIdx.y;
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kElementsPerThread;
  if (first >= shape.count) return;
  const int64_t block = first / kQuantizationBlock;
  float absmax;
  if (second_scales != nullptr) {
    const uint8_t code = static_cast<const uint8_t*>(scales)[part * shape.blocks + block];
    // Two roundings: the compiler must not fuse them.
    absmax = __fadd_rn(
        __fmul_rn(scale_numbers_of[code], second_scales[part * shape.second_blocks + block / kScaleBlock]),
        offsets[part]);
  } else {
    absmax = static_cast<const float*>(scales)[part * shape.blocks + block];
  }
  const uint8_t* from = codes + part * ((shape.count + 1) / 2) + first / 2;
  T* to = w + part * shape.count + first;
  float values[kElementsPerThread];
#pragma unroll
  for (int i = 0; i < kElementsPerThread; i += 2) {
    if (first + i >= shape.count) break;
    const uint8_t pair = from[i / 2];
    values[i] = numbers[pair >> 4] * absmax;
    values[i + 1] = numbers[pair & 15] * absmax;
  }
#pragma unroll
  for (int i = 0; i < kElementsPerThread; ++i) {
    if (first + i < shape.count) {
      const float one[1] = {values[i]};
      store_floats<T, 1>(to + i, one);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    eight_bit_kernel(const int8_t* codes, const float* scales, T* w, int64_t n, int64_t columns) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const float scale = __fdiv_rn(scales[i / columns], 127.0f);
  const float one[1] = {static_cast<float>(codes[i]) * scale};
  store_floats<T, 1>(w + i, one);
}

template <typename T>
void launch(const DequantizeArgs& args, CudaStream stream) {
  T* w = static_cast<T*>(args.w.data);
  if (args.format == QuantizedFormat::kInt8) {
    const int64_t n = args.rows * args.columns;
    eight_bit_kernel<T><<<static_cast<unsigned>(ceil_div(n, kThreads)), kThreads, 0, stream>>>(
        static_cast<const int8_t*>(args.codes.data), static_cast<const float*>(args.scales.data), w, n,
        args.columns);
  } else {
    const int64_t count = args.rows / args.parts * args.columns;
    const int64_t blocks = ceil_div(count, kQuantizationBlock);
    FourBitTable table;
    std::memcpy(table.numbers, four_bit_numbers(args.format).data(), sizeof table.numbers);
    ScaleTable scale_table;
    std::memcpy(scale_table.numbers, scale_numbers().data(), sizeof scale_table.numbers);
    const dim3 grid(static_cast<unsigned>(ceil_div(count, kThreads * kElementsPerThread)),
                    static_cast<unsigned>(args.parts));
    four_bit_kernel<T><<<grid, kThreads, 0, stream>>>(
        static_cast<const uint8_t*>(args.codes.data), args.scales.data,
        static_cast<const float*>(args.second_scales.data), static_cast<const float*>(args.offsets.data), w,
        FourBitShape{count, blocks, ceil_div(blocks, kScaleBlock)}, table, scale_table);
  }
  PLIMSOLL_CHECK_LAUNCH("dequantize_cuda");
}

}  // namespace
}  // namespace cuda

void dequantize_cuda(const DequantizeArgs& args, CudaStream stream) {
  PLIMSOLL_CHECK(args.codes && args.scales, "dequantize_cuda: codes or scales are missing");
  const DType dtype = cuda::cuda_type_of("dequantize_cuda", {{"w", args.w}});
  cuda::with_cuda_type(dtype, [&](auto type) { cuda::launch<decltype(type)>(args, stream); });
}

}  // namespace plimsoll
