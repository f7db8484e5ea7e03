// The initial weights of a model without a file have a normal distribution, or a truncated one, with the standard deviation that
// the architecture states for each matrix.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "models/model.h"
#include "tests/spine/tiny_run.h"
#include "train/weight_loading.h"

namespace plimsoll {
namespace {

constexpr double kRange = 0.05;

// Returns the distribution function at x of a normal distribution under the condition |x| <= cutoff standard
// deviations.
double truncated_distribution(double x, double deviation, double cutoff) {
  const double scaled = std::erf(x / (deviation * std::numbers::sqrt2));
  return 0.5 + scaled / (2.0 * std::erf(cutoff / std::numbers::sqrt2));
}

// Returns the largest distance between the distribution of the values and the exact one, times the root of their number
// (Kolmogorov). It exceeds 2.0 with a probability of 7e-4.
double distance(std::vector<double> values, double deviation, double cutoff) {
  std::ranges::sort(values);
  const auto count = static_cast<double>(values.size());
  double largest = 0.0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double exact = truncated_distribution(values[i], deviation, cutoff);
    largest = std::max({largest, std::abs(exact - static_cast<double>(i) / count),
                        std::abs(exact - static_cast<double>(i + 1) / count)});
  }
  return largest * std::sqrt(count);
}

void check_modernbert(void (*adjust)(ModelConfig& config), double cutoff) {
  testing::TinyCase test{.model_type = "modernbert", .hidden = 64, .heads = 4, .layers = 2};
  test.adjust = adjust;
  const Plan plan = build_plan(testing::tiny_request(test, {.tokens = 20, .sequences = 5, .longest = 8}));
  Executor executor(plan);
  initialise_weights(executor, 7, kRange);
  int matrices = 0;
  for (const WeightSpec& spec : plan.weights) {
    SCOPED_TRACE(spec.name);
    const std::vector<double> values = testing::values_of(executor, spec.name);
    if (spec.initializer != Initializer::kNormal) {
      const double wanted = spec.name.ends_with(".bias") ? 0.0 : 1.0;
      for (const double value : values) ASSERT_EQ(value, wanted);
      continue;
    }
    // The standard deviations are those of transformers. Its weights of kind "out" (the last matrices of
    // attention and feed-forward layers, and the dense layer of the head) have initializer_range / sqrt(2 x
    // layers), and "final_out" (the classifier) has 1 / sqrt(hidden size).
    double deviation = kRange;
    if (spec.name.ends_with(".Wo.weight") || spec.name == "head.dense.weight")
      deviation /= std::sqrt(2.0 * 2.0);
    if (spec.name == "classifier.weight") deviation = 1.0 / std::sqrt(64.0);
    for (const double value : values) ASSERT_LE(std::abs(value), cutoff * deviation * (1.0 + 1e-6));
    if (values.size() > 1000) {
      EXPECT_GT(*std::ranges::max_element(values), 0.97 * std::min(cutoff, 2.5) * deviation);
    }
    EXPECT_LT(distance(values, deviation, cutoff), 2.0);
    ++matrices;
  }
  EXPECT_EQ(matrices, 1 + 2 * 4 + 2);
}

TEST(InitialWeights, ModernBertsAreCutOff) {
  check_modernbert([](ModelConfig& config) { config.initializer_cutoff_factor = 2.0; }, 2.0);
  check_modernbert([](ModelConfig& config) { config.initializer_cutoff_factor = 0.5; }, 0.5);
  check_modernbert([](ModelConfig& config) { config.initializer_cutoff_factor.reset(); }, 3.0);
  check_modernbert(
      [](ModelConfig& config) {
        config.initializer_cutoff_factor = 2.0;
        config.norm_bias = config.classifier_bias = true;
        config.qkv_bias = config.output_bias = config.mlp_bias = true;
      },
      2.0);
}

// A truncation at 6 standard deviations has no visible effect, so the values must have a normal distribution.
TEST(InitialWeights, AWideCutoffLeavesANormalDistribution) {
  check_modernbert([](ModelConfig& config) { config.initializer_cutoff_factor = 6.0; }, 6.0);
}

}  // namespace
}  // namespace plimsoll
