// Matrix products of tiles on Hopper's tensor cores by a warpgroup of four warps, with the wgmma instructions of sm_90a (compute capability
// 9.0 only). A tile has 64 rows of 64 or 128 16-bit elements. A tile of 128 columns is two tiles of 64, one after the other.
// attention_wgmma_tf32.cuh contains the functions for tiles of floats. The products are asynchronous: their accumulators must not be
// accessed between close_products() and wait_for_products(). A warp's accumulators and left operands have the layout of mma.sync, for 16 of
// the warpgroup's 64 rows. Device code only.
#pragma once

#include "kernels/attention/attention_steps.cuh"
#include "kernels/matmul/wgmma.cuh"

namespace plimsoll::attention {

inline constexpr int kWgmmaDim = 64;  // the largest head size of the warpgroup kernels for floats
inline constexpr uint32_t kWgmmaPart = 64 * 64 * 2;  // bytes of a tile of 64 rows of 64 16-bit elements
template <int kDim>
inline constexpr uint32_t kWgmmaTile = kDim / 64 * kWgmmaPart;
// Returns the byte offset of a chunk of 16 bytes within a tile.
__device__ inline uint32_t wgmma_offset(int row, int chunk) {
  return static_cast<uint32_t>(chunk / 8) * kWgmmaPart + lane_offset<64>(row, chunk % 8);
}

using wgmma::begin_products;
using wgmma::close_products;
using wgmma::descriptor;  // returns the descriptor of a tile in the layout of attention_mma.cuh
using wgmma::fence_async_proxy;
using wgmma::kWarpgroup;
using wgmma::wait_for_products;
// Keeps the compiler from reading the accumulators before wait_for_products().
template <int kN>
__device__ inline void hold(float (&acc)[kN][4]) {
#pragma unroll
  for (auto& four : acc) {
#pragma unroll
    for (float& x : four) asm volatile("" : "+f"(x)::"memory");
  }
}

// Operands of an inline assembler statement: eight accumulators of four floats each, from c[from] on. "+f" means that a float is read and
// written.
#define PLIMSOLL_FOUR(x) "+f"((x)[0]), "+f"((x)[1]), "+f"((x)[2]), "+f"((x)[3])
#define PLIMSOLL_EIGHT_FOURS(c, from)                                                     \
  PLIMSOLL_FOUR(c[from]), PLIMSOLL_FOUR(c[from + 1]), PLIMSOLL_FOUR(c[from + 2]),         \
      PLIMSOLL_FOUR(c[from + 3]), PLIMSOLL_FOUR(c[from + 4]), PLIMSOLL_FOUR(c[from + 5]), \
      PLIMSOLL_FOUR(c[from + 6]), PLIMSOLL_FOUR(c[from + 7])
#define PLIMSOLL_ACCUMULATORS_64                                                                    \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, " \
  "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define PLIMSOLL_ACCUMULATORS_128                                                                     \
  PLIMSOLL_ACCUMULATORS_64                                                                            \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, " \
  "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
// The text of a PTX wgmma instruction with this `shape`, this `type` of both operands and this list of accumulators. `adds` is the number
// of the operand that states whether the product is added to the accumulators. `operands` are the left operand, the right operand, and the
// flags that follow them.
#define PLIMSOLL_WGMMA_TEXT(shape, type, accumulators, adds, operands) \
  "{\n.reg .pred p;\nsetp.ne.b32 p, " adds                             \
  ", 0;\n"                                                             \
  "wgmma.mma_async.sync.aligned." shape ".f32." type "." type " {" accumulators "}, " operands ";\n}"
// Expand to one wgmma instruction whose accumulators c have 64 x 64 or 64 x 128 elements.
#define PLIMSOLL_WGMMA_64(shape, type, adds, operands, c, ...)                            \
  asm volatile(PLIMSOLL_WGMMA_TEXT(shape, type, PLIMSOLL_ACCUMULATORS_64, adds, operands) \
               : PLIMSOLL_EIGHT_FOURS(c, 0)                                               \
               : __VA_ARGS__)
#define PLIMSOLL_WGMMA_128(shape, type, adds, operands, c, ...)                            \
  asm volatile(PLIMSOLL_WGMMA_TEXT(shape, type, PLIMSOLL_ACCUMULATORS_128, adds, operands) \
               : PLIMSOLL_EIGHT_FOURS(c, 0), PLIMSOLL_EIGHT_FOURS(c, 8)                    \
               : __VA_ARGS__)

// Computes c = a b^T, or c += a b^T if `adds` is not 0, for 16 columns of two tiles a and b of 64 rows, which are given by descriptors.
template <DType kType>
__device__ inline void multiply_tiles(float (&c)[8][4], uint64_t a, uint64_t b, int adds) {
  if constexpr (kType == DType::kBF16) {
    PLIMSOLL_WGMMA_64("m64n64k16", "bf16", "%34", "%32, %33, p, 1, 1, 0, 0", c, "l"(a), "l"(b), "r"(adds));
  } else {
    PLIMSOLL_WGMMA_64("m64n64k16", "f16", "%34", "%32, %33, p, 1, 1, 0, 0", c, "l"(a), "l"(b), "r"(adds));
  }
}
// Computes c = a b^T for two whole tiles a and b of 64 rows, given by their addresses.
template <DType kType, int kDim>
__device__ inline void multiply_whole_tiles(float (&c)[8][4], uint32_t a, uint32_t b) {
  const uint64_t left = descriptor(a), right = descriptor(b);
#pragma unroll
  for (int step = 0; step < kDim / 16; ++step) {
    const uint64_t at = step / 4 * (kWgmmaPart / 16) + 2 * (step % 4);
    multiply_tiles<kType>(c, left + at, right + at, step);
  }
}

// Computes c = a b, or c += a b if `adds` is not 0. b is the descriptor of 16 rows of a tile of 64 columns.
template <DType kType>
__device__ inline void multiply_rows_of(float (&c)[8][4], const uint32_t (&a)[4], uint64_t b, int adds) {
  if constexpr (kType == DType::kBF16) {
    PLIMSOLL_WGMMA_64("m64n64k16", "bf16", "%37", "{%32, %33, %34, %35}, %36, p, 1, 1, 1", c, "r"(a[0]),
                      "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
  } else {
    PLIMSOLL_WGMMA_64("m64n64k16", "f16", "%37", "{%32, %33, %34, %35}, %36, p, 1, 1, 1", c, "r"(a[0]),
                      "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
  }
}
// Computes c = a b, or c += a b if `adds` is not 0. b is the descriptor of 16 rows of a tile of 128 columns. Requires: b comes from
// row_descriptor().
template <DType kType>
__device__ inline void multiply_rows_of(float (&c)[16][4], const uint32_t (&a)[4], uint64_t b, int adds) {
  if constexpr (kType == DType::kBF16) {
    PLIMSOLL_WGMMA_128("m64n128k16", "bf16", "%69", "{%64, %65, %66, %67}, %68, p, 1, 1, 1", c, "r"(a[0]),
                       "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
  } else {
    PLIMSOLL_WGMMA_128("m64n128k16", "f16", "%69", "{%64, %65, %66, %67}, %68, p, 1, 1, 1", c, "r"(a[0]),
                       "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
  }
}
// Returns the descriptor of a tile for multiply_rows_of(). A tile of 128 columns is stored as two tiles of 64 columns. The field "leading
// dimension byte offset" is the distance between these in units of 16 bytes (PTX ISA, "Asynchronous warpgroup-level matrix shared memory
// layout").
template <int kDim>
__device__ inline uint64_t row_descriptor(uint32_t tile) {
  if constexpr (kDim == 64) return descriptor(tile);
  return (descriptor(tile) & ~(uint64_t{0x3fff} << 16)) | uint64_t{kWgmmaPart / 16} << 16;
}
// Computes c += a b for a tile b of 64 rows. a consists of four left operands, each of which is multiplied by 16 rows of b.
template <DType kType, int kDim>
__device__ inline void multiply_by_tile(float (&c)[kDim / 8][4], const uint32_t (&a)[4][1][4],
                                        uint32_t tile) {
  const uint64_t b = row_descriptor<kDim>(tile);
#pragma unroll
  for (int step = 0; step < 4; ++step) multiply_rows_of<kType>(c, a[step][0], b + 128 * step, 1);
}

// Computes c = a b^T, or c += a b^T if `adds` is not 0, in tf32. b is the descriptor of 8 columns of a tile of 64 rows of floats.
__device__ inline void multiply_columns_of(float (&c)[8][4], const uint32_t (&a)[4], uint64_t b, int adds) {
  PLIMSOLL_WGMMA_64("m64n64k8", "tf32", "%37", "{%32, %33, %34, %35}, %36, p, 1, 1", c, "r"(a[0]), "r"(a[1]),
                    "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
}
#undef PLIMSOLL_WGMMA_128
#undef PLIMSOLL_WGMMA_64
#undef PLIMSOLL_WGMMA_TEXT
#undef PLIMSOLL_ACCUMULATORS_128
#undef PLIMSOLL_ACCUMULATORS_64
#undef PLIMSOLL_EIGHT_FOURS
#undef PLIMSOLL_FOUR

// Replaces the scores of a warp's rows and 64 keys by probabilities.
__device__ inline void exponentiate(const RowValues<1>& rows, float exponent, float (&x)[1][8][4]) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) x[0][n][e] = exp2_approx(fmaf(x[0][n][e], exponent, -rows.lse[0][e / 2]));
  }
}
// Computes d_x, the gradients of the scores, from the probabilities x and the products y of d_o and the values. Overwrites x with d_x.
template <bool kDropout>
__device__ inline void differentiate(const AttentionKernelArgs& args, const RowValues<1>& rows,
                                     const KeepDraw<1>& keep, float (&x)[1][8][4],
                                     const float (&y)[1][8][4]) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      float factor = y[0][n][e];
      if constexpr (kDropout) factor = keep.keeps(e / 2, n, e % 2) ? factor * args.keep_scale : 0.0f;
      x[0][n][e] *= factor - rows.delta[0][e / 2];
    }
  }
}

// Adds up the partial sums of exponentials of all lanes. Returns the factors by which the rows of o must be multiplied, and writes lse of
// each row.
__device__ inline void finish_softmax(const AttentionKernelArgs& args, const Work& work, int warp_row,
                                      const float (&largest)[1][2], const float (&sum)[1][2],
                                      float (&factor)[1][2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float total = sum_of_quad(sum[0][half]);
    factor[0][half] = args.keep_scale / total;
    const int row = work.row + warp_row + 8 * half + lane / 4;
    if (args.lse != nullptr && lane % 4 == 0 && row < work.count) {
      args.lse[static_cast<int64_t>(work.head) * args.tokens + work.first + row] =
          fmaf(largest[0][half], args.scale, logf(total));
    }
  }
}

// Copies consecutive tiles of 64 rows with all threads of a warpgroup, which together copy 16 rows of eight 16-byte chunks at a time. Only
// a pointer and a count of rows change from tile to tile, which keeps the number of instructions in the loop over tiles small.
template <int kDim>
class TileReader {
 public:
  // Sets the first row to copy, counted from the start of the sequence. Requires: rows aligned to 16 bytes.
  __device__ TileReader(const AttentionKernelArgs& args, const Work& work, const void* data, int64_t stride,
                        int row) {
    const int thread = static_cast<int>(threadIdx.x) % kWarpgroup;
    const int chunk = thread % 8, first = row + thread / 8;
    from_ = static_cast<const std::byte*>(data) +
            ((work.first + first) * stride + static_cast<int64_t>(work.head) * args.head_dim) * 2 +
            16 * chunk;
    rows_apart_ = 16 * stride * 2;
    rows_left_ = 8 * chunk < args.head_dim ? work.count - first : 0;
    columns_left_ = args.head_dim - 8 * chunk;
    place_ = lane_offset<64>(thread / 8, chunk);
  }

  // Starts copying the next 64 rows. Elements past the end of the sequence or the head size are zero.
  __device__ void copy_next(uint32_t tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int part = 0; part < kDim / 64; ++part) {
        copy_16(tile + part * kWgmmaPart + place_ + i * 16 * 128, from_ + 128 * part,
                16 * i < rows_left_ && (part == 0 || 64 * part < columns_left_));
      }
      from_ += rows_apart_;
    }
    rows_left_ -= 64;
  }

 private:
  const std::byte* from_;
  int64_t rows_apart_;
  // The number of rows of the sequence from this thread's next row on; 0 if its chunk is after the end of the head.
  int rows_left_;
  int columns_left_;  // number of columns of the head from the first column of this thread's chunk on
  uint32_t place_;
};

}  // namespace plimsoll::attention
