#include "metrics/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace plimsoll {
namespace {

double ratio(double numerator, double denominator) {
  return denominator == 0.0 ? 0.0 : numerator / denominator;
}

double f1_of(int64_t true_positive, int64_t false_positive, int64_t false_negative) {
  return ratio(2.0 * static_cast<double>(true_positive),
               static_cast<double>(2 * true_positive + false_positive + false_negative));
}

}  // namespace

ClassCounts::ClassCounts(int64_t num_classes)
    : num_classes_(num_classes),
      labels_(static_cast<size_t>(num_classes), 0),
      predictions_(static_cast<size_t>(num_classes), 0),
      right_(static_cast<size_t>(num_classes), 0) {
  PLIMSOLL_CHECK(num_classes >= 1);
}

void ClassCounts::add(int64_t label, int64_t prediction) {
  if (label < 0) {
    return;
  }
  PLIMSOLL_CHECK(label < num_classes_ && prediction >= 0 && prediction < num_classes_,
                 "label {} and prediction {} must be below the number of classes, which is {}", label,
                 prediction, num_classes_);
  ++labels_[static_cast<size_t>(label)];
  ++predictions_[static_cast<size_t>(prediction)];
  if (label == prediction) ++right_[static_cast<size_t>(label)];
  ++num_rows_;
}

void ClassCounts::add_logits(std::span<const float> logits, std::span<const int32_t> labels) {
  const auto classes = static_cast<size_t>(num_classes_);
  PLIMSOLL_CHECK(
      logits.size() == labels.size() * classes,
      "there must be one logit per row and class, but there are {} logits for {} rows and {} classes",
      logits.size(), labels.size(), classes);
  for (size_t row = 0; row < labels.size(); ++row) {
    const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(row * classes);
    add(labels[row], std::max_element(begin, begin + static_cast<std::ptrdiff_t>(classes)) - begin);
  }
}

void ClassCounts::merge(const ClassCounts& other) {
  PLIMSOLL_CHECK(other.num_classes_ == num_classes_);
  for (size_t k = 0; k < labels_.size(); ++k) {
    labels_[k] += other.labels_[k];
    predictions_[k] += other.predictions_[k];
    right_[k] += other.right_[k];
  }
  num_rows_ += other.num_rows_;
}

double ClassCounts::accuracy() const {
  int64_t right = 0;
  for (int64_t k = 0; k < num_classes_; ++k) {
    right += right_count(k);
  }
  return ratio(static_cast<double>(right), static_cast<double>(num_rows_));
}

double ClassCounts::f1(F1Average average) const {
  const auto of_class = [this](int64_t k) {
    return f1_of(right_count(k), prediction_count(k) - right_count(k), label_count(k) - right_count(k));
  };
  if (average == F1Average::kBinary) {
    PLIMSOLL_CHECK(num_classes_ == 2, "the binary F1 score needs 2 classes, but there are {}", num_classes_);
    return of_class(1);
  }
  if (average == F1Average::kMicro) {
    return accuracy();
  }
  double sum = 0.0;
  double weight = 0.0;
  for (int64_t k = 0; k < num_classes_; ++k) {
    if (label_count(k) == 0 && prediction_count(k) == 0) {
      continue;
    }
    const double share = average == F1Average::kWeighted ? static_cast<double>(label_count(k)) : 1.0;
    sum += share * of_class(k);
    weight += share;
  }
  return ratio(sum, weight);
}

double ClassCounts::matthews() const {
  // The formula of Gorodkin, "Comparing two K-category assignments by a K-category correlation coefficient", 2004,
  // written with counts: (c s - sum p_k t_k) / sqrt((s^2 - sum p_k^2) (s^2 - sum t_k^2)), where c is the number of
  // correct predictions, s the number of rows, t_k the labels of class k and p_k its predictions.
  double right = 0.0;
  double cross = 0.0;
  double labels_squared = 0.0;
  double predictions_squared = 0.0;
  for (int64_t k = 0; k < num_classes_; ++k) {
    const auto labels = static_cast<double>(label_count(k));
    const auto predictions = static_cast<double>(prediction_count(k));
    right += static_cast<double>(right_count(k));
    cross += labels * predictions;
    labels_squared += labels * labels;
    predictions_squared += predictions * predictions;
  }
  const auto rows = static_cast<double>(num_rows_);
  const double spread = (rows * rows - predictions_squared) * (rows * rows - labels_squared);
  return spread <= 0.0 ? 0.0 : (right * rows - cross) / std::sqrt(spread);
}

MultiLabelCounts::MultiLabelCounts(int64_t num_classes)
    : num_classes_(num_classes),
      true_positive_(static_cast<size_t>(num_classes), 0),
      false_positive_(static_cast<size_t>(num_classes), 0),
      false_negative_(static_cast<size_t>(num_classes), 0) {
  PLIMSOLL_CHECK(num_classes >= 1);
}

void MultiLabelCounts::add_logits(std::span<const float> logits, std::span<const float> labels) {
  const auto classes = static_cast<size_t>(num_classes_);
  PLIMSOLL_CHECK(logits.size() == labels.size() && logits.size() % classes == 0,
                 "there must be one logit and one label per row and class, but there are {} logits and {} "
                 "labels for {} classes",
                 logits.size(), labels.size(), classes);
  for (size_t row = 0; row < labels.size() / classes; ++row) {
    const std::span<const float> row_labels = labels.subspan(row * classes, classes);
    if (std::any_of(row_labels.begin(), row_labels.end(), [](float value) { return std::isnan(value); })) {
      continue;
    }
    bool exact = true;
    for (size_t k = 0; k < classes; ++k) {
      const bool predicted = logits[row * classes + k] > 0.0f;
      const bool labelled = row_labels[k] >= 0.5f;
      true_positive_[k] += predicted && labelled ? 1 : 0;
      false_positive_[k] += predicted && !labelled ? 1 : 0;
      false_negative_[k] += !predicted && labelled ? 1 : 0;
      exact = exact && predicted == labelled;
    }
    num_exact_ += exact ? 1 : 0;
    ++num_rows_;
  }
}

double MultiLabelCounts::accuracy() const {
  return ratio(static_cast<double>(num_exact_), static_cast<double>(num_rows_));
}

double MultiLabelCounts::f1(F1Average average) const {
  PLIMSOLL_CHECK(average != F1Average::kBinary,
                 "the binary F1 score is not defined if a row can have several labels");
  if (average == F1Average::kMicro) {
    const auto total = [](const std::vector<int64_t>& counts) {
      return std::accumulate(counts.begin(), counts.end(), int64_t{0});
    };
    return f1_of(total(true_positive_), total(false_positive_), total(false_negative_));
  }
  double sum = 0.0;
  double weight = 0.0;
  for (size_t k = 0; k < true_positive_.size(); ++k) {
    const double share =
        average == F1Average::kWeighted ? static_cast<double>(true_positive_[k] + false_negative_[k]) : 1.0;
    sum += share * f1_of(true_positive_[k], false_positive_[k], false_negative_[k]);
    weight += share;
  }
  return ratio(sum, weight);
}

void RegressionPairs::reserve(int64_t rows) {
  labels_.reserve(static_cast<size_t>(rows));
  predictions_.reserve(static_cast<size_t>(rows));
}

void RegressionPairs::add(double label, double prediction) {
  if (!std::isnan(label)) {
    labels_.push_back(label);
    predictions_.push_back(prediction);
  }
}

void RegressionPairs::add_rows(std::span<const float> predictions, std::span<const float> labels) {
  PLIMSOLL_CHECK(predictions.size() == labels.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    add(static_cast<double>(labels[i]), static_cast<double>(predictions[i]));
  }
}

double RegressionPairs::mean_squared_error() const {
  double sum = 0.0;
  for (size_t i = 0; i < labels_.size(); ++i) {
    sum += (predictions_[i] - labels_[i]) * (predictions_[i] - labels_[i]);
  }
  return ratio(sum, static_cast<double>(labels_.size()));
}

double RegressionPairs::pearson() const {
  return pearson_correlation(predictions_, labels_);
}

double RegressionPairs::spearman() const {
  const bool finite =
      std::all_of(predictions_.begin(), predictions_.end(), [](double x) { return !std::isnan(x); });
  return finite ? pearson_correlation(average_ranks(predictions_), average_ranks(labels_))
                : std::numeric_limits<double>::quiet_NaN();
}

double pearson_correlation(std::span<const double> x, std::span<const double> y) {
  PLIMSOLL_CHECK(x.size() == y.size());
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  // Detects constant values by comparing them. Their computed variance need not be zero, because the mean is
  // rounded.
  const auto constant = [](std::span<const double> values) {
    return std::all_of(values.begin(), values.end(), [&](double value) { return value == values[0]; });
  };
  if (x.size() < 2 || constant(x) || constant(y)) {
    return nothing;
  }
  const auto count = static_cast<double>(x.size());
  const double x_mean = std::accumulate(x.begin(), x.end(), 0.0) / count;
  const double y_mean = std::accumulate(y.begin(), y.end(), 0.0) / count;
  double xx = 0.0;
  double yy = 0.0;
  double xy = 0.0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - x_mean;
    const double dy = y[i] - y_mean;
    xx += dx * dx;
    yy += dy * dy;
    xy += dx * dy;
  }
  const double correlation = xy / (std::sqrt(xx) * std::sqrt(yy));
  return std::isnan(correlation) ? nothing : std::clamp(correlation, -1.0, 1.0);
}

std::vector<double> average_ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) {
      ++end;
    }
    // Equal values share the ranks begin + 1 to end, so each of them gets the mean of these ranks.
    const double rank = static_cast<double>(begin + end + 1) / 2.0;
    for (; begin < end; ++begin) {
      ranks[order[begin]] = rank;
    }
  }
  return ranks;
}

void add_combined_score(MetricList& metrics) {
  if (metrics.size() < 2) {
    return;
  }
  double sum = 0.0;
  for (const auto& [name, value] : metrics) {
    sum += value;
  }
  metrics.emplace_back("combined_score", sum / static_cast<double>(metrics.size()));
}

MetricList classification_metrics(const ClassCounts& counts, std::span<const std::string_view> names) {
  MetricList metrics;
  for (const std::string_view name : names) {
    if (name == "accuracy") {
      metrics.emplace_back(name, counts.accuracy());
    } else if (name == "f1") {
      metrics.emplace_back(name,
                           counts.f1(counts.num_classes() == 2 ? F1Average::kBinary : F1Average::kMacro));
    } else if (name == "f1_macro") {
      metrics.emplace_back(name, counts.f1(F1Average::kMacro));
    } else if (name == "f1_weighted") {
      metrics.emplace_back(name, counts.f1(F1Average::kWeighted));
    } else if (name == "matthews_correlation") {
      metrics.emplace_back(name, counts.matthews());
    } else {
      throw_error(ErrorCode::kUsage,
                  "'{}' is not a metric of a classification; choose from accuracy, f1, f1_macro, "
                  "f1_weighted, matthews_correlation",
                  name);
    }
  }
  return metrics;
}

MetricList multi_label_metrics(const MultiLabelCounts& counts, std::span<const std::string_view> names) {
  MetricList metrics;
  for (const std::string_view name : names) {
    if (name == "accuracy") {
      metrics.emplace_back(name, counts.accuracy());
    } else if (name == "f1") {
      metrics.emplace_back(name, counts.f1(F1Average::kMicro));
    } else if (name == "f1_macro") {
      metrics.emplace_back(name, counts.f1(F1Average::kMacro));
    } else if (name == "f1_weighted") {
      metrics.emplace_back(name, counts.f1(F1Average::kWeighted));
    } else {
      throw_error(
          ErrorCode::kUsage,
          "'{}' is not a metric of a multi-label problem; choose from accuracy, f1, f1_macro, f1_weighted",
          name);
    }
  }
  return metrics;
}

MetricList regression_metrics(const RegressionPairs& pairs, std::span<const std::string_view> names) {
  MetricList metrics;
  for (const std::string_view name : names) {
    if (name == "mse") {
      metrics.emplace_back(name, pairs.mean_squared_error());
    } else if (name == "pearson") {
      metrics.emplace_back(name, pairs.pearson());
    } else if (name == "spearmanr") {
      metrics.emplace_back(name, pairs.spearman());
    } else {
      throw_error(ErrorCode::kUsage,
                  "'{}' is not a metric of a regression; choose from mse, pearson, spearmanr", name);
    }
  }
  return metrics;
}

}  // namespace plimsoll
