// Optimizer states in 8 bits: the numbers that the 8-bit codes represent, how a state is stored in them
// (block-wise dynamic quantization), and the rules for updates with such states (adamw.h, lion.h, sgd.h,
// adagrad.h). Internal to the folder.
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

// Returns, for each of the 256 codes, the number that it represents. The numbers are computed in fp32 as bitsandbytes computes them and
// have the same bits.
constexpr std::array<float, 256> eight_bit_numbers(EightBitSign sign) {
  constexpr float kScale[] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1.0f};
  const bool is_signed = sign == EightBitSign::kSigned;
  std::array<float, 256> numbers{};
  int next = is_signed ? 128 : 1;  // the code of the smallest positive number
  for (int decade = 0; decade < 7; ++decade) {
    const int bins = (is_signed ? 1 : 2) << decade;
    const float step = (1.0f - 0.1f) / static_cast<float>(bins);
    // Returns the lower limit of bin i of the `bins` bins of equal width that divide the range from 0.1 to 1. Each code of this decade
    // represents the middle of a bin times kScale[decade]. The limit is computed from the nearer end of the range, so that both ends are
    // exact, and the product of the width and the number of bins is not rounded before it is added.
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

// The table by which the code of a number is found. The upper 16 bits of the number's magnitude select an entry, called a cell. A cell
// contains the lower of two neighbouring codes and a limit: if the lower 16 bits of the magnitude exceed the limit, the next code is
// nearer. No cell needs two limits. Codes of magnitudes are counted from the code of 0, so that the codes of negative numbers mirror those
// of positive ones. The first cell, kEightBitFirstCell, is that of 2^-23, because every smaller magnitude rounds to 0.
inline constexpr uint32_t kEightBitFirstCell = (127u - 23u) << 7;
// The number of cells. The last cell contains the number 1.
inline constexpr uint32_t kEightBitCells = (127u << 7) - kEightBitFirstCell + 1;

// Returns the limit between two neighbouring numbers of the table as the bits of an fp32 number: the mean of the two, rounded down. Numbers
// up to the limit round to `low`, larger ones to `high`. Requires: 0 <= low < high.
constexpr uint32_t eight_bit_limit(float low, float high) {
  const double middle = (static_cast<double>(low) + static_cast<double>(high)) / 2.0;
  float limit = static_cast<float>(middle);
  uint32_t bits = __builtin_bit_cast(uint32_t, limit);
  if (static_cast<double>(limit) > middle) --bits;
  return bits;
}

// Returns the code of a magnitude, counted from the code of 0, by the table `cells` that is described above. `bits` contains the magnitude
// as an fp32 number.
constexpr uint32_t eight_bit_magnitude(const uint32_t* cells, uint32_t bits) {
  const uint32_t upper = bits >> 16;
  uint32_t cell = upper > kEightBitFirstCell ? upper - kEightBitFirstCell : 0;
  if (cell > kEightBitCells - 1) cell = kEightBitCells - 1;
  return (cells[cell] >> 16) + ((bits & 0xffffu) > (cells[cell] & 0xffffu) ? 1u : 0u);
}

// Returns the signed code of a number, given the code of its magnitude. The largest signed number is 1, but the smallest one is above -1.
// The number -1 therefore gets code 0, which represents the smallest number.
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
    // Finds the first code whose upper limit is not below the numbers of the cell. The limit is stored only if it is inside the cell.
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

// Returns the code of the number that is nearest to x. It compares x with all numbers, and serves as the reference that tests compare the
// table of cells with.
uint8_t nearest_eight_bit_code(EightBitSign sign, double x);

// An optimizer state in 8 bits for the reference implementations. load_eight_bit_ref() reads quantization block number `block` of the state
// as numbers in double. store_eight_bit_ref() stores the absmax of these numbers and rounds them to codes.
struct EightBitState {
  View codes = {};   // the 8-bit codes of the elements, u8
  View absmax = {};  // largest magnitude of each quantization block, f32 or f64
  EightBitSign sign = EightBitSign::kSigned;
};
void load_eight_bit_ref(const EightBitState& state, int64_t block, std::span<double> x);
void store_eight_bit_ref(const EightBitState& state, int64_t block, std::span<const double> x);

// load_eight_bit_cpu() reads the codes of one quantization block as numbers, and store_eight_bit_cpu() rounds numbers to codes, in fp32
// with SIMD vectors. Unlike the reference, store_eight_bit_cpu() finds the code of x * (1 / absmax) instead of x / absmax. It returns the
// new absmax. Requires: count <= kEightBitBlock.
void load_eight_bit_cpu(const EightBitMap& map, const uint8_t* codes, float absmax, float* x, int64_t count);
float store_eight_bit_cpu(const EightBitMap& map, EightBitSign sign, const float* x, int64_t count,
                          uint8_t* codes);

// Returns a bound on the error of the quotient x / absmax of an element that a kernel computes in fp32, if x has at most the error `error`
// and absmax the error `absmax_error`. If the limit between two codes is within this distance of the quotient, the code may differ from
// that of the reference by one.
constexpr double eight_bit_quotient_error(double quotient, double error, double absmax, double absmax_error) {
  return (error + quotient * absmax_error) / (absmax - absmax_error) + 3.0 * 0x1p-24 * quotient;
}

}  // namespace plimsoll
