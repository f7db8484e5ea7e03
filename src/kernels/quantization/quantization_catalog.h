// The formats of quantized weights and the sizes of their arrays, which a plan needs. quantization.h states the formulas. Thread-safe:
// constants and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll {

enum class QuantizedFormat : uint8_t { kInt8, kFp4, kNf4 };

constexpr std::string_view quantized_format_name(QuantizedFormat format) {
  return format == QuantizedFormat::kInt8 ? "int8" : format == QuantizedFormat::kFp4 ? "fp4" : "nf4";
}
// Returns the format with this name, or nothing for an unknown name.
constexpr std::optional<QuantizedFormat> find_quantized_format(std::string_view name) {
  for (const QuantizedFormat format :
       {QuantizedFormat::kInt8, QuantizedFormat::kFp4, QuantizedFormat::kNf4}) {
    if (quantized_format_name(format) == name) return format;
  }
  return std::nullopt;
}

inline constexpr int64_t kQuantizationBlock = 64;
inline constexpr int64_t kScaleBlock = 256;

enum class ScaleQuantization : uint8_t { kNone, kDouble };

// The number of elements in each array of a quantized matrix.
struct QuantizedSizes {
  int64_t codes = 0;          // number of bytes of codes
  int64_t scales = 0;         // number of absmax values: fp32, or one byte with double quantization
  int64_t second_scales = 0;  // number of scales of the absmax codes, in fp32; 0 without double quantization
  int64_t offsets = 0;        // number of means of absmax values, in fp32; 0 without double quantization
};

// Returns the sizes of the arrays of a matrix that consists of `parts` separately quantized groups of rows. Requires: `parts` divides the
// number of rows.
constexpr QuantizedSizes quantized_sizes(QuantizedFormat format, ScaleQuantization scales, int64_t rows,
                                         int64_t columns, int64_t parts) {
  if (format == QuantizedFormat::kInt8) return {.codes = rows * columns, .scales = rows};
  const int64_t count = rows / parts * columns;
  const int64_t blocks = (count + kQuantizationBlock - 1) / kQuantizationBlock;
  QuantizedSizes sizes{.codes = parts * ((count + 1) / 2), .scales = parts * blocks};
  if (scales == ScaleQuantization::kDouble) {
    sizes.second_scales = parts * ((blocks + kScaleBlock - 1) / kScaleBlock);
    sizes.offsets = parts;
  }
  return sizes;
}

}  // namespace plimsoll
