#include <algorithm>
#include <cmath>

#include "kernels/optimizer/eight_bit.h"

namespace plimsoll {
namespace {

constexpr EightBitMap kSignedMap = make_eight_bit_map(EightBitSign::kSigned);
constexpr EightBitMap kUnsignedMap = make_eight_bit_map(EightBitSign::kUnsigned);

}  // namespace

const EightBitMap& eight_bit_map(EightBitSign sign) {
  return sign == EightBitSign::kSigned ? kSignedMap : kUnsignedMap;
}

uint8_t nearest_eight_bit_code(EightBitSign sign, double x) {
  const std::array<float, 256>& numbers = eight_bit_map(sign).numbers;
  int best = 0;
  for (int code = 1; code < 256; ++code) {
    const double number = static_cast<double>(numbers[static_cast<size_t>(code)]);
    const double distance = std::fabs(x - number);
    const double least = std::fabs(x - static_cast<double>(numbers[static_cast<size_t>(best)]));
    const bool nearer_to_zero =
        std::fabs(number) < std::fabs(static_cast<double>(numbers[static_cast<size_t>(best)]));
    if (distance < least || (distance == least && nearer_to_zero)) best = code;
  }
  return static_cast<uint8_t>(best);
}

void load_eight_bit_ref(const EightBitState& state, int64_t block, std::span<double> x) {
  const std::array<float, 256>& numbers = eight_bit_map(state.sign).numbers;
  const auto* codes = state.codes.as<uint8_t>() + block * kEightBitBlock;
  const double absmax = state.absmax.load(block);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(numbers[codes[i]]) * absmax;
}

void store_eight_bit_ref(const EightBitState& state, int64_t block, std::span<const double> x) {
  auto* codes = state.codes.as<uint8_t>() + block * kEightBitBlock;
  double absmax = 0.0;
  for (const double value : x) absmax = std::max(absmax, std::fabs(value));
  state.absmax.store(block, absmax);
  for (size_t i = 0; i < x.size(); ++i) {
    codes[i] = nearest_eight_bit_code(state.sign, absmax >= 0x1p-126 ? x[i] / absmax : 0.0);
  }
}

}  // namespace plimsoll
