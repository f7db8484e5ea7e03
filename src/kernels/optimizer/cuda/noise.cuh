// The noise of numbers that are rounded stochastically (tensor_list.h) in CUDA kernels: philox_element of
// base/philox.h, bit for bit, four elements at a time. Only for .cu files. Thread-safe: no state.
#pragma once

#include <cstdint>

#include "base/philox.h"
#include "base/view.h"

namespace plimsoll::cuda {

inline constexpr int kNoiseRounds = 10;

// What a launch draws with. The keys of all rounds, which the host makes, are among its parameters: made in
// the kernel they would take twenty registers of a thread.
struct NoiseScalars {
  uint32_t keys[kNoiseRounds][2];
  const int64_t* step;  // null: 0
  uint32_t site;

  // Args: of an update, with step, noise_seed and noise_site.
  template <class Args>
  static NoiseScalars of(const Args& args) {
    NoiseScalars scalars{
        .keys = {}, .step = args.step ? args.step.template as<int64_t>() : nullptr, .site = args.noise_site};
    for (uint32_t round = 0; round < kNoiseRounds; ++round) {
      scalars.keys[round][0] = static_cast<uint32_t>(args.noise_seed) + round * kPhiloxW0;
      scalars.keys[round][1] = static_cast<uint32_t>(args.noise_seed >> 32) + round * kPhiloxW1;
    }
    return scalars;
  }
};

// The product of a and b in one instruction; of the same in C++ nvcc adds 0 to the upper half by another.
__device__ __forceinline__ void multiply_wide(uint32_t a, uint32_t b, uint32_t& high, uint32_t& low) {
  asm("{\n.reg .u64 p;\nmul.wide.u32 p, %2, %3;\nmov.b64 {%0, %1}, p;\n}"
      : "=r"(low), "=r"(high)
      : "r"(a), "r"(b));
}

// The noise of a list's tensor; that of the next has the next site.
struct Noise {
  const NoiseScalars* scalars;
  uint32_t step, site;

  // Of the list's first tensor. Requires: the scalars are a kernel's parameter.
  __device__ __forceinline__ explicit Noise(const NoiseScalars& of)
      : scalars(&of), step(of.step == nullptr ? 0u : static_cast<uint32_t>(*of.step)), site(of.site) {}

  __device__ __forceinline__ RandomSite where() const {
    return {scalars->keys[0][0] | static_cast<uint64_t>(scalars->keys[0][1]) << 32, step, site};
  }
  // The numbers of elements i to i + 3, of i + distance to i + distance + 3, and so on. Requires: i and
  // distance are multiples of 4.
  template <int kPacks>
  __device__ __forceinline__ void draw_packs(int64_t i, int64_t distance,
                                             uint32_t (&numbers)[kPacks][4]) const {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const uint64_t block = static_cast<uint64_t>(i + k * distance) / 4;
      numbers[k][0] = static_cast<uint32_t>(block);
      numbers[k][1] = static_cast<uint32_t>(block >> 32);
      numbers[k][2] = site;
      numbers[k][3] = step;
    }
#pragma unroll
    for (int round = 0; round < kNoiseRounds; ++round) {
#pragma unroll
      for (int k = 0; k < kPacks; ++k) {
        uint32_t(&c)[4] = numbers[k];
        uint32_t high0, low0, high1, low1;
        multiply_wide(kPhiloxM0, c[0], high0, low0);
        multiply_wide(kPhiloxM1, c[2], high1, low1);
        c[0] = high1 ^ c[1] ^ scalars->keys[round][0];
        c[1] = low1;
        c[2] = high0 ^ c[3] ^ scalars->keys[round][1];
        c[3] = low0;
      }
    }
  }
  // Those of elements i to i + N - 1.
  template <int N>
  __device__ __forceinline__ void draw(int64_t i, uint32_t (&numbers)[N]) const {
    if constexpr (N == 4) {
      uint32_t packs[1][4];
      draw_packs<1>(i, 0, packs);
#pragma unroll
      for (int k = 0; k < 4; ++k) numbers[k] = packs[0][k];
    } else {
      static_assert(N == 1);
      numbers[0] = philox_element(where(), static_cast<uint64_t>(i));
    }
  }
};

}  // namespace plimsoll::cuda
