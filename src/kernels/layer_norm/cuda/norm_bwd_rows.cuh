// Distributes the rows over threads in the backward pass of the norms, and loads them through a ring buffer in shared memory. For .cu files
// only. Thread-safe: no state.
#pragma once

#include "kernels/element_wise/cuda/async_copies.cuh"
#include "kernels/layer_norm/cuda/norm_rows.cuh"

namespace plimsoll::cuda::norm_bwd {

// A group of warps processes a row, with eight elements per thread. A thread block consists of a few groups, and each group processes kRows
// rows per iteration. If a row can be divided into vectors of 16 bytes, asynchronous copies to shared memory load the rows several
// iterations ahead (the ring buffer holds kStages iterations), so that data arrive while the threads compute. Each thread reads only data
// that it copied itself, so no barrier is needed. Otherwise kStages is 0, and an iteration loads all of its rows before it computes the
// first one.
inline constexpr int kElements = 8;
inline constexpr int kRingStages = 3;
inline constexpr int kColumnsPerWarp = 32 * kElements;
inline constexpr int kSmallThreads = 256;
inline constexpr int kLargeThreads = 512;
static_assert(kMaxNormCudaColumns <= kLargeThreads / 32 * kColumnsPerWarp);

// The gain of the columns of a thread, and the sums over rows of the gradients of these columns' parameters.
struct ColumnState {
  float gain[kElements];
  float d_gain[kElements] = {};
  float d_beta[kElements] = {};
  float d_bias[kElements] = {};
};

// A thread's elements of kRows rows. g = d_y + d_y2 is stored as floats; x_hat and d_sum_term are stored as they are in memory, which takes
// fewer registers. d_sum_term is zero if it is absent.
template <typename T, int N, int kRows>
struct Rows {
  static constexpr int kPacks = kElements / N;
  float g[kRows][kPacks][N];
  Raw<T, N> x_hat[kRows][kPacks];
  Raw<T, N> d_sum_term[kRows][kPacks];
};

// The position of a thread in the tensors. At any time, all thread blocks process adjacent rows, in the order of the blocks, so that
// together they read and write a contiguous range of memory that moves through the tensors. Elements are numbered in 32 bits, starting from
// the first row of an iteration.
struct Place {
  int rows;             // number of rows of each tensor
  int thread, threads;  // index of the thread in its group, and number of threads per group
  int group, groups;
};
// The addresses of the first row of an iteration in each input.
template <typename T>
struct Sources {
  const T *d_y, *d_y2, *x_hat, *d_sum_term;

  __device__ __forceinline__ Sources(const NormBwd& a, int64_t first)
      : d_y(static_cast<const T*>(a.d_y) + first),
        d_y2(static_cast<const T*>(a.d_y2) + first),
        x_hat(static_cast<const T*>(a.x_hat) + first),
        d_sum_term(static_cast<const T*>(a.d_sum_term) + first) {}
  __device__ __forceinline__ void advance(int64_t elements) {
    d_y += elements;
    d_y2 += elements;
    x_hat += elements;
    d_sum_term += elements;
  }
};
template <typename T>
struct Destinations {
  T *d_residual, *d_x;

  __device__ __forceinline__ Destinations(const NormBwd& a, int64_t first)
      : d_residual(static_cast<T*>(a.d_residual) + first), d_x(static_cast<T*>(a.d_x) + first) {}
  __device__ __forceinline__ void advance(int64_t elements) {
    d_residual += elements;
    d_x += elements;
  }
};
// Returns the index of the element in column `c` of a group's row number `r`, counted from the first row of the iteration.
__device__ __forceinline__ uint32_t element_of(const Place& at, int r, int64_t C, int c) {
  return static_cast<uint32_t>(at.group + r * at.groups) * static_cast<uint32_t>(C) +
         static_cast<uint32_t>(c);
}
// Returns the index in the tensor of a group's row number `r`. `first` is the first row of the iteration.
__device__ __forceinline__ int row_of(const Place& at, int first, int r) {
  return first + at.group + r * at.groups;
}

// The ring buffer in shared memory, as seen by one thread. It is an array of 16-byte vectors, [d_y, x_hat, d_y2,
// d_sum_term][stages][rows][vectors per thread][kSmallThreads]. d_y2 and d_sum_term are included only if they are present.
template <typename T, int kRows>
struct Ring {
  static constexpr int kN = kPack<T>;
  static constexpr int kPacks = kElements / kN;
  static constexpr int kStagePlaces = kRows * kPacks * kSmallThreads;
  uint4* mine;
  bool has_d_y2;
  bool has_d_sum_term;

  __device__ __forceinline__ int d_sum_term_tensor() const { return has_d_y2 ? 3 : 2; }

  __device__ __forceinline__ uint4* place(int stage, int tensor, int r, int j) const {
    return mine + stage * kStagePlaces + tensor * kRingStages * kStagePlaces +
           (r * kPacks + j) * kSmallThreads;
  }
  // Starts to copy the rows of an iteration to a stage of the ring buffer. Elements after the last row or after the end of a row become
  // zero.
  __device__ __forceinline__ void fetch(const Sources<T>& from, int64_t C, const Place& at, int first,
                                        int stage) const {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int row = row_of(at, first, r);
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        const int c = (at.thread + j * at.threads) * kN;
        const bool is_valid = row < at.rows && c < C;
        const uint32_t i = element_of(at, r, C, c);
        copy_async(place(stage, 0, r, j), from.d_y + i, is_valid);
        copy_async(place(stage, 1, r, j), from.x_hat + i, is_valid);
        if (has_d_y2) copy_async(place(stage, 2, r, j), from.d_y2 + i, is_valid);
        if (has_d_sum_term) {
          copy_async(place(stage, d_sum_term_tensor(), r, j), from.d_sum_term + i, is_valid);
        }
      }
    }
    close_copies();
  }
  __device__ __forceinline__ Raw<T, kN> read(int stage, int tensor, int r, int j) const {
    const uint4 words = *place(stage, tensor, r, j);
    return {words.x, words.y, words.z, words.w};
  }
};

// Reads the rows of an iteration from the ring buffer.
template <typename T, int kRows>
__device__ __forceinline__ void read_rows(const Ring<T, kRows>& ring, int stage,
                                          Rows<T, kPack<T>, kRows>& rows) {
  constexpr int kN = kPack<T>;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int j = 0; j < kElements / kN; ++j) {
      unpack<T, kN>(ring.read(stage, 0, r, j), rows.g[r][j]);
      rows.x_hat[r][j] = ring.read(stage, 1, r, j);
      rows.d_sum_term[r][j] = {};
      if (ring.has_d_sum_term) rows.d_sum_term[r][j] = ring.read(stage, ring.d_sum_term_tensor(), r, j);
      if (ring.has_d_y2) {
        float g2[kN];
        unpack<T, kN>(ring.read(stage, 2, r, j), g2);
#pragma unroll
        for (int i = 0; i < kN; ++i) rows.g[r][j][i] += g2[i];
      }
    }
  }
}

template <int kRows>
__device__ __forceinline__ void load_rstd(const float* from, const Place& at, int first,
                                          float (&rstd)[kRows]) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int row = row_of(at, first, r);
    rstd[r] = row < at.rows ? from[row] : 0.0f;
  }
}

template <typename T, int N, int kRows>
__device__ __forceinline__ void load_rows(const NormBwd& a, const Sources<T>& from, const Place& at,
                                          int first, Rows<T, N, kRows>& rows) {
  constexpr int kPacks = kElements / N;
  Raw<T, N> raw_g[kRows][kPacks] = {}, raw_g2[kRows][kPacks] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int row = row_of(at, first, r);
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      const int c = (at.thread + j * at.threads) * N;
      rows.x_hat[r][j] = {};
      rows.d_sum_term[r][j] = {};
      if (row < at.rows && c < a.C) {
        const uint32_t i = element_of(at, r, a.C, c);
        raw_g[r][j] = load_raw<T, N>(from.d_y + i);
        rows.x_hat[r][j] = load_raw<T, N>(from.x_hat + i);
        if (a.d_y2 != nullptr) raw_g2[r][j] = load_raw<T, N>(from.d_y2 + i);
        if (a.d_sum_term != nullptr) rows.d_sum_term[r][j] = load_raw<T, N>(from.d_sum_term + i);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      unpack<T, N>(raw_g[r][j], rows.g[r][j]);
      if (a.d_y2 != nullptr) {
        float g2[N];
        unpack<T, N>(raw_g2[r][j], g2);
#pragma unroll
        for (int i = 0; i < N; ++i) rows.g[r][j][i] += g2[i];
      }
    }
  }
}

}  // namespace plimsoll::cuda::norm_bwd
