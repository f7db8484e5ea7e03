// Element types of tensors, and conversions between 16-bit and 32-bit floating point. Thread-safe: pure
// functions.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll {

enum class DType : uint8_t { kF64, kF32, kBF16, kF16, kI64, kI32, kU8 };

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
      return 1;
  }
  return 0;
}

constexpr bool is_floating(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

// Returns the name used in the text form of graphs: "f64", "f32", "bf16", "f16", "i64", "i32" or "u8".
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

}  // namespace plimsoll
