#include "base/dtype.h"

#include <cmath>

namespace plimsoll {

std::optional<DType> parse_dtype(std::string_view name) {
  for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI64, DType::kI32,
                      DType::kU8, DType::kE4M3, DType::kE5M2}) {
    if (dtype_name(dtype) == name) return dtype;
  }
  return std::nullopt;
}

uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);  // NaN
  // From this magnitude on, values round to 65536 or more, which fp16 cannot represent, so the result is infinity.
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // The result is a subnormal fp16 number, which is a multiple of 2^-24. Scaling by 2^24 and rounding to an integer gives this
    // multiple.
    const float scaled = std::bit_cast<float>(magnitude) * 16777216.0f;
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(scaled)));
  }
  const uint32_t rounding = 0x0fffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((magnitude + rounding - 0x38000000u) >> 13));
}

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 5.9604644775390625e-8f;  // the factor is 2^-24
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

namespace {

// The layout of an fp8 type: the number of mantissa bits, the exponent bias, and the code (bit pattern) of the largest finite
// number.
struct Fp8Format {
  uint32_t mantissa_bits;
  uint32_t bias;
  uint32_t largest_code;
  DType dtype;
};
constexpr Fp8Format kFormatE4M3{3, 7, 0x7e, DType::kE4M3};
constexpr Fp8Format kFormatE5M2{2, 15, 0x7b, DType::kE5M2};

// Returns a power of two. Requires: 2^exponent is a normal fp32 number.
constexpr float power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

template <Fp8Format kFormat>
uint8_t to_fp8(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 31 << 7;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7f;  // NaN
  if (std::bit_cast<float>(magnitude) >= largest_fp8(kFormat.dtype))
    return static_cast<uint8_t>(sign | kFormat.largest_code);
  constexpr int kLeastExponent = 1 - static_cast<int>(kFormat.bias);
  if (std::bit_cast<float>(magnitude) < power_of_two(kLeastExponent)) {
    // The result is a subnormal fp8 number, which is a multiple of 2^(least exponent - mantissa bits).
    constexpr float kSteps = power_of_two(static_cast<int>(kFormat.mantissa_bits) - kLeastExponent);
    const float steps = std::nearbyint(std::bit_cast<float>(magnitude) * kSteps);
    return static_cast<uint8_t>(sign | static_cast<uint32_t>(steps));
  }
  constexpr uint32_t kDropped = 23 - kFormat.mantissa_bits;
  const uint32_t rounding = (1u << (kDropped - 1)) - 1 + ((magnitude >> kDropped) & 1u);
  return static_cast<uint8_t>(sign | ((magnitude + rounding - ((127 - kFormat.bias) << 23)) >> kDropped));
}

// Converts the code of an fp8 number to fp32. Codes above that of the largest finite number are NaN, except for the infinity of E5M2.
template <Fp8Format kFormat>
float from_fp8(uint8_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x80u) << 24;
  const uint32_t code = bits & 0x7fu;
  if (code > kFormat.largest_code) {
    const bool infinite = kFormat.dtype == DType::kE5M2 && code == kFormat.largest_code + 1;
    return std::bit_cast<float>(sign | (infinite ? 0x7f800000u : 0x7fc00000u));
  }
  if (code >> kFormat.mantissa_bits == 0) {
    constexpr float kStep = power_of_two(1 - static_cast<int>(kFormat.bias + kFormat.mantissa_bits));
    const float magnitude = static_cast<float>(code) * kStep;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((code << (23 - kFormat.mantissa_bits)) + ((127 - kFormat.bias) << 23)));
}

}  // namespace

uint8_t f32_to_e4m3(float value) {
  return to_fp8<kFormatE4M3>(value);
}
uint8_t f32_to_e5m2(float value) {
  return to_fp8<kFormatE5M2>(value);
}
float e4m3_to_f32(uint8_t bits) {
  return from_fp8<kFormatE4M3>(bits);
}
float e5m2_to_f32(uint8_t bits) {
  return from_fp8<kFormatE5M2>(bits);
}

}  // namespace plimsoll
