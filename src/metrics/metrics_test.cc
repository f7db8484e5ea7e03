#include "metrics/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/check.h"

namespace plimsoll {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct ClassificationCase {
  const char* name;
  int64_t classes;
  std::vector<int32_t> labels;
  std::vector<int32_t> predictions;
  std::vector<double> expected;
};
struct RegressionCase {
  const char* name;
  std::vector<double> labels;
  std::vector<double> predictions;
  std::vector<double> expected;
};
struct MultiLabelCase {
  const char* name;
  int64_t classes;
  std::vector<int> labels;
  std::vector<int> predictions;
  std::vector<double> expected;
};

#include "metrics/testing/metrics_fixtures.inc"

// Sums of at most 100 terms of similar magnitude, added in another order, differ by at most 100 roundings of 2^-53, which are 1.1e-14.
constexpr double kTolerance = 1.2e-14;

void expect_metric(double value, double expected, const char* what) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(value)) << what << " is " << value;
  } else {
    EXPECT_NEAR(value, expected, kTolerance * std::max(1.0, std::abs(expected))) << what;
  }
}

ClassCounts count(const ClassificationCase& c) {
  ClassCounts counts(c.classes);
  for (size_t i = 0; i < c.labels.size(); ++i) {
    counts.add(c.labels[i], c.predictions[i]);
  }
  return counts;
}

TEST(Metrics, ClassificationAsScikitLearn) {
  ASSERT_GE(kClassificationCases.size(), 9u);
  for (const ClassificationCase& c : kClassificationCases) {
    SCOPED_TRACE(c.name);
    const ClassCounts counts = count(c);
    expect_metric(counts.accuracy(), c.expected[0], "accuracy");
    if (c.classes == 2) {
      expect_metric(counts.f1(F1Average::kBinary), c.expected[1], "binary f1");
    }
    expect_metric(counts.f1(F1Average::kMacro), c.expected[2], "macro f1");
    expect_metric(counts.f1(F1Average::kWeighted), c.expected[3], "weighted f1");
    expect_metric(counts.matthews(), c.expected[4], "matthews");
    EXPECT_EQ(counts.f1(F1Average::kMicro), counts.accuracy());
  }
}

TEST(Metrics, RegressionAsSciPy) {
  ASSERT_GE(kRegressionCases.size(), 8u);
  for (const RegressionCase& c : kRegressionCases) {
    SCOPED_TRACE(c.name);
    RegressionPairs pairs;
    for (size_t i = 0; i < c.labels.size(); ++i) {
      pairs.add(c.labels[i], c.predictions[i]);
    }
    expect_metric(pairs.mean_squared_error(), c.expected[0], "mse");
    // In the case "large offset" the labels are near 1e9. There a rounded mean of 12 values has an error of up to 1e9 * 2^-53 * 12 =
    // 1.3e-6, while the values differ from the mean by about 1. The square of this error, and the rounding of the inputs by 1e-7, affect
    // the correlation, and SciPy adds the terms in another order, so this case has a larger tolerance.
    const double offset_error = std::string(c.name) == "large offset" ? 1e-9 : 0.0;
    if (std::isnan(c.expected[1])) {
      expect_metric(pairs.pearson(), c.expected[1], "pearson");
    } else {
      EXPECT_NEAR(pairs.pearson(), c.expected[1], kTolerance + offset_error);
    }
    expect_metric(pairs.spearman(), c.expected[2], "spearman");
  }
}

TEST(Metrics, MultiLabelAsScikitLearn) {
  ASSERT_GE(kMultiLabelCases.size(), 3u);
  for (const MultiLabelCase& c : kMultiLabelCases) {
    SCOPED_TRACE(c.name);
    std::vector<float> logits;
    std::vector<float> labels;
    for (size_t i = 0; i < c.labels.size(); ++i) {
      logits.push_back(c.predictions[i] == 1 ? 0.25f : -0.25f);
      labels.push_back(static_cast<float>(c.labels[i]));
    }
    MultiLabelCounts counts(c.classes);
    counts.add_logits(logits, labels);
    expect_metric(counts.accuracy(), c.expected[0], "accuracy");
    expect_metric(counts.f1(F1Average::kMicro), c.expected[1], "micro f1");
    expect_metric(counts.f1(F1Average::kMacro), c.expected[2], "macro f1");
    expect_metric(counts.f1(F1Average::kWeighted), c.expected[3], "weighted f1");
  }
}

TEST(Metrics, MergedCountsAreThoseOfAllRows) {
  for (const ClassificationCase& c : kClassificationCases) {
    ClassCounts first(c.classes);
    ClassCounts second(c.classes);
    for (size_t i = 0; i < c.labels.size(); ++i) {
      (i % 3 == 0 ? first : second).add(c.labels[i], c.predictions[i]);
    }
    first.merge(second);
    EXPECT_EQ(first.matthews(), count(c).matthews()) << c.name;
    EXPECT_EQ(first.num_rows(), count(c).num_rows()) << c.name;
  }
}

TEST(Metrics, LogitsGiveTheFirstLargestClassAndSkipRowsWithoutLabel) {
  ClassCounts counts(3);
  const std::vector<float> logits = {0.1f, 2.0f, 2.0f, 3.0f, 1.0f, 0.0f, 0.0f, 0.0f, 9.0f};
  counts.add_logits(logits, std::vector<int32_t>{1, 2, -100});
  EXPECT_EQ(counts.num_rows(), 2);
  // The two counted rows have the (label, prediction) pairs (1, 1) and (2, 0).
  EXPECT_EQ(counts.right_count(1), 1);
  EXPECT_EQ(counts.right_count(0) + counts.right_count(2), 0);
  EXPECT_EQ(counts.label_count(2), 1);
  EXPECT_EQ(counts.prediction_count(0), 1);
}

// With a million classes, a complete confusion matrix would need 8 TB, and adding up its rows would take hours.
TEST(Metrics, AMillionClassesNeedMemoryPerClass) {
  constexpr int64_t kClasses = 1000000;
  ClassCounts counts(kClasses);
  counts.add(0, 0);
  counts.add(999999, 999999);
  counts.add(3, 999999);
  counts.add(3, 4);
  // The F1 scores of the classes 0, 3, 4 and 999999 are 1, 0, 0 and 2 / 3.
  EXPECT_DOUBLE_EQ(counts.accuracy(), 0.5);
  EXPECT_DOUBLE_EQ(counts.f1(F1Average::kMacro), (1 + 2.0 / 3) / 4);
  EXPECT_DOUBLE_EQ(counts.f1(F1Average::kWeighted), (1 + 2.0 / 3) / 4);
  // Matthews' correlation of these rows is (2 * 4 - (1 + 2)) / sqrt((16 - 6) (16 - 6)).
  EXPECT_DOUBLE_EQ(counts.matthews(), 0.5);
}

TEST(Metrics, RanksShareTheMeanOfTies) {
  EXPECT_EQ(average_ranks(std::vector<double>{3, 1, 3, 2, 3}), (std::vector<double>{4, 1, 4, 2, 4}));
  EXPECT_EQ(average_ranks(std::vector<double>{7, 7}), (std::vector<double>{1.5, 1.5}));
}

TEST(Metrics, CombinedScoreIsTheMeanOfSeveral) {
  ClassCounts counts(2);
  counts.add(1, 1);
  counts.add(0, 1);
  const std::vector<std::string_view> names = {"accuracy", "f1"};
  MetricList metrics = classification_metrics(counts, names);
  add_combined_score(metrics);
  ASSERT_EQ(metrics.size(), 3u);
  EXPECT_EQ(metrics[2].first, "combined_score");
  EXPECT_DOUBLE_EQ(metrics[2].second, (0.5 + 2.0 / 3.0) / 2.0);
  MetricList one = classification_metrics(counts, std::vector<std::string_view>{"accuracy"});
  add_combined_score(one);
  EXPECT_EQ(one.size(), 1u);
}

TEST(Metrics, AMetricThatDoesNotFitIsAnErrorOfUse) {
  const std::vector<std::string_view> names = {"pearson"};
  try {
    classification_metrics(ClassCounts(2), names);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("'pearson' is not a metric of a classification"),
              std::string::npos);
  }
}

TEST(Metrics, NothingGivesZerosAndNaN) {
  EXPECT_EQ(ClassCounts(2).accuracy(), 0.0);
  EXPECT_EQ(ClassCounts(2).matthews(), 0.0);
  EXPECT_TRUE(std::isnan(RegressionPairs().pearson()));
  EXPECT_TRUE(std::isnan(RegressionPairs().spearman()));
}

}  // namespace
}  // namespace plimsoll
