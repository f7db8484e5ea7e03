// Computes, for one part of a sequence and all heads, the scores of the rows of x and the sum of these rows weighted by their
// probabilities. This is the only kernel of first_token_attention_cuda.cu that reads all of x, and reading x limits its speed. Device code
// only, for compute capability 9.0, where shared memory holds two tiles of rows.
#pragma once

#include "kernels/attention/first_token_tiles.cuh"

namespace plimsoll::first_token {

using attention::exp2_approx;
using attention::load_matrices;
using attention::load_transposed;

inline constexpr int kRows = 32;  // number of rows of x per tile

// The shared memory of row_sum_kernel: two tiles of x, the scores of each warp, and probabilities.
template <int kColumns>
struct RowTiles {
  uint4 x[2][kRows * kColumns / 8];  // chunk c (16 bytes) of row r is stored at position c ^ (r % 8)
  float scores[kWarps][kSide][kRowStride];
  uint32_t p[kSide][kRows / 2 + 4];  // each word contains the probabilities of two adjacent rows
  float shrink[kSide];
};

// The online softmax over the rows of a part of a sequence, for all heads. 16 threads compute one head, two rows of a tile each.
template <DType kType>
class Softmax {
 public:
  // Processes a tile of which only the first `there` rows exist. Each warp has computed its share of the scores from some of the columns;
  // this function adds the shares of all warps. It converts the scores to probabilities relative to the largest score so far. The caller
  // must then multiply its sums of earlier tiles by shared.shrink.
  template <typename Tiles>
  __device__ void take(Tiles& shared, int there) {
    const int head = static_cast<int>(threadIdx.x) / 16, row = static_cast<int>(threadIdx.x) % 16 * 2;
    float2 score = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < kWarps; ++i) {
      const float2 part = *reinterpret_cast<const float2*>(&shared.scores[i][head][row]);
      score.x += part.x;
      score.y += part.y;
    }
    if (row >= there) score.x = -INFINITY;
    if (row + 1 >= there) score.y = -INFINITY;
    float largest = fmaxf(largest_, fmaxf(score.x, score.y));
#pragma unroll
    for (int apart = 8; apart > 0; apart /= 2)
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, apart));
    const float shrink = exp2_approx(largest_ - largest);
    const float2 p = {exp2_approx(score.x - largest), exp2_approx(score.y - largest)};
    largest_ = largest;
    sum_ = sum_ * shrink + p.x + p.y;
    shared.p[head][row / 2] = pack<kType>(p.x, p.y);
    if (row == 0) shared.shrink[head] = shrink;
  }
  // Returns the largest score and the sum of exponentials over all rows of the part. All 16 threads of a head must call it.
  __device__ float2 result() {
#pragma unroll
    for (int apart = 8; apart > 0; apart /= 2) sum_ += __shfl_xor_sync(0xffffffffu, sum_, apart);
    return {largest_, sum_};
  }

 private:
  float largest_ = -INFINITY;
  float sum_ = 0.0f;  // sum of the exponentials of this thread's rows
};

// The sums of the rows of a part of a sequence, weighted by their probabilities, for all heads. Each warp processes an eighth of the
// columns.
template <DType kType, int kColumns>
class RowSums {
 public:
  static constexpr int kSteps = kColumns / kWarps / 16;

  __device__ RowSums(const KernelArgs& args, int sequence, RowTiles<kColumns>& shared)
      : shared_(shared), tile_(attention::shared_address(&shared.x[0][0])) {
    const int64_t u = int64_t{sequence} * args.heads * kColumns;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int column = (warp() * kSteps + step) * 16 + lane() % 4 * 2;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int head = i % 2 * 8 + lane() / 4;
        u_[step][i] =
            head < args.heads ? pair_at(args.u, u + int64_t{head} * kColumns + column + i / 2 * 8) : 0;
      }
    }
  }

  // Starts copying a tile of x. Rows from index `there` on become zero.
  __device__ void copy(const void* x, int64_t row, int there, int stage) const {
    constexpr int kChunks = kColumns / 8;
    const auto* from = static_cast<const uint4*>(x) + row * kChunks;
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kChunks; i += kThreads) {
      const int r = i / kChunks, chunk = i % kChunks;
      const uint32_t to = tile(stage) + static_cast<uint32_t>(r * kChunks + (chunk ^ (r & 7))) * 16;
      attention::copy_16(to, r < there ? from + i : from, r < there);
    }
  }

  // Computes this warp's share of the scores of the tile's rows: the dot products with u over the warp's columns. Softmax::take() adds up
  // the shares.
  __device__ void score(int stage) const {
    float acc[kRows / 8][4] = {};
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int n = 0; n < kRows / 16; ++n) {
        uint32_t b[4];
        load_matrices(b, address(stage, 16 * n + lane() / 16 * 8 + lane() % 8, step, lane() / 8 % 2));
        multiply_add<kType>(acc[2 * n], u_[step], b[0], b[1]);
        multiply_add<kType>(acc[2 * n + 1], u_[step], b[2], b[3]);
      }
    }
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
      float* row = &shared_.scores[warp()][lane() / 4][8 * n + lane() % 4 * 2];
      *reinterpret_cast<float2*>(row) = {acc[n][0], acc[n][1]};
      *reinterpret_cast<float2*>(row + 8 * kRowStride) = {acc[n][2], acc[n][3]};
    }
  }

  __device__ void add(int stage) {
    const float low = shared_.shrink[lane() / 4], high = shared_.shrink[lane() / 4 + 8];
#pragma unroll
    for (auto& acc : acc_) acc[0] *= low, acc[1] *= low, acc[2] *= high, acc[3] *= high;
#pragma unroll
    for (int k = 0; k < kRows / 16; ++k) {
      uint32_t a[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = shared_.p[lane() / 4 + i % 2 * 8][8 * k + lane() % 4 + i / 2 * 4];
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        uint32_t b[4];
        load_transposed(b, address(stage, 16 * k + lane() % 16, step, lane() / 16));
        multiply_add<kType>(acc_[2 * step], a, b[0], b[1]);
        multiply_add<kType>(acc_[2 * step + 1], a, b[2], b[3]);
      }
    }
  }

  // Stores the weighted sums of rows, one array of kColumns floats per head, beginning at `sums`.
  __device__ void store(float* sums, int heads) const {
#pragma unroll
    for (int n = 0; n < 2 * kSteps; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int head = 8 * half + lane() / 4;
        const int column = warp() * kSteps * 16 + 8 * n + lane() % 4 * 2;
        if (head >= heads) continue;
        *reinterpret_cast<float2*>(sums + int64_t{head} * kColumns + column) = {acc_[n][2 * half],
                                                                                acc_[n][2 * half + 1]};
      }
    }
  }

 private:
  __device__ uint32_t tile(int stage) const {
    return tile_ + static_cast<uint32_t>(stage) * kRows * kColumns * 2;
  }
  // Returns the address that ldmatrix needs for eight adjacent columns of a row. `step` is the number of a group of 16 columns of this
  // warp, and `half` selects the first or the last eight of them.
  __device__ uint32_t address(int stage, int row, int step, int half) const {
    const int chunk = (warp() * kSteps + step) * 2 + half;
    return tile(stage) + static_cast<uint32_t>(row * (kColumns / 8) + (chunk ^ (row & 7))) * 16;
  }

  RowTiles<kColumns>& shared_;
  uint32_t tile_;
  uint32_t u_[kSteps][4];
  float acc_[2 * kSteps][4] = {};
};

template <DType kType, int kColumns>
__global__ void __launch_bounds__(kThreads, 1) row_sum_kernel(KernelArgs args) {
#ifdef PLIMSOLL_HAS_MMA
  extern __shared__ uint4 memory[];
  auto& shared = *reinterpret_cast<RowTiles<kColumns>*>(memory);
  const int sequence = static_cast<int>(blockIdx.y), part = static_cast<int>(blockIdx.x);
  const int64_t first = int64_t{args.cu_seqlens[sequence]} + int64_t{part} * args.part_rows;
  const int64_t left = args.cu_seqlens[sequence + 1] - first;
  const int rows = static_cast<int>(min(left, static_cast<int64_t>(args.part_rows)));
  const int64_t slot = (int64_t{sequence} * args.num_parts + part) * args.heads;
  const int head = static_cast<int>(threadIdx.x) / 16;
  Softmax<kType> softmax;
  if (rows > 0) {
    RowSums<kType, kColumns> sums(args, sequence, shared);
    sums.copy(args.x, first, rows, 0);
    for (int row = 0, stage = 0; row < rows; row += kRows, stage ^= 1) {
      attention::wait_for_copies();
      __syncthreads();
      if (row + kRows < rows) sums.copy(args.x, first + row + kRows, rows - row - kRows, stage ^ 1);
      sums.score(stage);
      __syncthreads();
      softmax.take(shared, rows - row);
      __syncthreads();
      sums.add(stage);
    }
    sums.store(args.sums + slot * kColumns, args.heads);
  }
  const float2 result = softmax.result();
  if (threadIdx.x % 16 == 0 && head < args.heads) args.parts[slot + head] = result;
#endif
}

// Each part of a sequence has its own weighted sum of rows. Computes the factors by which these sums must be multiplied, so that the
// probabilities of all parts of the sequence add up to 1.
__device__ inline void find_shares(const KernelArgs& args, int first, int head, float* shares) {
  if (threadIdx.x >= kSide) return;
  const int b = first + static_cast<int>(threadIdx.x);
  float* share = shares + threadIdx.x * args.num_parts;
  float largest = -INFINITY, sum = 0.0f;
  const float2* parts = args.parts + (int64_t{b} * args.num_parts) * args.heads + head;
  const int num_parts = b < args.sequences ? args.num_parts : 0;
  for (int i = 0; i < num_parts; ++i) largest = fmaxf(largest, parts[i * args.heads].x);
  for (int i = 0; i < num_parts; ++i) {
    const float2 part = parts[i * args.heads];
    share[i] = part.y > 0.0f ? exp2_approx(part.x - largest) : 0.0f;
    sum += share[i] * part.y;
  }
  for (int i = 0; i < args.num_parts; ++i) share[i] = sum > 0.0f ? share[i] / sum : 0.0f;
}

}  // namespace plimsoll::first_token
