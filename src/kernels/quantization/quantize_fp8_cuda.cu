#include <cuda_fp8.h>

#include <algorithm>

#include "kernels/element_wise/cuda/vectors.cuh"
#include "kernels/quantization/quantize_fp8.h"

namespace plimsoll {
namespace cuda {
namespace {

constexpr int kThreads = 256;

// The first kernel computes amax. It compares the magnitudes of 16-bit numbers as integers, which have the same order; NaN is above
// infinity.

constexpr int kPacksInFlight = 4;
constexpr int kMostBlocks = 132 * 8;

template <typename T>
__device__ __forceinline__ float widen_bits(uint32_t bits) {
  return widen<T>(bits).x;
}

// Computes amax. The kernel reads x from its end, which is probably still in the cache after the kernel that wrote x. The kernel that
// quantizes x then starts at the beginning of x, which this kernel has read last.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    amax_kernel(const T* x, int64_t packs, int64_t packs_of_row, const int32_t* num_rows,
                const int32_t* accumulate, uint32_t* amax) {
  if (accumulate != nullptr && *accumulate != 0) return;
  if (num_rows != nullptr) packs = *num_rows * packs_of_row;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  uint32_t largest = 0;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; first < packs;
       first += kPacksInFlight * stride) {
    Raw<T, kPack<T>> raw[kPacksInFlight] = {};
#pragma unroll
    for (int u = 0; u < kPacksInFlight; ++u) {
      const int64_t pack = first + u * stride;
      if (pack < packs) raw[u] = load_raw<T, kPack<T>>(x + (packs - 1 - pack) * kPack<T>);
    }
#pragma unroll
    for (int u = 0; u < kPacksInFlight; ++u) {
#pragma unroll
      for (int i = 0; i < Raw<T, kPack<T>>::kWords; ++i)
        largest = __vmaxu2(largest, raw[u].word[i] & 0x7fff7fffu);
    }
  }
  largest = max(largest & 0xffffu, largest >> 16);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
  __shared__ uint32_t of_warp[kThreads / 32];
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = largest;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (const uint32_t other : of_warp) largest = max(largest, other);
  if (largest != 0) atomicMax(amax, __float_as_uint(widen_bits<T>(largest)));
}

// The second kernel quantizes. A thread block processes a tile of the matrix, and each thread four rows and eight columns of the tile. The
// transposed codes are exchanged through shared memory, in words of the codes of four adjacent rows.

constexpr int kTileRows = 128;
constexpr int kTileColumns = 64;
constexpr int kRowsOfThread = 4;
constexpr int kColumnsOfThread = 8;
constexpr int kWordsOfColumn = kTileRows / 4;
static_assert(kTileRows * kTileColumns == kThreads * kRowsOfThread * kColumnsOfThread);

struct Fp8Matrix {
  uint8_t* q;
  uint8_t* q_t;
  float* scale;
  const float* known;
  int64_t rows;
  int64_t columns;
  const int32_t* num_rows;
  const int32_t* accumulate;
};

// Computes the scale with the roundings of fp8_scale() of quantize_fp8_ref.cc.
__device__ __forceinline__ float scale_of(float amax, float largest) {
  if (!isfinite(amax)) return __uint_as_float(0x7fc00000u);
  return fmaxf(__fdiv_rn(amax, largest), 0x1p-126f);
}

// Returns the codes of four numbers in one word. The first is in the lowest byte.
template <__nv_fp8_interpretation_t kFormat>
__device__ __forceinline__ uint32_t codes_of(float a, float b, float c, float d) {
  const uint32_t low = __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, kFormat);
  const uint32_t high = __nv_cvt_float2_to_fp8x2(make_float2(c, d), __NV_SATFINITE, kFormat);
  return low | high << 16;
}

// Transposes a matrix of 4 x 4 bytes, whose rows are words.
__device__ __forceinline__ void transpose_bytes(const uint32_t (&rows)[4], uint32_t (&columns)[4]) {
  const uint32_t low01 = __byte_perm(rows[0], rows[1], 0x5140);
  const uint32_t low23 = __byte_perm(rows[2], rows[3], 0x5140);
  const uint32_t high01 = __byte_perm(rows[0], rows[1], 0x7362);
  const uint32_t high23 = __byte_perm(rows[2], rows[3], 0x7362);
  columns[0] = __byte_perm(low01, low23, 0x5410);
  columns[1] = __byte_perm(low01, low23, 0x7632);
  columns[2] = __byte_perm(high01, high23, 0x5410);
  columns[3] = __byte_perm(high01, high23, 0x7632);
}

template <typename T, __nv_fp8_interpretation_t kFormat>
__global__ void __launch_bounds__(kThreads) quantize_kernel(const T* x, const Fp8Matrix out, float largest) {
  if (out.accumulate != nullptr && *out.accumulate != 0) return;
  // One unused word follows the words of each column, so that the threads of a warp write to different banks of shared memory.
  __shared__ uint32_t tile[kTileColumns][kWordsOfColumn + 1];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int pack = lane % 4 + warp % 2 * 4;       // index of the thread's eight columns in the tile
  const int row_group = lane / 4 + warp / 2 * 8;  // index of the thread's four rows in the tile
  const int64_t first_row = static_cast<int64_t>(blockIdx.y) * kTileRows;
  const int64_t first_column = static_cast<int64_t>(blockIdx.x) * kTileColumns;
  const int64_t row = first_row + row_group * kRowsOfThread;
  const int64_t column = first_column + pack * kColumnsOfThread;
  const int64_t num_rows = out.num_rows != nullptr ? *out.num_rows : out.rows;
  Raw<T, kColumnsOfThread> raw[kRowsOfThread] = {};
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) {
    if (row + r < num_rows && column < out.columns)
      raw[r] = load_raw<T, kColumnsOfThread>(x + (row + r) * out.columns + column);
  }
  const float scale = out.known != nullptr ? out.known[0] : scale_of(out.scale[1], largest);
  if (out.scale != nullptr && blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) {
    out.scale[0] = scale;
    if (out.known != nullptr) out.scale[1] = out.known[1];
  }
  const float inverse = __fdiv_rn(1.0f, scale);
  uint32_t codes[2][kRowsOfThread];  // words of four codes, [half of the eight columns][row of the thread]
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float2 a = widen<T>(raw[r].word[2 * half]), b = widen<T>(raw[r].word[2 * half + 1]);
      const uint32_t four = codes_of<kFormat>(__fmul_rn(a.x, inverse), __fmul_rn(a.y, inverse),
                                              __fmul_rn(b.x, inverse), __fmul_rn(b.y, inverse));
      codes[half][r] = row + r < num_rows ? four : 0;
    }
    if (out.q != nullptr && row + r < out.rows && column < out.columns) {
      *reinterpret_cast<uint2*>(out.q + (row + r) * out.columns + column) =
          make_uint2(codes[0][r], codes[1][r]);
    }
  }
  if (out.q_t == nullptr) return;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    uint32_t columns[4];
    transpose_bytes(codes[half], columns);
#pragma unroll
    for (int c = 0; c < 4; ++c) tile[pack * kColumnsOfThread + half * 4 + c][row_group] = columns[c];
  }
  __syncthreads();
  constexpr int kChunks = kTileRows / 16;  // number of groups of 16 rows in a column of the tile
#pragma unroll
  for (int at = threadIdx.x; at < kTileColumns * kChunks; at += kThreads) {
    const int tile_column = at / kChunks, chunk = at % kChunks;
    const int64_t t = first_row + chunk * 16, c = first_column + tile_column;
    if (t >= out.rows || c >= out.columns) continue;
    const uint32_t* words = &tile[tile_column][chunk * 4];
    *reinterpret_cast<uint4*>(out.q_t + c * out.rows + t) =
        make_uint4(words[0], words[1], words[2], words[3]);
  }
}

template <typename T>
void launch(const QuantizeFp8Args& args, const int32_t* num_rows, const int32_t* accumulate,
            CudaStream stream) {
  const T* x = static_cast<const T*>(args.x.data);
  auto* scale = static_cast<float*>(args.scale.data);
  const int64_t packs_of_row = args.columns / kPack<T>;
  if (!args.known) {
    PLIMSOLL_CUDA(cudaMemsetAsync(scale + 1, 0, sizeof(float), stream));
    const int64_t packs = args.rows * packs_of_row;
    const auto blocks = static_cast<unsigned>(
        std::min<int64_t>(kMostBlocks, ceil_div(packs, int64_t{kThreads} * kPacksInFlight)));
    amax_kernel<T><<<blocks, kThreads, 0, stream>>>(x, packs, packs_of_row, num_rows, accumulate,
                                                    reinterpret_cast<uint32_t*>(scale + 1));
  }
  const Fp8Matrix out{static_cast<uint8_t*>(args.q.data),
                      static_cast<uint8_t*>(args.q_t.data),
                      scale,
                      static_cast<const float*>(args.known.data),
                      args.rows,
                      args.columns,
                      num_rows,
                      accumulate};
  const dim3 grid(static_cast<unsigned>(ceil_div(args.columns, int64_t{kTileColumns})),
                  static_cast<unsigned>(ceil_div(args.rows, int64_t{kTileRows})));
  const float largest = largest_fp8(args.format);
  if (args.format == DType::kE4M3) {
    quantize_kernel<T, __NV_E4M3><<<grid, kThreads, 0, stream>>>(x, out, largest);
  } else {
    quantize_kernel<T, __NV_E5M2><<<grid, kThreads, 0, stream>>>(x, out, largest);
  }
  PLIMSOLL_CHECK_LAUNCH("quantize_fp8_cuda");
}

}  // namespace
}  // namespace cuda

void quantize_fp8_cuda(const QuantizeFp8Args& args, const int32_t* num_rows, const int32_t* accumulate,
                       CudaStream stream) {
  PLIMSOLL_CHECK(args.x && is_fp8(args.format) && (args.scale || args.known),
                 "quantize_fp8_cuda: x and a scale must be given and the format must be an fp8 type, but the "
                 "format is {} or an operand is missing",
                 dtype_name(args.format));
  PLIMSOLL_CHECK(
      args.rows % kFp8Multiple == 0 && args.columns % kFp8Multiple == 0,
      "quantize_fp8_cuda: the numbers of rows and columns must be multiples of {}, but are {} and {}",
      kFp8Multiple, args.rows, args.columns);
  PLIMSOLL_CHECK(args.x.dtype == DType::kBF16 || args.x.dtype == DType::kF16,
                 "quantize_fp8_cuda: x must be bf16 or f16, but is {}", dtype_name(args.x.dtype));
  if (args.x.dtype == DType::kBF16) {
    cuda::launch<__nv_bfloat16>(args, num_rows, accumulate, stream);
  } else {
    cuda::launch<__half>(args, num_rows, accumulate, stream);
  }
}

}  // namespace plimsoll
