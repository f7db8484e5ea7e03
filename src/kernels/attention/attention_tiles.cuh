// Products of fp32 tiles in shared memory on the CUDA cores, for blocks of 128 threads: 16 groups, numbered `ty`, of 8 threads, numbered
// `tx`. Each group is within one warp. Device code only.
//
// A tile consists of rows of W floats (W a multiple of 32), in units of four floats. Unit c of row r is
// stored at position c ^ (r / 4 % 8) of its row. Eight threads that read the same unit of every fourth row,
// or eight adjacent units of one row, therefore access eight different groups of banks.
//
// Thread (ty, tx) computes rows R * ty + i, i < R, and columns 4 * tx + 32 * n + e, e < 4.
#pragma once

#include "kernels/attention/attention_device.cuh"

namespace plimsoll::attention {

inline constexpr int kTileThreads = 128;

template <int kWidth>
__device__ inline int unit_at(int row, int unit) {
  return row * (kWidth / 4) + (unit ^ ((row >> 2) & 7));
}

// Loads four elements starting at `offset` as floats. Elements from index `valid` on are zero.
__device__ inline float4 load_four(const void* data, DType dtype, int64_t offset, int valid, bool vectors) {
  float x[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  if (valid <= 0) return {0.0f, 0.0f, 0.0f, 0.0f};
  if (dtype == DType::kF32) {
    const float* from = static_cast<const float*>(data) + offset;
    if (vectors) return *reinterpret_cast<const float4*>(from);
#pragma unroll
    for (int e = 0; e < 4; ++e) x[e] = e < valid ? from[e] : 0.0f;
    return {x[0], x[1], x[2], x[3]};
  }
  const uint16_t* from = static_cast<const uint16_t*>(data) + offset;
  ushort4 bits = {0, 0, 0, 0};
  if (vectors) {
    bits = *reinterpret_cast<const ushort4*>(from);
  } else {
    bits.x = from[0];
    if (valid > 1) bits.y = from[1];
    if (valid > 2) bits.z = from[2];
    if (valid > 3) bits.w = from[3];
  }
  if (dtype == DType::kBF16) {
    return {__uint_as_float(static_cast<uint32_t>(bits.x) << 16),
            __uint_as_float(static_cast<uint32_t>(bits.y) << 16),
            __uint_as_float(static_cast<uint32_t>(bits.z) << 16),
            __uint_as_float(static_cast<uint32_t>(bits.w) << 16)};
  }
  return {__half2float(__ushort_as_half(bits.x)), __half2float(__ushort_as_half(bits.y)),
          __half2float(__ushort_as_half(bits.z)), __half2float(__ushort_as_half(bits.w))};
}

__device__ inline uint16_t round_to_half(DType dtype, float value) {
  return dtype == DType::kBF16 ? __bfloat16_as_ushort(__float2bfloat16_rn(value))
                               : __half_as_ushort(__float2half_rn(value));
}

// Rounds and stores four elements. Elements from index `valid` on are not written.
__device__ inline void store_four(void* data, DType dtype, int64_t offset, int valid, bool vectors,
                                  float4 x) {
  if (valid <= 0) return;
  const float values[4] = {x.x, x.y, x.z, x.w};
  if (dtype == DType::kF32) {
    float* to = static_cast<float*>(data) + offset;
    if (vectors) {
      *reinterpret_cast<float4*>(to) = x;
      return;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (e < valid) to[e] = values[e];
    }
    return;
  }
  uint16_t* to = static_cast<uint16_t*>(data) + offset;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    if (e < valid) to[e] = round_to_half(dtype, values[e]);
  }
}

// Fills a tile with kRows rows of kDim floats, starting at `row` of the sequence. Elements after the end of the sequence or of the head are
// zero.
template <int kDim, int kRows>
__device__ inline void load_tile(const AttentionKernelArgs& args, const Work& work, const void* data,
                                 int64_t stride, int row, float4* tile) {
  constexpr int kUnits = kDim / 4;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kUnits; i += kTileThreads) {
    const int r = i / kUnits, unit = i % kUnits;
    const int valid = row + r < work.count ? args.head_dim - 4 * unit : 0;
    const int64_t offset = static_cast<int64_t>(work.first + row + r) * stride +
                           static_cast<int64_t>(work.head) * args.head_dim + 4 * unit;
    tile[unit_at<kDim>(r, unit)] = load_four(data, args.dtype, offset, valid, args.vectors);
  }
}

// Fills a tile with kRows rows of kDim floats, with asynchronous copies if the alignment of the rows allows it. The data are available
// after wait_for_fetches() and a barrier.
template <int kDim, int kRows>
__device__ inline void fetch_tile(const AttentionKernelArgs& args, const Work& work, const void* data,
                                  int64_t stride, int row, float4* tile) {
#if __CUDA_ARCH__ >= 800
  if (args.dtype == DType::kF32 && args.vectors) {
    constexpr int kUnits = kDim / 4, kRowsAtOnce = kTileThreads / kUnits;
    const int unit = static_cast<int>(threadIdx.x) % kUnits, first = static_cast<int>(threadIdx.x) / kUnits;
    const bool has_columns = 4 * unit < args.head_dim;
    const float* from = static_cast<const float*>(data) +
                        static_cast<int64_t>(work.first + row + first) * stride +
                        static_cast<int64_t>(work.head) * args.head_dim + 4 * unit;
#pragma unroll
    for (int i = 0; i < kRows / kRowsAtOnce; ++i) {
      const int r = first + i * kRowsAtOnce;
      const bool is_valid = has_columns && row + r < work.count;
      copy_16(shared_address(tile + unit_at<kDim>(r, unit)),
              is_valid ? from + i * kRowsAtOnce * stride : data, is_valid);
    }
    return;
  }
#endif
  load_tile<kDim, kRows>(args, work, data, stride, row, tile);
}
__device__ inline void wait_for_fetches() {
#if __CUDA_ARCH__ >= 800
  wait_for_copies();
#endif
}

// Computes acc[i][j] += sum over d of a[row i][d] * b[column j][d]. The rows of both tiles have kDim floats.
template <int kDim, int kR, int kN>
__device__ inline void add_rows_by_rows(const float4* a, const float4* b, int ty, int tx,
                                        float (&acc)[kR][4 * kN]) {
#pragma unroll 2
  for (int unit = 0; unit < kDim / 4; ++unit) {
    float4 left[kR];
#pragma unroll
    for (int i = 0; i < kR; ++i) left[i] = a[unit_at<kDim>(kR * ty + i, unit)];
#pragma unroll
    for (int j = 0; j < 4 * kN; ++j) {
      const float4 right = b[unit_at<kDim>(4 * tx + 32 * (j / 4) + j % 4, unit)];
#pragma unroll
      for (int i = 0; i < kR; ++i) {
        acc[i][j] = fmaf(left[i].x, right.x, acc[i][j]);
        acc[i][j] = fmaf(left[i].y, right.y, acc[i][j]);
        acc[i][j] = fmaf(left[i].z, right.z, acc[i][j]);
        acc[i][j] = fmaf(left[i].w, right.w, acc[i][j]);
      }
    }
  }
}

// Computes acc[i][j] += sum over k < kInner of a[row i][k] * b[k][column j]. Rows of a have kInner floats,
// rows of b kDim.
template <int kInner, int kDim, int kR>
__device__ inline void add_rows_by_columns(const float4* a, const float4* b, int ty, int tx,
                                           float (&acc)[kR][kDim / 8]) {
#pragma unroll 2
  for (int unit = 0; unit < kInner / 4; ++unit) {
    float left[kR][4];
#pragma unroll
    for (int i = 0; i < kR; ++i) {
      const float4 four = a[unit_at<kInner>(kR * ty + i, unit)];
      left[i][0] = four.x, left[i][1] = four.y, left[i][2] = four.z, left[i][3] = four.w;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
#pragma unroll
      for (int n = 0; n < kDim / 32; ++n) {
        const float4 right = b[unit_at<kDim>(4 * unit + e, tx + 8 * n)];
#pragma unroll
        for (int i = 0; i < kR; ++i) {
          acc[i][4 * n + 0] = fmaf(left[i][e], right.x, acc[i][4 * n + 0]);
          acc[i][4 * n + 1] = fmaf(left[i][e], right.y, acc[i][4 * n + 1]);
          acc[i][4 * n + 2] = fmaf(left[i][e], right.z, acc[i][4 * n + 2]);
          acc[i][4 * n + 3] = fmaf(left[i][e], right.w, acc[i][4 * n + 3]);
        }
      }
    }
  }
}

// Stores this thread's elements of a tile of scores, kR rows of them, in the layout that add_rows_by_columns reads. Only the eight threads
// with the same `ty` (a group) read these rows. A group is within one warp, so a warp barrier is sufficient between the write and the read.
template <int kWidth, int kR>
__device__ inline void store_scores(const float (&acc)[kR][kWidth / 8], int ty, int tx, float4* tile) {
#pragma unroll
  for (int i = 0; i < kR; ++i) {
#pragma unroll
    for (int n = 0; n < kWidth / 32; ++n) {
      tile[unit_at<kWidth>(kR * ty + i, tx + 8 * n)] = {acc[i][4 * n], acc[i][4 * n + 1], acc[i][4 * n + 2],
                                                        acc[i][4 * n + 3]};
    }
  }
}

// Multiplies each row of a result that this thread holds by its `factor` and stores it. Row i of the thread is row R * ty + i of the block.
template <int kDim, int kR>
__device__ inline void store_result(const AttentionKernelArgs& args, const Work& work, void* data,
                                    int64_t stride, int ty, int tx, const float (&acc)[kR][kDim / 8],
                                    const float (&factor)[kR]) {
#pragma unroll
  for (int i = 0; i < kR; ++i) {
    const int row = work.row + kR * ty + i;
    if (row >= work.count) continue;
#pragma unroll
    for (int n = 0; n < kDim / 32; ++n) {
      const int column = 4 * tx + 32 * n;
      const int64_t offset = static_cast<int64_t>(work.first + row) * stride +
                             static_cast<int64_t>(work.head) * args.head_dim + column;
      const float4 x = {acc[i][4 * n] * factor[i], acc[i][4 * n + 1] * factor[i],
                        acc[i][4 * n + 2] * factor[i], acc[i][4 * n + 3] * factor[i]};
      store_four(data, args.dtype, offset, args.head_dim - column, args.vectors, x);
    }
  }
}

template <int kN>
__device__ inline void clear(float (&acc)[kN]) {
#pragma unroll
  for (float& x : acc) x = 0.0f;
}
template <int kR, int kN>
__device__ inline void clear(float (&acc)[kR][kN]) {
#pragma unroll
  for (auto& row : acc) clear(row);
}

// Return the sum and the maximum over the eight threads of a group, in a fixed order. All eight threads get the result.
__device__ inline float sum_of_group(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  x += __shfl_xor_sync(0xffffffffu, x, 2);
  return x + __shfl_xor_sync(0xffffffffu, x, 4);
}
__device__ inline float max_of_group(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 4));
}

// Draws the dropout bits of one row and 32 * kWords keys, starting at `key` (a multiple of 32). All eight threads of a group (same `ty`)
// get the bits. Each thread draws one Philox block; 64 keys need exactly the eight blocks of the eight threads.
template <int kWords>
__device__ inline void keep_of_group(const Dropout& dropout, uint32_t row, int key, int tx,
                                     uint32_t (&words)[kWords]) {
  static_assert(kWords <= 2);
  const int word = kWords == 2 ? tx / 4 : 0;
  const BlockStart start = start_block(dropout, static_cast<uint32_t>(key / 8 + 4 * word + tx % 4));
  uint32_t bits = keep_byte(dropout, start, row) << (8 * (tx % 4));
  bits |= __shfl_xor_sync(0xffffffffu, bits, 1);
  bits |= __shfl_xor_sync(0xffffffffu, bits, 2);
  words[0] = bits;
  if constexpr (kWords == 2) {
    const uint32_t other = __shfl_xor_sync(0xffffffffu, bits, 4);
    words[0] = word == 0 ? bits : other;
    words[1] = word == 0 ? other : bits;
  }
}
// Shifts a word of dropout bits such that bit 4 * e is the bit of column 4 * tx + e, for e = 0 .. 3.
__device__ inline uint32_t keep_of_columns(uint32_t word, int tx) {
  return word >> keep_place(4 * tx);
}

// Returns the dropout bits of one query and of the 32 keys from `key` on, for tiles whose rows are keys. These keys include all keys whose
// rows the warp computes. A warp has four groups of eight threads, and each group draws a quarter of the bits.
__device__ inline uint32_t keep_of_warp(const Dropout& dropout, uint32_t row, int key, int ty) {
  const BlockStart start = start_block(dropout, static_cast<uint32_t>(key / 8 + ty % 4));
  uint32_t bits = keep_byte(dropout, start, row) << (8 * (ty % 4));
  bits |= __shfl_xor_sync(0xffffffffu, bits, 8);
  return bits | __shfl_xor_sync(0xffffffffu, bits, 16);
}

}  // namespace plimsoll::attention
