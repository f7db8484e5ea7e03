#include "base/philox.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

// Checks the published results of Philox4x32 with ten rounds (file kat_vectors of the Random123 distribution).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32_10({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Checks the published results with seven rounds, from the same file.
TEST(Philox, KnownAnswersOfSevenRounds) {
  EXPECT_EQ(philox4x32<7>({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}));
  EXPECT_EQ(philox4x32<7>({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (std::array<uint32_t, 4>{0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}));
}

TEST(Philox, DropoutNumbersAreTheHalvesOfABlocksWords) {
  const RandomSite where{.seed = 0x0123456789abcdef, .step = 7, .site = 3};
  for (const uint64_t block : {uint64_t{0}, uint64_t{5}, (uint64_t{9} << 32) + 1}) {
    const std::array<uint32_t, 4> words = philox4x32<7>(
        {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 3, 7}, {0x89abcdef, 0x01234567});
    for (uint64_t i = 0; i < 8; ++i) {
      EXPECT_EQ(random_half(where, 8 * block + i), words[i / 2] >> (16 * (i % 2)) & 0xffff);
    }
  }
}

TEST(Philox, DropoutKeepsTheRightShare) {
  const RandomSite where{.seed = 42, .step = 7, .site = 3};
  const uint32_t threshold = dropout_threshold(0.1);
  int64_t kept = 0;
  constexpr int64_t kDraws = 1 << 20;
  for (int64_t i = 0; i < kDraws; ++i)
    kept += random_half(where, static_cast<uint64_t>(i)) >= threshold ? 1 : 0;
  // The tolerance is five standard deviations; the standard deviation of the fraction is sqrt(0.09 / 2^20) =
  // 2.9e-4.
  EXPECT_NEAR(static_cast<double>(kept) / kDraws, 0.9, 1.5e-3);
  EXPECT_EQ(dropout_threshold(0.0), 0u);
  EXPECT_EQ(dropout_scale(0.0), 1.0f);
  EXPECT_EQ(dropout_threshold(0.5), 32768u);
  EXPECT_EQ(dropout_scale(0.5), 2.0f);
  EXPECT_EQ(dropout_threshold(0.999999), 65535u);
  // The fraction of kept elements and their scale must match, so that the expectation of the output equals the input.
  for (const double p : {0.1, 0.3, 0.00001, 0.9999}) {
    const double dropped = static_cast<double>(dropout_threshold(p)) / 65536.0;
    EXPECT_NEAR(dropped, p, 0x1p-17);
    EXPECT_NEAR(static_cast<double>(dropout_scale(p)) * (1.0 - dropped), 1.0, 0x1p-24);
  }
}

}  // namespace
}  // namespace plimsoll
