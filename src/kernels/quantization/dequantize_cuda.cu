#include <cstring>

#include "kernels/element_wise/cuda/vectors.cuh"
#include "kernels/quantization/quantization.h"

namespace plimsoll {
namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kPacks = 8;  // number of vectors that a thread loads before it computes the first one

// For each code, the number that it represents. The tables are kernel parameters, which the GPU keeps in constant memory.
struct FourBitTable {
  float numbers[16];
};
struct ScaleTable {
  float numbers[256];
};

// Returns the number of this thread's vector u, counted over all threads; the vector starts at element number * N. The vectors of a thread
// are kThreads apart.
__device__ __forceinline__ int64_t pack_of(int u) {
  return (static_cast<int64_t>(blockIdx.x) * kPacks + u) * kThreads + threadIdx.x;
}
template <int N>
unsigned blocks_of(int64_t count) {
  return static_cast<unsigned>(ceil_div(count, int64_t{kThreads} * kPacks * N));
}

// Loads kBytes adjacent bytes. The first byte becomes the lowest bits.
template <int kBytes>
__device__ __forceinline__ uint64_t load_bytes(const void* p) {
  if constexpr (kBytes == 8) return *static_cast<const uint64_t*>(p);
  if constexpr (kBytes == 4) return *static_cast<const uint32_t*>(p);
  if constexpr (kBytes == 2) return *static_cast<const uint16_t*>(p);
  static_assert(kBytes == 8 || kBytes == 4 || kBytes == 2 || kBytes == 1);
  return *static_cast<const uint8_t*>(p);
}

struct FourBitMatrix {
  const uint8_t* codes;
  const void* scales;  // absmax of each quantization block: u8 codes with double quantization, otherwise f32
  const float* second_scales;  // scales of the absmax codes; null without double quantization
  const float* offsets;
  int64_t count;          // number of elements per separately quantized part of the matrix
  int64_t blocks;         // number of quantization blocks per separately quantized part
  int64_t second_blocks;  // number of blocks of absmax codes per separately quantized part
};

// The stored values from which the scale of a quantization block is computed. They are loaded at the same time as the codes.
struct RawScale {
  float number = 0.0f;  // absmax, or the second-level scale of the block's absmax
  uint8_t code = 0;

  __device__ __forceinline__ void load(const FourBitMatrix& a, int64_t part, int64_t block) {
    if (a.second_scales == nullptr) {
      number = static_cast<const float*>(a.scales)[part * a.blocks + block];
    } else {
      code = static_cast<const uint8_t*>(a.scales)[part * a.blocks + block];
      number = a.second_scales[part * a.second_blocks + block / kScaleBlock];
    }
  }
  // The intrinsics keep the compiler from fusing the multiplication and the addition. The contract requires that both are rounded.
  __device__ __forceinline__ float absmax(const FourBitMatrix& a, const float* scale_numbers,
                                          float offset) const {
    if (a.second_scales == nullptr) return number;
    return __fadd_rn(__fmul_rn(scale_numbers[code], number), offset);
  }
};

// Dequantizes 4-bit codes. blockIdx.y selects a separately quantized part of the matrix. A thread reads the codes of N elements (a vector)
// at once. They share one scale, because quantization blocks begin at multiples of 64 elements.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    four_bit_kernel(const FourBitMatrix a, T* w, FourBitTable table, ScaleTable scale_table) {
  __shared__ float numbers[16];
  __shared__ float scale_numbers[256];
  const int64_t part = blockIdx.y;
  const uint8_t* codes = a.codes + part * ((a.count + 1) / 2);
  uint32_t words[kPacks] = {};
  RawScale scales[kPacks];
  const float offset = a.second_scales != nullptr ? a.offsets[part] : 0.0f;
#pragma unroll
  for (int u = 0; u < kPacks; ++u) {
    const int64_t first = pack_of(u) * N;
    if (first >= a.count) continue;
    scales[u].load(a, part, first / kQuantizationBlock);
    words[u] = static_cast<uint32_t>(load_bytes<(N + 1) / 2>(codes + first / 2));
  }
  if (threadIdx.x < 16) numbers[threadIdx.x] = table.numbers[threadIdx.x];
  scale_numbers[threadIdx.x] = scale_table.numbers[threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int u = 0; u < kPacks; ++u) {
    const int64_t first = pack_of(u) * N;
    if (first >= a.count) continue;
    const float absmax = scales[u].absmax(a, scale_numbers, offset);
    float values[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      // The first of the two codes in a byte is in its upper half.
      const int64_t place = N == 1 ? first % 2 : i;
      values[i] = numbers[words[u] >> (place / 2 * 8 + (place % 2 == 0 ? 4 : 0)) & 15u] * absmax;
    }
    store_floats<T, N>(w + part * a.count + first, values);
  }
}

// Dequantizes 8-bit codes, N elements (a vector) at a time. `packs_of_row` is the number of vectors per row; each vector is within one row.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    eight_bit_kernel(const int8_t* codes, const float* scales, T* w, int64_t packs, uint32_t packs_of_row) {
  uint64_t words[kPacks] = {};
  float absmax[kPacks] = {};
#pragma unroll
  for (int u = 0; u < kPacks; ++u) {
    const int64_t pack = pack_of(u);
    if (pack >= packs) continue;
    words[u] = load_bytes<N>(codes + pack * N);
    absmax[u] = scales[static_cast<uint32_t>(pack) / packs_of_row];
  }
#pragma unroll
  for (int u = 0; u < kPacks; ++u) {
    const int64_t pack = pack_of(u);
    if (pack >= packs) continue;
    const float scale = __fdiv_rn(absmax[u], 127.0f);
    float values[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      values[i] = static_cast<float>(static_cast<int8_t>(words[u] >> (8 * i) & 0xffu)) * scale;
    }
    store_floats<T, N>(w + pack * N, values);
  }
}

template <typename T, int N>
void launch_eight_bit(const DequantizeArgs& args, CudaStream stream) {
  const int64_t count = args.rows * args.columns;
  PLIMSOLL_CHECK(
      count / N < int64_t{1} << 32,
      "dequantize_cuda needs a tensor whose vectors can be numbered in 32 bits, but this one has {} elements",
      count);
  eight_bit_kernel<T, N><<<blocks_of<N>(count), kThreads, 0, stream>>>(
      static_cast<const int8_t*>(args.codes.data), static_cast<const float*>(args.scales.data),
      static_cast<T*>(args.w.data), count / N, static_cast<uint32_t>(args.columns / N));
}

template <typename T, int N>
void launch_four_bit(const DequantizeArgs& args, CudaStream stream) {
  const int64_t count = args.rows / args.parts * args.columns;
  const int64_t blocks = ceil_div(count, kQuantizationBlock);
  FourBitTable table;
  std::memcpy(table.numbers, four_bit_numbers(args.format).data(), sizeof table.numbers);
  ScaleTable scale_table;
  std::memcpy(scale_table.numbers, scale_numbers().data(), sizeof scale_table.numbers);
  const dim3 grid(blocks_of<N>(count), static_cast<unsigned>(args.parts));
  four_bit_kernel<T, N><<<grid, kThreads, 0, stream>>>(
      FourBitMatrix{static_cast<const uint8_t*>(args.codes.data), args.scales.data,
                    static_cast<const float*>(args.second_scales.data),
                    static_cast<const float*>(args.offsets.data), count, blocks,
                    ceil_div(blocks, kScaleBlock)},
      static_cast<T*>(args.w.data), table, scale_table);
}

// The kernel processes several adjacent elements (a vector) at a time if every row (8-bit codes) or every separately quantized part (4-bit
// codes) consists of whole vectors. Otherwise it processes elements one by one.
template <typename T>
void launch(const DequantizeArgs& args, CudaStream stream) {
  constexpr int kN = kPack<T>;
  const bool aligned = aligned_to_packs({args.codes.data, args.w.data});
  if (args.format == QuantizedFormat::kInt8) {
    if (aligned && args.columns % kN == 0) {
      launch_eight_bit<T, kN>(args, stream);
    } else {
      launch_eight_bit<T, 1>(args, stream);
    }
  } else if (aligned && args.rows / args.parts * args.columns % kN == 0) {
    launch_four_bit<T, kN>(args, stream);
  } else {
    launch_four_bit<T, 1>(args, stream);
  }
  PLIMSOLL_CHECK_LAUNCH("dequantize_cuda");
}

}  // namespace
}  // namespace cuda

void dequantize_cuda(const DequantizeArgs& args, CudaStream stream) {
  PLIMSOLL_CHECK(args.codes && args.scales,
                 "dequantize_cuda needs codes and scales, but at least one is missing");
  const DType dtype = cuda::cuda_type_of("dequantize_cuda", {{"w", args.w}});
  cuda::with_cuda_type(dtype, [&](auto type) { cuda::launch<decltype(type)>(args, stream); });
}

}  // namespace plimsoll
