// The 8-bit numbers of optimizer states and how a state is kept in them: block-wise dynamic quantisation.
// Internal to the folder. Thread-safe: constants and pure functions.
//
// A tensor's elements, in order, form blocks of kEightBitBlock; the last may be shorter. A block keeps the
// largest magnitude of its elements in fp32 (absmax) and for each element the code whose number is nearest to
// x / absmax; where two are equally near, the one nearer to 0. A block whose absmax is below 2^-126 is zero.
// Numbers are those of Dettmers et al., "8-bit Optimizers via Block-wise Quantization" (arXiv 2110.02861,
// section 2) as bitsandbytes rounds them: 0, 1, and for every decade from 10^-6 to 1 the middles of equal
// bins, twice as many as in the decade below; unsigned from 2 bins to 128, signed from 1 to 64 on either side
// of 0 (there is no -1). Codes number them in ascending order.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/view.h"

namespace plimsoll {

inline constexpr int64_t kEightBitBlock = 256;
constexpr int64_t eight_bit_blocks(int64_t count) {
  return (count + kEightBitBlock - 1) / kEightBitBlock;
}

enum class EightBitSign : uint8_t { kSigned, kUnsigned };

// The numbers by code, built in fp32 as bitsandbytes builds them, to the same bits.
constexpr std::array<float, 256> eight_bit_numbers(EightBitSign sign) {
  constexpr float kScale[] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1.0f};
  const bool is_signed = sign == EightBitSign::kSigned;
  std::array<float, 256> numbers{};
  int next = is_signed ? 128 : 1;  // the code after that of 0
  for (int decade = 0; decade < 7; ++decade) {
    const int bins = (is_signed ? 1 : 2) << decade;
    const float step = (1.0f - 0.1f) / static_cast<float>(bins);
    // Limits of bins from either end, so that both ends are exact; the product is not rounded before the sum.
    const auto limit = [&](int i) {
      const double wide = static_cast<double>(step);
      return static_cast<float>(i < (bins + 1) / 2 ? static_cast<double>(0.1f) + wide * i
                                                   : 1.0 - wide * (bins - i));
    };
    for (int i = 0; i < bins; ++i) {
      const float middle = (limit(i) + limit(i + 1)) / 2.0f;
      numbers[static_cast<size_t>(next++)] = kScale[decade] * middle;
    }
  }
  numbers[255] = 1.0f;
  for (size_t i = 0; is_signed && i < 127; ++i) numbers[126 - i] = -numbers[128 + i];
  return numbers;
}

// How the code of a number is found: by the magnitude's upper 16 bits. A cell says the code below and beyond
// which lower 16 bits the next code is nearer; no cell holds two such limits. Codes of magnitudes count from
// that of 0, so that those of negative numbers mirror those of positive ones.
inline constexpr uint32_t kEightBitFirstCell = (127u - 23u) << 7;  // of 2^-23; all below rounds to 0
inline constexpr uint32_t kEightBitCells = (127u << 7) - kEightBitFirstCell + 1;  // the last is that of 1

// The largest fp32 number that rounds to the lower of two neighbouring numbers, as bits: their middle,
// rounded down. Requires: 0 <= low < high.
constexpr uint32_t eight_bit_limit(float low, float high) {
  const double middle = (static_cast<double>(low) + static_cast<double>(high)) / 2.0;
  float limit = static_cast<float>(middle);
  uint32_t bits = __builtin_bit_cast(uint32_t, limit);
  if (static_cast<double>(limit) > middle) --bits;
  return bits;
}

// The code of a magnitude by its cell.
constexpr uint32_t eight_bit_magnitude(const uint32_t* cells, uint32_t bits) {
  const uint32_t upper = bits >> 16;
  uint32_t cell = upper > kEightBitFirstCell ? upper - kEightBitFirstCell : 0;
  if (cell > kEightBitCells - 1) cell = kEightBitCells - 1;
  return (cells[cell] >> 16) + ((bits & 0xffffu) > (cells[cell] & 0xffffu) ? 1u : 0u);
}

// The code of a number of either sign by that of its magnitude: there is no -1.
constexpr uint8_t eight_bit_signed_code(uint32_t magnitude, bool negative) {
  if (!negative) return static_cast<uint8_t>(127u + magnitude);
  return static_cast<uint8_t>(127u - (magnitude < 127u ? magnitude : 127u));
}

struct EightBitMap {
  std::array<float, 256> numbers;
  std::array<uint32_t, kEightBitCells> cells;
};
constexpr EightBitMap make_eight_bit_map(EightBitSign sign) {
  EightBitMap map{.numbers = eight_bit_numbers(sign), .cells = {}};
  const size_t zero = sign == EightBitSign::kSigned ? 127 : 0;
  size_t code = zero;
  uint32_t limit = eight_bit_limit(map.numbers[code], map.numbers[code + 1]);
  for (uint32_t cell = 0; cell < kEightBitCells; ++cell) {
    // The first code whose upper limit is not below the cell; the limit counts where it lies within.
    const uint32_t first = (cell + kEightBitFirstCell) << 16;
    while (code < 255 && limit < first) {
      ++code;
      if (code < 255) limit = eight_bit_limit(map.numbers[code], map.numbers[code + 1]);
    }
    const bool within = code < 255 && limit >> 16 == first >> 16;
    map.cells[cell] = static_cast<uint32_t>(code - zero) << 16 | (within ? limit & 0xffffu : 0xffffu);
  }
  return map;
}
const EightBitMap& eight_bit_map(EightBitSign sign);

// The code nearest to a number, by its distance to each: the reference of the cells.
uint8_t nearest_eight_bit_code(EightBitSign sign, double x);

// The reference in double: a block of `count` elements to numbers and back. `first` is the block's first
// element in codes, `block` its place in absmax.
struct EightBitState {
  View codes = {};   // u8
  View absmax = {};  // one element per block, f32 or f64
  EightBitSign sign = EightBitSign::kSigned;
};
void load_eight_bit_ref(const EightBitState& state, int64_t block, std::span<double> x);
void store_eight_bit_ref(const EightBitState& state, int64_t block, std::span<const double> x);

// The same in fp32 with vectors: x * (1 / absmax) in place of the quotient, rounded twice. Requires: count <=
// kEightBitBlock.
void load_eight_bit_cpu(const EightBitMap& map, const uint8_t* codes, float absmax, float* x, int64_t count);
float store_eight_bit_cpu(const EightBitMap& map, EightBitSign sign, const float* x, int64_t count,
                          uint8_t* codes);

// How far the fp32 quotient of an element is from the reference's, where the element is off by `error` and
// the block's absmax by at most `absmax_error`: a code may differ by one where the limit between the two is
// that near.
constexpr double eight_bit_quotient_error(double quotient, double error, double absmax, double absmax_error) {
  return (error + quotient * absmax_error) / (absmax - absmax_error) + 3.0 * 0x1p-24 * quotient;
}

}  // namespace plimsoll
