#include "kernels/loss/softmax_cross_entropy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "device/cpu/parallel.h"
#include "plimsoll/error.h"
#include "tests/support/compare.h"
#include "tests/support/finite_difference.h"
#include "tests/support/kernel_rows.h"
#include "tests/support/simd_target_cases.h"

namespace plimsoll {
namespace {

using test::compare;
using test::GuardedBuffer;

struct CrossEntropyCase {
  int32_t labels[5];
  double smoothing;
  double denominator;
  double loss;
  double d_logits[35];
};
#include "kernels/loss/fixtures/cross_entropy_values.inc"

struct Shape {
  int64_t B, K;
};
constexpr Shape kShapes[] = {{1, 1}, {8, 2}, {3, 5}, {16, 17}, {5, 64}, {2, 1025}, {2, 30522}, {900, 33}};

// The tensors of one tested problem: logits, labels and the scalars. Every third row is ignored, but never the first.
struct CrossEntropyTensors {
  CrossEntropyTensors(const std::string& name, Shape s, DType dtype)
      : shape(s), logits(name + "/logits", dtype, s.B * s.K), labels(name + "/labels", DType::kI32, s.B) {
    logits.fill_normal(0.0, 3.0);
    labels.fill_indices(s.K);
    for (int64_t b = 2; b < s.B; b += 3) labels.view().as<int32_t>()[b] = b % 2 == 0 ? -100 : -1;
    for (int64_t b = 0; b < s.B; ++b) denominator += labels.load(b) >= 0.0 ? 1.0f : 0.0f;
    // Fills ignored rows with NaN, because no kernel may read them.
    for (int64_t i = 0; i < s.B * s.K; ++i) {
      if (labels.load(i / s.K) < 0.0) logits.view().store(i, std::numeric_limits<double>::quiet_NaN());
    }
  }
  SoftmaxCrossEntropyFwdArgs fwd(View loss, View row_loss, double smoothing) {
    return {.logits_BK = logits.view(),
            .labels_B = labels.view(),
            .denominator = {&denominator, DType::kF32},
            .loss = loss,
            .row_loss_B = row_loss,
            .num_rows = shape.B,
            .num_classes = shape.K,
            .label_smoothing = smoothing,
            .z_coefficient = z_coefficient};
  }
  SoftmaxCrossEntropyBwdArgs bwd(View d_logits, double smoothing) {
    return {.logits_BK = logits.view(),
            .labels_B = labels.view(),
            .denominator = {&denominator, DType::kF32},
            .d_loss = {&d_loss, DType::kF64},
            .d_logits_BK = d_logits,
            .num_rows = shape.B,
            .num_classes = shape.K,
            .label_smoothing = smoothing,
            .z_coefficient = z_coefficient};
  }
  // Returns the coefficient of the z-loss and a bound on |log Z| of the rows, which follows from the largest logit and the number of
  // classes.
  ZLossBound z_bound() const {
    double largest = 0.0;
    for (int64_t i = 0; i < shape.B * shape.K; ++i) {
      if (labels.load(i / shape.K) >= 0.0) largest = std::max(largest, std::abs(logits.load(i)));
    }
    return {z_coefficient, largest + std::log(static_cast<double>(shape.K))};
  }
  Shape shape;
  GuardedBuffer logits, labels;
  double z_coefficient = 0.0;
  float denominator = 0.0f;
  double d_loss = 1.5;
};

void check_against_reference(Shape shape, double smoothing, double z_coefficient) {
  const int64_t n = shape.B * shape.K;
  const std::string name = "ce_" + std::to_string(shape.B) + "x" + std::to_string(shape.K);
  CrossEntropyTensors problem(name, shape, DType::kF32);
  problem.z_coefficient = z_coefficient;
  GuardedBuffer loss_want(name + "/loss_want", DType::kF64, 1),
      rows_want(name + "/rows_want", DType::kF64, shape.B);
  GuardedBuffer d_want(name + "/d_want", DType::kF64, n);
  GuardedBuffer z_want(name + "/z_want", DType::kF64, 1);
  SoftmaxCrossEntropyFwdArgs reference = problem.fwd(loss_want.view(), rows_want.view(), smoothing);
  reference.z_loss = z_want.view();
  softmax_cross_entropy_fwd_ref(reference);
  softmax_cross_entropy_bwd_ref(problem.bwd(d_want.view(), smoothing));
  // With one class, its probability is 1, so the loss and the gradient are only those of the z-loss.
  const test::Zeros zeros =
      shape.K == 1 || z_coefficient == 0.0 ? test::Zeros::kExpected : test::Zeros::kSuspicious;
  const ZLossBound z = problem.z_bound();
  const double row_error = softmax_cross_entropy_row_error(shape.K) +
                           z_loss_row_error(z, softmax_cross_entropy_row_error(shape.K));
  const double scale = problem.d_loss / static_cast<double>(problem.denominator);
  test::FastRows(softmax_cross_entropy_fwd_ref, softmax_cross_entropy_bwd_ref)
      .for_each(
          DType::kF32, RowsProblem{.rows = shape.B, .columns = shape.K},
          [&](const auto& cross_entropy, const auto& cross_entropy_bwd) {
            GuardedBuffer loss(name + "/loss", DType::kF32, 1), rows(name + "/rows", DType::kF32, shape.B);
            GuardedBuffer d_logits(name + "/d_logits", DType::kF32, n);
            GuardedBuffer z_loss(name + "/z_loss", DType::kF32, 1);
            SoftmaxCrossEntropyFwdArgs args = problem.fwd(loss.view(), rows.view(), smoothing);
            args.z_loss = z_loss.view();
            cross_entropy(args);
            cross_entropy_bwd(problem.bwd(d_logits.view(), smoothing));
            const auto part =
                compare(z_loss, z_want, {.absolute = row_error, .relative = 0x1p-24, .zeros = zeros});
            EXPECT_TRUE(part.ok()) << name << " " << part;
            const auto total =
                compare(loss, loss_want, {.absolute = row_error, .relative = 0x1p-24, .zeros = zeros});
            EXPECT_TRUE(total.ok()) << name << " " << total;
            const auto each =
                compare(rows, rows_want, {.absolute = row_error, .relative = 0x1p-24, .zeros = zeros});
            EXPECT_TRUE(each.ok()) << name << " " << each;
            const auto gradient = compare(d_logits, d_want,
                                          {.absolute = softmax_cross_entropy_bwd_error(shape.K, scale, z),
                                           .zeros = zeros,
                                           .shape = {shape.B, shape.K}});
            EXPECT_TRUE(gradient.ok()) << name << " " << gradient;
          });
}

TEST(SoftmaxCrossEntropy, MatchesTheReferenceOnEveryInstructionSet) {
  for (const Shape& shape : kShapes) {
    for (const double smoothing : {0.0, 0.1}) {
      for (const double z_coefficient : {0.0, 1e-4, 0.1})
        check_against_reference(shape, smoothing, z_coefficient);
    }
  }
}

TEST(SoftmaxCrossEntropy, MatchesPyTorch) {
  ASSERT_EQ(std::size(kCrossEntropyCases), 4u);
  for (const CrossEntropyCase& c : kCrossEntropyCases) {
    std::vector<double> logits, d_logits(35);
    for (int i = 0; i < 35; ++i) logits.push_back(((i * 29) % 37 - 18) / 4.0);
    double loss = 0.0;
    const double one = 1.0;
    softmax_cross_entropy_fwd_ref({.logits_BK = {logits.data(), DType::kF64},
                                   .labels_B = {c.labels, DType::kI32},
                                   .denominator = {&c.denominator, DType::kF64},
                                   .loss = {&loss, DType::kF64},
                                   .num_rows = 5,
                                   .num_classes = 7,
                                   .label_smoothing = c.smoothing});
    softmax_cross_entropy_bwd_ref({.logits_BK = {logits.data(), DType::kF64},
                                   .labels_B = {c.labels, DType::kI32},
                                   .denominator = {&c.denominator, DType::kF64},
                                   .d_loss = {&one, DType::kF64},
                                   .d_logits_BK = {d_logits.data(), DType::kF64},
                                   .num_rows = 5,
                                   .num_classes = 7,
                                   .label_smoothing = c.smoothing});
    EXPECT_NEAR(loss, c.loss, 1e-14 * c.loss);
    const auto result = compare({d_logits.data(), DType::kF64}, c.d_logits, {.absolute = 1e-15});
    EXPECT_TRUE(result.ok()) << result;
  }
}

// The fused kernel must give the same numbers as log_softmax followed by nll: up to rounding in f64, and within the sum of their error
// bounds in f32.
TEST(SoftmaxCrossEntropy, EqualsItsDecomposition) {
  for (const double smoothing : {0.0, 0.25}) {
    const Shape shape{12, 9};
    const int64_t n = shape.B * shape.K;
    CrossEntropyTensors problem("decomposition", shape, DType::kF32);
    const test::FastRows kernels(softmax_cross_entropy_fwd_ref, softmax_cross_entropy_bwd_ref,
                                 log_softmax_fwd_ref, log_softmax_bwd_ref, nll_fwd_ref, nll_bwd_ref);
    const auto check = [&](const auto& cross_entropy, const auto& cross_entropy_bwd, const auto& log_softmax,
                           const auto& log_softmax_bwd, const auto& nll, const auto& nll_bwd) {
      GuardedBuffer loss("decomposition/loss", DType::kF32, 1), d_logits("decomposition/d", DType::kF32, n);
      cross_entropy(problem.fwd(loss.view(), {}, smoothing));
      cross_entropy_bwd(problem.bwd(d_logits.view(), smoothing));
      GuardedBuffer log_p("decomposition/log_p", DType::kF32, n),
          d_log_p("decomposition/d_log_p", DType::kF32, n);
      GuardedBuffer loss2("decomposition/loss2", DType::kF32, 1), d2("decomposition/d2", DType::kF32, n);
      log_softmax({problem.logits.view(), log_p.view(), shape.B, shape.K});
      nll({.y_BK = log_p.view(),
           .labels_B = problem.labels.view(),
           .denominator = {&problem.denominator, DType::kF32},
           .loss = loss2.view(),
           .num_rows = shape.B,
           .num_classes = shape.K,
           .label_smoothing = smoothing});
      nll_bwd({.labels_B = problem.labels.view(),
               .denominator = {&problem.denominator, DType::kF32},
               .d_loss = {&problem.d_loss, DType::kF64},
               .d_y_BK = d_log_p.view(),
               .num_rows = shape.B,
               .num_classes = shape.K,
               .label_smoothing = smoothing});
      log_softmax_bwd({log_p.view(), d_log_p.view(), d2.view(), shape.B, shape.K});
      const double scale = problem.d_loss / static_cast<double>(problem.denominator);
      EXPECT_NEAR(loss.load(0), loss2.load(0),
                  softmax_cross_entropy_row_error(shape.K) + log_softmax_fwd_error(shape.K, 16.0));
      for (int64_t i = 0; i < n; ++i) {
        if (problem.labels.load(i / shape.K) < 0.0)
          continue;  // ignored row: the log-probabilities of log_softmax are NaN
        // The tolerance includes the rounding error of log_p, which is about 2^-23 of its magnitude, times exp(log_p).
        EXPECT_NEAR(d_logits.load(i), d2.load(i),
                    softmax_cross_entropy_bwd_error(shape.K, scale) +
                        log_softmax_bwd_error(shape.K, 2.0 * scale) + 0x1p-23 * scale)
            << i;
      }
    };
    kernels.for_each(DType::kF32, RowsProblem{.rows = shape.B, .columns = shape.K}, check);
  }
}

// The z-loss must agree with its definition, and the loss must be the sum of the z-loss and of the loss that is computed without it.
TEST(SoftmaxCrossEntropy, TheZLossIsTheMeanOfTheSquaredNormalizer) {
  CrossEntropyTensors problem("z_loss", {11, 23}, DType::kF64);
  double expected = 0.0;
  for (int64_t b = 0; b < 11; ++b) {
    if (problem.labels.load(b) < 0.0) continue;
    double sum = 0.0;
    for (int64_t k = 0; k < 23; ++k) sum += std::exp(problem.logits.load(b * 23 + k));
    expected += 0.02 * std::log(sum) * std::log(sum) / static_cast<double>(problem.denominator);
  }
  double without = 0.0, with = 0.0, z_loss = 0.0;
  softmax_cross_entropy_fwd_ref(problem.fwd({&without, DType::kF64}, {}, 0.1));
  problem.z_coefficient = 0.02;
  SoftmaxCrossEntropyFwdArgs args = problem.fwd({&with, DType::kF64}, {}, 0.1);
  args.z_loss = {&z_loss, DType::kF64};
  softmax_cross_entropy_fwd_ref(args);
  EXPECT_NEAR(z_loss, expected, 1e-13 * expected);
  EXPECT_NEAR(with, without + expected, 1e-13 * with);
}

TEST(SoftmaxCrossEntropy, BackwardMatchesFiniteDifferences) {
  for (const auto& [smoothing, z_coefficient] : {std::pair{0.0, 0.0}, {0.1, 0.0}, {0.0, 0.05}, {0.1, 0.05}}) {
    const Shape shape{5, 4};
    CrossEntropyTensors problem("fd", shape, DType::kF64);
    problem.z_coefficient = z_coefficient;
    GuardedBuffer loss("fd/loss", DType::kF64, 1), d_logits("fd/d_logits", DType::kF64, 20);
    const auto value = [&] {
      softmax_cross_entropy_fwd_ref(problem.fwd(loss.view(), {}, smoothing));
      return loss.load(0) * problem.d_loss;
    };
    std::vector<double> want;
    for (int64_t i = 0; i < 20; ++i) {
      const bool real = problem.labels.load(i / 4) >= 0.0;
      want.push_back(real ? test::finite_difference(problem.logits, i, value) : 0.0);
    }
    softmax_cross_entropy_bwd_ref(problem.bwd(d_logits.view(), smoothing));
    const auto result = compare(d_logits, want, {.absolute = test::kFiniteDifferenceLimit});
    EXPECT_TRUE(result.ok()) << result;
  }
}

TEST(Nll, BackwardMatchesFiniteDifferences) {
  const int32_t labels[] = {1, -100, 0, 2};
  const double denominator = 3.0, d_loss = 0.7;
  GuardedBuffer y("nll_fd/y", DType::kF64, 12), loss("nll_fd/loss", DType::kF64, 1);
  y.fill_uniform(-4.0, -0.5);
  const auto value = [&] {
    nll_fwd_ref({.y_BK = y.view(),
                 .labels_B = {labels, DType::kI32},
                 .denominator = {&denominator, DType::kF64},
                 .loss = loss.view(),
                 .num_rows = 4,
                 .num_classes = 3,
                 .label_smoothing = 0.2});
    return loss.load(0) * d_loss;
  };
  std::vector<double> want;
  for (int64_t i = 0; i < 12; ++i) want.push_back(test::finite_difference(y, i, value));
  GuardedBuffer ref("nll_fd/ref", DType::kF64, 12), cpu("nll_fd/cpu", DType::kF32, 12);
  for (GuardedBuffer* d_y : {&ref, &cpu}) {
    (d_y == &ref ? nll_bwd_ref : nll_bwd_cpu)({.labels_B = {labels, DType::kI32},
                                               .denominator = {&denominator, DType::kF64},
                                               .d_loss = {&d_loss, DType::kF64},
                                               .d_y_BK = d_y->view(),
                                               .num_rows = 4,
                                               .num_classes = 3,
                                               .label_smoothing = 0.2});
    const auto result = compare(*d_y, want, {.absolute = test::kFiniteDifferenceLimit, .relative = 0x1p-24});
    EXPECT_TRUE(result.ok()) << result;
  }
}

TEST(Nll, ForwardMatchesTheReference) {
  for (const double smoothing : {0.0, 0.3}) {
    const int64_t B = 500, K = 40;
    GuardedBuffer y("nll/y", DType::kF32, B * K), labels("nll/labels", DType::kI32, B);
    GuardedBuffer want("nll/want", DType::kF64, 1), got("nll/got", DType::kF32, 1);
    y.fill_uniform(-8.0, 0.0);
    labels.fill_indices(K);
    labels.view().as<int32_t>()[7] = -100;
    const float denominator = 499.0f;
    for (GuardedBuffer* loss : {&want, &got}) {
      (loss == &want ? nll_fwd_ref : nll_fwd_cpu)({.y_BK = y.view(),
                                                   .labels_B = labels.view(),
                                                   .denominator = {&denominator, DType::kF32},
                                                   .loss = loss->view(),
                                                   .num_rows = B,
                                                   .num_classes = K,
                                                   .label_smoothing = smoothing});
    }
    const auto result = compare(got, want, {.relative = 0x1p-24 + static_cast<double>(B) * 0x1p-52});
    EXPECT_TRUE(result.ok()) << result;
  }
}

// If a batch is divided into two micro-batches whose losses have the denominator of the whole batch, the losses must add up to the loss of
// the whole batch, in fp32 up to rounding.
TEST(SoftmaxCrossEntropy, AccumulatesMicroBatchesExactly) {
  CrossEntropyTensors problem("halves", {8, 6}, DType::kF32);
  GuardedBuffer whole("halves/whole", DType::kF64, 1), halves("halves/halves", DType::kF64, 1);
  softmax_cross_entropy_fwd_cpu(problem.fwd(whole.view(), {}, 0.1));
  SoftmaxCrossEntropyFwdArgs first = problem.fwd(halves.view(), {}, 0.1);
  first.num_rows = 3;
  softmax_cross_entropy_fwd_cpu(first);
  SoftmaxCrossEntropyFwdArgs second = problem.fwd(halves.view(), {}, 0.1);
  second.logits_BK = problem.logits.view_from(3 * 6);
  second.labels_B = problem.labels.view_from(3);
  second.num_rows = 5;
  second.accumulate = Accumulate::kAdd;
  softmax_cross_entropy_fwd_cpu(second);
  EXPECT_NEAR(whole.load(0), halves.load(0), 1e-15 * whole.load(0));
}

TEST(SoftmaxCrossEntropy, StableForLargeLogitsAndNaNForNonFiniteOnes) {
  const float kMax = std::numeric_limits<float>::max();
  const int32_t label = 0;
  const float denominator = 4.0f;
  const auto loss_of = [&](std::vector<float> x) {
    float loss = 0.0f;
    softmax_cross_entropy_fwd_cpu({.logits_BK = {x.data(), DType::kF32},
                                   .labels_B = {&label, DType::kI32},
                                   .denominator = {&denominator, DType::kF32},
                                   .loss = {&loss, DType::kF32},
                                   .num_rows = 1,
                                   .num_classes = static_cast<int64_t>(x.size())});
    return loss;
  };
  test::for_each_simd_target([&] {
    EXPECT_EQ(loss_of({kMax, -kMax}), 0.0f);
    EXPECT_EQ(loss_of({-kMax, kMax}), kMax / 2.0f);
    EXPECT_NEAR(loss_of({1e4f, 1e4f}), std::log(2.0) / 4.0, 1e-7);
    EXPECT_TRUE(std::isnan(loss_of({0.0f, std::numeric_limits<float>::quiet_NaN(), 1.0f})));
    EXPECT_TRUE(std::isnan(loss_of({0.0f, std::numeric_limits<float>::infinity(), 1.0f})));
  });
}

TEST(SoftmaxCrossEntropy, AllRowsIgnoredGiveZero) {
  GuardedBuffer logits("ignored/logits", DType::kF32, 6), loss("ignored/loss", DType::kF32, 1);
  const int32_t labels[] = {-100, -100};
  const float denominator = 2.0f;
  softmax_cross_entropy_fwd_cpu({.logits_BK = logits.view(),
                                 .labels_B = {labels, DType::kI32},
                                 .denominator = {&denominator, DType::kF32},
                                 .loss = loss.view(),
                                 .num_rows = 2,
                                 .num_classes = 3});
  EXPECT_EQ(loss.load(0), 0.0);
}

TEST(SoftmaxCrossEntropy, GradientMayReplaceLogits) {
  CrossEntropyTensors problem("alias", {7, 19}, DType::kF32);
  GuardedBuffer d_logits("alias/d_logits", DType::kF32, 7 * 19);
  softmax_cross_entropy_bwd_cpu(problem.bwd(d_logits.view(), 0.1));
  softmax_cross_entropy_bwd_cpu(problem.bwd(problem.logits.view(), 0.1));
  const auto result = test::compare_bits(problem.logits, d_logits);
  EXPECT_TRUE(result.ok()) << result;
}

// The kernel that computes the loss and the gradients in one pass must give the results of the two separate kernels. The gradients of bf16
// logits must be rounded once, and ignored rows must become zero without being read.
TEST(SoftmaxCrossEntropy, InPlaceHasTheBitsOfForwardAndBackward) {
  const int before = num_threads();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Shape shape : kShapes) {
      for (const auto& [smoothing, z_coefficient] : {std::pair{0.0, 0.0}, {0.1, 0.0}, {0.1, 1e-3}}) {
        const int64_t n = shape.B * shape.K;
        CrossEntropyTensors given("in_place/given", shape, dtype);
        // The name seeds the random numbers. `wide` has the same name as `given`, so the two have the same labels.
        CrossEntropyTensors wide("in_place/given", shape, DType::kF32);
        wide.z_coefficient = z_coefficient;
        wide.logits.assign(given.logits.to_doubles());
        GuardedBuffer loss("in_place/loss", DType::kF64, 1), d_wide("in_place/d_wide", DType::kF32, n);
        GuardedBuffer z_loss("in_place/z_loss", DType::kF64, 1);
        SoftmaxCrossEntropyFwdArgs args = wide.fwd(loss.view(), {}, smoothing);
        args.z_loss = z_loss.view();
        softmax_cross_entropy_fwd_cpu(args);
        softmax_cross_entropy_bwd_cpu(wide.bwd(d_wide.view(), smoothing));
        GuardedBuffer expected("in_place/d_logits", dtype, n);
        expected.assign(d_wide.to_doubles());
        for (const int threads : {1, 3}) {
          set_num_threads(threads);
          CrossEntropyTensors problem("in_place/given", shape, dtype);
          GuardedBuffer got("in_place/got", DType::kF64, 1), got_z("in_place/got_z", DType::kF64, 1);
          GuardedBuffer rows("in_place/rows", DType::kF32, threads * cross_entropy_wide_row_floats(shape.K));
          softmax_cross_entropy_in_place_cpu({.logits_BK = problem.logits.view(),
                                              .labels_B = problem.labels.view(),
                                              .denominator = {&problem.denominator, DType::kF32},
                                              .d_loss = {&problem.d_loss, DType::kF64},
                                              .loss = got.view(),
                                              .z_loss = got_z.view(),
                                              .num_rows = shape.B,
                                              .num_classes = shape.K,
                                              .label_smoothing = smoothing,
                                              .z_coefficient = z_coefficient,
                                              .wide_row = rows.view()});
          const auto loss_bits = test::compare_bits(got, loss);
          EXPECT_TRUE(loss_bits.ok()) << loss_bits;
          EXPECT_TRUE(test::compare_bits(got_z, z_loss).ok());
          const auto bits = test::compare_bits(problem.logits, expected);
          EXPECT_TRUE(bits.ok()) << bits << " " << shape.B << "x" << shape.K;
        }
      }
    }
  }
  set_num_threads(before);
}

TEST(SoftmaxCrossEntropy, SameBitsForAnyNumberOfThreads) {
  const int before = num_threads();
  CrossEntropyTensors problem("threads", {400, 301}, DType::kF32);
  set_num_threads(1);
  GuardedBuffer loss1("threads/loss1", DType::kF64, 1);
  softmax_cross_entropy_fwd_cpu(problem.fwd(loss1.view(), {}, 0.0));
  for (const int threads : {2, 3, 8}) {
    set_num_threads(threads);
    GuardedBuffer loss("threads/loss", DType::kF64, 1);
    softmax_cross_entropy_fwd_cpu(problem.fwd(loss.view(), {}, 0.0));
    EXPECT_TRUE(test::compare_bits(loss, loss1).ok()) << threads;
  }
  set_num_threads(before);
}

TEST(SoftmaxCrossEntropy, RefusesALabelThatIsNotBelowTheNumberOfClasses) {
  CrossEntropyTensors problem("label", {2, 3}, DType::kF32);
  problem.labels.view().as<int32_t>()[1] = 3;
  GuardedBuffer loss("label/loss", DType::kF32, 1);
  try {
    softmax_cross_entropy_fwd_cpu(problem.fwd(loss.view(), {}, 0.0));
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    EXPECT_NE(std::string(error.what()).find("row 1 has label 3, but there are only 3 classes"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace plimsoll
