// A round of Philox4x32 (base/philox.h) in CUDA kernels. Only for .cu files. Thread-safe: no state.
#pragma once

#include <cstdint>

#include "base/philox.h"

namespace plimsoll::cuda {

// Multiplies a and b in one instruction. For the same product in C++, nvcc spends another instruction to add
// 0 to the upper half.
__device__ __forceinline__ void multiply_wide(uint32_t a, uint32_t b, uint32_t& high, uint32_t& low) {
  asm("{\n.reg .u64 p;\nmul.wide.u32 p, %2, %3;\nmov.b64 {%0, %1}, p;\n}"
      : "=r"(low), "=r"(high)
      : "r"(a), "r"(b));
}

// Advances the counter of the random number generator by one round with these keys.
__device__ __forceinline__ void philox_round(uint32_t (&c)[4], uint32_t key0, uint32_t key1) {
  uint32_t high0, low0, high1, low1;
  multiply_wide(kPhiloxM0, c[0], high0, low0);
  multiply_wide(kPhiloxM1, c[2], high1, low1);
  c[0] = high1 ^ c[1] ^ key0;
  c[1] = low1;
  c[2] = high0 ^ c[3] ^ key1;
  c[3] = low0;
}

}  // namespace plimsoll::cuda
