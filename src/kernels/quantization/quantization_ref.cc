#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "kernels/optimizer/eight_bit.h"
#include "kernels/quantization/quantization.h"

namespace plimsoll {
namespace {

constexpr std::array<float, 16> kNf4Numbers = {-1.0f,
                                               -0.6961928009986877f,
                                               -0.5250730514526367f,
                                               -0.39491748809814453f,
                                               -0.28444138169288635f,
                                               -0.18477343022823334f,
                                               -0.09105003625154495f,
                                               0.0f,
                                               0.07958029955625534f,
                                               0.16093020141124725f,
                                               0.24611230194568634f,
                                               0.33791524171829224f,
                                               0.44070982933044434f,
                                               0.5626170039176941f,
                                               0.7229568362236023f,
                                               1.0f};
// The numbers that fp4 codes represent. A code consists of a sign bit, two bits of exponent and one bit of fraction. All numbers are
// divided by the largest one, 12, so that the largest is 1.
constexpr std::array<float, 16> kFp4Numbers = {
    0.0f, 0.0625f / 12.0f,  8.0f / 12.0f,  1.0f,  4.0f / 12.0f,  0.5f,  2.0f / 12.0f,  0.25f,
    0.0f, -0.0625f / 12.0f, -8.0f / 12.0f, -1.0f, -4.0f / 12.0f, -0.5f, -2.0f / 12.0f, -0.25f};

// The numbers that the 16 codes represent, in ascending order, their codes in the same order, and the means of adjacent numbers.
struct Ladder {
  std::array<float, 16> numbers{};
  std::array<uint8_t, 16> codes{};
  std::array<float, 15> middles{};
};

Ladder make_ladder(std::span<const float, 16> numbers) {
  Ladder ladder;
  for (uint8_t i = 0; i < 16; ++i) ladder.codes[i] = i;
  std::stable_sort(ladder.codes.begin(), ladder.codes.end(),
                   [&](uint8_t a, uint8_t b) { return numbers[a] < numbers[b]; });
  for (size_t i = 0; i < 16; ++i) ladder.numbers[i] = numbers[ladder.codes[i]];
  for (size_t i = 0; i < 15; ++i) ladder.middles[i] = (ladder.numbers[i] + ladder.numbers[i + 1]) / 2.0f;
  return ladder;
}

constexpr float kLeastScale = 1e-38f;

float inverse_of(float absmax) {
  return 1.0f / std::max(absmax, kLeastScale);
}

// Computes the codes of one separately quantized part of a matrix, and the absmax of each quantization block.
void quantize_blocks(const QuantizeArgs& args, std::vector<float>& absmax) {
  const Ladder ladder = make_ladder(four_bit_numbers(args.format));
  const int64_t count = args.rows * args.columns;
  auto* codes = static_cast<uint8_t*>(args.codes.data);
  for (int64_t begin = 0; begin < count; begin += kQuantizationBlock) {
    const int64_t end = std::min(count, begin + kQuantizationBlock);
    float largest = 0.0f;
    for (int64_t i = begin; i < end; ++i)
      largest = std::max(largest, std::fabs(static_cast<float>(args.w.load(i))));
    absmax.push_back(largest);
    const float inverse = inverse_of(largest);
    for (int64_t i = begin; i < end; ++i) {
      const float scaled = std::clamp(static_cast<float>(args.w.load(i)) * inverse, -1.0f, 1.0f);
      const auto at =
          std::lower_bound(ladder.middles.begin(), ladder.middles.end(), scaled) - ladder.middles.begin();
      const uint8_t code = ladder.codes[static_cast<size_t>(at)];
      if (i % 2 == 0) {
        codes[i / 2] = static_cast<uint8_t>(code << 4);
      } else {
        codes[i / 2] = static_cast<uint8_t>(codes[i / 2] | code);
      }
    }
  }
}

void quantize_scales(const QuantizeArgs& args, const std::vector<float>& absmax) {
  const std::span<const float, 256> numbers = scale_numbers();
  double sum = 0.0;
  for (float scale : absmax) sum += static_cast<double>(scale);
  const float offset = static_cast<float>(sum / static_cast<double>(absmax.size()));
  args.offset.store(0, static_cast<double>(offset));
  auto* codes = static_cast<uint8_t*>(args.scales.data);
  for (size_t begin = 0; begin < absmax.size(); begin += kScaleBlock) {
    const size_t end = std::min(absmax.size(), begin + kScaleBlock);
    float largest = 0.0f;
    for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(absmax[i] - offset));
    args.second_scales.store(static_cast<int64_t>(begin) / kScaleBlock, static_cast<double>(largest));
    const float inverse = inverse_of(largest);
    for (size_t i = begin; i < end; ++i) {
      const float scaled = std::clamp((absmax[i] - offset) * inverse, -1.0f, 1.0f);
      const auto above = std::lower_bound(numbers.begin(), numbers.end(), scaled);
      int64_t code = above - numbers.begin();
      if (code > 0 &&
          (code == 256 ||
           scaled <= (numbers[static_cast<size_t>(code) - 1] + numbers[static_cast<size_t>(code)]) / 2.0f)) {
        --code;
      }
      codes[i] = static_cast<uint8_t>(code);
    }
  }
}

void quantize_rows(const QuantizeArgs& args) {
  auto* codes = static_cast<int8_t*>(args.codes.data);
  for (int64_t n = 0; n < args.rows; ++n) {
    float largest = 0.0f;
    for (int64_t k = 0; k < args.columns; ++k) {
      largest = std::max(largest, std::fabs(static_cast<float>(args.w.load(n * args.columns + k))));
    }
    args.scales.store(n, static_cast<double>(largest));
    const float factor = largest > 0.0f ? 127.0f / largest : 0.0f;
    for (int64_t k = 0; k < args.columns; ++k) {
      const int64_t i = n * args.columns + k;
      codes[i] = static_cast<int8_t>(std::nearbyint(static_cast<float>(args.w.load(i)) * factor));
    }
  }
}

}  // namespace

std::span<const float, 16> four_bit_numbers(QuantizedFormat format) {
  PLIMSOLL_CHECK(format != QuantizedFormat::kInt8,
                 "only the formats with 4 bits have a table of 16 numbers, int8 has none");
  return format == QuantizedFormat::kNf4 ? kNf4Numbers : kFp4Numbers;
}

std::span<const float, 256> scale_numbers() {
  static constexpr std::array<float, 256> numbers = eight_bit_numbers(EightBitSign::kSigned);
  return numbers;
}

void quantize_weight(const QuantizeArgs& args) {
  if (args.format == QuantizedFormat::kInt8) return quantize_rows(args);
  std::vector<float> absmax;
  absmax.reserve(
      static_cast<size_t>((args.rows * args.columns + kQuantizationBlock - 1) / kQuantizationBlock));
  quantize_blocks(args, absmax);
  if (args.scales.dtype == DType::kU8) return quantize_scales(args, absmax);
  for (size_t i = 0; i < absmax.size(); ++i)
    args.scales.store(static_cast<int64_t>(i), static_cast<double>(absmax[i]));
}

void dequantize_ref(const DequantizeArgs& args) {
  if (args.format == QuantizedFormat::kInt8) {
    const auto* codes = static_cast<const int8_t*>(args.codes.data);
    for (int64_t i = 0; i < args.rows * args.columns; ++i) {
      const float scale = static_cast<float>(args.scales.load(i / args.columns)) / 127.0f;
      args.w.store(i, static_cast<double>(static_cast<float>(codes[i]) * scale));
    }
    return;
  }
  const std::span<const float, 16> numbers = four_bit_numbers(args.format);
  const auto* codes = static_cast<const uint8_t*>(args.codes.data);
  const int64_t count = args.rows / args.parts * args.columns;
  const int64_t blocks = (count + kQuantizationBlock - 1) / kQuantizationBlock;
  const int64_t second_blocks = (blocks + kScaleBlock - 1) / kScaleBlock;
  for (int64_t part = 0; part < args.parts; ++part) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t block = i / kQuantizationBlock;
      float absmax = 0.0f;
      if (args.second_scales) {
        const uint8_t code = static_cast<const uint8_t*>(args.scales.data)[part * blocks + block];
        absmax = scale_numbers()[code] *
                 static_cast<float>(args.second_scales.load(part * second_blocks + block / kScaleBlock));
        absmax += static_cast<float>(args.offsets.load(part));
      } else {
        absmax = static_cast<float>(args.scales.load(part * blocks + block));
      }
      const uint8_t pair = codes[part * ((count + 1) / 2) + i / 2];
      const float number = numbers[i % 2 == 0 ? pair >> 4 : pair & 15];
      args.w.store(part * count + i, static_cast<double>(number * absmax));
    }
  }
}

}  // namespace plimsoll
