#include "kernels/embedding/sequence_mean.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/element_wise/testing/kernel_cases.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

// The sequences have lengths 3, 0, 1, 200 and 0 in T = 210 rows, so six rows are unused and two sequences are empty.
constexpr int32_t kStarts[] = {0, 3, 3, 4, 204, 204};
constexpr int64_t kRows = 210, kSequences = 5;
const ConstView kOffsets{kStarts, DType::kI32};

void check_forward(int64_t C, DType from, DType to) {
  GuardedBuffer x("mean/x", from, kRows * C), y("mean/y", to, kSequences * C),
      want("mean/want", DType::kF64, kSequences * C);
  x.fill_normal(0.5, 1.0);
  // Unused rows contain huge numbers, so that the means are wrong if a kernel reads these rows, which it must not do.
  for (int64_t i = 204 * C; i < kRows * C; ++i) x.view().store(i, 1e30);
  sequence_mean_fwd_ref({x.view(), kOffsets, want.view(), kRows, C, kSequences});
  std::vector<double> bounds;
  for (int64_t b = 0; b < kSequences; ++b) {
    const int64_t rows = kStarts[b + 1] - kStarts[b];
    for (int64_t c = 0; c < C; ++c) {
      double mean_abs = 0.0;
      for (int64_t t = kStarts[b]; t < kStarts[b + 1]; ++t)
        mean_abs += std::abs(x.load(t * C + c)) / static_cast<double>(rows);
      bounds.push_back(sequence_mean_error_bound(rows, mean_abs, want.load(b * C + c), to));
    }
  }
  FastRows(sequence_mean_fwd_ref).for_each(from, [&](const auto& sequence_mean) {
    run_with_one_and_two_threads({&y}, [&] {
      sequence_mean({x.view(), kOffsets, y.view(), kRows, C, kSequences});
    });
    const auto result = compare(y, want, limit_of(bounds, Zeros::kExpected));
    EXPECT_TRUE(result.ok()) << result;
  });
  for (int64_t c = 0; c < C; ++c) EXPECT_EQ(y.load(1 * C + c), 0.0);
}

void check_backward(int64_t C, DType from, DType to) {
  GuardedBuffer d_y("mean/d_y", from, kSequences * C), d_x("mean/d_x", to, kRows * C),
      want("mean/want_d_x", DType::kF64, kRows * C);
  d_y.fill_normal();
  sequence_mean_bwd_ref({d_y.view(), kOffsets, want.view(), kRows, C, kSequences});
  std::vector<double> bounds;
  for (int64_t i = 0; i < kRows * C; ++i) bounds.push_back(sequence_mean_bwd_error_bound(want.load(i), to));
  FastRows(sequence_mean_bwd_ref).for_each(from, [&](const auto& sequence_mean_bwd) {
    run_with_one_and_two_threads({&d_x}, [&] {
      sequence_mean_bwd({d_y.view(), kOffsets, d_x.view(), kRows, C, kSequences});
    });
    const auto result = compare(d_x, want, limit_of(bounds, Zeros::kExpected));
    EXPECT_TRUE(result.ok()) << result;
  });
  for (int64_t i = 204 * C; i < kRows * C; ++i) EXPECT_EQ(d_x.load(i), 0.0);
}

TEST(SequenceMean, IsWithinItsBoundOfTheReference) {
  for (const int64_t C : {1, 19, 512, 1037}) {
    for (const DType from : fast_types()) {
      for (const DType to : fast_types()) {
        check_forward(C, from, to);
        check_backward(C, from, to);
      }
    }
  }
}

// Compares with means computed by hand: the rows (1, 2), (3, 6) and (5, 1), of which the first two are one sequence.
TEST(SequenceMean, DividesByTheRowsOfTheSequence) {
  constexpr int32_t kTwo[] = {0, 2, 3};
  const ConstView starts{kTwo, DType::kI32};
  GuardedBuffer x("hand/x", DType::kF32, 6), y("hand/y", DType::kF32, 4), d_x("hand/d_x", DType::kF32, 6);
  x.assign(std::vector<double>{1, 2, 3, 6, 5, 1});
  sequence_mean_fwd_cpu({x.view(), starts, y.view(), 3, 2, 2});
  EXPECT_EQ(y.to_doubles(), (std::vector<double>{2, 4, 5, 1}));
  sequence_mean_bwd_cpu({y.view(), starts, d_x.view(), 3, 2, 2});
  EXPECT_EQ(d_x.to_doubles(), (std::vector<double>{1, 2, 1, 2, 5, 1}));
}

}  // namespace
}  // namespace plimsoll::test
