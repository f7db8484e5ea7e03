// Dropout inside CUDA kernels: the numbering of base/philox.h, four elements at a time. Thread-safe: no
// state.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "base/philox.h"

namespace plimsoll::cuda {

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

  // x[i] *= factor of element first + i. Requires: first is a multiple of 4 where N is.
  template <int N>
  __device__ __forceinline__ void apply(const RandomSite& site, int64_t first, float (&x)[N]) const {
    if constexpr (N % 4 == 0) {
#pragma unroll
      for (int i = 0; i < N; i += 4) {
        const auto numbers = philox_block(site, static_cast<uint64_t>(first + i) / 4);
#pragma unroll
        for (int k = 0; k < 4; ++k) x[i + k] *= numbers[static_cast<size_t>(k)] >= threshold ? scale : 0.0f;
      }
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        x[i] *= philox_element(site, static_cast<uint64_t>(first + i)) >= threshold ? scale : 0.0f;
      }
    }
  }
};

inline Dropout dropout_of(const char* kernel, double p, const RandomSite& where, const int64_t* rng) {
  PLIMSOLL_CHECK(p >= 0.0 && p < 1.0, "{}: dropout probability {} is not in [0, 1)", kernel, p);
  return {where, rng, dropout_threshold(p), dropout_scale(p), p > 0.0};
}

}  // namespace plimsoll::cuda
