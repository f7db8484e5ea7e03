#include "kernels/optimizer/eight_bit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <iterator>
#include <vector>

#include "device/cpu/parallel.h"
#include "kernels/optimizer/eight_bit_test_tensors.h"
#include "kernels/optimizer/optimizer_fixture.h"
#include "kernels/optimizer/update_cases.h"
#include "plimsoll/error.h"
#include "tests/support/simd_targets.h"

namespace plimsoll {
namespace {

using test::EightBitList;
using test::GuardedBuffer;
using test::Scalars;

#include "kernels/optimizer/fixtures/eight_bit_values.inc"

TEST(EightBit, NumbersAreThoseOfBitsandbytesToTheBit) {
  for (size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(eight_bit_numbers(EightBitSign::kSigned)[i], kSignedNumbers[i]) << i;
    EXPECT_EQ(eight_bit_numbers(EightBitSign::kUnsigned)[i], kUnsignedNumbers[i]) << i;
  }
}

// Numbers, middles of neighbours and what is next to them: there the cells decide.
TEST(EightBit, CellsFindTheNearestCode) {
  int64_t checked = 0;
  for (const EightBitSign sign : {EightBitSign::kSigned, EightBitSign::kUnsigned}) {
    const EightBitMap& map = eight_bit_map(sign);
    const auto check = [&](float x) {
      if (std::fabs(x) > 1.0f || (sign == EightBitSign::kUnsigned && x < 0.0f)) return;
      uint32_t bits = 0;
      const float magnitude = std::fabs(x);
      std::memcpy(&bits, &magnitude, 4);
      const uint32_t code = eight_bit_magnitude(map.cells.data(), bits);
      const int got =
          sign == EightBitSign::kSigned ? eight_bit_signed_code(code, x < 0.0f) : static_cast<int>(code);
      EXPECT_EQ(got, nearest_eight_bit_code(sign, static_cast<double>(x))) << x;
      ++checked;
    };
    for (size_t code = 0; code < 256; ++code) {
      check(map.numbers[code]);
      if (code == 255) continue;
      const float middle = static_cast<float>(
          0.5 * (static_cast<double>(map.numbers[code]) + static_cast<double>(map.numbers[code + 1])));
      for (const float x : {middle, std::nextafter(middle, 2.0f), std::nextafter(middle, -2.0f)}) check(x);
    }
    for (const float x : {0.0f, -0.0f, 1e-30f, 1e-8f, -1e-8f, 1.0f, -1.0f, 0.99649f, 1e-7f, 2e-7f}) check(x);
    for (int i = 0; i < 2000; ++i) check(static_cast<float>(std::pow(10.0, -8.0 * i / 2000.0)));
  }
  EXPECT_GT(checked, 5000);
}

// The state of the fixtures: one tensor of 600 elements.
constexpr double kScales[] = {1.0, 0.1, 0.01, 0.001, 0.0001};
void start_fixture(EightBitList& list) {
  for (int64_t i = 0; i < list.param(0).count(); ++i) {
    list.param(0).view().store(i, static_cast<double>((i * 5) % 11 - 5) / 4.0);
  }
  for (GuardedBuffer* state : list.states(0)) {
    for (int64_t i = 0; i < state->count(); ++i) state->view().store(i, 0.0);
  }
}
void set_gradient(EightBitList& list, int step) {
  for (int i = 0; i < 600; ++i)
    list.grad(0).view().store(i, test::fixture_gradient(step, i) * kScales[i % 5]);
}
template <size_t kSteps, size_t kCount>
void expect_codes(GuardedBuffer& got, const uint8_t (&want)[kSteps][kCount], size_t step) {
  ASSERT_EQ(static_cast<size_t>(got.count()), kCount);
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(got.view().as<uint8_t>()[i], want[step][i]) << got.name() << " " << i;
  }
}
template <size_t kSteps, size_t kCount>
void expect_numbers(GuardedBuffer& got, const double (&want)[kSteps][kCount], size_t step,
                    int64_t stride = 1) {
  for (size_t i = 0; i < kCount; ++i) {
    EXPECT_NEAR(got.load(static_cast<int64_t>(i) * stride), want[step][i], 1e-13) << got.name() << " " << i;
  }
}
constexpr int kSeen[] = {1, 5, 20};

TEST(Adamw8Bit, TheReferenceHasTheStatesOfTheFixtureOverTwentySteps) {
  EightBitList list("adamw_8bit_fixture", DType::kF64, {600});
  start_fixture(list);
  size_t next = 0;
  for (int64_t step = 1; step <= 20; ++step) {
    set_gradient(list, static_cast<int>(step));
    adamw_8bit_ref({.tensors = list.tensors(),
                    .learning_rate = {&kAdamwSettings[0], DType::kF64},
                    .step = {&step, DType::kI64},
                    .beta1 = kAdamwSettings[1],
                    .beta2 = kAdamwSettings[2],
                    .epsilon = kAdamwSettings[3],
                    .weight_decay = kAdamwSettings[4]});
    if (step != kSeen[next]) continue;
    expect_codes(list.m(0), kAdamwM, next);
    expect_codes(list.v(0), kAdamwV, next);
    expect_numbers(list.m_absmax(0), kAdamwMAbsmax, next);
    expect_numbers(list.v_absmax(0), kAdamwVAbsmax, next);
    expect_numbers(list.param(0), kAdamwParams, next, 7);
    if (++next == std::size(kSeen)) break;
  }
  EXPECT_EQ(next, std::size(kSeen));
}

TEST(Lion8Bit, TheReferenceHasTheStatesOfTheFixtureOverTwentySteps) {
  EightBitList list("lion_8bit_fixture", DType::kF64, {600});
  start_fixture(list);
  size_t next = 0;
  for (int step = 1; step <= 20; ++step) {
    set_gradient(list, step);
    lion_8bit_ref({.tensors = list.tensors(),
                   .learning_rate = {&kLionSettings[0], DType::kF64},
                   .beta1 = kLionSettings[1],
                   .beta2 = kLionSettings[2],
                   .weight_decay = kLionSettings[4]});
    if (step != kSeen[next]) continue;
    expect_codes(list.m(0), kLionM, next);
    expect_numbers(list.m_absmax(0), kLionMAbsmax, next);
    expect_numbers(list.param(0), kLionParams, next, 7);
    if (++next == std::size(kSeen)) break;
  }
  EXPECT_EQ(next, std::size(kSeen));
}

AdamwArgs adamw_args(const EightBitList& list, const Scalars& scalars) {
  return test::update_args<AdamwArgs>(list.tensors(), scalars.views(), 0.01);
}
LionArgs lion_args(const EightBitList& list, const Scalars& scalars) {
  return test::update_args<LionArgs>(list.tensors(), scalars.views(), 0.01);
}

TEST(EightBit, OneStepMatchesTheReferenceOnEveryInstructionSet) {
  test::for_each_simd_target([] {
    for (const int64_t step : {1, 17, 100000}) {
      EightBitList start("eight_bit/start", DType::kF32, test::kEightBitCounts),
          want("eight_bit/want", DType::kF64, test::kEightBitCounts),
          got("eight_bit/got", DType::kF32, test::kEightBitCounts);
      start.fill();
      want.copy_from(start);
      got.copy_from(start);
      const Scalars scalars{.step = step, .clip = 0.7f};
      adamw_8bit_ref(adamw_args(want, scalars));
      adamw_8bit_cpu(adamw_args(got, scalars));
      test::expect_adamw_8bit(start, want, got, adamw_args(want, scalars));
      want.copy_from(start);
      got.copy_from(start);
      lion_8bit_ref(lion_args(want, scalars));
      lion_8bit_cpu(lion_args(got, scalars));
      test::expect_lion_8bit(start, want, got, lion_args(want, scalars));
      for (size_t i = 0; i < got.size(); ++i) {
        for (GuardedBuffer* buffer : got.states(i)) EXPECT_EQ(buffer->broken_guard(), GuardedBuffer::kIntact);
      }
    }
  });
}

// The second half of a parameter that consists of two tensors has the noise of its own elements.
TEST(EightBit, WeightsInBf16AloneTakeTheReferencesNoise) {
  test::for_each_simd_target([] {
    for (const bool is_adamw : {true, false}) {
      EightBitList want("eight_bit_bf16", DType::kF32, test::kEightBitCounts),
          got("eight_bit_bf16", DType::kF32, test::kEightBitCounts);
      want.fill();
      got.copy_from(want);
      test::NarrowParameters before(want), wanted(want), weights(want);
      wanted.give_to(want);
      weights.give_to(got);
      for (EightBitList* list : {&want, &got}) list->mutable_tensors()[7].first = 20001;
      const Scalars scalars{.lr = 0.01, .step = 17, .clip = 0.7f};
      if (is_adamw) {
        adamw_8bit_ref(adamw_args(want, scalars));
        adamw_8bit_cpu(adamw_args(got, scalars));
      } else {
        lion_8bit_ref(lion_args(want, scalars));
        lion_8bit_cpu(lion_args(got, scalars));
      }
      test::expect_the_same_noise(before, weights, wanted);
    }
  });
}

void expect_same(EightBitList& a, EightBitList& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(test::compare_bits(a.param(i), b.param(i)).ok()) << i;
    for (size_t k = 0; k < 4; ++k) {
      EXPECT_TRUE(test::compare_bits(*a.states(i)[k], *b.states(i)[k]).ok()) << i << " state " << k;
    }
  }
}

TEST(EightBit, NothingChangesWhenTheFlagSaysNotFinite) {
  EightBitList list("eight_bit_flag", DType::kF32, {300, 5000}),
      before("eight_bit_flag", DType::kF32, {300, 5000});
  list.fill();
  before.copy_from(list);
  const Scalars scalars{.clip = 0.7f, .finite = 0.0f};
  adamw_8bit_ref(adamw_args(list, scalars));
  adamw_8bit_cpu(adamw_args(list, scalars));
  lion_8bit_ref(lion_args(list, scalars));
  lion_8bit_cpu(lion_args(list, scalars));
  expect_same(list, before);
}

TEST(EightBit, ZerosStayZerosAndStatesOfZeroBytesAreZero) {
  EightBitList list("eight_bit_zero", DType::kF32, {300});
  list.fill();
  start_fixture(list);
  list.grad(0).fill(0.0);
  const std::vector<double> before = list.param(0).to_doubles();
  const Scalars scalars{.clip = 0.7f};
  AdamwArgs args = adamw_args(list, scalars);
  args.weight_decay = 0.0;
  adamw_8bit_cpu(args);
  EXPECT_EQ(list.param(0).to_doubles(), before);
  EXPECT_EQ(list.m_absmax(0).load(0), 0.0);
  EXPECT_EQ(list.v_absmax(0).load(1), 0.0);
}

TEST(EightBit, SameBitsForAnyNumberOfThreadsAndAnyGrouping) {
  const int before = num_threads();
  EightBitList start("eight_bit_threads", DType::kF32, test::kEightBitCounts),
      one("one", DType::kF32, test::kEightBitCounts), many("many", DType::kF32, test::kEightBitCounts);
  start.fill();
  one.copy_from(start);
  many.copy_from(start);
  const Scalars scalars{.clip = 0.7f};
  set_num_threads(1);
  for (size_t i = 0; i < one.size(); ++i) {
    AdamwArgs args = adamw_args(one, scalars);
    args.tensors = args.tensors.subspan(i, 1);
    adamw_8bit_cpu(args);
  }
  set_num_threads(3);
  adamw_8bit_cpu(adamw_args(many, scalars));
  set_num_threads(before);
  expect_same(one, many);
}

TEST(EightBit, WrongTypesAreOurBugs) {
  EightBitList list("eight_bit_bad", DType::kF64, {300});
  list.fill();
  const Scalars scalars{.clip = 0.7f};
  EXPECT_THROW(adamw_8bit_cpu(adamw_args(list, scalars)), Error);
  EXPECT_THROW(lion_8bit_cpu(lion_args(list, scalars)), Error);
}

}  // namespace
}  // namespace plimsoll
