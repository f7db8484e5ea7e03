#include <algorithm>

#include "base/check.h"
#include "device/cpu/parallel.h"
#include "kernels/quantization/quantization.h"

namespace plimsoll {
namespace {

// The number of quantization blocks per task of a thread: 16384 elements, a few microseconds of work.
constexpr int64_t kBlocksPerChunk = 256;

float absmax_of(const DequantizeArgs& args, int64_t block, int64_t second_block, int64_t part) {
  if (!args.second_scales) return args.scales.as<float>()[block];
  const float product =
      scale_numbers()[args.scales.as<uint8_t>()[block]] * args.second_scales.as<float>()[second_block];
  return product + args.offsets.as<float>()[part];
}

// Dequantizes 4-bit codes. For each quantization block, it computes the sixteen values that an element can have, each multiplied and
// rounded once. The elements are then looked up in this table.
template <typename T>
void four_bits(const DequantizeArgs& args) {
  const std::span<const float, 16> numbers = four_bit_numbers(args.format);
  const int64_t count = args.rows / args.parts * args.columns;
  const int64_t blocks = (count + kQuantizationBlock - 1) / kQuantizationBlock;
  const int64_t second_blocks = (blocks + kScaleBlock - 1) / kScaleBlock;
  const int64_t chunks = (blocks + kBlocksPerChunk - 1) / kBlocksPerChunk;
  parallel_for(args.parts * chunks, [&](int64_t item, int) {
    const int64_t part = item / chunks;
    const uint8_t* codes = args.codes.as<uint8_t>() + part * ((count + 1) / 2);
    T* w = static_cast<T*>(args.w.data) + part * count;
    const int64_t first = item % chunks * kBlocksPerChunk;
    const int64_t last = std::min(blocks, first + kBlocksPerChunk);
    for (int64_t block = first; block < last; ++block) {
      const float absmax =
          absmax_of(args, part * blocks + block, part * second_blocks + block / kScaleBlock, part);
      T scaled[16];
      const View table{scaled, args.w.dtype};
      for (size_t i = 0; i < 16; ++i)
        table.store(static_cast<int64_t>(i), static_cast<double>(numbers[i] * absmax));
      const int64_t end = std::min(count, (block + 1) * kQuantizationBlock);
      int64_t i = block * kQuantizationBlock;
      for (; i + 1 < end; i += 2) {
        const uint8_t pair = codes[i / 2];
        w[i] = scaled[pair >> 4];
        w[i + 1] = scaled[pair & 15];
      }
      if (i < end) w[i] = scaled[codes[i / 2] >> 4];
    }
  });
}

template <typename T>
void eight_bits(const DequantizeArgs& args) {
  parallel_for(args.rows, [&](int64_t row, int) {
    const auto* codes = static_cast<const int8_t*>(args.codes.data) + row * args.columns;
    const float scale = args.scales.as<float>()[row] / 127.0f;
    const View out{static_cast<T*>(args.w.data) + row * args.columns, args.w.dtype};
    for (int64_t k = 0; k < args.columns; ++k) {
      out.store(k, static_cast<double>(static_cast<float>(codes[k]) * scale));
    }
  });
}

}  // namespace

void dequantize_cpu(const DequantizeArgs& args) {
  PLIMSOLL_CHECK(args.codes && args.scales && args.w,
                 "dequantize_cpu needs codes, scales and w, but at least one is missing");
  const bool wide = args.w.dtype == DType::kF32;
  PLIMSOLL_CHECK(wide || args.w.dtype == DType::kBF16 || args.w.dtype == DType::kF16,
                 "dequantize_cpu: w must be f32, bf16 or f16, but is {}", dtype_name(args.w.dtype));
  if (args.format == QuantizedFormat::kInt8)
    return wide ? eight_bits<float>(args) : eight_bits<uint16_t>(args);
  return wide ? four_bits<float>(args) : four_bits<uint16_t>(args);
}

}  // namespace plimsoll
