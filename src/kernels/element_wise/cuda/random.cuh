// Dropout in CUDA kernels, with the random numbers of random_half() of base/philox.h, computed for eight elements at a time. Thread-safe:
// no state.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "kernels/element_wise/cuda/philox.cuh"

namespace plimsoll::cuda {

// Computes random_halves of base/philox.h for kBlocks blocks of random numbers. Each round is computed for all blocks before the next
// round, because they share the keys of the rounds.
template <int kBlocks>
__device__ __forceinline__ void dropout_blocks(const RandomSite& where, const uint64_t (&block)[kBlocks],
                                               uint32_t (&words)[kBlocks][4]) {
  auto key0 = static_cast<uint32_t>(where.seed);
  auto key1 = static_cast<uint32_t>(where.seed >> 32);
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    const uint64_t number = where.first_block + block[b];
    words[b][0] = static_cast<uint32_t>(number);
    words[b][1] = static_cast<uint32_t>(number >> 32);
    words[b][2] = where.site;
    words[b][3] = where.step;
  }
#pragma unroll
  for (int round = 0; round < kHalfRounds; ++round) {
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) philox_round(words[b], key0, key1);
    key0 += kPhiloxW0;
    key1 += kPhiloxW1;
  }
}

// The dropout parameters of a launch. If rng is not null, the seed and the step (number of the micro-batch) are read from device memory.
struct Dropout {
  RandomSite where = {};
  const int64_t* rng = nullptr;
  uint32_t threshold = 0;
  float scale = 1.0f;
  bool on = false;

  __device__ __forceinline__ RandomSite site() const {
    RandomSite site = where;
    if (on && rng != nullptr) {
      site.seed = static_cast<uint64_t>(rng[0]);
      site.step = static_cast<uint32_t>(rng[1]);
    }
    return site;
  }

  // Draws the random numbers of K groups of N consecutive elements, of which group k begins at element first[k]. As random_halves does, it
  // stores two numbers per word, the first in the low half; for N = 1 the word contains one number, in the low half. Requires: first[k] is
  // a multiple of N if N is 4 or 8.
  template <int K, int N>
  __device__ __forceinline__ void draw(const RandomSite& site, const int64_t (&first)[K],
                                       uint32_t (&numbers)[K][(N + 1) / 2]) const {
    static_assert(N == 1 || N == 4 || N == 8);
    uint64_t blocks[K];
    uint32_t words[K][4];
#pragma unroll
    for (int k = 0; k < K; ++k) blocks[k] = static_cast<uint64_t>(first[k]) / kHalvesOfBlock;
    dropout_blocks<K>(site, blocks, words);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if constexpr (N == 1) {
        numbers[k][0] = number_of(words[k], first[k]);
      } else {
        const bool upper = N == 4 && first[k] % 8 != 0;
#pragma unroll
        for (int i = 0; i < N / 2; ++i) numbers[k][i] = upper ? words[k][(i + 2) % 4] : words[k][i];
      }
    }
  }
  // factor_of_low() and factor_of_high() return the dropout factor of the element whose 16-bit random number is in the low or in the high
  // half of the word. Comparing the whole word with the threshold shifted left by 16 bits gives the same result as comparing the high half.
  __device__ __forceinline__ float factor_of_low(uint32_t word) const {
    return factor_of_high(word << 16);
  }
  __device__ __forceinline__ float factor_of_high(uint32_t word) const {
    return word >= threshold << 16 ? scale : 0.0f;
  }
  // Multiplies each x[i] by the dropout factor that the i-th random number of a group gives.
  template <int N>
  __device__ __forceinline__ void apply(const uint32_t (&numbers)[(N + 1) / 2], float (&x)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      x[i] *= i % 2 == 0 ? factor_of_low(numbers[i / 2]) : factor_of_high(numbers[i / 2]);
    }
  }
  static __device__ __forceinline__ uint32_t number_of(const uint32_t (&words)[4], int64_t element) {
    const uint32_t low = element % 4 < 2 ? words[0] : words[1], high = element % 4 < 2 ? words[2] : words[3];
    const uint32_t word = element % 8 < 4 ? low : high;
    return element % 2 == 0 ? word & 0xffffu : word >> 16;
  }

  // Multiplies each x[i] by the dropout factor of element first + i of the tensor.
  template <int N>
  __device__ __forceinline__ void apply(const RandomSite& site, int64_t first, float (&x)[N]) const {
    const int64_t firsts[1] = {first};
    uint32_t numbers[1][(N + 1) / 2];
    draw<1, N>(site, firsts, numbers);
    apply<N>(numbers[0], x);
  }
};

inline Dropout dropout_of(const char* kernel, double p, const RandomSite& where, const int64_t* rng) {
  PLIMSOLL_CHECK(p >= 0.0 && p < 1.0, "{}: the dropout probability must be in [0, 1), but is {}", kernel, p);
  return {where, rng, dropout_threshold(p), dropout_scale(p), p > 0.0};
}

}  // namespace plimsoll::cuda
