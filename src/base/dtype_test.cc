#include "base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace plimsoll {
namespace {

TEST(DType, NamesRoundTrip) {
  for (DType dtype :
       {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI64, DType::kI32, DType::kU8}) {
    EXPECT_EQ(parse_dtype(dtype_name(dtype)), dtype);
  }
  EXPECT_FALSE(parse_dtype("f128"));
}

// Checks that every 16-bit pattern survives the conversion to fp32 and back (NaNs stay NaNs).
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
  EXPECT_EQ(f32_to_bf16(1.0f + 1.0f / 256), 0x3f80);  // tie, the even value is below
  EXPECT_EQ(f32_to_bf16(1.0f + 3.0f / 256), 0x3f82);  // tie, the even value is above
  EXPECT_EQ(f32_to_bf16(std::nextafter(1.0f + 1.0f / 256, 2.0f)), 0x3f81);
  EXPECT_EQ(f32_to_f16(1.0f + 1.0f / 2048), 0x3c00);
  EXPECT_EQ(f32_to_f16(1.0f + 3.0f / 2048), 0x3c02);
  EXPECT_EQ(f32_to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(f32_to_f16(-0.0f), 0x8000);
}

}  // namespace
}  // namespace plimsoll
