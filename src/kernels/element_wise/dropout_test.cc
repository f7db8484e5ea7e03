#include "kernels/element_wise/dropout.h"

#include <gtest/gtest.h>

#include "kernels/element_wise/testing/kernel_cases.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

constexpr RandomSite kSite{.seed = 0x123456789abcdef0u, .step = 7, .site = 3};

TEST(Dropout, MaskEqualsPhiloxElementExactly) {
  for (const int64_t n : {1, 3, 4, 5, 63, 255, 256, 257, 1000, 32768, 32771, 100003}) {
    for (const double p : {0.1, 0.5, 0.999}) {
      const uint32_t threshold = dropout_threshold(p);
      GuardedBuffer x("x", DType::kF32, n);
      x.fill(1.0);
      std::vector<double> want;
      for (int64_t i = 0; i < n; ++i) {
        const bool kept = random_half(kSite, static_cast<uint64_t>(i)) >= threshold;
        want.push_back(kept ? static_cast<double>(dropout_scale(p)) : 0.0);
      }
      FastRows(dropout_fwd_ref).for_each(DType::kF32, [&](const auto& dropout) {
        GuardedBuffer y("y", DType::kF32, n);
        run_with_one_and_two_threads({&y}, [&] { dropout({x.view(), y.view(), n, p, kSite}); });
        const Limit exact{.zeros = Zeros::kExpected};
        EXPECT_TRUE(compare(y, want, exact).ok()) << compare(y, want, exact);
      });
    }
  }
}

TEST(Dropout, DrawsOtherNumbersForAnotherSeedStepOrSite) {
  constexpr int64_t kCount = 64;
  GuardedBuffer x("x", DType::kF32, kCount);
  x.fill(1.0);
  for_each_simd_target([&] {
    std::vector<std::vector<double>> masks;
    for (const RandomSite& where :
         {RandomSite{1, 2, 3}, RandomSite{2, 2, 3}, RandomSite{1 + (uint64_t{1} << 32), 2, 3},
          RandomSite{1, 3, 3}, RandomSite{1, 2, 4}}) {
      GuardedBuffer y("y", DType::kF32, kCount), want("want", DType::kF32, kCount);
      dropout_fwd_cpu({x.view(), y.view(), kCount, 0.5, where});
      dropout_fwd_ref({x.view(), want.view(), kCount, 0.5, where});
      EXPECT_TRUE(compare_bits(y, want).ok());
      for (const std::vector<double>& other : masks) EXPECT_NE(other, y.to_doubles());
      masks.push_back(y.to_doubles());
    }
  });
}

// If ranks divide the rows of a tensor, each rank must use the random numbers that its elements have in the whole tensor.
TEST(Dropout, APartHasTheMaskOfTheWhole) {
  constexpr int64_t kWhole = 4000, kPart = 1000;
  GuardedBuffer x("x", DType::kF32, kWhole), want("want", DType::kF32, kWhole);
  x.fill(1.0);
  dropout_fwd_ref({x.view(), want.view(), kWhole, 0.3, kSite});
  const auto draw = [&](const auto& dropout) {
    for (int64_t first = 0; first < kWhole; first += kPart) {
      RandomSite where = kSite;
      where.first_block = static_cast<uint64_t>(first) / kHalvesOfBlock;
      GuardedBuffer y("y", DType::kF32, kPart);
      dropout({x.view(), y.view(), kPart, 0.3, where});
      for (int64_t i = 0; i < kPart; ++i) ASSERT_EQ(y.load(i), want.load(first + i)) << first + i;
    }
  };
  draw(dropout_fwd_ref);
  FastRows(dropout_fwd_ref).for_each(DType::kF32, draw);
}

// If ranks divide the columns of a tensor, each rank must draw the random numbers that its elements have in the whole tensor, even if its
// first column is not at the beginning of a block of eight numbers.
TEST(Dropout, ColumnsHaveTheMaskOfTheWhole) {
  constexpr int64_t kRows = 37;
  for (const int64_t columns : {1, 3, 4, 8, 12, 24, 300}) {
    constexpr int64_t kRanks = 3;
    const int64_t whole = kRanks * columns;
    GuardedBuffer x("x", DType::kF32, kRows * whole), want("want", DType::kF32, kRows * whole);
    x.fill(1.0);
    dropout_fwd_ref({x.view(), want.view(), kRows * whole, 0.3, kSite});
    const auto draw = [&](const auto& dropout) {
      for (int64_t first = 0; first < whole; first += columns) {
        GuardedBuffer y("y", DType::kF32, kRows * columns);
        dropout({.x = x.view(),
                 .y = y.view(),
                 .n = kRows * columns,
                 .p = 0.3,
                 .where = kSite,
                 .columns = {.C = columns, .all = whole, .first = first}});
        for (int64_t i = 0; i < kRows * columns; ++i)
          ASSERT_EQ(y.load(i), want.load(i / columns * whole + first + i % columns)) << columns << " " << i;
      }
    };
    draw(dropout_fwd_ref);
    FastRows(dropout_fwd_ref).for_each(DType::kF32, draw);
  }
}

TEST(Dropout, AgreesWithTheReference) {
  for (const RowsAndColumns shape : kernel_shapes()) {
    for (const DType dtype : fast_types()) {
      const int64_t n = shape.size();
      GuardedBuffer x(tensor_name("x", shape, dtype), dtype, n);
      x.fill_normal();
      GuardedBuffer want("want", DType::kF64, n);
      dropout_fwd_ref({x.view(), want.view(), n, 0.3, kSite});
      std::vector<double> bounds;
      for (int64_t i = 0; i < n; ++i) bounds.push_back(dropout_fwd_error_bound(want.load(i), dtype));
      FastRows(dropout_fwd_ref).for_each(dtype, [&](const auto& dropout) {
        GuardedBuffer y("y", dtype, n);
        dropout({x.view(), y.view(), n, 0.3, kSite});
        const Limit limit = limit_of(bounds, Zeros::kExpected);
        EXPECT_TRUE(compare(y, want, limit).ok()) << compare(y, want, limit);
        GuardedBuffer in_place("in place", dtype, n);
        in_place.assign(x.to_doubles());
        dropout({in_place.view(), in_place.view(), n, 0.3, kSite});
        EXPECT_TRUE(compare_bits(in_place, y).ok());
      });
    }
  }
}

TEST(Dropout, KeepsTheMeanAndDropsTheRequestedShare) {
  constexpr int64_t kCount = 200000;
  GuardedBuffer x("x", DType::kF32, kCount), y("y", DType::kF32, kCount);
  x.fill(1.0);
  dropout_fwd_cpu({x.view(), y.view(), kCount, 0.1, kSite});
  double sum = 0.0;
  for (int64_t i = 0; i < kCount; ++i) sum += y.load(i);
  // The mean of the factors has a standard deviation of sqrt(p / (1 - p) / count) = 7.5e-4. The tolerance is five standard deviations.
  EXPECT_NEAR(sum / static_cast<double>(kCount), 1.0, 3.7e-3);
}

TEST(Dropout, WithoutProbabilityIsACopy) {
  for (const DType dtype : fast_types()) {
    GuardedBuffer x(tensor_name("x", {1, 70001}, dtype), dtype, 70001), y("y", dtype, 70001);
    x.fill_normal();
    dropout_fwd_cpu({x.view(), y.view(), 70001, 0.0, kSite});
    EXPECT_TRUE(compare_bits(x, y).ok());
    dropout_fwd_cpu({x.view(), x.view(), 70001, 0.0, kSite});
    EXPECT_TRUE(compare_bits(x, y).ok());
  }
}

TEST(Dropout, IsItsOwnGradient) {
  const RowsAndColumns shape{3, 7};
  const int64_t n = shape.size();
  GuardedBuffer x(tensor_name("x", shape, DType::kF64), DType::kF64, n);
  GuardedBuffer weights(tensor_name("weights", shape, DType::kF64), DType::kF64, n);
  GuardedBuffer y("y", DType::kF64, n), d_x("d_x", DType::kF64, n);
  x.fill_normal();
  weights.fill_normal();
  dropout_fwd_ref({weights.view(), d_x.view(), n, 0.4, kSite});
  expect_gradient(x, d_x, [&] {
    dropout_fwd_ref({x.view(), y.view(), n, 0.4, kSite});
    return weighted_sum(weights, y);
  });
}

TEST(Dropout, ChecksItsProbability) {
  GuardedBuffer x("x", DType::kF32, 4);
  x.fill(1.0);
  for (const double p : {-0.1, 1.0, 2.0}) {
    EXPECT_THROW(dropout_fwd_cpu({x.view(), x.view(), 4, p, kSite}), Error);
    EXPECT_THROW(dropout_fwd_ref({x.view(), x.view(), 4, p, kSite}), Error);
  }
}

}  // namespace
}  // namespace plimsoll::test
