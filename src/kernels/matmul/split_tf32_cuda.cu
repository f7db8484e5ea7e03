#include <cuda_runtime.h>

#include <algorithm>

#include "base/check.h"
#include "device/cuda/cuda_error.h"
#include "kernels/matmul/split_tf32.h"

namespace plimsoll {
namespace {

constexpr uint32_t kThreads = 256;
// The largest number of thread blocks: 16 for each multiprocessor of the largest GPUs, which keeps enough memory accesses in flight.
// Adjacent threads process adjacent elements, so that a warp accesses 512 adjacent bytes at a time.
constexpr uint32_t kMaxBlocks = 2304;

__device__ void split(float x, float& high, float& low) {
  const Tf32Parts parts = split_tf32(x);
  high = parts.high;
  low = parts.low;
}
__device__ void split(const float4& x, float4& high, float4& low) {
  split(x.x, high.x, low.x);
  split(x.y, high.y, low.y);
  split(x.z, high.z, low.z);
  split(x.w, high.w, low.w);
}

template <typename Vector>
__device__ void write(Vector* out, uint64_t terms, bool low_first, const Vector& x) {
  Vector high;
  Vector low;
  split(x, high, low);
  out[0] = low_first ? low : high;
  out[terms] = low_first ? high : low;
  out[2 * terms] = high;
}

// Splits a matrix whose terms are adjacent in its rows. `count` and `columns` are numbers of vectors, of one or four floats each.
template <typename Vector>
__global__ void __launch_bounds__(kThreads)
    split_rows_kernel(const Vector* __restrict__ x, Vector* __restrict__ out, uint32_t count,
                      uint32_t columns, bool low_first) {
  const uint32_t stride = gridDim.x * kThreads;
  for (uint64_t i = blockIdx.x * kThreads + threadIdx.x; i < count; i += stride) {
    // A row of the output is three times as long as a row of x, so each preceding row adds two more row lengths to the offset.
    const uint32_t row = static_cast<uint32_t>(i) / columns;
    write(out + (i + 2ull * row * columns), columns, low_first, x[i]);
  }
}

// The matrix is transposed in tiles of 64 x 64 elements in shared memory. Rows of x are then read, and rows of its transpose written, 16
// bytes at a time if the numbers of rows and of columns of x are multiples of 4.
constexpr uint32_t kTile = 64;

template <bool kVectors>
__global__ void __launch_bounds__(kThreads)
    split_columns_kernel(const float* __restrict__ x, float* __restrict__ out, uint32_t rows,
                         uint32_t columns, bool low_first) {
  constexpr uint32_t kWidth = kVectors ? 4 : 1;
  constexpr uint32_t kAcross = kTile / kWidth;    // number of adjacent threads along a row of the tile
  constexpr uint32_t kDown = kThreads / kAcross;  // number of rows that all threads process at a time
  __shared__ float tile[kTile][kTile + 1];  // indexed [column][row]; the odd stride avoids bank conflicts
  const uint32_t across = threadIdx.x % kAcross * kWidth;
  const uint32_t down = threadIdx.x / kAcross;
  const uint64_t first_row = uint64_t{blockIdx.y} * kTile;
  const uint64_t first_column = uint64_t{blockIdx.x} * kTile;
  for (uint32_t r = down; r < kTile; r += kDown) {
    if (first_row + r >= rows || first_column + across >= columns) continue;
    const float* from = x + (first_row + r) * columns + first_column + across;
    if constexpr (kVectors) {
      const float4 four = *reinterpret_cast<const float4*>(from);
      tile[across][r] = four.x;
      tile[across + 1][r] = four.y;
      tile[across + 2][r] = four.z;
      tile[across + 3][r] = four.w;
    } else {
      tile[across][r] = *from;
    }
  }
  __syncthreads();
  for (uint32_t c = down; c < kTile; c += kDown) {
    if (first_column + c >= columns || first_row + across >= rows) continue;
    float* to = out + (first_column + c) * 3 * rows + first_row + across;
    if constexpr (kVectors) {
      const float4 four{tile[c][across], tile[c][across + 1], tile[c][across + 2], tile[c][across + 3]};
      write(reinterpret_cast<float4*>(to), rows / 4, low_first, four);
    } else {
      write(to, rows, low_first, tile[c][across]);
    }
  }
}

bool is_aligned(ConstView view) {
  return reinterpret_cast<uintptr_t>(view.data) % 16 == 0;
}

template <typename Vector>
void launch_rows(const SplitTf32Args& args, CudaStream stream) {
  constexpr int64_t kWidth = sizeof(Vector) / sizeof(float);
  const int64_t count = args.rows * args.columns / kWidth;
  const auto blocks = static_cast<uint32_t>(
      std::min<int64_t>((count + int64_t{kThreads} - 1) / int64_t{kThreads}, int64_t{kMaxBlocks}));
  split_rows_kernel<<<blocks, kThreads, 0, stream>>>(
      static_cast<const Vector*>(args.x.data), static_cast<Vector*>(args.out.data),
      static_cast<uint32_t>(count), static_cast<uint32_t>(args.columns / kWidth),
      args.order == Tf32PartOrder::kLowHighHigh);
  PLIMSOLL_CHECK_LAUNCH("split_tf32");
}

template <bool kVectors>
void launch_columns(const SplitTf32Args& args, CudaStream stream) {
  const auto tiles = [](int64_t size) {
    return static_cast<uint32_t>((size + int64_t{kTile} - 1) / int64_t{kTile});
  };
  split_columns_kernel<kVectors><<<dim3(tiles(args.columns), tiles(args.rows)), kThreads, 0, stream>>>(
      static_cast<const float*>(args.x.data), static_cast<float*>(args.out.data),
      static_cast<uint32_t>(args.rows), static_cast<uint32_t>(args.columns),
      args.order == Tf32PartOrder::kLowHighHigh);
  PLIMSOLL_CHECK_LAUNCH("split_tf32, transposed");
}

}  // namespace

void split_tf32_cuda(const SplitTf32Args& args, CudaStream stream) {
  PLIMSOLL_CHECK(args.x.dtype == DType::kF32 && args.out.dtype == DType::kF32,
                 "split_tf32: the operand and its parts must be f32");
  PLIMSOLL_CHECK(is_aligned(args.x) && is_aligned(args.out),
                 "operands of split_tf32 must be aligned to 16 bytes");
  PLIMSOLL_CHECK(args.rows * args.columns < (int64_t{1} << 32),
                 "split_tf32 supports fewer than 2^32 elements, but the operand has {} x {}", args.rows,
                 args.columns);
  if (args.place == Tf32PartPlace::kAlongRows) {
    if (args.columns % 4 == 0) {
      launch_rows<float4>(args, stream);
    } else {
      launch_rows<float>(args, stream);
    }
    return;
  }
  static_assert(kTf32x3MaxTerms == int64_t{65535} * kTile, "the y dimension of a grid is at most 65535");
  PLIMSOLL_CHECK(args.rows <= kTf32x3MaxTerms, "split_tf32 supports at most {} rows, but the operand has {}",
                 kTf32x3MaxTerms, args.rows);
  if (args.rows % 4 == 0 && args.columns % 4 == 0) {
    launch_columns<true>(args, stream);
  } else {
    launch_columns<false>(args, stream);
  }
}

}  // namespace plimsoll
