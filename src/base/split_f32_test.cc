#include "base/split_f32.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/dtype.h"

namespace plimsoll {
namespace {

// Tests every upper half of an fp32 number with lower halves at and around the tie, and with a stride through the other lower halves.
TEST(SplitF32, GivesBackEveryBit) {
  int64_t ties = 0, checked = 0;
  for (uint32_t upper = 0; upper < 65536; ++upper) {
    for (uint32_t low = 0; low < 65536; low += low == 0 || low == 0x7fff || low == 0x8000 ? 1 : 0x7ffe) {
      const float value = std::bit_cast<float>(upper << 16 | low);
      const SplitF32 parts = split_f32(value);
      const float high = bf16_to_f32(parts.high);
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(high) && std::isnan(join_f32(parts)));
        continue;
      }
      ASSERT_EQ(std::bit_cast<uint32_t>(join_f32(parts)), upper << 16 | low);
      ++checked;
      if (low == 0x8000) {
        // A number in the middle between two bf16 numbers must be rounded away from zero.
        ++ties;
        ASSERT_GT(std::fabs(high), std::fabs(value));
      } else {
        ASSERT_EQ(parts.high, f32_to_bf16(value));
      }
    }
  }
  EXPECT_GT(ties, 65000);
  EXPECT_GT(checked, 4 * 65000);
}

TEST(RoundStochastically, GoesUpAsOftenAsItIsNearThere) {
  for (const float sign : {1.0f, -1.0f}) {
    for (const uint32_t low : {0u, 1u, 0x1234u, 0x8000u, 0xffffu}) {
      const float value = sign * std::bit_cast<float>(0x3f9d0000u | low);
      uint32_t ups = 0;
      for (uint32_t noise = 0; noise < 65536; ++noise) {
        const float rounded = bf16_to_f32(round_stochastically(value, static_cast<uint16_t>(noise)));
        const bool up = std::fabs(rounded) > std::fabs(value);
        ASSERT_EQ(std::fabs(rounded), bf16_to_f32(static_cast<uint16_t>(up ? 0x3f9e : 0x3f9d)));
        ups += up ? 1 : 0;
      }
      EXPECT_EQ(ups, low);
    }
  }
  EXPECT_TRUE(std::isnan(bf16_to_f32(round_stochastically(std::bit_cast<float>(0x7fffffffu), 0xffff))));
  EXPECT_TRUE(std::isinf(bf16_to_f32(round_stochastically(std::numeric_limits<float>::infinity(), 0xffff))));
}

TEST(SplitF32, SpecialValues) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float value : {kInfinity, -kInfinity, 0.0f, -0.0f, std::numeric_limits<float>::max()}) {
    EXPECT_EQ(std::bit_cast<uint32_t>(join_f32(split_f32(value))), std::bit_cast<uint32_t>(value));
  }
  // GPUs produce the NaN 0x7fffffff. If its bits were rounded like those of a number, a carry would change it to zero.
  const float nan = std::bit_cast<float>(0x7fffffffu);
  EXPECT_TRUE(std::isnan(bf16_to_f32(split_f32(nan).high)));
}

}  // namespace
}  // namespace plimsoll
