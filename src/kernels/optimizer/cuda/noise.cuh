// The random numbers ("noise") for stochastic rounding (tensor_list.h) in CUDA kernels: the same bits as random_half of base/philox.h. Only
// for .cu files. Thread-safe: no state.
#pragma once

#include <cstdint>

#include "base/view.h"
#include "kernels/element_wise/cuda/philox.cuh"
#include "kernels/optimizer/tensor_list.h"

namespace plimsoll::cuda {

// The inputs of the random number generator that are the same for a whole launch. The host computes the keys of all rounds and passes them
// as kernel parameters; if the kernel computed them, they would occupy fourteen registers per thread.
struct NoiseScalars {
  uint32_t keys[kHalfRounds][2];
  const int64_t* step;  // the step number; null means step 0
  uint32_t site;

  // Computes the inputs from the arguments of an update, which have the fields step, noise_seed and noise_site.
  template <class Args>
  static NoiseScalars of(const Args& args) {
    NoiseScalars scalars{
        .keys = {}, .step = args.step ? args.step.template as<int64_t>() : nullptr, .site = args.noise_site};
    for (uint32_t round = 0; round < kHalfRounds; ++round) {
      scalars.keys[round][0] = static_cast<uint32_t>(args.noise_seed) + round * kPhiloxW0;
      scalars.keys[round][1] = static_cast<uint32_t>(args.noise_seed >> 32) + round * kPhiloxW1;
    }
    return scalars;
  }
};

// Draws the random numbers of one tensor of a list. The site, the part of their key that distinguishes tensors, is larger by one for the
// next tensor in the list.
struct Noise {
  const NoiseScalars* scalars;
  uint32_t step, site;

  // Creates an object that draws the random numbers of the first tensor of a list. Requires: `of` is a kernel parameter, because the object
  // stores only its address.
  __device__ __forceinline__ explicit Noise(const NoiseScalars& of)
      : scalars(&of), step(of.step == nullptr ? 0u : static_cast<uint32_t>(*of.step)), site(of.site) {}

  __device__ __forceinline__ RandomSite where() const {
    return {scalars->keys[0][0] | static_cast<uint64_t>(scalars->keys[0][1]) << 32, step, site};
  }
  // Returns an object that draws the random numbers for the second moment of the tensor.
  __device__ __forceinline__ Noise of_second_moment() const {
    Noise noise = *this;
    noise.site += kSecondMomentSites;
    return noise;
  }
  // Draws the 16-bit random numbers of elements i to i + N - 1. Each word of `numbers` gets two of them, the first one in its low half; for
  // a single element only the low half is used. Requires: i is a multiple of N.
  template <int N>
  __device__ __forceinline__ void draw(int64_t i, uint32_t (&numbers)[(N + 1) / 2]) const {
    static_assert(N == 1 || N == 4);
    if constexpr (N == 1) {
      numbers[0] = random_half(where(), static_cast<uint64_t>(i));
    } else {
      uint32_t words[4];
      draw_block(i, words);
      const bool upper = i % 8 != 0;
      numbers[0] = upper ? words[2] : words[0];
      numbers[1] = upper ? words[3] : words[1];
    }
  }
  // Draws the random numbers of the eight elements from i on, as two groups of four. Requires: i is a multiple of 8.
  __device__ __forceinline__ void draw_eight(int64_t i, uint32_t (&numbers)[2][2]) const {
    uint32_t words[4];
    draw_block(i, words);
#pragma unroll
    for (int n = 0; n < 4; ++n) numbers[n / 2][n % 2] = words[n];
  }
  // Draws the random numbers of kPacks groups of four elements, which start at i, i + distance, i + 2 * distance and so on. A Philox block
  // contains the numbers of the groups of two adjacent lanes, so each lane draws for both of them: the even lane draws the first of every
  // two groups, the odd lane the second. Requires: all lanes of the warp call it; i is a multiple of 4; in an even lane i is a multiple of
  // 8 and 4 less than in the next lane; distance is a multiple of 8.
  template <int kPacks>
  __device__ __forceinline__ void draw_packs(int64_t i, int64_t distance,
                                             uint32_t (&numbers)[kPacks][2]) const {
    static_assert(kPacks % 2 == 0);
    const bool is_odd = threadIdx.x % 2 != 0;
#pragma unroll
    for (int k = 0; k < kPacks; k += 2) {
      uint32_t words[4];
      draw_block(i + (k + (is_odd ? 1 : 0)) * distance, words);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const uint32_t other = __shfl_xor_sync(0xffffffffu, is_odd ? words[n] : words[n + 2], 1);
        numbers[k][n] = is_odd ? other : words[n];
        numbers[k + 1][n] = is_odd ? words[n + 2] : other;
      }
    }
  }

 private:
  // Draws the random numbers of eight elements: of element i, and of the others in the same aligned group of eight.
  __device__ __forceinline__ void draw_block(int64_t i, uint32_t (&words)[4]) const {
    const uint64_t block = static_cast<uint64_t>(i) / kHalvesOfBlock;
    words[0] = static_cast<uint32_t>(block);
    words[1] = static_cast<uint32_t>(block >> 32);
    words[2] = site;
    words[3] = step;
#pragma unroll
    for (int round = 0; round < kHalfRounds; ++round) {
      philox_round(words, scalars->keys[round][0], scalars->keys[round][1]);
    }
  }
};

}  // namespace plimsoll::cuda
