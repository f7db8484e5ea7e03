// Tiles of 64 rows of 64 floats for Hopper's tensor cores, multiplied in tf32. A tile consists of two halves
// of 64 rows of 32 columns; each half has the layout that attention_mma.cuh describes for rows of 128 bytes.
//
// In tf32 the summed index of a right operand must run along its rows. Operands that are stored differently are transposed: after a tile
// has been copied, each thread rounds the elements that it copied itself and stores them transposed. Left operands are held in registers.
// Device code only.
#pragma once

#include "kernels/attention/attention_wgmma.cuh"

namespace plimsoll::attention {

inline constexpr uint32_t kTf32Half = kWgmmaPart;  // bytes of half a tile of 64 x 64 floats
inline constexpr uint32_t kTf32Tile = 2 * kTf32Half;

// The elements of a tile that this thread copies: in each of the rows first() + 32 i + 2 j (0 <= i < 2, 0 <= j < 4), the chunk of 16 bytes
// with the number threadIdx.x % 16.
struct Tf32Part {
  int chunk, group;
  uint32_t offset;  // byte offset in the tile of the thread's element with i = j = 0
  __device__ Tf32Part() {
    chunk = static_cast<int>(threadIdx.x) % 16;
    group = static_cast<int>(threadIdx.x) / 16;
    offset = wgmma_offset(first(), chunk);
  }
  __device__ int first() const { return group / 2 * 8 + group % 2; }
  __device__ uint32_t at(uint32_t tile, int i, int j) const {
    return tile + (offset ^ static_cast<uint32_t>(j << 5)) + static_cast<uint32_t>((32 * i + 2 * j) * 128);
  }
};

// Starts copying 64 rows with one warpgroup. Elements after the end of the sequence or of the head are zero.
__device__ inline void copy_tf32(const AttentionKernelArgs& args, const Work& work, const Tf32Part& part,
                                 const void* data, int64_t stride, int row, uint32_t tile) {
  const int end = 4 * part.chunk < args.head_dim ? work.count - row - part.first() : 0;
  const float* from = static_cast<const float*>(data) +
                      static_cast<int64_t>(work.first + row + part.first()) * stride +
                      static_cast<int64_t>(work.head) * args.head_dim + 4 * part.chunk;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      // For rows after the end of the sequence, the copy instruction writes zeros without loading anything, so the address may be invalid.
      copy_16(part.at(tile, i, j), from + (32 * i + 2 * j) * stride, 32 * i + 2 * j < end);
    }
  }
}

// States whether transpose_tf32() also rounds the original tile. kStays: the original tile is used by products too, so it is rounded in
// place. kGoes: products use only the transposed tile, so the original is left as it is.
enum class Rounded { kStays, kGoes };

// Rounds the elements of a tile that this thread copied and stores them transposed in `transposed`. The transposed rows and columns are in
// the order that the products need. In each group of 32 columns, column 4 c + j becomes row 8 j + c, so that the accumulators hold the
// columns that store_rows expects. In each group of eight rows, which become columns, the even rows come first and then the odd ones,
// because take_fragment orders the terms of the left operand in the same way.
template <Rounded kRounded>
__device__ inline void transpose_tf32(const Tf32Part& part, uint32_t tile, uint32_t transposed) {
  const uint32_t to = transposed + wgmma_offset(part.chunk / 8 * 32 + part.chunk % 8, part.group);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    uint4 x[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) x[j] = load_16(part.at(tile, i, j));
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      x[j] = round_tf32(x[j]);
      if (kRounded == Rounded::kStays) store_16(part.at(tile, i, j), x[j]);
    }
    const uint32_t half = to + i * kTf32Half;  // rows 32 to 63 go to the second half of `transposed`
    store_16(half, {x[0].x, x[1].x, x[2].x, x[3].x});
    store_16(half + 8 * 128, {x[0].y, x[1].y, x[2].y, x[3].y});
    store_16(half + 16 * 128, {x[0].z, x[1].z, x[2].z, x[3].z});
    store_16(half + 24 * 128, {x[0].w, x[1].w, x[2].w, x[3].w});
  }
}
__device__ inline void round_tf32_tile(const Tf32Part& part, uint32_t tile) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    uint4 x[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) x[j] = load_16(part.at(tile, i, j));
#pragma unroll
    for (int j = 0; j < 4; ++j) store_16(part.at(tile, i, j), round_tf32(x[j]));
  }
}

// A left operand of 64 rows and 64 columns in registers. Each warp holds 16 of the rows.
using Tf32Rows = uint32_t[8][1][4];

// Loads the left operand from a tile that has not been rounded, and rounds it.
__device__ inline void load_tf32_rows(Tf32Rows& a, uint32_t tile, int warp_row) {
  const uint32_t lane = lane_by_columns<64>();
#pragma unroll
  for (int step = 0; step < 8; ++step) {
    load_matrices(a[step][0], fragment_at<64>(tile + step / 4 * kTf32Half, lane, warp_row, step % 4));
#pragma unroll
    for (uint32_t& x : a[step][0]) x = round_tf32(x);
  }
}

// Prevents a compiler error: ptxas of CUDA 13.0 treats the left operand of an asynchronous product as unused afterwards and reuses its
// registers for the next left operand, even if a loop multiplies the same operand again. Adding minus_zero, which is -0 but unknown to the
// compiler, before each product changes no value, and ptxas does not reuse the registers of this sum.
__device__ inline void keep_alive(Tf32Rows& a, float minus_zero) {
#pragma unroll
  for (auto& step : a) {
#pragma unroll
    for (uint32_t& x : step[0]) x = __float_as_uint(__uint_as_float(x) + minus_zero);
  }
}

// Computes acc = a b^T, or acc += a b^T if `adds` is not 0, where b is a tile of rounded floats.
__device__ inline void multiply_tf32(float (&acc)[8][4], const Tf32Rows& a, uint32_t tile, int adds) {
  const uint64_t b = descriptor(tile);
#pragma unroll
  for (int step = 0; step < 8; ++step) {
    multiply_columns_of(acc, a[step][0], b + (step / 4 * kTf32Half >> 4) + step % 4 * 2, adds | step);
  }
}

}  // namespace plimsoll::attention
