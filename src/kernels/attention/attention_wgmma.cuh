// Products on Hopper's tensor cores by a warpgroup of four warps (wgmma: compute capability 9.0 only, code
// for sm_90a) of tiles of 64 rows of 64 16-bit elements. attention_wgmma_tf32.cuh has the tiles of floats.
// The products are asynchronous: their accumulators must not be accessed between close_products() and
// wait_for_products(). A warp's accumulators and left operands have the layout of mma.sync, for 16 of the
// warpgroup's 64 rows. Device code only.
#pragma once

#include "kernels/attention/attention_steps.cuh"
#include "kernels/matmul/wgmma.cuh"

namespace plimsoll::attention {

inline constexpr int kWgmmaDim = 64;
inline constexpr uint32_t kWgmmaTile = 64 * kWgmmaDim * 2;  // bytes

using wgmma::begin_products;
using wgmma::close_products;
using wgmma::descriptor;  // its tile layout is that of attention_mma.cuh
using wgmma::fence_async_proxy;
using wgmma::kWarpgroup;
using wgmma::wait_for_products;
// Prevents the compiler from moving reads of the accumulators ahead of the wait.
template <int kN>
__device__ inline void hold(float (&acc)[kN][4]) {
#pragma unroll
  for (auto& four : acc) {
#pragma unroll
    for (float& x : four) asm volatile("" : "+f"(x)::"memory");
  }
}

// Emits one PTX product with 64 x 64 accumulators in c, the given `shape` and the `type` of both operands.
// `adds` names the last operand, which says if the product is added to the accumulators. `operands` are the
// left operand, the right operand and the flags after them.
#define PLIMSOLL_WGMMA(shape, type, adds, operands, c, ...)                                               \
  asm volatile(                                                                                           \
      "{\n.reg .pred p;\nsetp.ne.b32 p, " adds                                                            \
      ", 0;\n"                                                                                            \
      "wgmma.mma_async.sync.aligned." shape ".f32." type "." type                                         \
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, " \
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, " operands ";\n}"                          \
      : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]),         \
        "+f"(c[1][2]), "+f"(c[1][3]), "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]),         \
        "+f"(c[3][0]), "+f"(c[3][1]), "+f"(c[3][2]), "+f"(c[3][3]), "+f"(c[4][0]), "+f"(c[4][1]),         \
        "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]), "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]),         \
        "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]), "+f"(c[7][0]), "+f"(c[7][1]),         \
        "+f"(c[7][2]), "+f"(c[7][3])                                                                      \
      : __VA_ARGS__)

// Computes acc = or += 64 rows of a times 64 rows of b, both over 16 columns of the tiles.
template <DType kType>
__device__ inline void multiply_tiles(float (&c)[8][4], uint64_t a, uint64_t b, int adds) {
  if constexpr (kType == DType::kBF16) {
    PLIMSOLL_WGMMA("m64n64k16", "bf16", "%34", "%32, %33, p, 1, 1, 0, 0", c, "l"(a), "l"(b), "r"(adds));
  } else {
    PLIMSOLL_WGMMA("m64n64k16", "f16", "%34", "%32, %33, p, 1, 1, 0, 0", c, "l"(a), "l"(b), "r"(adds));
  }
}

// Computes acc = or += the left operand times 16 rows of b, over its 64 columns.
template <DType kType>
__device__ inline void multiply_rows_of(float (&c)[8][4], const uint32_t (&a)[4], uint64_t b, int adds) {
  if constexpr (kType == DType::kBF16) {
    PLIMSOLL_WGMMA("m64n64k16", "bf16", "%37", "{%32, %33, %34, %35}, %36, p, 1, 1, 1", c, "r"(a[0]),
                   "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
  } else {
    PLIMSOLL_WGMMA("m64n64k16", "f16", "%37", "{%32, %33, %34, %35}, %36, p, 1, 1, 1", c, "r"(a[0]),
                   "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
  }
}

// Computes acc = or += the left operand times 8 fp32 columns of b in tf32. The 64 rows of b are the columns
// of the product.
__device__ inline void multiply_columns_of(float (&c)[8][4], const uint32_t (&a)[4], uint64_t b, int adds) {
  PLIMSOLL_WGMMA("m64n64k8", "tf32", "%37", "{%32, %33, %34, %35}, %36, p, 1, 1", c, "r"(a[0]), "r"(a[1]),
                 "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
}
#undef PLIMSOLL_WGMMA

// Turns the scores of a warp's rows with 64 keys into probabilities.
__device__ inline void exponentiate(const RowValues<1>& rows, float exponent, float (&x)[1][8][4]) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) x[0][n][e] = exp2_approx(fmaf(x[0][n][e], exponent, -rows.lse[0][e / 2]));
  }
}
// Turns probabilities x and products y (of d_o and the values) into d_x, stored in x.
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

// Computes the factors of a warp's rows of o from the lanes' partial sums of probabilities, and writes lse.
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

// Copies consecutive tiles of 64 rows with a warpgroup. All threads together copy 16 rows of eight 16-byte
// chunks at a time. Few registers are advanced per tile, because that cost recurs for every tile.
class TileReader {
 public:
  // Starts at `row` of the sequence. Requires: rows aligned to 16 bytes.
  __device__ TileReader(const AttentionKernelArgs& args, const Work& work, const void* data, int64_t stride,
                        int row) {
    const int thread = static_cast<int>(threadIdx.x) % kWarpgroup;
    const int chunk = thread % 8, first = row + thread / 8;
    from_ = static_cast<const std::byte*>(data) +
            ((work.first + first) * stride + static_cast<int64_t>(work.head) * args.head_dim) * 2 +
            16 * chunk;
    rows_apart_ = 16 * stride * 2;
    rows_left_ = 8 * chunk < args.head_dim ? work.count - first : 0;
    place_ = lane_offset<64>(thread / 8, chunk);
  }

  // Starts copying the next 64 rows. Elements past the end of the sequence or the head size are zero.
  __device__ void copy_next(uint32_t tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      copy_16(tile + place_ + i * 16 * 128, from_, 16 * i < rows_left_);
      from_ += rows_apart_;
    }
    rows_left_ -= 64;
  }

 private:
  const std::byte* from_;
  int64_t rows_apart_;
  int rows_left_;  // rows of the sequence from this thread's next one on
  uint32_t place_;
};

}  // namespace plimsoll::attention
