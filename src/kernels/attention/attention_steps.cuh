// Operations that the tensor-core kernels of attention apply to a warp's accumulators between products:
// masking, exponentials, dropout and gradients. The layouts are those of attention_mma.cuh. Device code only.
#pragma once

#include "kernels/attention/attention_mma.cuh"

namespace plimsoll::attention {

inline constexpr int kKeys = 64;     // number of keys per tile in the kernels that loop over keys
inline constexpr int kQueries = 64;  // number of queries per tile in the kernel that loops over queries

// Masks the keys after the end of the sequence and, under a causal mask, the keys that come after a row's own position.
template <int kM, int kN>
__device__ inline void hide_keys(const AttentionKernelArgs& args, const Work& work, int warp_row, int key,
                                 float (&score)[kM][kN][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_row + 16 * m + 8 * half + lane / 4;
      const int end = (args.causal ? min(work.count, row + 1) : work.count) - key - lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        if (8 * n >= end) score[m][n][2 * half] = -INFINITY;
        if (8 * n + 1 >= end) score[m][n][2 * half + 1] = -INFINITY;
      }
    }
  }
}

// Computes one step of the online softmax of Dao et al., arXiv 2307.08691, algorithm 1, with powers of 2: `exponent` is scale log2(e).
// Replaces the scores of a tile by probabilities relative to the largest score so far. Sets `old`, the factor by which the sums of earlier
// tiles must be multiplied. Each lane sums its own elements only; the caller adds these sums up after the last tile.
template <int kM>
__device__ inline void softmax_scores(float exponent, float (&score)[kM][kKeys / 8][4],
                                      float (&largest)[kM][2], float (&sum)[kM][2], float (&old)[kM][2]) {
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top = largest[m][half];
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
        top = fmaxf(top, fmaxf(score[m][n][2 * half], score[m][n][2 * half + 1]));
      }
      top = max_of_quad(top);
      old[m][half] = exp2_approx((largest[m][half] - top) * exponent);
      largest[m][half] = top;
      const float offset = top * exponent;
      float total = sum[m][half] * old[m][half];
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          score[m][n][e] = exp2_approx(fmaf(score[m][n][e], exponent, -offset));
          total += score[m][n][e];
        }
      }
      sum[m][half] = total;
    }
  }
}

template <int kM, int kN>
__device__ inline void multiply_by_row(const float (&factor)[kM][2], float (&out)[kM][kN][4]) {
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int n = 0; n < kN; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) out[m][n][e] *= factor[m][e / 2];
    }
  }
}

// Calls softmax_scores, and multiplies `out`, the sums of earlier tiles, by the factors that it returns.
template <int kDim, int kM>
__device__ inline void online_softmax_step(float exponent, float (&score)[kM][kKeys / 8][4],
                                           float (&largest)[kM][2], float (&sum)[kM][2],
                                           float (&out)[kM][kDim / 8][4]) {
  float old[kM][2];
  softmax_scores<kM>(exponent, score, largest, sum, old);
  multiply_by_row(old, out);
}

// Applies dropout to left operand number `step`, which contains rounded probabilities: sets the probabilities of dropped pairs to zero.
template <DType kType, int kM>
__device__ inline void drop(const KeepDraw<kM>& keep, int m, int step, uint32_t (&a)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (kType == DType::kF32) {
      if (!keep.keeps(2 * m + i % 2, step, i / 2)) a[i] = 0;
    } else {
      a[i] &= keep.mask(2 * m + i % 2, 2 * step + i / 2);
    }
  }
}

// Computes delta, the dot product of a row of o and the same row of d_o, for a warp's rows and writes it to shared memory and to scratch
// memory. d_o is in shared memory; place(row, chunk) is the offset there of a 16-byte chunk of a row. If d_o consists of floats, it is also
// rounded to tf32 in place, because the products that follow read it.
template <DType kType, int kDim, int kM, typename Place>
__device__ inline void find_delta(const AttentionKernelArgs& args, const Work& work, std::byte* d_o,
                                  const Place& place, float* delta) {
  constexpr int kChunks = kHalves<kType, kDim> / 8, kBytes = kType == DType::kF32 ? 4 : 2;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int chunk = lane % kChunks;
#pragma unroll 4
  for (int r = lane / kChunks; r < 16 * kM; r += 32 / kChunks) {
    const int row = warp * 16 * kM + r;
    const bool is_valid = work.row + row < work.count;
    float sum = 0.0f;
    if (is_valid && 16 * chunk < kBytes * args.head_dim) {
      const auto* from = static_cast<const std::byte*>(args.o) +
                         (static_cast<int64_t>(work.first + work.row + row) * args.heads + work.head) *
                             args.head_dim * kBytes +
                         16 * chunk;
      const uint4 x = *reinterpret_cast<const uint4*>(from);
      auto* at = reinterpret_cast<uint4*>(d_o + place(row, chunk));
      const uint4 y = *at;
      if constexpr (kType == DType::kF32) *at = round_tf32(y);
      const uint32_t xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (kType == DType::kF32) {
          sum = fmaf(__uint_as_float(xs[i]), __uint_as_float(ys[i]), sum);
        } else {
          const float2 a = unpack<kType>(xs[i]), b = unpack<kType>(ys[i]);
          sum = fmaf(a.y, b.y, fmaf(a.x, b.x, sum));
        }
      }
    }
#pragma unroll
    for (int apart = 1; apart < kChunks; apart *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
    if (chunk == 0) {
      delta[row] = sum;
      if (is_valid)
        args.delta[static_cast<int64_t>(work.head) * args.tokens + work.first + work.row + row] = sum;
    }
  }
  __syncwarp();
}

// lse times log2(e), and delta, of each query row of which this lane holds accumulators.
template <int kM>
struct RowValues {
  float lse[kM][2], delta[kM][2];
};
// Loads lse and delta of the lane's rows. Requires: find_delta has written `shared_delta`.
template <int kM>
__device__ inline RowValues<kM> load_row_values(const AttentionKernelArgs& args, const Work& work,
                                                int warp_row, const float* shared_delta) {
  RowValues<kM> rows;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_row + 16 * m + 8 * half + lane / 4;
      const int64_t at =
          static_cast<int64_t>(work.head) * args.tokens + work.first + min(work.row + row, work.count - 1);
      rows.lse[m][half] = args.lse[at] * kLog2E;
      rows.delta[m][half] = shared_delta[row];
    }
  }
  return rows;
}

// Starts copying the values of a tile of queries: lse, delta and, with dropout, a word with the dropout bits of every 32 keys of the thread
// block. Rows after the end of the sequence get zeros; because their q and d_o are zero too, they add nothing to the gradients.
template <int kRows, int kThreads, bool kDropout>
__device__ inline void fetch_row_values(const AttentionKernelArgs& args, const Work& work,
                                        const Dropout& dropout, int row, float* values) {
  const int thread = static_cast<int>(threadIdx.x);
  const int query = row + thread % kQueries;
  const bool is_valid = query < work.count;
  const int t = work.first + (is_valid ? query : 0);
  const int64_t at = static_cast<int64_t>(work.head) * args.tokens + t;
  const float* from = thread < kQueries ? args.lse : args.delta;
  if (thread < 2 * kQueries) copy_4(shared_address(values + thread), from + at, is_valid);
  if constexpr (kDropout) {
    auto* words = reinterpret_cast<uint32_t*>(values + 2 * kQueries);
    const int num_words = (args.longest + 31) / 32;
#pragma unroll 1
    for (int i = thread; i < kRows / 32 * kQueries; i += kThreads) {
      const int word = work.row / 32 + i / kQueries;
      const bool has_word = is_valid && 32 * word < work.count;
      if (args.keep != nullptr) {
        const int64_t index =
            (static_cast<int64_t>(work.head) * num_words + (has_word ? word : 0)) * args.tokens + t;
        copy_4(shared_address(words + i), args.keep + index, has_word);
      } else {
        words[i] = has_word ? keep_word(dropout, keep_row(args, t, work.head), word) : 0;
      }
    }
  }
}

// Computes the left operands p and d_x for a warp's keys and 8 * kN queries from the scores x and from y, the products of d_o and v. p is
// zero for dropped pairs and not yet multiplied by dropout_scale. `values` and `keep` point to the lse and the dropout bits of the first
// query. The dropout bits of this lane's keys begin at bit `place` of a word.
template <DType kType, int kM, int kN, bool kDropout>
__device__ inline void differentiate(const AttentionKernelArgs& args, float exponent, const float* values,
                                     const uint32_t* keep, int place, float (&x)[kM][kN][4],
                                     float (&y)[kM][kN][4], uint32_t (&p)[8 * kN / kDepth<kType>][kM][4],
                                     uint32_t (&d_x)[8 * kN / kDepth<kType>][kM][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < kN; ++n) {
    const int column = 8 * n + lane % 4 * 2;
    const float2 lse = *reinterpret_cast<const float2*>(values + column);
    const float2 delta = *reinterpret_cast<const float2*>(values + kQueries + column);
    const float offsets[2] = {lse.x * kLog2E, lse.y * kLog2E}, deltas[2] = {delta.x, delta.y};
    uint32_t bits[2] = {0, 0};
    if constexpr (kDropout) {
      const uint2 two = *reinterpret_cast<const uint2*>(keep + column);
      bits[0] = two.x >> place;
      bits[1] = two.y >> place;
    }
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float probability = exp2_approx(fmaf(x[m][n][e], exponent, -offsets[e % 2]));
        float factor = y[m][n][e];
        float kept_probability = probability;
        if constexpr (kDropout) {
          const bool kept = (bits[e % 2] >> (2 * m + e / 2) & 1) != 0;
          factor = kept ? factor * args.keep_scale : 0.0f;
          kept_probability = kept ? probability : 0.0f;
        }
        y[m][n][e] = probability * (factor - deltas[e % 2]);
        x[m][n][e] = kept_probability;
      }
    }
  }
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int part = 0; part < 8 * kN / kDepth<kType>; ++part) {
      take_fragment<kType>(p[part][m], x[m], part);
      take_fragment<kType>(d_x[part][m], y[m], part);
    }
  }
}

// Masks the pairs of a row and a column that are `window` or more positions apart. The rows begin at position `warp_row` of the sequence,
// and the columns at position `column`.
template <int kM, int kN>
__device__ inline void hide_far(int window, int warp_row, int column, float (&score)[kM][kN][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int ahead = warp_row + 16 * m + e / 2 * 8 + lane / 4 - (column + lane % 4 * 2 + e % 2);
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        if (abs(ahead - 8 * n) >= window) score[m][n][e] = -INFINITY;
      }
    }
  }
}
// Returns true if hide_far() would mask at least one pair in a block of `rows` rows and `columns` columns.
__device__ inline bool reaches_far(int window, int row, int rows, int column, int columns) {
  return window > 0 && (row + rows - 1 - column >= window || column + columns - 1 - row >= window);
}

// Masks the pairs whose query comes before the key. Requires: the mask is causal.
template <int kM, int kN>
__device__ inline void hide_queries(int key, int query, float (&score)[kM][kN][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int ahead = key + 16 * m + e / 2 * 8 + lane / 4 - (query + lane % 4 * 2 + e % 2);
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        if (ahead > 8 * n) score[m][n][e] = -INFINITY;
      }
    }
  }
}

}  // namespace plimsoll::attention
