// Converts 8-bit optimizer states (eight_bit.h) between codes and numbers in CUDA kernels. The functions load the tables of numbers into
// shared memory, and decode and encode those elements of a quantization block that belong to one lane of a warp. Only for .cu files.
// Thread-safe: no state.
#pragma once

#include "kernels/element_wise/cuda/reductions.cuh"
#include "kernels/element_wise/cuda/vectors.cuh"
#include "kernels/optimizer/eight_bit.h"

namespace plimsoll::cuda {

// The tables of eight_bit.h as constants in device memory. Each translation unit has its own copy.
static __device__ const EightBitMap kSignedMap = make_eight_bit_map(EightBitSign::kSigned);
static __device__ const EightBitMap kUnsignedMap = make_eight_bit_map(EightBitSign::kUnsigned);

// The tables of one state in shared memory: the number that each code represents, and the cells by which codes are found (eight_bit.h). A
// cell is stored in such a form that adding it to the bits of a magnitude leaves the code in the upper half of the sum: the addition
// cancels the upper bits of the magnitude, and the lower bits carry if they exceed the limit of the cell.
struct SharedMap {
  float numbers[256];
  uint32_t cells[kEightBitCells];

  __device__ __forceinline__ void load(const EightBitMap& map) {
    for (uint32_t i = threadIdx.x; i < 256; i += blockDim.x) numbers[i] = map.numbers.data()[i];
    for (uint32_t i = threadIdx.x; i < kEightBitCells; i += blockDim.x) {
      cells[i] = (map.cells.data()[i] ^ 0xffffu) - ((i + kEightBitFirstCell) << 16);
    }
  }
  // Returns a word whose bits 16 to 23 are the code that eight_bit_magnitude() returns for this magnitude. Requires: 2^-23 <= magnitude < 1
  // + 2^-7.
  __device__ __forceinline__ uint32_t find(float magnitude) const {
    const uint32_t bits = __float_as_uint(magnitude);
    return bits + cells[(bits >> 16) - kEightBitFirstCell];
  }
};

// Return the quotient of an element and the largest magnitude of its quantization block, and the magnitude of this quotient in the range
// that SharedMap::find() requires. quotient_of() raises -1 to the smallest number that has a code, which is also the code of -1.
// magnitude_of() raises magnitudes below 2^-23 to 2^-23; both have the code of 0. The maximum operations also replace NaN by a number.
template <EightBitSign kSign>
__device__ __forceinline__ float quotient_of(float x, float inverse) {
  constexpr float kLeast = eight_bit_numbers(EightBitSign::kSigned)[0];
  return kSign == EightBitSign::kSigned ? fmaxf(x * inverse, kLeast) : x * inverse;
}
__device__ __forceinline__ float magnitude_of(float quotient) {
  return fmaxf(fabsf(quotient), 0x1p-23f);
}
template <EightBitSign kSign>
__device__ __forceinline__ uint8_t code_of(const SharedMap& map, float x, float inverse) {
  const float quotient = quotient_of<kSign>(x, inverse);
  const uint32_t size = map.find(magnitude_of(quotient)) >> 16;
  if constexpr (kSign == EightBitSign::kUnsigned) return static_cast<uint8_t>(size);
  return eight_bit_signed_code(size, quotient < 0.0f);
}

// Returns four bytes that are chosen from the words a and b by the four digits of the selector: digits 0 to 3 choose the bytes of a, and 4
// to 7 those of b. Adding 8 to a digit copies the sign bit of the byte to all of its bits.
template <uint32_t kSelector>
__device__ __forceinline__ uint32_t bytes_of(uint32_t a, uint32_t b) {
  uint32_t bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "n"(kSelector));
  return bytes;
}

// The elements of one optimizer state that one lane processes in a quantization block.
template <EightBitSign kSign>
struct StateBlock {
  float x[2][4];

  __device__ __forceinline__ void load(const SharedMap& map, const Raw<uint8_t, 4> (&codes)[2],
                                       float absmax) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t word = codes[half].word[0];
      x[half][0] = map.numbers[word & 0xffu] * absmax;
      x[half][1] = map.numbers[bytes_of<0x4441>(word, 0)] * absmax;
      x[half][2] = map.numbers[bytes_of<0x4442>(word, 0)] * absmax;
      x[half][3] = map.numbers[word >> 24] * absmax;
    }
  }
  __device__ __forceinline__ float largest() const {
    float absmax = 0.0f;
#pragma unroll
    for (const float(&part)[4] : x) {
#pragma unroll
      for (const float value : part) absmax = fmaxf(absmax, fabsf(value));
    }
    return warp_max_of_magnitudes(absmax);
  }
  // Returns the codes of four numbers, one per byte. Codes of negative numbers mirror those of positive ones around the code of 0, 0x7f.
  // The additions and subtractions do not carry from one byte into another.
  __device__ __forceinline__ uint32_t codes(const SharedMap& map, float inverse, int half) const {
    uint32_t quotients[4], found[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float quotient = quotient_of<kSign>(x[half][i], inverse);
      quotients[i] = __float_as_uint(quotient);
      found[i] = map.find(magnitude_of(quotient));
    }
    const uint32_t sizes =
        bytes_of<0x5410>(bytes_of<0x0062>(found[0], found[1]), bytes_of<0x0062>(found[2], found[3]));
    if constexpr (kSign == EightBitSign::kUnsigned) return sizes;
    const uint32_t negative = bytes_of<0x5410>(bytes_of<0x00fb>(quotients[0], quotients[1]),
                                               bytes_of<0x00fb>(quotients[2], quotients[3]));
    return 0x7f7f7f7fu + (sizes & ~negative) - (sizes & negative);
  }
};

// Returns 1 / absmax, or 0 if all elements of the quantization block are zero (eight_bit.h). For an absmax between the two limits below, no
// intermediate result of the fast computation is flushed to zero.
__device__ __forceinline__ float inverse_of(float absmax) {
  if (absmax >= 0x1p-126f && absmax <= 0x1p125f) {
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(absmax));
    return fmaf(fmaf(-inverse, absmax, 1.0f), inverse, inverse);
  }
  return absmax >= 0x1p-126f ? 1.0f / absmax : 0.0f;
}

}  // namespace plimsoll::cuda
