#include "kernels/loss/softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "device/cpu/parallel.h"
#include "tests/support/compare.h"
#include "tests/support/finite_difference.h"
#include "tests/support/kernel_rows.h"
#include "tests/support/simd_target_cases.h"

namespace plimsoll {
namespace {

using test::compare;
using test::GuardedBuffer;

struct Shape {
  int64_t B, K;
};
constexpr Shape kShapes[] = {{1, 1},  {1, 2},    {8, 2},    {3, 5},     {4, 17},
                             {5, 64}, {2, 1023}, {3, 1025}, {2, 30522}, {700, 33}};

std::string name_of(const Shape& shape) {
  return "log_softmax_" + std::to_string(shape.B) + "x" + std::to_string(shape.K);
}

std::vector<double> forward_limits(const GuardedBuffer& want, int64_t K) {
  std::vector<double> limits = want.to_doubles();
  for (double& limit : limits) limit = log_softmax_fwd_error(K, std::fabs(limit));
  return limits;
}

std::vector<double> backward_limits(const GuardedBuffer& d_y, const Shape& shape) {
  std::vector<double> limits(static_cast<size_t>(shape.B * shape.K));
  for (int64_t b = 0; b < shape.B; ++b) {
    double sum = 0.0;
    for (int64_t k = 0; k < shape.K; ++k) sum += std::fabs(d_y.load(b * shape.K + k));
    for (int64_t k = 0; k < shape.K; ++k) {
      limits[static_cast<size_t>(b * shape.K + k)] = log_softmax_bwd_error(shape.K, sum);
    }
  }
  return limits;
}

TEST(LogSoftmax, MatchesTheReferenceOnEveryInstructionSet) {
  for (const Shape& shape : kShapes) {
    const int64_t n = shape.B * shape.K;
    const std::string name = name_of(shape);
    GuardedBuffer x(name + "/x", DType::kF32, n), want(name + "/want", DType::kF64, n);
    x.fill_normal(0.0, 4.0);
    log_softmax_fwd_ref({x.view(), want.view(), shape.B, shape.K});
    GuardedBuffer y32(name + "/y32", DType::kF32, n), d_y(name + "/d_y", DType::kF32, n);
    y32.assign(want.to_doubles());
    d_y.fill_normal();
    GuardedBuffer d_want(name + "/d_want", DType::kF64, n);
    log_softmax_bwd_ref({y32.view(), d_y.view(), d_want.view(), shape.B, shape.K});
    const std::vector<double> fwd_limits = forward_limits(want, shape.K);
    const std::vector<double> bwd_limits = backward_limits(d_y, shape);
    test::FastRows(log_softmax_fwd_ref, log_softmax_bwd_ref)
        .for_each(DType::kF32, [&](const auto& log_softmax, const auto& log_softmax_bwd) {
          GuardedBuffer y(name + "/y", DType::kF32, n), d_x(name + "/d_x", DType::kF32, n);
          log_softmax({x.view(), y.view(), shape.B, shape.K});
          log_softmax_bwd({y32.view(), d_y.view(), d_x.view(), shape.B, shape.K});
          // If there is only one class, its log-probability and its gradient must be 0.
          const test::Zeros zeros = shape.K == 1 ? test::Zeros::kExpected : test::Zeros::kSuspicious;
          const auto fwd =
              compare(y, want, {.per_element = fwd_limits, .zeros = zeros, .shape = {shape.B, shape.K}});
          EXPECT_TRUE(fwd.ok()) << name << " " << fwd;
          const auto bwd =
              compare(d_x, d_want, {.per_element = bwd_limits, .zeros = zeros, .shape = {shape.B, shape.K}});
          EXPECT_TRUE(bwd.ok()) << name << " " << bwd;
        });
  }
}

TEST(LogSoftmax, OutputsMayReplaceInputs) {
  const Shape shape{6, 37};
  const int64_t n = shape.B * shape.K;
  GuardedBuffer x("in_place/x", DType::kF32, n), y("in_place/y", DType::kF32, n);
  x.fill_normal(0.0, 4.0);
  log_softmax_fwd_cpu({x.view(), y.view(), shape.B, shape.K});
  log_softmax_fwd_cpu({x.view(), x.view(), shape.B, shape.K});
  EXPECT_TRUE(test::compare_bits(x, y).ok());
  GuardedBuffer d("in_place/d", DType::kF32, n), d_x("in_place/d_x", DType::kF32, n);
  d.fill_normal();
  log_softmax_bwd_cpu({y.view(), d.view(), d_x.view(), shape.B, shape.K});
  log_softmax_bwd_cpu({y.view(), d.view(), d.view(), shape.B, shape.K});
  EXPECT_TRUE(test::compare_bits(d, d_x).ok());
}

TEST(LogSoftmax, LargeAndInfiniteLogits) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kMax = std::numeric_limits<float>::max();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  // The five rows contain huge logits; one -inf; +inf; only -inf; and a NaN.
  const std::vector<float> x = {kMax, kMax,  -kMax, -kInf, 1.0f, 1.0f, kInf, 0.0f,
                                1.0f, -kInf, -kInf, -kInf, 0.0f, kNan, 1.0f};
  const int64_t n = static_cast<int64_t>(x.size());
  test::for_each_simd_target([&] {
    GuardedBuffer want("large/want", DType::kF64, n), got("large/got", DType::kF32, n);
    log_softmax_fwd_ref({{x.data(), DType::kF32}, want.view(), 5, 3});
    log_softmax_fwd_cpu({{x.data(), DType::kF32}, got.view(), 5, 3});
    for (int64_t i = 6; i < n; ++i) EXPECT_TRUE(std::isnan(got.load(i))) << i;
    // The last log-probability of the first row, -2 FLT_MAX, is out of the range of fp32 and therefore infinite.
    for (int64_t i = 0; i < 6; ++i) {
      if (std::isinf(static_cast<float>(want.load(i)))) {
        EXPECT_EQ(got.load(i), static_cast<double>(static_cast<float>(want.load(i)))) << i;
      } else {
        EXPECT_NEAR(got.load(i), want.load(i), 1e-6) << i;
      }
    }
  });
}

TEST(LogSoftmax, BackwardMatchesFiniteDifferences) {
  const Shape shape{3, 5};
  const int64_t n = shape.B * shape.K;
  GuardedBuffer x("fd/x", DType::kF64, n), y("fd/y", DType::kF64, n), d_y("fd/d_y", DType::kF64, n);
  x.fill_normal();
  d_y.fill_normal();
  const auto loss = [&] {
    log_softmax_fwd_ref({x.view(), y.view(), shape.B, shape.K});
    double sum = 0.0;
    for (int64_t i = 0; i < n; ++i) sum += y.load(i) * d_y.load(i);
    return sum;
  };
  std::vector<double> want;
  for (int64_t i = 0; i < n; ++i) want.push_back(test::finite_difference(x, i, loss));
  loss();
  GuardedBuffer d_x("fd/d_x", DType::kF64, n);
  log_softmax_bwd_ref({y.view(), d_y.view(), d_x.view(), shape.B, shape.K});
  const auto result = compare(d_x, want, {.absolute = test::kFiniteDifferenceLimit});
  EXPECT_TRUE(result.ok()) << result;
}

TEST(LogSoftmax, SameBitsForAnyNumberOfThreads) {
  const int before = num_threads();
  const Shape shape{300, 517};
  const int64_t n = shape.B * shape.K;
  GuardedBuffer x("threads/x", DType::kF32, n), y1("threads/y1", DType::kF32, n);
  x.fill_normal(0.0, 3.0);
  set_num_threads(1);
  log_softmax_fwd_cpu({x.view(), y1.view(), shape.B, shape.K});
  for (const int threads : {2, 3, 7}) {
    set_num_threads(threads);
    GuardedBuffer y("threads/y", DType::kF32, n);
    log_softmax_fwd_cpu({x.view(), y.view(), shape.B, shape.K});
    EXPECT_TRUE(test::compare_bits(y, y1).ok()) << threads;
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace plimsoll
