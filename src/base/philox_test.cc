#include "base/philox.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

// Known answers of the Random123 distribution (kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32_10({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, DropoutKeepsTheRightShare) {
  const RandomSite where{.seed = 42, .step = 7, .site = 3};
  const uint32_t threshold = dropout_threshold(0.1);
  int64_t kept = 0;
  constexpr int64_t kDraws = 1 << 20;
  for (int64_t i = 0; i < kDraws; ++i)
    kept += philox_element(where, static_cast<uint64_t>(i)) >= threshold ? 1 : 0;
  // The standard deviation of the share is sqrt(0.09 / 2^20) = 2.9e-4; five of them.
  EXPECT_NEAR(static_cast<double>(kept) / kDraws, 0.9, 1.5e-3);
  EXPECT_EQ(dropout_threshold(0.0), 0u);
}

}  // namespace
}  // namespace plimsoll
