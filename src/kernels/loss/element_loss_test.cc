// Tests the two losses that are sums over elements: binary cross-entropy on logits and mean squared error.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "device/cpu/parallel.h"
#include "kernels/loss/bce_with_logits.h"
#include "kernels/loss/mse.h"
#include "tests/support/compare.h"
#include "tests/support/finite_difference.h"
#include "tests/support/kernel_rows.h"
#include "tests/support/simd_target_cases.h"

namespace plimsoll {
namespace {

using test::compare;
using test::GuardedBuffer;

struct ElementLossCase {
  double loss;
  double d_x[35];
};
#include "kernels/loss/fixtures/element_loss_values.inc"

enum class Loss { kBce, kMse };
constexpr Loss kLosses[] = {Loss::kBce, Loss::kMse};

// Sizes of the tested tensors: B rows, of which only the first R contain samples, and K columns.
struct Shape {
  int64_t B, R, K;
};
constexpr Shape kShapes[] = {{1, 1, 1}, {8, 8, 1}, {9, 6, 5}, {4, 3, 64}, {3, 2, 1023}, {600, 599, 41}};

struct ElementLossTensors {
  ElementLossTensors(const std::string& name, Loss l, Shape s, DType dtype)
      : loss(l), shape(s), x(name + "/x", dtype, s.B * s.K), labels(name + "/labels", dtype, s.B * s.K) {
    x.fill_normal(0.0, 4.0);
    labels.fill_uniform(0.0, 1.0);
    denominator = static_cast<double>(s.R);
    // Fills the rows without a sample with NaN, because no kernel may read them.
    for (int64_t i = s.R * s.K; i < s.B * s.K; ++i) {
      x.view().store(i, std::numeric_limits<double>::quiet_NaN());
    }
  }
  template <typename Args>
  Args fwd(View out) {
    return {.x_BK = x.view(),
            .labels_BK = labels.view(),
            .denominator = {&denominator, DType::kF64},
            .loss = out,
            .num_rows = shape.B,
            .num_real_rows = shape.R,
            .num_classes = shape.K,
            .accumulate = accumulate};
  }
  template <typename Args>
  Args bwd(View d_x) {
    return {.x_BK = x.view(),
            .labels_BK = labels.view(),
            .denominator = {&denominator, DType::kF64},
            .d_loss = {&d_loss, DType::kF64},
            .d_x_BK = d_x,
            .num_rows = shape.B,
            .num_real_rows = shape.R,
            .num_classes = shape.K};
  }
  void fwd_ref(View out) {
    if (loss == Loss::kBce) return bce_with_logits_fwd_ref(fwd<BceWithLogitsFwdArgs>(out));
    mse_fwd_ref(fwd<MseFwdArgs>(out));
  }
  void fwd_cpu(View out) {
    if (loss == Loss::kBce) return bce_with_logits_fwd_cpu(fwd<BceWithLogitsFwdArgs>(out));
    mse_fwd_cpu(fwd<MseFwdArgs>(out));
  }
  void bwd_ref(View d_x) {
    if (loss == Loss::kBce) return bce_with_logits_bwd_ref(bwd<BceWithLogitsBwdArgs>(d_x));
    mse_bwd_ref(bwd<MseBwdArgs>(d_x));
  }
  void bwd_cpu(View d_x) {
    if (loss == Loss::kBce) return bce_with_logits_bwd_cpu(bwd<BceWithLogitsBwdArgs>(d_x));
    mse_bwd_cpu(bwd<MseBwdArgs>(d_x));
  }
  // Return the error bounds that the headers of the two losses state.
  double fwd_limit(double want) const {
    if (loss == Loss::kMse) return (0x1p-24 + 0x1p-53 * static_cast<double>(shape.B * shape.K)) * want;
    double magnitude = 0.0;
    for (int64_t i = 0; i < shape.R * shape.K; ++i) {
      magnitude += std::fabs(x.load(i)) + std::fabs(x.load(i) * labels.load(i)) + 1.0;
    }
    return bce_with_logits_fwd_error(magnitude / static_cast<double>(shape.R * shape.K)) + 0x1p-24 * want;
  }
  std::vector<double> bwd_limits(const GuardedBuffer& want) const {
    const double scale = d_loss / (denominator * static_cast<double>(shape.K));
    std::vector<double> limits = want.to_doubles();
    for (size_t i = 0; i < limits.size(); ++i) {
      limits[i] = loss == Loss::kMse
                      ? 0x1p-24 * 3.0 * std::fabs(limits[i])
                      : bce_with_logits_bwd_error(std::fabs(labels.load(static_cast<int64_t>(i))), scale);
    }
    return limits;
  }
  Loss loss;
  Shape shape;
  GuardedBuffer x, labels;
  double denominator = 1.0;
  double d_loss = 1.5;
  Accumulate accumulate = Accumulate::kOverwrite;
};

std::string name_of(Loss loss, Shape shape) {
  return std::string(loss == Loss::kBce ? "bce_" : "mse_") + std::to_string(shape.B) + "x" +
         std::to_string(shape.K);
}

TEST(ElementLoss, MatchesTheReferenceOnEveryInstructionSet) {
  for (const Loss which : kLosses) {
    for (const Shape& shape : kShapes) {
      const std::string name = name_of(which, shape);
      const int64_t n = shape.B * shape.K;
      ElementLossTensors problem(name, which, shape, DType::kF32);
      GuardedBuffer loss_want(name + "/loss_want", DType::kF64, 1), d_want(name + "/d_want", DType::kF64, n);
      problem.fwd_ref(loss_want.view());
      problem.bwd_ref(d_want.view());
      const std::vector<double> limits = problem.bwd_limits(d_want);
      const auto check = [&](const auto& run_fwd, const auto& run_bwd) {
        GuardedBuffer loss(name + "/loss", DType::kF32, 1), d_x(name + "/d_x", DType::kF32, n);
        run_fwd(loss.view());
        run_bwd(d_x.view());
        const auto fwd = compare(loss, loss_want, {.absolute = problem.fwd_limit(loss_want.load(0))});
        EXPECT_TRUE(fwd.ok()) << name << " " << fwd;
        const auto bwd = compare(d_x, d_want, {.per_element = limits, .shape = {shape.B, shape.K}});
        EXPECT_TRUE(bwd.ok()) << name << " " << bwd;
      };
      const RowsProblem rows{.rows = shape.B, .columns = shape.K};
      if (which == Loss::kBce) {
        const test::FastRows kernels(bce_with_logits_fwd_ref, bce_with_logits_bwd_ref);
        kernels.for_each(DType::kF32, rows, [&](const auto& fwd, const auto& bwd) {
          check([&](View out) { fwd(problem.fwd<BceWithLogitsFwdArgs>(out)); },
                [&](View d_x) { bwd(problem.bwd<BceWithLogitsBwdArgs>(d_x)); });
        });
      } else {
        const test::FastRows kernels(mse_fwd_ref, mse_bwd_ref);
        kernels.for_each(DType::kF32, rows, [&](const auto& fwd, const auto& bwd) {
          check([&](View out) { fwd(problem.fwd<MseFwdArgs>(out)); },
                [&](View d_x) { bwd(problem.bwd<MseBwdArgs>(d_x)); });
        });
      }
    }
  }
}

TEST(ElementLoss, MatchesPyTorch) {
  for (const Loss which : kLosses) {
    const ElementLossCase& c = which == Loss::kBce ? kBceCases[0] : kMseCases[0];
    ElementLossTensors problem("torch", which, {5, 5, 7}, DType::kF64);
    problem.d_loss = 1.0;
    for (int i = 0; i < 35; ++i) {
      const int label = (i * 11) % 5;
      problem.x.view().store(i, ((i * 29) % 37 - 18) / 4.0);
      problem.labels.view().store(i, which == Loss::kBce ? (label < 2 ? 1.0 : 0.0) : label / 4.0);
    }
    GuardedBuffer loss("torch/loss", DType::kF64, 1), d_x("torch/d_x", DType::kF64, 35);
    problem.fwd_ref(loss.view());
    problem.bwd_ref(d_x.view());
    EXPECT_NEAR(loss.load(0), c.loss, 1e-14 * c.loss);
    const auto result = compare(d_x, c.d_x, {.absolute = 1e-15});
    EXPECT_TRUE(result.ok()) << result;
  }
}

TEST(ElementLoss, BackwardMatchesFiniteDifferences) {
  for (const Loss which : kLosses) {
    ElementLossTensors problem("fd_" + name_of(which, {}), which, {4, 3, 5}, DType::kF64);
    GuardedBuffer loss("fd/loss", DType::kF64, 1), d_x("fd/d_x", DType::kF64, 20);
    const auto value = [&] {
      problem.fwd_ref(loss.view());
      return loss.load(0) * problem.d_loss;
    };
    std::vector<double> want;
    for (int64_t i = 0; i < 20; ++i) {
      want.push_back(i < 15 ? test::finite_difference(problem.x, i, value) : 0.0);
    }
    problem.bwd_ref(d_x.view());
    const auto result = compare(d_x, want, {.absolute = test::kFiniteDifferenceLimit});
    EXPECT_TRUE(result.ok()) << result;
  }
}

TEST(ElementLoss, AccumulatesMicroBatches) {
  for (const Loss which : kLosses) {
    ElementLossTensors problem("accumulate", which, {4, 4, 3}, DType::kF32);
    GuardedBuffer once("accumulate/once", DType::kF64, 1), twice("accumulate/twice", DType::kF64, 1);
    problem.fwd_cpu(once.view());
    problem.fwd_cpu(twice.view());
    problem.accumulate = Accumulate::kAdd;
    problem.fwd_cpu(twice.view());
    EXPECT_EQ(twice.load(0), 2.0 * once.load(0));
  }
}

TEST(ElementLoss, NoRealRowsGiveZero) {
  for (const Loss which : kLosses) {
    ElementLossTensors problem("none", which, {2, 0, 3}, DType::kF32);
    problem.denominator = 4.0;
    GuardedBuffer loss("none/loss", DType::kF32, 1), d_x("none/d_x", DType::kF32, 6);
    problem.fwd_cpu(loss.view());
    problem.bwd_cpu(d_x.view());
    EXPECT_EQ(loss.load(0), 0.0);
    const auto result = compare(d_x, std::vector<double>(6, 0.0), {.zeros = test::Zeros::kExpected});
    EXPECT_TRUE(result.ok()) << result;
  }
}

TEST(ElementLoss, StableForLargeLogitsAndNaNForNonFiniteOnes) {
  test::for_each_simd_target([&] {
    ElementLossTensors problem("large", Loss::kBce, {1, 1, 2}, DType::kF32);
    GuardedBuffer loss("large/loss", DType::kF32, 1), d_x("large/d_x", DType::kF32, 2);
    problem.x.assign(std::vector<double>{3e38, -3e38});
    problem.labels.assign(std::vector<double>{1.0, 0.0});
    problem.fwd_cpu(loss.view());
    problem.bwd_cpu(d_x.view());
    EXPECT_EQ(loss.load(0), 0.0);
    EXPECT_EQ(d_x.load(0), 0.0);
    EXPECT_EQ(d_x.load(1), 0.0);
    for (const Loss which : kLosses) {
      problem.loss = which;
      problem.x.assign(std::vector<double>{std::numeric_limits<double>::quiet_NaN(), 0.0});
      problem.fwd_cpu(loss.view());
      problem.bwd_cpu(d_x.view());
      EXPECT_TRUE(std::isnan(loss.load(0)));
      EXPECT_TRUE(std::isnan(d_x.load(0)));
      EXPECT_TRUE(std::isfinite(d_x.load(1)));
    }
  });
}

TEST(ElementLoss, GradientMayReplaceLogits) {
  for (const Loss which : kLosses) {
    ElementLossTensors problem("alias", which, {5, 4, 21}, DType::kF32);
    GuardedBuffer d_x("alias/d_x", DType::kF32, 5 * 21);
    problem.bwd_cpu(d_x.view());
    problem.bwd_cpu(problem.x.view());
    EXPECT_TRUE(test::compare_bits(problem.x, d_x).ok());
  }
}

TEST(ElementLoss, SameBitsForAnyNumberOfThreads) {
  const int before = num_threads();
  for (const Loss which : kLosses) {
    ElementLossTensors problem("threads", which, {700, 690, 97}, DType::kF32);
    set_num_threads(1);
    GuardedBuffer loss1("threads/loss1", DType::kF64, 1);
    problem.fwd_cpu(loss1.view());
    for (const int threads : {2, 5}) {
      set_num_threads(threads);
      GuardedBuffer loss("threads/loss", DType::kF64, 1);
      problem.fwd_cpu(loss.view());
      EXPECT_TRUE(test::compare_bits(loss, loss1).ok()) << threads;
    }
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace plimsoll
