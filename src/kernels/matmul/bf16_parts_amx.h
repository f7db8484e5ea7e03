// Products of fp32 matrices on AMX tiles, which multiply bf16. Each number is split into three bf16 parts, and six of the nine products of
// the parts of a and b are summed in fp32. This file computes one block of 32 x 32 of C; matmul_cpu_amx.cc loops over whole matrices.
//
//   x = x1 + x2 + x3,   x1 = bf16(x), x2 = bf16(x - x1), x3 = x - x1 - x2
//   a b ~ a1 b1 + a1 b2 + a2 b1 + a2 b2 + a1 b3 + a3 b1
//
// Error: bf16 holds 8 bits, so |x2| <= 2^-8 |x| and |x3| <= 2^-17 |x|. Of the 24 bits of x at most 7 remain for x3, so the three parts
// represent x exactly. The omitted products a2 b3, a3 b2 and a3 b3 are together at most (2^-24 + 2^-34) |a| |b|. A product of parts is
// exact in fp32. A tile instruction adds 16 products to each of two sums, adds the two sums, and adds the result to C (Intel's manual,
// volume 2, TDPBF16PS). A product passes through 17 roundings there, and C through one per instruction, so no product passes through more
// than r = 6 ceil(k / 32) + 17 roundings, compared with up to k + 1 in a sequential sum. The six products sum to less than (1 + 2^-6) |a|
// |b|, so the error is below ((1 + 2^-6) gamma_r + 2^-23.9) of the sum of magnitudes. With 32 or more terms this is less than gamma_(k +
// 2), the bound that matmul_error_bound() states for every fp32 product; with fewer terms it may be as large as with 32. (gamma_j is
// defined in matmul.h.) The rms error measured on random numbers is half of that of sequential fused multiply-adds.
//
// Range: parts below fp32's normal range count as zero, so numbers below 2^-102 have an absolute error of up to 2^-125. A number
// beyond 3.39e38, which bf16 rounds to infinity, gives NaN, and so does a number that is not finite.
//
// Thread-safe: pure on distinct memory. Requires: AVX512_BF16 for splitting; configure_amx_tiles() on this
// thread for multiplying.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plimsoll {

// Rows of A, and columns of B, are split into parts in blocks of 32. The parts of 32 terms of a block are stored together and form a
// "step". It consists of two tiles for each bf16 part, one for the first 16 rows or columns of the block and one for the other 16.
inline constexpr int64_t kPartsBlock = 32;
inline constexpr int64_t kPartsStepTerms = 32;
inline constexpr int64_t kParts = 3;
inline constexpr int64_t kPartsStepBytes = kParts * 2 * 1024;
constexpr int64_t parts_steps(int64_t terms) {
  return (terms + kPartsStepTerms - 1) / kPartsStepTerms;
}

// States whether the terms (the elements that are multiplied and summed) of a row of A, or of a column of B, are adjacent in memory or
// `stride` elements apart.
enum class TermLayout : uint8_t { kAdjacent, kStrided };

struct PartsSource {
  const float* from = nullptr;  // the first term of the first row or column of the block
  // The distance in elements between rows or columns if their terms are adjacent, otherwise the distance between terms.
  int64_t stride = 0;
  TermLayout term_layout = TermLayout::kAdjacent;
  int64_t count = 0;  // number of rows or columns up to the end of the matrix; zeros complete the block of 32
  int64_t terms = 0;  // number of terms of the matrix; zeros complete the last step
};

// Split a block of rows of A, or of columns of B, and write parts_steps(terms) steps. Requires: `steps` is aligned to 64 bytes.
void split_rows_amx(const PartsSource& source, std::byte* steps);
void split_columns_amx(const PartsSource& source, std::byte* steps);

enum class PartsStart : uint8_t { kZero, kBias, kStored };

struct PartsProduct {
  const std::byte* a = nullptr;  // the steps of a block of 32 rows, from split_rows_amx()
  const std::byte* b = nullptr;  // the steps of a block of 32 columns, from split_columns_amx()
  int64_t steps = 0;
  float* c = nullptr;  // the block of C: 32 rows, ldc elements apart
  int64_t ldc = 0;
  PartsStart start = PartsStart::kZero;
  const float* bias = nullptr;  // bias of the 32 columns; used only with PartsStart::kBias
};

// Computes c = a b, c = a b + bias or c += a b for one block of 32 x 32 elements, as `start` states.
void multiply_parts_amx(const PartsProduct& product);

}  // namespace plimsoll
