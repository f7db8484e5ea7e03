// Element types of tensors, and conversions between 8-bit, 16-bit and 32-bit floating point. Thread-safe: pure
// functions.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll {

// kE4M3 and kE5M2 are the 8-bit floating-point numbers ("fp8") of Micikevicius et al., FP8 Formats for Deep Learning, arXiv
// 2209.05433: a sign, 4 or 5 bits of exponent, and 3 or 2 bits of mantissa.
enum class DType : uint8_t { kF64, kF32, kBF16, kF16, kI64, kI32, kU8, kE4M3, kE5M2 };

// Returns the size of one element in bytes.
constexpr int64_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kU8:
    case DType::kE4M3:
    case DType::kE5M2:
      return 1;
  }
  return 0;
}

constexpr bool is_fp8(DType dtype) {
  return dtype == DType::kE4M3 || dtype == DType::kE5M2;
}
// Returns true for the floating-point types except fp8. The elements of an fp8 tensor are not yet its values, because they must be
// multiplied by the tensor's scale.
constexpr bool is_floating(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

// Returns the name used in the text form of graphs: "f64", "f32", "bf16", "f16", "i64", "i32", "u8",
// "e4m3" or "e5m2".
constexpr std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "f64";
    case DType::kF32:
      return "f32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kI64:
      return "i64";
    case DType::kI32:
      return "i32";
    case DType::kU8:
      return "u8";
    case DType::kE4M3:
      return "e4m3";
    case DType::kE5M2:
      return "e5m2";
  }
  return "?";
}

// Returns the type with this name, or nothing if the name is unknown.
std::optional<DType> parse_dtype(std::string_view name);

// Converts to bfloat16, the upper half of an fp32. Rounds to nearest, ties to even; a NaN stays a (quiet)
// NaN.
constexpr uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x0040u);
  const uint32_t rounding = 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<uint16_t>((bits + rounding) >> 16);
}
constexpr float bf16_to_f32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Converts to IEEE binary16. Rounds to nearest, ties to even; overflow gives infinity; subnormals are kept.
uint16_t f32_to_f16(float value);
float f16_to_f32(uint16_t bits);

// Convert fp32 to 8-bit floating point as PTX's instruction cvt.rn.satfinite does: round to nearest, ties to even; numbers beyond the
// largest finite number, and infinities, become the largest finite number; NaN becomes 0x7f. Subnormals are kept. E4M3 has no infinity.
uint8_t f32_to_e4m3(float value);
uint8_t f32_to_e5m2(float value);
float e4m3_to_f32(uint8_t bits);
float e5m2_to_f32(uint8_t bits);
// Returns the largest finite number of an fp8 type. Requires: is_fp8(dtype).
constexpr float largest_fp8(DType dtype) {
  return dtype == DType::kE4M3 ? 448.0f : 57344.0f;
}

}  // namespace plimsoll
