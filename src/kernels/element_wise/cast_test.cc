#include "kernels/element_wise/cast.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/element_wise/testing/kernel_cases.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

constexpr DType kTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};

// Returns numbers of every magnitude, halfway cases of the 16-bit types, the limits of their ranges, signed
// zeros and infinities.
std::vector<double> interesting_numbers() {
  std::vector<double> values = {0.0,   -0.0, 1.0,  -1.0,    65504.0, 65519.0, 65520.0,  1e30,
                                -1e30, 3e38, 1e-7, 0x1p-24, 0x1p-25, 6e-8,    HUGE_VAL, -HUGE_VAL};
  for (int i = 0; i < 600; ++i) {
    const double base = std::ldexp(1.0 + i / 512.0, i % 29 - 14);
    for (const double half : {0x1p-8, 0x1p-9, 0x1p-11, 0x1p-12, 0x1p-24, 0x1p-25, 0x1p-9 + 0x1p-23}) {
      values.push_back(base * (1.0 + half));
      values.push_back(-base * (1.0 + half));
    }
  }
  return values;
}

TEST(Cast, EqualsTheReferenceBitForBit) {
  const std::vector<double> values = interesting_numbers();
  const int64_t n = static_cast<int64_t>(values.size());
  for (const DType from : kTypes) {
    GuardedBuffer x("x", from, n);
    x.assign(values);
    for (const DType to : kTypes) {
      GuardedBuffer want("want", to, n);
      cast_fwd_ref({x.view(), want.view(), n});
      FastRows(cast_fwd_ref).for_each(from, [&](const auto& cast) {
        GuardedBuffer y("y", to, n);
        run_with_one_and_two_threads({&y}, [&] { cast({x.view(), y.view(), n}); });
        EXPECT_TRUE(compare_bits(y, want).ok())
            << dtype_name(from) << " to " << dtype_name(to) << ": " << compare_bits(y, want);
        EXPECT_EQ(y.broken_guard(), GuardedBuffer::kIntact);
      });
    }
  }
}

TEST(Cast, HandlesEveryLengthAndManyChunks) {
  for (const int64_t n : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 40000, 100001}) {
    for (const DType from : kTypes) {
      GuardedBuffer x(tensor_name("x", {1, n}, from), from, n);
      x.fill_normal();
      for (const DType to : kTypes) {
        GuardedBuffer want("want", to, n), y("y", to, n);
        cast_fwd_ref({x.view(), want.view(), n});
        cast_fwd_cpu({x.view(), y.view(), n});
        EXPECT_TRUE(compare_bits(y, want).ok()) << compare_bits(y, want);
      }
    }
  }
}

TEST(Cast, NaNStaysNaN) {
  for (const DType from : kTypes) {
    GuardedBuffer x("x", from, 20);
    x.fill(std::nan(""));
    for (const DType to : kTypes) {
      FastRows(cast_fwd_ref).for_each(from, [&](const auto& cast) {
        GuardedBuffer y("y", to, 20);
        y.fill(0.0);
        cast({x.view(), y.view(), 20});
        for (int64_t i = 0; i < 20; ++i) EXPECT_TRUE(std::isnan(y.load(i)));
      });
    }
  }
}

}  // namespace
}  // namespace plimsoll::test
