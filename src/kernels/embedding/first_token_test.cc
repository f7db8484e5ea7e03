#include "kernels/embedding/first_token.h"

#include <gtest/gtest.h>

#include <utility>

#include "base/check.h"
#include "tests/support/compare.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll {
namespace {

using test::GuardedBuffer;

// The sequences have lengths 3, 0, 1, 4 and 0 in T = 10 rows, so two rows are unused and two sequences are empty.
constexpr int32_t kCuSeqlens[] = {0, 3, 3, 4, 8, 8};

TEST(FirstToken, TakesTheFirstRowOfEachSequence) {
  constexpr int64_t T = 10, C = 19, B = 5;
  int num_cases = 0;
  for (const DType from : {DType::kF32, DType::kBF16}) {
    for (const DType to : {DType::kF32, DType::kBF16}) {
      GuardedBuffer x("first_token/x", from, T * C), want("first_token/want", to, B * C);
      x.fill_normal();
      const ConstView cu_seqlens{kCuSeqlens, DType::kI32};
      first_token_fwd_ref(
          {.x = x.view(), .cu_seqlens = cu_seqlens, .out = want.view(), .T = T, .C = C, .B = B});
      test::FastRows(first_token_fwd_ref).for_each(from, [&](const auto& first_token) {
        GuardedBuffer out("first_token/out", to, B * C);
        first_token({.x = x.view(), .cu_seqlens = cu_seqlens, .out = out.view(), .T = T, .C = C, .B = B});
        const auto result = test::compare_bits(out, want);
        EXPECT_TRUE(result.ok()) << result;
        if (to == from) {
          EXPECT_EQ(out.load(3 * C + 5), x.load(4 * C + 5));
        }
        for (int64_t c = 0; c < C; ++c) EXPECT_EQ(out.load(1 * C + c), 0.0);
      });
      ++num_cases;
    }
  }
  EXPECT_EQ(num_cases, 4);
}

TEST(FirstToken, WritesGradientsToThoseRowsAndZeroElsewhere) {
  constexpr int64_t T = 10, C = 19, B = 5;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    GuardedBuffer d_out("first_token/d_out", dtype, B * C), want("first_token/want", dtype, T * C);
    d_out.fill_normal();
    const ConstView cu_seqlens{kCuSeqlens, DType::kI32};
    first_token_bwd_ref(
        {.d_out = d_out.view(), .cu_seqlens = cu_seqlens, .d_x = want.view(), .T = T, .C = C, .B = B});
    test::FastRows(first_token_bwd_ref).for_each(dtype, [&](const auto& first_token_bwd) {
      GuardedBuffer d_x("first_token/d_x", dtype, T * C);
      first_token_bwd(
          {.d_out = d_out.view(), .cu_seqlens = cu_seqlens, .d_x = d_x.view(), .T = T, .C = C, .B = B});
      const auto result = test::compare_bits(d_x, want);
      EXPECT_TRUE(result.ok()) << result;
      for (const auto& [row, b] : {std::pair<int64_t, int64_t>{0, 0}, {3, 2}, {4, 3}}) {
        EXPECT_EQ(d_x.load(row * C + 7), d_out.load(b * C + 7));
      }
      EXPECT_EQ(d_x.load(1 * C), 0.0);
      EXPECT_EQ(d_x.load(8 * C), 0.0);
    });
  }
}

TEST(FirstToken, TakesTheLastRowOfEachSequence) {
  constexpr int64_t T = 10, C = 19, B = 5;
  const ConstView cu_seqlens{kCuSeqlens, DType::kI32};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    GuardedBuffer x("last_token/x", dtype, T * C), out("last_token/out", dtype, B * C),
        want("last_token/want", dtype, B * C), d_x("last_token/d_x", dtype, T * C),
        want_d_x("last_token/want_d_x", dtype, T * C);
    x.fill_normal();
    FirstTokenFwdArgs fwd{x.view(), cu_seqlens, out.view(), T, C, B, SequenceRow::kLast};
    first_token_fwd_cpu(fwd);
    fwd.out = want.view();
    first_token_fwd_ref(fwd);
    const auto result = test::compare_bits(out, want);
    EXPECT_TRUE(result.ok()) << result;
    FirstTokenBwdArgs bwd{out.view(), cu_seqlens, d_x.view(), T, C, B, SequenceRow::kLast};
    first_token_bwd_cpu(bwd);
    bwd.d_x = want_d_x.view();
    first_token_bwd_ref(bwd);
    const auto gradients = test::compare_bits(d_x, want_d_x);
    EXPECT_TRUE(gradients.ok()) << gradients;
    // The last rows of the sequences with 3, 1 and 4 tokens are 2, 3 and 7.
    for (const auto& [row, b] : {std::pair<int64_t, int64_t>{2, 0}, {3, 2}, {7, 3}}) {
      EXPECT_EQ(out.load(b * C + 5), x.load(row * C + 5));
      EXPECT_EQ(d_x.load(row * C + 7), out.load(b * C + 7));
    }
    for (const int64_t row : {0, 1, 4, 6, 8, 9}) EXPECT_EQ(d_x.load(row * C + 7), 0.0) << row;
    for (int64_t c = 0; c < C; ++c) EXPECT_EQ(out.load(1 * C + c), 0.0);
  }
}

}  // namespace
}  // namespace plimsoll
