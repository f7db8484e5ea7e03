// Dropout inside CUDA kernels: the numbering of base/philox.h, four elements at a time. Thread-safe: no
// state.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "base/philox.h"

namespace plimsoll::cuda {

// philox_block of base/philox.h for kBlocks blocks, round by round for all of them: they share the schedule
// of the key.
template <int kBlocks>
__device__ __forceinline__ void philox_blocks(const RandomSite& where, const uint64_t (&block)[kBlocks],
                                              uint32_t (&numbers)[kBlocks][4]) {
  auto key0 = static_cast<uint32_t>(where.seed);
  auto key1 = static_cast<uint32_t>(where.seed >> 32);
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    numbers[b][0] = static_cast<uint32_t>(block[b]);
    numbers[b][1] = static_cast<uint32_t>(block[b] >> 32);
    numbers[b][2] = where.site;
    numbers[b][3] = where.step;
  }
#pragma unroll
  for (int round = 0; round < 10; ++round) {
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      uint32_t(&c)[4] = numbers[b];
      const uint64_t p0 = static_cast<uint64_t>(kPhiloxM0) * c[0];
      const uint64_t p1 = static_cast<uint64_t>(kPhiloxM1) * c[2];
      c[0] = static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ key0;
      c[1] = static_cast<uint32_t>(p1);
      c[2] = static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ key1;
      c[3] = static_cast<uint32_t>(p0);
    }
    key0 += kPhiloxW0;
    key1 += kPhiloxW1;
  }
}

// What a launch knows of its dropout. Seed and step are read from device memory where rng is not null.
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

  // The factors of K runs of N elements, run k from first[k] on. Requires: first[k] is a multiple of 4 where
  // N is.
  template <int K, int N>
  __device__ __forceinline__ void factors(const RandomSite& site, const int64_t (&first)[K],
                                          float (&factor)[K][N]) const {
    if constexpr (N % 4 == 0) {
      constexpr int kBlocks = K * N / 4;
      uint64_t blocks[kBlocks];
      uint32_t numbers[kBlocks][4];
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
        blocks[b] = static_cast<uint64_t>(first[b / (N / 4)]) / 4 + static_cast<uint64_t>(b % (N / 4));
      }
      philox_blocks<kBlocks>(site, blocks, numbers);
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          factor[b / (N / 4)][b % (N / 4) * 4 + i] = numbers[b][i] >= threshold ? scale : 0.0f;
        }
      }
    } else {
#pragma unroll
      for (int k = 0; k < K; ++k) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
          factor[k][i] =
              philox_element(site, static_cast<uint64_t>(first[k] + i)) >= threshold ? scale : 0.0f;
        }
      }
    }
  }

  // x[i] *= factor of element first + i.
  template <int N>
  __device__ __forceinline__ void apply(const RandomSite& site, int64_t first, float (&x)[N]) const {
    const int64_t firsts[1] = {first};
    float factor[1][N];
    factors<1, N>(site, firsts, factor);
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] *= factor[0][i];
  }
};

inline Dropout dropout_of(const char* kernel, double p, const RandomSite& where, const int64_t* rng) {
  PLIMSOLL_CHECK(p >= 0.0 && p < 1.0, "{}: dropout probability {} is not in [0, 1)", kernel, p);
  return {where, rng, dropout_threshold(p), dropout_scale(p), p > 0.0};
}

}  // namespace plimsoll::cuda
