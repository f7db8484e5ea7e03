#include "base/dtype.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace plimsoll {
namespace {

TEST(DType, NamesRoundTrip) {
  for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI64, DType::kI32,
                      DType::kU8, DType::kE4M3, DType::kE5M2}) {
    EXPECT_EQ(parse_dtype(dtype_name(dtype)), dtype);
  }
  EXPECT_FALSE(parse_dtype("f128"));
}

// Checks that converting every 16-bit pattern to fp32 and back gives the same pattern. A NaN need only stay a NaN.
TEST(DType, EverySixteenBitPatternRoundTrips) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const float from_bf16 = bf16_to_f32(bits);
    if (std::isnan(from_bf16)) {
      EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(from_bf16))));
    } else {
      ASSERT_EQ(f32_to_bf16(from_bf16), bits);
    }
    const float from_f16 = f16_to_f32(bits);
    if (std::isnan(from_f16)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(from_f16))));
    } else {
      ASSERT_EQ(f32_to_f16(from_f16), bits);
    }
  }
}

TEST(DType, RoundsToNearestTiesToEven) {
  // exactly between two bf16 numbers, of which the smaller one is even
  EXPECT_EQ(f32_to_bf16(1.0f + 1.0f / 256), 0x3f80);
  // exactly between two bf16 numbers, of which the larger one is even
  EXPECT_EQ(f32_to_bf16(1.0f + 3.0f / 256), 0x3f82);
  EXPECT_EQ(f32_to_bf16(std::nextafter(1.0f + 1.0f / 256, 2.0f)), 0x3f81);
  EXPECT_EQ(f32_to_f16(1.0f + 1.0f / 2048), 0x3c00);
  EXPECT_EQ(f32_to_f16(1.0f + 3.0f / 2048), 0x3c02);
  EXPECT_EQ(f32_to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(f32_to_f16(-0.0f), 0x8000);
}

struct Fp8Type {
  DType dtype;
  uint8_t (*from_f32)(float);
  float (*to_f32)(uint8_t);
  int exponent_bits;
  int mantissa_bits;
};
constexpr Fp8Type kFp8Types[] = {{DType::kE4M3, f32_to_e4m3, e4m3_to_f32, 4, 3},
                                 {DType::kE5M2, f32_to_e5m2, e5m2_to_f32, 5, 2}};

// Returns the number that an 8-bit code with sign s, exponent field e and mantissa m represents, by the definition of the format:
// (-1)^s 2^(e - bias) 1.m, or (-1)^s 2^(1 - bias) 0.m if e = 0.
double fp8_by_definition(const Fp8Type& type, int code) {
  const int mantissas = 1 << type.mantissa_bits;
  const int bias = (1 << (type.exponent_bits - 1)) - 1;
  const int exponent = (code & 0x7f) / mantissas, mantissa = code % mantissas;
  const double fraction = static_cast<double>(mantissa) / mantissas + (exponent > 0 ? 1.0 : 0.0);
  return (code & 0x80 ? -1.0 : 1.0) * std::ldexp(fraction, std::max(exponent, 1) - bias);
}

TEST(DType, EveryFp8CodeIsTheNumberOfItsDefinition) {
  for (const Fp8Type& type : kFp8Types) {
    SCOPED_TRACE(dtype_name(type.dtype));
    int num_finite = 0;
    for (int code = 0; code < 256; ++code) {
      const float value = type.to_f32(static_cast<uint8_t>(code));
      const bool last_exponent = (code & 0x7f) >> type.mantissa_bits == (1 << type.exponent_bits) - 1;
      const int mantissa = code & ((1 << type.mantissa_bits) - 1);
      if (type.dtype == DType::kE4M3 ? (code & 0x7f) == 0x7f : last_exponent && mantissa != 0) {
        EXPECT_TRUE(std::isnan(value)) << code;
        EXPECT_EQ(type.from_f32(value), 0x7f) << code;
      } else if (type.dtype == DType::kE5M2 && last_exponent) {
        EXPECT_EQ(value, code & 0x80 ? -INFINITY : INFINITY);
      } else {
        ++num_finite;
        EXPECT_EQ(static_cast<double>(value), fp8_by_definition(type, code)) << code;
        EXPECT_EQ(std::signbit(value), (code & 0x80) != 0) << code;
        EXPECT_EQ(type.from_f32(value), code);
      }
    }
    EXPECT_EQ(num_finite, type.dtype == DType::kE4M3 ? 254 : 248);
  }
  EXPECT_EQ(largest_fp8(DType::kE4M3), e4m3_to_f32(0x7e));
  EXPECT_EQ(largest_fp8(DType::kE5M2), e5m2_to_f32(0x7b));
  EXPECT_EQ(e4m3_to_f32(0x01), 0x1p-9f);
  EXPECT_EQ(e5m2_to_f32(0x01), 0x1p-16f);
}

// Tests numbers between each pair of neighbouring fp8 numbers: the midpoint must round to the one with the even code, and all
// others to the nearer one.
TEST(DType, Fp8RoundsToNearestTiesToEven) {
  for (const Fp8Type& type : kFp8Types) {
    SCOPED_TRACE(dtype_name(type.dtype));
    for (int code = 0; type.to_f32(static_cast<uint8_t>(code)) < largest_fp8(type.dtype); ++code) {
      const float low = type.to_f32(static_cast<uint8_t>(code));
      const float high = type.to_f32(static_cast<uint8_t>(code + 1));
      const float middle = (low + high) / 2;
      for (const int sign : {0, 0x80}) {
        const float factor = sign != 0 ? -1.0f : 1.0f;
        EXPECT_EQ(type.from_f32(factor * middle), sign + code + code % 2);
        EXPECT_EQ(type.from_f32(factor * std::nextafter(middle, 0.0f)), sign + code);
        EXPECT_EQ(type.from_f32(factor * std::nextafter(middle, high)), sign + code + 1);
        EXPECT_EQ(type.from_f32(factor * std::nextafter(low, high)), sign + code);
        EXPECT_EQ(type.from_f32(factor * std::nextafter(high, low)), sign + code + 1);
      }
    }
  }
}

TEST(DType, Fp8Saturates) {
  for (const Fp8Type& type : kFp8Types) {
    const float largest = largest_fp8(type.dtype);
    for (const float value : {largest, std::nextafter(largest, INFINITY), 2 * largest,
                              std::numeric_limits<float>::max(), std::numeric_limits<float>::infinity()}) {
      EXPECT_EQ(type.to_f32(type.from_f32(value)), largest) << value;
      EXPECT_EQ(type.to_f32(type.from_f32(-value)), -largest) << value;
    }
    EXPECT_EQ(type.from_f32(std::numeric_limits<float>::quiet_NaN()), 0x7f);
    EXPECT_EQ(type.from_f32(-std::numeric_limits<float>::quiet_NaN()), 0x7f);
    EXPECT_EQ(type.from_f32(std::numeric_limits<float>::denorm_min()), 0);
    EXPECT_EQ(type.from_f32(-0.0f), 0x80);
  }
}

}  // namespace
}  // namespace plimsoll
