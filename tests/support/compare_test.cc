#include "tests/support/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <vector>

#include "tests/support/keep_worst.h"

namespace plimsoll::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr DType kAllTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16,
                               DType::kI64, DType::kI32, DType::kU8};

GuardedBuffer filled(const char* name, std::vector<double> values, DType dtype = DType::kF32) {
  GuardedBuffer buffer(name, dtype, static_cast<int64_t>(values.size()));
  buffer.assign(values);
  return buffer;
}

TEST(GuardedBuffer, IsAlignedPoisonedAndGuardedForEveryType) {
  for (const DType dtype : kAllTypes) {
    GuardedBuffer buffer("guarded/x", dtype, 33);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.view().data) % 64, 0u);
    for (int64_t i = 0; i < buffer.count(); ++i) {
      if (is_floating(dtype)) {
        EXPECT_TRUE(std::isnan(buffer.load(i)));
      } else {
        EXPECT_NE(buffer.load(i), 0.0);
      }
    }
    EXPECT_EQ(buffer.broken_guard(), GuardedBuffer::kIntact);
  }
}

TEST(GuardedBuffer, NoticesOneByteWrittenBeforeOrAfter) {
  for (const int64_t count : {0, 1, 5, 64}) {
    for (const int64_t offset :
         {int64_t{-1}, -GuardedBuffer::kGuardBytes, count * 2, count * 2 + GuardedBuffer::kGuardBytes - 1}) {
      GuardedBuffer buffer("guarded/x", DType::kBF16, count);
      static_cast<unsigned char*>(buffer.view().data)[offset] = 0;
      EXPECT_EQ(buffer.broken_guard(), offset);
      buffer.poison();
      EXPECT_EQ(buffer.broken_guard(), GuardedBuffer::kIntact);
    }
  }
}

TEST(Compare, AcceptsEqualAndNearlyEqual) {
  const auto got = filled("compare/got", {1.0, -2.0, 3.0});
  EXPECT_TRUE(compare(got, std::vector<double>{1.0, -2.0, 3.0}, {}).ok());
  EXPECT_TRUE(compare(got, std::vector<double>{1.0, -2.25, 3.0}, {.absolute = 0.25}).ok());
  EXPECT_TRUE(compare(got, std::vector<double>{1.0, -2.5, 3.0}, {.relative = 0.2}).ok());
  const std::vector<double> own = {0.0, 0.5, 0.0};
  EXPECT_TRUE(compare(got, std::vector<double>{1.0, -2.5, 3.0}, {.per_element = own}).ok());
}

TEST(Compare, FailsBeyondTheLimitAndNamesTheWorstElement) {
  const auto got = filled("compare/got", {1.0, 2.0, 3.0, 100.0});
  const auto result = compare(got, std::vector<double>{1.0, 2.5, 2.0, 101.5},
                              {.absolute = 0.1, .relative = 0.02, .shape = {2, 2}});
  EXPECT_EQ(result.verdict, Verdict::kTooFar);
  EXPECT_EQ(result.num_bad, 2);
  // Element 3 has the largest error, but element 2 has the largest error relative to its limit.
  EXPECT_EQ(result.worst_index, 2);
  EXPECT_EQ(result.got, 3.0);
  EXPECT_EQ(result.want, 2.0);
  EXPECT_EQ(result.max_error, 1.5);
  std::ostringstream text;
  text << result;
  EXPECT_NE(text.str().find("compare/got"), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("[1, 0] got 3, want 2"), std::string::npos) << text.str();
}

TEST(Compare, ALimitThatIsNotANumberFails) {
  const auto got = filled("compare/got", {1.0});
  EXPECT_EQ(compare(got, std::vector<double>{1.0}, {.absolute = kNan}).verdict, Verdict::kTooFar);
}

TEST(Compare, NanAndInfinityMustMatch) {
  const auto nan_and_inf = filled("compare/got", {kNan, kInf, -kInf, 1.0, 1.0, 1.0});
  EXPECT_TRUE(compare(nan_and_inf, std::vector<double>{kNan, kInf, -kInf, 1.0, 1.0, 1.0}, {}).ok());
  const Limit any{.absolute = kInf};
  for (const auto& [got, want] : std::vector<std::pair<double, double>>{
           {kNan, 1.0}, {1.0, kNan}, {kInf, 1.0}, {1.0, kInf}, {kInf, -kInf}, {kNan, kInf}, {kInf, kNan}}) {
    const auto result = compare(filled("compare/got", {7.0, got}), std::vector<double>{7.0, want}, any);
    EXPECT_EQ(result.verdict, Verdict::kNotFinite) << got << " for " << want;
    EXPECT_EQ(result.worst_index, 1);
  }
}

TEST(Compare, NoticesOneUnwrittenElementOfEveryType) {
  for (const DType dtype : kAllTypes) {
    GuardedBuffer got("compare/got", dtype, 3);
    got.view().store(0, 1.0);
    got.view().store(2, 1.0);
    const auto result = compare(got, std::vector<double>{1.0, 1.0, 1.0}, {.absolute = kInf});
    EXPECT_EQ(result.verdict, Verdict::kUnwritten) << dtype_name(dtype);
    EXPECT_EQ(result.worst_index, 1);
    EXPECT_EQ(result.num_bad, 1);
  }
  // An unwritten element fails even if NaN is the correct result, although poison is a NaN.
  const GuardedBuffer got("compare/got", DType::kF32, 1);
  EXPECT_EQ(compare(got, std::vector<double>{kNan}, {}).verdict, Verdict::kUnwritten);
  // In an integer type, poison is -1, which may be the correct value.
  const GuardedBuffer ids("compare/ids", DType::kI32, 1);
  EXPECT_TRUE(compare(ids, std::vector<double>{-1.0}, {}).ok());
}

TEST(Compare, ArithmeticOnUnwrittenInputIsNoticed) {
  GuardedBuffer input("compare/input", DType::kF32, 1);
  GuardedBuffer got("compare/got", DType::kF32, 1);
  got.view().as<float>()[0] = input.view().as<float>()[0] * 2.0f + 1.0f;
  EXPECT_FALSE(compare(got, std::vector<double>{1.0}, {.absolute = kInf}).ok());
}

TEST(Compare, NoticesWritesOutside) {
  auto got = filled("compare/got", {1.0, 2.0});
  got.view().as<float>()[2] = 3.0f;
  EXPECT_EQ(compare(got, std::vector<double>{1.0, 2.0}, {}).verdict, Verdict::kWroteOutside);
  EXPECT_EQ(compare(got, got, {}).verdict, Verdict::kWroteOutside);
  EXPECT_EQ(compare_bits(got, got).verdict, Verdict::kWroteOutside);
}

TEST(Compare, MostlyZeroIsAVerdictOfItsOwn) {
  const auto got = filled("compare/got", {0.0, -0.0, 1.0});
  const std::vector<double> want = {0.0, 0.0, 1.0};
  EXPECT_EQ(compare(got, want, {}).verdict, Verdict::kMostlyZero);
  EXPECT_TRUE(compare(got, want, {.zeros = Zeros::kExpected}).ok());
  EXPECT_TRUE(compare(filled("compare/got", {0.0, 1.0}), std::vector<double>{0.0, 1.0}, {}).ok());
  // Zeros instead of other values give the verdict kMostlyZero, however large the limit is.
  EXPECT_EQ(
      compare(filled("compare/got", {0.0, 0.0, 0.0}), std::vector<double>{1.0, 1.0, 1.0}, {.absolute = 9.0})
          .verdict,
      Verdict::kMostlyZero);
}

TEST(Compare, NothingComparedFails) {
  const GuardedBuffer empty("compare/empty", DType::kF32, 0);
  EXPECT_EQ(compare(empty, std::vector<double>{}, {}).verdict, Verdict::kNothingCompared);
  EXPECT_EQ(compare_bits(empty, empty).verdict, Verdict::kNothingCompared);
}

TEST(Compare, DifferentSizesAreACallersBug) {
  const auto got = filled("compare/got", {1.0, 2.0});
  EXPECT_THROW(compare(got, std::vector<double>{1.0}, {}), Error);
  EXPECT_THROW(compare(got, filled("compare/want", {1.0}), {}), Error);
  EXPECT_THROW(compare_bits(got, filled("compare/want", {1.0}, DType::kF64)), Error);
  const std::vector<double> one_limit = {1.0};
  EXPECT_THROW(compare(got, std::vector<double>{1.0, 2.0}, {.per_element = one_limit}), Error);
}

TEST(CompareBits, SeesWhatArithmeticDoesNot) {
  EXPECT_TRUE(compare_bits(filled("bits/a", {1.0, kNan}), filled("bits/b", {1.0, kNan})).ok());
  const auto result = compare_bits(filled("bits/a", {1.0, 0.0}), filled("bits/b", {1.0, -0.0}));
  EXPECT_EQ(result.verdict, Verdict::kBitsDiffer);
  EXPECT_EQ(result.worst_index, 1);
  EXPECT_FALSE(compare_bits(filled("bits/a", {1.0}), filled("bits/b", {std::nextafterf(1.0f, 2.0f)})).ok());
}

// After a NaN the worst error is NaN, regardless of the values before and after it.
TEST(KeepWorst, NaNStays) {
  for (const size_t place : {0u, 1u, 2u}) {
    std::vector<double> errors{0.25, 0.5, 0.125};
    errors[place] = std::numeric_limits<double>::quiet_NaN();
    double worst = 0.0;
    for (const double error : errors) keep_worst(worst, error);
    EXPECT_TRUE(std::isnan(worst)) << place;
  }
}

TEST(KeepWorst, KeepsTheLargestAndSaysWhereItIs) {
  double worst = 0.0;
  EXPECT_FALSE(keep_worst(worst, 0.0));
  EXPECT_TRUE(keep_worst(worst, 0.5));
  EXPECT_FALSE(keep_worst(worst, 0.25));
  EXPECT_TRUE(keep_worst(worst, std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(keep_worst(worst, 1.0));
  EXPECT_EQ(worst, std::numeric_limits<double>::infinity());
}

TEST(Generators, DependOnTheNameAndOnNothingElse) {
  GuardedBuffer a("generators/a", DType::kF32, 100), again("generators/a", DType::kF32, 100),
      b("generators/b", DType::kF32, 100);
  EXPECT_TRUE(compare_bits(a.fill_uniform(), again.fill_uniform()).ok());
  EXPECT_GT(compare_bits(a, b.fill_uniform()).num_bad, 95);
  // The seed determines the inputs of every test, so it must never change, or a recorded failure could not be
  // repeated. The expected value for "a" is a published test vector of FNV-1a.
  EXPECT_EQ(tensor_seed("a"), 0xaf63dc4c8601ec8cu);
}

TEST(Generators, HaveTheMomentsTheyPromise) {
  constexpr int64_t kCount = 20000;
  auto moments = [](const GuardedBuffer& x) {
    double sum = 0.0, squares = 0.0;
    for (int64_t i = 0; i < x.count(); ++i) sum += x.load(i);
    const double mean = sum / static_cast<double>(x.count());
    for (int64_t i = 0; i < x.count(); ++i) squares += (x.load(i) - mean) * (x.load(i) - mean);
    return std::pair(mean, std::sqrt(squares / static_cast<double>(x.count())));
  };
  GuardedBuffer x("generators/moments", DType::kF64, kCount);
  // The standard error of the mean of 20000 values is 0.7% of the standard deviation. These limits are four
  // standard errors.
  auto [mean, deviation] = moments(x.fill_uniform(-1.0, 3.0));
  EXPECT_NEAR(mean, 1.0, 0.033);
  EXPECT_NEAR(deviation, 4.0 / std::sqrt(12.0), 0.033);
  std::tie(mean, deviation) = moments(x.fill_normal(2.0, 0.5));
  EXPECT_NEAR(mean, 2.0, 0.015);
  EXPECT_NEAR(deviation, 0.5, 0.015);
}

TEST(Generators, IntegersCoverTheirRangeAndNothingBeyond) {
  GuardedBuffer x("generators/integers", DType::kBF16, 1000), ids("generators/ids", DType::kI32, 1000);
  x.fill_small_integers(2);
  ids.fill_indices(3);
  int64_t seen[5] = {}, seen_id[3] = {};
  for (int64_t i = 0; i < x.count(); ++i) {
    ASSERT_EQ(x.load(i), std::nearbyint(x.load(i)));
    ASSERT_LE(std::abs(x.load(i)), 2.0);
    ++seen[static_cast<int>(x.load(i)) + 2];
    ASSERT_GE(ids.load(i), 0.0);
    ASSERT_LT(ids.load(i), 3.0);
    ++seen_id[static_cast<int>(ids.load(i))];
  }
  for (const int64_t n : seen) EXPECT_GT(n, 100);
  for (const int64_t n : seen_id) EXPECT_GT(n, 200);
}

}  // namespace
}  // namespace plimsoll::test
