// Tests the row functions of attention on every instruction set of this machine: exp must be as accurate as stated, compared with the C
// library, and dropout must use the numbers of random_halves.
#include "device/cpu/simd_targets.h"
// foreach_target.h includes this file once per instruction set, by this name, which must be defined before any Highway header.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_rows_test.cc"
#include "hwy/foreach_target.h"
// highway.h must be included after foreach_target.h.
#include "hwy/highway.h"
#include "kernels/attention/attention_rows-inl.h"

#include <cmath>
#include <limits>
#include <vector>

#include "base/philox.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll {
namespace HWY_NAMESPACE {

// Replaces `count` numbers with their exponentials. Requires: count is a multiple of 16.
void exp_in_place(float* values, int64_t count) {
  for (int64_t c = 0; c < count; c += lanes()) {
    hn::StoreU(exp_floats(hn::LoadU(Floats(), values + c)), Floats(), values + c);
  }
}

void fill_dropout(const RandomSite& where, double dropout, uint64_t row, int64_t first_key, int64_t count,
                  float* factors) {
  DropoutRow(where, dropout).fill(row, first_key, count, factors);
}

}  // namespace HWY_NAMESPACE
}  // namespace plimsoll
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include "tests/support/keep_worst.h"
#include "tests/support/simd_target_cases.h"

namespace plimsoll {
namespace {
HWY_EXPORT(exp_in_place);
HWY_EXPORT(fill_dropout);
}  // namespace

namespace test {
namespace {

TEST(AttentionRows, ExpIsWithinItsBound) {
  for_each_simd_target([] {
    std::vector<float> x;
    for (float value = -87.3f; value < 88.0f; value += 1.0f / 4096) x.push_back(value);
    for (float value = 1e-30f; value < 1.0f; value *= 1.01f) {
      x.push_back(value);
      x.push_back(-value);
    }
    x.push_back(0.0f);
    while (x.size() % 16 != 0) x.push_back(-1.0f);
    std::vector<float> y = x;
    HWY_DYNAMIC_DISPATCH(exp_in_place)(y.data(), static_cast<int64_t>(y.size()));
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = std::exp(static_cast<double>(x[i]));
      keep_worst(worst, std::abs(static_cast<double>(y[i]) - want) / want);
    }
    EXPECT_LT(worst, 1.5e-7);
    testing::Test::RecordProperty("worst_relative_error", std::to_string(worst));
  });
}

TEST(AttentionRows, ExpFlushesAndKeepsNaN) {
  for_each_simd_target([] {
    const uint32_t all_ones = 0xffffffffu;
    std::vector<float> y(16, std::numeric_limits<float>::quiet_NaN());
    y[0] = -88.0f;
    y[1] = -1e30f;
    y[2] = -std::numeric_limits<float>::infinity();
    y[3] = 0.0f;
    y[4] = std::bit_cast<float>(all_ones);
    HWY_DYNAMIC_DISPATCH(exp_in_place)(y.data(), 16);
    EXPECT_EQ(y[0], 0.0f);
    EXPECT_EQ(y[1], 0.0f);
    EXPECT_EQ(y[2], 0.0f);
    EXPECT_EQ(y[3], 1.0f);
    EXPECT_TRUE(std::isnan(y[4]));
    EXPECT_TRUE(std::isnan(y[5]));
  });
}

TEST(AttentionRows, DropoutFollowsPhilox) {
  for_each_simd_target([] {
    const RandomSite where{0x0123456789abcdefull, 77, 5};
    int64_t dropped = 0;
    int64_t checked = 0;
    for (uint64_t row : {uint64_t{0}, uint64_t{1}, uint64_t{12345}, uint64_t{4294967295}}) {
      for (int64_t first_key : {int64_t{0}, int64_t{32}, int64_t{64}, (int64_t{1} << 20) - 192}) {
        for (double p : {0.1, 0.5}) {
          std::vector<float> factors(192, -1.0f);
          HWY_DYNAMIC_DISPATCH(fill_dropout)(where, p, row, first_key, 192, factors.data());
          for (int64_t c = 0; c < 192; ++c) {
            const uint32_t number = attention_number(where, row, first_key + c);
            const float want = number >= dropout_threshold(p) ? dropout_scale(p) : 0.0f;
            ASSERT_EQ(factors[static_cast<size_t>(c)], want) << row << " " << first_key + c;
            dropped += want == 0.0f;
            ++checked;
          }
        }
      }
    }
    EXPECT_NEAR(static_cast<double>(dropped) / static_cast<double>(checked), 0.3, 0.03);
  });
}

}  // namespace
}  // namespace test
}  // namespace plimsoll
#endif
