#include "kernels/optimizer/eight_bit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "device/cpu/parallel.h"
#include "kernels/optimizer/testing/eight_bit_tensors.h"
#include "kernels/optimizer/testing/optimizer_fixture.h"
#include "kernels/optimizer/testing/update_cases.h"
#include "plimsoll/error.h"
#include "tests/support/kernel_rows.h"
#include "tests/support/simd_target_cases.h"

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

// The table of cells must find the nearest code of every number. The test checks the numbers that codes represent, the middles between
// adjacent ones, and the fp32 numbers next to both, because these are the cases that the cells must distinguish.
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

// Fills the tensor of 600 elements with the values from which the cases that bitsandbytes computed start.
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

TEST(Sgd8Bit, TheReferenceHasTheStatesOfTheFixtureOverTwentySteps) {
  EightBitList list("sgd_8bit_fixture", DType::kF64, {600});
  start_fixture(list);
  size_t next = 0;
  for (int64_t step = 1; step <= 20; ++step) {
    set_gradient(list, static_cast<int>(step));
    sgd_8bit_ref({.tensors = list.tensors(),
                  .learning_rate = {&kSgdSettings[0], DType::kF64},
                  .step = {&step, DType::kI64},
                  .momentum = kSgdSettings[1],
                  .weight_decay = kSgdSettings[4]});
    if (step != kSeen[next]) continue;
    expect_codes(list.m(0), kSgdM, next);
    expect_numbers(list.m_absmax(0), kSgdMAbsmax, next);
    expect_numbers(list.param(0), kSgdParams, next, 7);
    if (++next == std::size(kSeen)) break;
  }
  EXPECT_EQ(next, std::size(kSeen));
}

TEST(Adagrad8Bit, TheReferenceHasTheStatesOfTheFixtureOverTwentySteps) {
  EightBitList list("adagrad_8bit_fixture", DType::kF64, {600});
  start_fixture(list);
  size_t next = 0;
  for (int64_t step = 1; step <= 20; ++step) {
    set_gradient(list, static_cast<int>(step));
    adagrad_8bit_ref({.tensors = list.tensors(),
                      .learning_rate = {&kAdagradSettings[0], DType::kF64},
                      .step = {&step, DType::kI64},
                      .epsilon = kAdagradSettings[3],
                      .weight_decay = kAdagradSettings[4]});
    if (step != kSeen[next]) continue;
    expect_codes(list.m(0), kAdagradM, next);
    expect_numbers(list.m_absmax(0), kAdagradMAbsmax, next);
    expect_numbers(list.param(0), kAdagradParams, next, 7);
    if (++next == std::size(kSeen)) break;
  }
  EXPECT_EQ(next, std::size(kSeen));
}

template <typename Args>
Args args_of(std::span<const OptimizerTensor> tensors, const Scalars& scalars,
             Nesterov nesterov = Nesterov::kOff) {
  auto args = test::update_args<Args>(tensors, scalars.views(), 0.01);
  if constexpr (requires { args.momentum; }) {
    args.momentum = 0.9;
    args.nesterov = nesterov;
  }
  if constexpr (requires { args.lr_decay; }) args.lr_decay = 0.01;
  return args;
}

// An optimizer under test: its kernels, and the function that compares one update with the error bound of the kernel's header.
struct TestedUpdate {
  using Kernel = std::function<void(std::span<const OptimizerTensor>, const Scalars&)>;
  std::string name;
  Kernel ref, cpu;
  // Calls body() with each fast implementation that the kernel catalog lists.
  void (*for_each_row)(const std::function<void(const Kernel&)>& body);
  void (*expect)(EightBitList& start, EightBitList& want, EightBitList& got, const Scalars&);
  bool has_positive_state = false;

  void fill(EightBitList& list) const {
    list.fill();
    if (has_positive_state) list.make_states_positive();
  }
};

template <typename Args, void (*kKernel)(const Args&), Nesterov kNesterov = Nesterov::kOff>
void run(std::span<const OptimizerTensor> tensors, const Scalars& scalars) {
  kKernel(args_of<Args>(tensors, scalars, kNesterov));
}
template <typename Args, void (*kReference)(const Args&), Nesterov kNesterov = Nesterov::kOff>
void for_each_row(const std::function<void(const TestedUpdate::Kernel&)>& body) {
  test::FastRows(kReference).for_each(DType::kF32, [&](const auto& row) {
    body([&](std::span<const OptimizerTensor> tensors, const Scalars& scalars) {
      row(args_of<Args>(tensors, scalars, kNesterov));
    });
  });
}
template <typename Args, void (*kExpect)(EightBitList&, EightBitList&, EightBitList&, const Args&),
          Nesterov kNesterov = Nesterov::kOff>
void expect_update(EightBitList& start, EightBitList& want, EightBitList& got, const Scalars& scalars) {
  kExpect(start, want, got, args_of<Args>(want.tensors(), scalars, kNesterov));
}

const std::vector<TestedUpdate>& updates() {
  constexpr Nesterov kOn = Nesterov::kOn;
  static const std::vector<TestedUpdate> list = {
      {"adamw", run<AdamwArgs, adamw_8bit_ref>, run<AdamwArgs, adamw_8bit_cpu>,
       for_each_row<AdamwArgs, adamw_8bit_ref>, expect_update<AdamwArgs, test::expect_adamw_8bit>},
      {"lion", run<LionArgs, lion_8bit_ref>, run<LionArgs, lion_8bit_cpu>,
       for_each_row<LionArgs, lion_8bit_ref>, expect_update<LionArgs, test::expect_lion_8bit>},
      {"sgd", run<SgdArgs, sgd_8bit_ref>, run<SgdArgs, sgd_8bit_cpu>, for_each_row<SgdArgs, sgd_8bit_ref>,
       expect_update<SgdArgs, test::expect_sgd_8bit>},
      {"sgd, Nesterov", run<SgdArgs, sgd_8bit_ref, kOn>, run<SgdArgs, sgd_8bit_cpu, kOn>,
       for_each_row<SgdArgs, sgd_8bit_ref, kOn>, expect_update<SgdArgs, test::expect_sgd_8bit, kOn>},
      {"adagrad", run<AdagradArgs, adagrad_8bit_ref>, run<AdagradArgs, adagrad_8bit_cpu>,
       for_each_row<AdagradArgs, adagrad_8bit_ref>, expect_update<AdagradArgs, test::expect_adagrad_8bit>,
       true}};
  return list;
}

TEST(EightBit, OneStepMatchesTheReferenceOnEveryInstructionSet) {
  for (const TestedUpdate& update : updates()) {
    update.for_each_row([&](const TestedUpdate::Kernel& kernel) {
      for (const int64_t step : {1, 17, 100000}) {
        SCOPED_TRACE(update.name + " " + std::to_string(step));
        EightBitList start("eight_bit/start", DType::kF32, test::kEightBitCounts),
            want("eight_bit/want", DType::kF64, test::kEightBitCounts),
            got("eight_bit/got", DType::kF32, test::kEightBitCounts);
        update.fill(start);
        want.copy_from(start);
        got.copy_from(start);
        const Scalars scalars{.step = step, .clip = 0.7f};
        update.ref(want.tensors(), scalars);
        kernel(got.tensors(), scalars);
        update.expect(start, want, got, scalars);
        for (size_t i = 0; i < got.size(); ++i) {
          for (GuardedBuffer* buffer : got.states(i))
            EXPECT_EQ(buffer->broken_guard(), GuardedBuffer::kIntact);
        }
      }
    });
  }
}

// Weights that are stored only in bf16 must be rounded with the random numbers of the reference. If a parameter consists of two tensors,
// the second one must get the random numbers that belong to its elements of the parameter.
TEST(EightBit, WeightsInBf16AloneTakeTheReferencesNoise) {
  test::for_each_simd_target([] {
    for (const TestedUpdate& update : updates()) {
      SCOPED_TRACE(update.name);
      EightBitList want("eight_bit_bf16", DType::kF32, test::kEightBitCounts),
          got("eight_bit_bf16", DType::kF32, test::kEightBitCounts);
      update.fill(want);
      got.copy_from(want);
      test::NarrowParameters before(want), wanted(want), weights(want);
      wanted.give_to(want);
      weights.give_to(got);
      for (EightBitList* list : {&want, &got}) list->mutable_tensors()[7].first = 20001;
      const Scalars scalars{.lr = 0.01, .step = 17, .clip = 0.7f};
      update.ref(want.tensors(), scalars);
      update.cpu(got.tensors(), scalars);
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
  for (const TestedUpdate& update : updates()) {
    SCOPED_TRACE(update.name);
    EightBitList list("eight_bit_flag", DType::kF32, {300, 5000}),
        before("eight_bit_flag", DType::kF32, {300, 5000});
    update.fill(list);
    before.copy_from(list);
    const Scalars scalars{.clip = 0.7f, .finite = 0.0f};
    update.ref(list.tensors(), scalars);
    update.cpu(list.tensors(), scalars);
    expect_same(list, before);
  }
}

TEST(EightBit, ZerosStayZerosAndStatesOfZeroBytesAreZero) {
  for (const TestedUpdate& update : updates()) {
    SCOPED_TRACE(update.name);
    EightBitList list("eight_bit_zero", DType::kF32, {300});
    list.fill();
    start_fixture(list);
    list.param(0).fill(0.0);  // weight decay does not change parameters that are zero
    list.grad(0).fill(0.0);
    // Runs step 2, because SGD reads its momentum only from the second step on.
    update.cpu(list.tensors(), {.step = 2, .clip = 0.7f});
    EXPECT_EQ(list.param(0).to_doubles(), std::vector<double>(300, 0.0));
    EXPECT_EQ(list.m_absmax(0).load(0), 0.0);
    EXPECT_EQ(list.v_absmax(0).load(1), 0.0);
  }
}

TEST(EightBit, SameBitsForAnyNumberOfThreadsAndAnyGrouping) {
  const int before = num_threads();
  for (const TestedUpdate& update : updates()) {
    SCOPED_TRACE(update.name);
    EightBitList start("eight_bit_threads", DType::kF32, test::kEightBitCounts),
        one("one", DType::kF32, test::kEightBitCounts), many("many", DType::kF32, test::kEightBitCounts);
    update.fill(start);
    one.copy_from(start);
    many.copy_from(start);
    const Scalars scalars{.step = 2, .clip = 0.7f};
    set_num_threads(1);
    for (size_t i = 0; i < one.size(); ++i) {
      update.cpu(std::span(one.tensors()).subspan(i, 1), scalars);
    }
    set_num_threads(3);
    update.cpu(many.tensors(), scalars);
    expect_same(one, many);
  }
  set_num_threads(before);
}

// At the first step the momentum of SGD becomes the gradient; its old value must have no effect.
TEST(Sgd8Bit, TheFirstStepDoesNotDependOnTheMomentum) {
  EightBitList zero("sgd_8bit_first", DType::kF32, {300}), any("sgd_8bit_first", DType::kF32, {300});
  any.fill();
  zero.copy_from(any);
  any.m_absmax(0).fill(std::nan(""));
  const Scalars scalars{.clip = 0.7f};
  for (EightBitList* list : {&zero, &any}) sgd_8bit_cpu(args_of<SgdArgs>(list->tensors(), scalars));
  expect_same(zero, any);
}

// After an update, the bf16 copy must contain the new fp32 parameters, rounded.
TEST(EightBit, KeepsA16BitCopyOfTheParameters) {
  for (const TestedUpdate& update : updates()) {
    for (const auto& kernel : {update.ref, update.cpu}) {
      EightBitList list("eight_bit_low", DType::kF32, {300, 5000});
      update.fill(list);
      std::vector<GuardedBuffer> copies;
      for (size_t i = 0; i < list.size(); ++i) {
        copies.emplace_back("eight_bit_low/copy", DType::kBF16, list.param(i).count());
        list.mutable_tensors()[i].low = copies.back().view();
      }
      kernel(list.tensors(), {.lr = 0.05, .step = 2});
      for (size_t i = 0; i < list.size(); ++i) {
        EXPECT_TRUE(test::compare_bits(copies[i], test::copy_of_parameters(list.param(i), DType::kBF16)).ok())
            << update.name << " " << i;
      }
    }
  }
}

TEST(EightBit, WrongTypesAndSgdWithoutMomentumAreOurBugs) {
  EightBitList list("eight_bit_bad", DType::kF64, {300});
  list.fill();
  const Scalars scalars{.clip = 0.7f};
  for (const TestedUpdate& update : updates()) EXPECT_THROW(update.cpu(list.tensors(), scalars), Error);
  EightBitList whole("eight_bit_bad", DType::kF32, {300});
  whole.fill();
  SgdArgs plain = args_of<SgdArgs>(whole.tensors(), scalars);
  plain.momentum = 0.0;
  EXPECT_THROW(sgd_8bit_cpu(plain), Error);
  EXPECT_THROW(sgd_8bit_ref(plain), Error);
}

}  // namespace
}  // namespace plimsoll
