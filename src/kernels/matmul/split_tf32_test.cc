// Tests the two parts into which split_tf32.h splits a number, because the error bound of three TF32 products is based on them.
#include "kernels/matmul/split_tf32.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/philox.h"

namespace plimsoll {
namespace {

bool is_tf32(float x) {
  return (std::bit_cast<uint32_t>(x) & 0x1fffu) == 0;
}

TEST(SplitTf32, KnownNumbers) {
  EXPECT_EQ(split_tf32(1.0f).high, 1.0f);
  EXPECT_EQ(split_tf32(1.0f).low, 0.0f);
  // A number halfway between two TF32 numbers must round to the even one. The low part is negative if the number
  // is rounded up.
  EXPECT_EQ(split_tf32(1.0f + 0x1p-11f).high, 1.0f);
  EXPECT_EQ(split_tf32(1.0f + 0x1p-11f).low, 0x1p-11f);
  EXPECT_EQ(split_tf32(1.0f + 0x3p-11f).high, 1.0f + 0x1p-9f);
  EXPECT_EQ(split_tf32(1.0f + 0x3p-11f).low, -0x1p-11f);
  EXPECT_EQ(split_tf32(-0.0f).high, 0.0f);
  EXPECT_TRUE(std::signbit(split_tf32(-0.0f).high));
}

TEST(SplitTf32, TheEndsOfTheRange) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (const float sign : {1.0f, -1.0f}) {
    EXPECT_EQ(split_tf32(sign * kInfinity).high, sign * kInfinity);
    EXPECT_EQ(split_tf32(sign * kInfinity).low, 0.0f);
    const Tf32Parts parts = split_tf32(sign * kLargest);
    EXPECT_TRUE(std::isfinite(parts.high) && std::isfinite(parts.low));
    EXPECT_LE(std::abs(static_cast<double>(sign * kLargest) - parts.high - parts.low), 0x1p-21 * kLargest);
  }
  // A NaN whose only set payload bits are truncated must not become an infinity.
  for (const uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fc00000u, 0x7fffffffu}) {
    EXPECT_TRUE(std::isnan(split_tf32(std::bit_cast<float>(bits)).high));
    EXPECT_EQ(split_tf32(std::bit_cast<float>(bits)).low, 0.0f);
  }
  EXPECT_EQ(split_tf32(0x1p-149f).high + split_tf32(0x1p-149f).low, 0.0f);
  EXPECT_EQ(split_tf32(0x1p-130f).high, 0x1p-130f);
}

TEST(SplitTf32, PartsAreTf32AndLoseAtMostTheLastBit) {
  double largest = 0.0;
  int inexact = 0;
  for (uint32_t i = 0; i < 200'000; ++i) {
    const auto draw = philox_block({.seed = 17, .step = 0, .site = 0}, i);
    // Draws numbers with every exponent for which the low part is not denormal. Numbers in the last 2^-12 of the range, which would round
    // to an infinity, are excluded.
    const uint32_t exponent = 24 + draw[1] % 230;
    const float x = std::bit_cast<float>((draw[0] & 0x807fffffu) | (exponent << 23));
    const Tf32Parts parts = split_tf32(x);
    ASSERT_TRUE(is_tf32(parts.high) && is_tf32(parts.low)) << x;
    ASSERT_LE(std::abs(parts.low), 0x1p-11f * std::abs(x)) << x;
    const double lost = std::abs(static_cast<double>(x) - parts.high - parts.low);
    ASSERT_LE(lost, 0x1p-23 * std::abs(static_cast<double>(x))) << x;
    largest = std::max(largest, lost / std::abs(static_cast<double>(x)));
    if (lost > 0.0) ++inexact;
  }
  // Checks that the drawn numbers test the bound: the error of at least one nearly reaches it, and the parts of more than 1000 do not add
  // up to the number exactly.
  EXPECT_GT(largest, 0.9 * 0x1p-23);
  EXPECT_GT(inexact, 1000);
}

TEST(SplitTf32, ThreeProductsOfTheParts) {
  for (uint32_t i = 0; i < 100'000; ++i) {
    const auto draw = philox_block({.seed = 18, .step = 0, .site = 0}, i);
    const float a = std::bit_cast<float>((draw[0] & 0x807fffffu) | (120u << 23));
    const float b = std::bit_cast<float>((draw[1] & 0x807fffffu) | (127u << 23));
    const Tf32Parts pa = split_tf32(a);
    const Tf32Parts pb = split_tf32(b);
    const double sum = static_cast<double>(pa.low) * pb.high + static_cast<double>(pa.high) * pb.low +
                       static_cast<double>(pa.high) * pb.high;
    const double product = static_cast<double>(a) * b;
    ASSERT_LE(std::abs(sum - product), kTf32x3SplitError * std::abs(product)) << a << " * " << b;
  }
}

TEST(SplitTf32, PlacesAndOrders) {
  const std::vector<float> x{1.0f, 2.0f + 0x1p-12f, 3.0f, 4.0f, 5.0f, 6.0f + 0x1p-11f};
  const float low1 = 0x1p-12f;
  const float low5 = 0x1p-11f;
  std::vector<float> out(18);
  SplitTf32Args args{.x = {x.data(), DType::kF32}, .out = {out.data(), DType::kF32}, .rows = 2, .columns = 3};
  split_tf32_ref(args);
  EXPECT_EQ(out, (std::vector<float>{0, low1, 0, 1, 2, 3, 1, 2, 3, 0, 0, low5, 4, 5, 6, 4, 5, 6}));
  args.order = Tf32PartOrder::kHighLowHigh;
  args.place = Tf32PartPlace::kAlongColumns;
  split_tf32_ref(args);
  EXPECT_EQ(out, (std::vector<float>{1, 4, 0, 0, 1, 4, 2, 5, low1, 0, 2, 5, 3, 6, 0, low5, 3, 6}));
}

}  // namespace
}  // namespace plimsoll
