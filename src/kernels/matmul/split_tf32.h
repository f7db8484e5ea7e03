// Splits fp32 numbers into two that tensor cores hold exactly in TF32 (11 significant bits), so that three
// products of the parts are as good as one of fp32 operands. Not a product itself: what it writes are the
// operands of one (matmul_cuda_tf32x3.cc).
//
//   high = x rounded to 11 bits (to nearest, ties to even);  low = x - high, which fp32 holds exactly,
//   rounded to 11 bits likewise
//
// Each matrix is written three times over, so that one product over three times the terms makes the sum
//   A B = low(A) high(B) + high(A) low(B) + high(A) high(B), the small ones first:
// kLowHighHigh is the order of the first operand's parts, kHighLowHigh that of the second's. The parts stand
// beside each other in rows that hold the terms of a sum; a matrix whose columns hold them is transposed on
// the way, because tensor cores take TF32 operands along the terms only and a product library is slower by a
// third where it has to turn them.
//
// Error: |x - high - low| <= 2^-23 |x|: low is at most 2^12 units of the last place of x and odd multiples of
// it lose the last bit. |low| <= 2^-11 |x|. So the sum of the three products of a and b differs from a b by
// at most (2^-22 + 2 x 2^-23)(1 + 2^-10) |a b|; see kTf32x3SplitError. Numbers that would round to an
// infinity (the last 2^-12 of the range) are cut instead and lose 2^-21. Below 2^-103 low parts may
// be denormal numbers, of which up to 2^-137 is lost. An infinity is high = x, low = 0; a NaN stays one in
// high. Repeatability: pure. Thread-safety: pure functions. Aliasing: out overlaps nothing else. Cost: reads
// 4 bytes and writes 12 for each number.
#pragma once

#include <bit>
#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"

namespace plimsoll {

enum class Tf32PartOrder : uint8_t { kLowHighHigh, kHighLowHigh };
// What x[rows, columns] is written as: [rows, 3 columns], or its transpose as [columns, 3 rows].
enum class Tf32PartPlace : uint8_t { kAlongRows, kAlongColumns };

struct Tf32Parts {
  float high;
  float low;
};

struct SplitTf32Args {
  ConstView x;  // f32 [rows, columns]
  View out;     // f32, three times as many
  int64_t rows = 0;
  int64_t columns = 0;
  Tf32PartOrder order = Tf32PartOrder::kLowHighHigh;
  Tf32PartPlace place = Tf32PartPlace::kAlongRows;
};

// The nearest number of 11 significant bits, the even one of two; the one towards zero where the nearest is
// an infinity. Infinities stay; a NaN stays a NaN.
constexpr float round_to_tf32(float x) {
  constexpr uint32_t kCut = 0x1fffu;
  constexpr uint32_t kExponent = 0x7f800000u;
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & kExponent) == kExponent) {
    const uint32_t quiet = (bits & 0x007fffffu) != 0 ? 0x00400000u : 0u;
    return std::bit_cast<float>((bits | quiet) & ~kCut);
  }
  const uint32_t nearest = (bits + 0xfffu + ((bits >> 13) & 1u)) & ~kCut;
  return std::bit_cast<float>((nearest & kExponent) == kExponent ? bits & ~kCut : nearest);
}

constexpr Tf32Parts split_tf32(float x) {
  const float high = round_to_tf32(x);
  const bool finite = (std::bit_cast<uint32_t>(x) & 0x7f800000u) != 0x7f800000u;
  return {.high = high, .low = finite ? round_to_tf32(x - high) : 0.0f};
}

// Relative error of a product of two split numbers, before the sums: see above.
inline constexpr double kTf32x3SplitError = (0x1p-22 + 0x1p-22) * (1.0 + 0x1p-10);

// What one launch of the kernel for GPUs can count: more terms than these are not split.
inline constexpr int64_t kTf32x3MaxTerms = int64_t{65535} * 64;

// Plain loops. Requires: f32 views of the sizes above.
void split_tf32_ref(const SplitTf32Args& args);

// The function below runs on an NVIDIA GPU. The views hold device memory; x and out are aligned to 16 bytes.
// Denormal numbers are kept. Bits are the reference's.

// Errors: kInternal for operands that are not f32 or not aligned, and beyond the sizes that the catalog takes
// (kTf32x3MaxTerms, 2^32 numbers); kDevice for a launch that is refused.
void split_tf32_cuda(const SplitTf32Args& args, CudaStream stream);

}  // namespace plimsoll
