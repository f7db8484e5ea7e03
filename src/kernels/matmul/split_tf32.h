// Splits fp32 numbers into two parts that tensor cores represent exactly in TF32 (11 significant bits), so that three products of the parts
// are as accurate as one product of fp32 operands. The functions only split; matmul_cuda_tf32x3.cc multiplies the results.
//
//   high = x rounded to 11 bits (to nearest, ties to even)
//   low  = x - high, which fp32 holds exactly, rounded to 11 bits in the same way
//
// Each matrix is written as three matrices of parts, so that one product with three times as many terms computes the sum
//   A B = low(A) high(B) + high(A) low(B) + high(A) high(B), the small terms first.
// kLowHighHigh is the order of the first operand's parts, kHighLowHigh that of the second's. If the rows of a matrix contain the terms of a
// sum, the three parts are adjacent in each row. If its columns contain the terms, the matrix is transposed: tensor cores need TF32
// operands whose terms are adjacent, and cuBLASLt is a third slower if it has to transpose them.
//
// Error: |x - high - low| <= 2^-23 |x|: low before its rounding is a multiple of the unit of the last place
// of x and at most 2^12 of these units. It may therefore have 12 significant bits, of which the rounding to
// 11 bits removes the last. |low| <= 2^-11 |x|. The sum of the three products of a and b therefore differs
// from a b by at most (2^-22 + 2 x 2^-23)(1 + 2^-10) |a b|; see kTf32x3SplitError. Numbers that would round
// to an infinity (the last 2^-12 of the range) are truncated instead, which causes a relative error of up to
// 2^-21. Below 2^-103 low parts may be denormal numbers, which lose up to 2^-137. An infinity gives high = x,
// low = 0; a NaN stays a NaN in high.
// Repeatability: pure.
// Thread-safety: pure functions.
// Aliasing: out overlaps no other operand.
// Cost: reads 4 bytes and writes 12 bytes per number.
#pragma once

#include <bit>
#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"

namespace plimsoll {

enum class Tf32PartOrder : uint8_t { kLowHighHigh, kHighLowHigh };
// States where the three parts of x[rows, columns] are written. kAlongRows: one after the other in each row, as [rows, 3 columns].
// kAlongColumns: transposed, as [columns, 3 rows].
enum class Tf32PartPlace : uint8_t { kAlongRows, kAlongColumns };

struct Tf32Parts {
  float high;
  float low;
};

struct SplitTf32Args {
  ConstView x;  // the matrix to split, f32, shape [rows, columns]
  View out;     // f32, three times as many elements as x
  int64_t rows = 0;
  int64_t columns = 0;
  Tf32PartOrder order = Tf32PartOrder::kLowHighHigh;
  Tf32PartPlace place = Tf32PartPlace::kAlongRows;
};

// Returns the nearest number with 11 significant bits (ties to even). If that is an infinity, returns the largest finite number with 11
// bits instead. Infinities are not changed; a NaN stays a NaN.
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

// The bound of the relative error of a product of two split numbers, without the errors of the sums. The derivation is at the top of this
// file.
inline constexpr double kTf32x3SplitError = (0x1p-22 + 0x1p-22) * (1.0 + 0x1p-10);

// The largest number of terms of a sum that one launch of the GPU kernel can split.
inline constexpr int64_t kTf32x3MaxTerms = int64_t{65535} * 64;

// Splits a matrix with plain loops. Requires: x and out are f32 views of the sizes that SplitTf32Args states.
void split_tf32_ref(const SplitTf32Args& args);

// split_tf32_cuda() runs on an NVIDIA GPU. Views are in device memory; x and out are aligned to 16 bytes. Denormal numbers are kept. The
// bits equal those of the reference.

// Splits the elements of a matrix on a GPU into parts in TF32, as described above. Errors: kInternal for operands that are not f32 or not
// aligned, for 2^32 elements or more, and, with kAlongColumns, for more than kTf32x3MaxTerms rows; kDevice if the launch fails.
void split_tf32_cuda(const SplitTf32Args& args, CudaStream stream);

}  // namespace plimsoll
