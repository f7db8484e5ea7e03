#include "kernels/optimizer/loss_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "tests/support/kernel_rows.h"

namespace plimsoll {
namespace {

struct State {
  float scale = 65536.0f;
  int32_t good_steps = 0, skipped = 0, skipped_out = -1;
  float unscaled_norm = -1.0f, used_scale = -1.0f;

  void step(float norm, bool finite) { step(norm, finite, adjust_loss_scale_cpu); }
  template <typename Kernel>
  void step(float norm, bool finite, const Kernel& adjust_loss_scale) {
    const float flag = finite ? 1.0f : 0.0f;
    adjust_loss_scale({.norm = {&norm, DType::kF32},
                       .finite = {&flag, DType::kF32},
                       .scale = {&scale, DType::kF32},
                       .good_steps = {&good_steps, DType::kI32},
                       .skipped = {&skipped, DType::kI32},
                       .unscaled_norm = {&unscaled_norm, DType::kF32},
                       .used_scale = {&used_scale, DType::kF32},
                       .skipped_out = {&skipped_out, DType::kI32}});
  }
};

TEST(LossScale, TheNormIsThatOfTheUnscaledGradient) {
  State state;
  state.step(65536.0f * 0.75f, true);
  EXPECT_EQ(state.unscaled_norm, 0.75f);
  EXPECT_EQ(state.used_scale, 65536.0f);
  EXPECT_EQ(state.good_steps, 1);
  EXPECT_EQ(state.skipped_out, 0);
}

// All numbers are powers of two, so that the fast kernels and the reference agree in every bit.
TEST(LossScale, EqualsTheReferenceInGoodAndBadSteps) {
  test::FastRows(adjust_loss_scale_ref).for_each(DType::kF32, [](const auto& adjust_loss_scale) {
    State got, want;
    got.good_steps = want.good_steps = 1998;
    for (const bool finite : {true, true, false, true}) {
      got.step(65536.0f, finite, adjust_loss_scale);
      want.step(65536.0f, finite, adjust_loss_scale_ref);
      EXPECT_EQ(std::tie(got.scale, got.good_steps, got.skipped, got.skipped_out, got.unscaled_norm,
                         got.used_scale),
                std::tie(want.scale, want.good_steps, want.skipped, want.skipped_out, want.unscaled_norm,
                         want.used_scale));
    }
  });
}

TEST(LossScale, AnOverflowHalvesAndCounts) {
  State state;
  state.good_steps = 7;
  state.step(std::numeric_limits<float>::infinity(), false);
  EXPECT_EQ(state.scale, 32768.0f);
  EXPECT_EQ(state.used_scale, 65536.0f);
  EXPECT_EQ(state.good_steps, 0);
  EXPECT_EQ(state.skipped, 1);
  EXPECT_EQ(state.skipped_out, 1);
  EXPECT_TRUE(std::isinf(state.unscaled_norm));
}

TEST(LossScale, TwoThousandGoodStepsDoubleIt) {
  State state;
  for (int i = 0; i < 1999; ++i) state.step(1.0f, true);
  EXPECT_EQ(state.scale, 65536.0f);
  EXPECT_EQ(state.good_steps, 1999);
  state.step(1.0f, true);
  EXPECT_EQ(state.scale, 131072.0f);
  EXPECT_EQ(state.good_steps, 0);
  // A step whose gradients overflow must restart the count of steps after which the scale grows.
  for (int i = 0; i < 1999; ++i) state.step(1.0f, true);
  state.step(1.0f, false);
  state.step(1.0f, true);
  EXPECT_EQ(state.scale, 65536.0f);
  EXPECT_EQ(state.good_steps, 1);
}

TEST(LossScale, StaysWithinItsLimits) {
  State small;
  small.scale = 2.0f;
  small.step(1.0f, false);
  EXPECT_EQ(small.scale, 1.0f);
  small.step(1.0f, false);
  EXPECT_EQ(small.scale, 1.0f);
  EXPECT_EQ(small.used_scale, 1.0f);
  EXPECT_EQ(small.skipped, 2);
  State large;
  large.scale = 0x1p127f;
  large.good_steps = 1999;
  large.step(1.0f, true);
  EXPECT_EQ(large.scale, 0x1p127f);
  EXPECT_EQ(large.good_steps, 0);
}

}  // namespace
}  // namespace plimsoll
