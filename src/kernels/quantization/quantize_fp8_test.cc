#include "kernels/quantization/quantize_fp8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/quantization/testing/quantize_fp8_cases.h"

namespace plimsoll::test {
namespace {

// Compares codes and scale with the formula in quantize_fp8.h, computed in double precision.
TEST(QuantizeFp8, CodesAndScaleFollowTheContract) {
  int checked = 0;
  for_each_fp8_case(DType::kF32, [&](Fp8Case& c) {
    quantize_fp8_ref(c.args());
    double amax = 0.0;
    for (int64_t i = 0; i < c.counted_rows() * c.columns; ++i) amax = std::max(amax, std::fabs(c.x.load(i)));
    const double largest = static_cast<double>(largest_fp8(c.format));
    const double scale = c.scale.load(0);
    EXPECT_EQ(c.scale.load(1), amax);
    EXPECT_NEAR(scale, std::max(amax / largest, 0x1p-126), 0x1p-24 * scale);
    for (int64_t t = 0; t < c.rows; ++t) {
      for (int64_t j = 0; j < c.columns; ++j) {
        const int64_t i = t * c.columns + j;
        const double x = t < c.counted_rows() ? c.x.load(i) : 0.0;
        ASSERT_LE(std::fabs(scale * c.q.load(i) - x), quantize_fp8_error_bound(c.format, scale, x)) << i;
        ASSERT_EQ(c.q_t.load(j * c.rows + t), c.q.load(i));
        ++checked;
      }
    }
  });
  EXPECT_GT(checked, 10000);
}

// Quantizes 16 x 16 numbers and returns their codes and their scale.
std::pair<std::vector<uint8_t>, float> quantize_16x16(std::vector<float>& x, DType format) {
  std::vector<uint8_t> q(256);
  float scale[2] = {};
  quantize_fp8_ref({.x = {x.data(), DType::kF32},
                    .known = {},
                    .q = {q.data(), format},
                    .q_t = {},
                    .scale = {scale, DType::kF32},
                    .rows = 16,
                    .columns = 16,
                    .format = format});
  return {std::move(q), scale[0]};
}

// The largest magnitude must become the largest code, however the scale is rounded.
TEST(QuantizeFp8, TheLargestMagnitudeIsTheLargestCode) {
  for (const DType format : {DType::kE4M3, DType::kE5M2}) {
    for (const float amax : {1.0f, 3.14159f, 1e-30f, 1e30f, 0x1.fffffep127f, 447.99f, 0.1f}) {
      std::vector<float> x(256, 0.25f * amax);
      x[77] = -amax;
      const auto [q, scale] = quantize_16x16(x, format);
      EXPECT_EQ((ConstView{q.data(), format}.load(77)), -static_cast<double>(largest_fp8(format))) << amax;
    }
  }
}

// If all numbers are so small that the scale has its smallest value, 2^-126, they must be quantized with this scale. Zeros must not give
// NaN.
TEST(QuantizeFp8, ZerosAndTheSmallestNumbersAreFinite) {
  for (const DType format : {DType::kE4M3, DType::kE5M2}) {
    for (const float amax : {0.0f, std::numeric_limits<float>::denorm_min(), 0x1p-126f, 0x1p-133f}) {
      std::vector<float> x(256, amax);
      const auto [q, scale] = quantize_16x16(x, format);
      EXPECT_EQ(scale, 0x1p-126f);
      EXPECT_EQ((ConstView{q.data(), format}.load(0)), static_cast<double>(amax) * 0x1p126 < 0x1p-10
                                                           ? 0.0
                                                           : std::ldexp(static_cast<double>(amax), 126));
    }
  }
}

// An infinity or NaN must make every element of a matrix product NaN, so that the check of the global gradient norm finds it.
TEST(QuantizeFp8, NumbersThatAreNotFiniteMakeTheScaleNaN) {
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      Fp8Case c(dtype, DType::kE5M2, 16, 32, 16);
      c.x.view().store(5 * 32 + 3, static_cast<double>(bad));
      quantize_fp8_ref(c.args());
      for (int64_t i = 0; i < 16 * 32; ++i) EXPECT_TRUE(std::isnan(c.scale.load(0) * c.q.load(i))) << i;
    }
  }
}

// An infinity, a NaN or a large number in the rows from num_rows on must have no effect.
TEST(QuantizeFp8, RowsThatAreNoTokensDoNotCount) {
  Fp8Case c(DType::kBF16, DType::kE4M3, 32, 16, 20);
  c.x.view().store(20 * 16, std::numeric_limits<double>::quiet_NaN());
  c.x.view().store(25 * 16, 1e30);
  quantize_fp8_ref(c.args());
  EXPECT_LT(c.scale.load(1), 100.0);
  for (int64_t i = 20 * 16; i < 32 * 16; ++i) EXPECT_EQ(c.q.load(i), 0.0);
}

TEST(QuantizeFp8, AKnownScaleGivesTheSameCodes) {
  for_each_fp8_case(DType::kBF16, [](Fp8Case& c) {
    quantize_fp8_ref(c.args());
    GuardedBuffer q("q again", c.format, c.rows * c.columns), q_t("q_t again", c.format, c.rows * c.columns);
    QuantizeFp8Args again = c.args();
    again.known = c.scale.view();
    again.q = q.view();
    again.q_t = {};
    again.scale = {};
    quantize_fp8_ref(again);
    again.q = {};
    again.q_t = q_t.view();
    quantize_fp8_ref(again);
    EXPECT_TRUE(compare_bits(q, c.q).ok());
    EXPECT_TRUE(compare_bits(q_t, c.q_t).ok());
  });
}

TEST(QuantizeFp8, ACallThatKeepsItsOutputsChangesNothing) {
  Fp8Case c(DType::kBF16, DType::kE4M3, 16, 16, 16);
  quantize_fp8_ref(c.args());
  Fp8Case other(DType::kBF16, DType::kE4M3, 16, 16, 16);
  QuantizeFp8Args args = c.args();
  for (int64_t i = 0; i < 256; ++i) other.x.view().store(i, 2.0 * c.x.load(255 - i));
  args.x = other.x.view();
  args.accumulate = Accumulate::kAdd;
  GuardedBuffer q("before", DType::kE4M3, 256);
  for (int64_t i = 0; i < 256; ++i) q.view().store(i, c.q.load(i));
  quantize_fp8_ref(args);
  EXPECT_TRUE(compare_bits(c.q, q).ok());
}

}  // namespace
}  // namespace plimsoll::test
