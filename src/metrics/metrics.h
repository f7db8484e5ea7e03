// Metrics of evaluation: accuracy, F1, Matthews correlation, mean squared error, Pearson and Spearman
// correlation, and the combined score of GLUE. Thread-safety: each object may be used by one thread at a
// time. No object stores logits.
//
// Classifications are counted per class, batch by batch; the counts are exact integers. A regression stores two doubles per row, because
// rank correlation needs all rows; its sums are doubles, added in the order of the rows. Definitions and corner cases are those of
// scikit-learn 1.9 and SciPy 1.17; the tests contain values of both.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll {

enum class F1Average { kBinary, kMacro, kWeighted, kMicro };

// The row sums, the column sums and the diagonal of a confusion matrix. All metrics can be computed from these. They take 24 bytes per
// class, whereas the whole matrix would need terabytes for a million classes.
class ClassCounts {
 public:
  explicit ClassCounts(int64_t num_classes);

  // Adds one row; skips it if the label is negative (no label). Requires: label < num_classes, 0 <=
  // prediction < num_classes.
  void add(int64_t label, int64_t prediction);
  // Adds all rows of the matrix `logits` [rows, num_classes]. The prediction of a row is the index of its largest
  // logit, the first one on ties.
  void add_logits(std::span<const float> logits, std::span<const int32_t> labels);
  // Adds the counts of another object, such as the counts of another process. Requires: both have the same number of classes.
  void merge(const ClassCounts& other);

  int64_t num_classes() const { return num_classes_; }
  int64_t num_rows() const { return num_rows_; }
  // Return the number of rows whose label is k, the number whose prediction is k, and the number for which both are k.
  int64_t label_count(int64_t k) const { return labels_[static_cast<size_t>(k)]; }
  int64_t prediction_count(int64_t k) const { return predictions_[static_cast<size_t>(k)]; }
  int64_t right_count(int64_t k) const { return right_[static_cast<size_t>(k)]; }

  // Returns the fraction of correct predictions, or 0 if there are no rows.
  double accuracy() const;
  // Returns the F1 score. kBinary: 2 TP / (2 TP + FP + FN) of class 1, and 0 if that is 0 / 0. kMacro: the
  // mean over the classes that occur as a label or as a prediction; kWeighted: the same, weighted by the
  // number of labels. kMicro: F1 of the summed counts, which equals the accuracy. Requires: kBinary has two
  // classes.
  double f1(F1Average average) const;
  // Returns Matthews' correlation for any number of classes (Gorodkin 2004); 0 if all labels or all
  // predictions are of one class.
  double matthews() const;

 private:
  int64_t num_classes_ = 0;
  int64_t num_rows_ = 0;
  std::vector<int64_t> labels_;
  std::vector<int64_t> predictions_;
  std::vector<int64_t> right_;
};

// Counts of a multi-label problem. A class is predicted if its logit is above 0 (a probability above 1/2).
class MultiLabelCounts {
 public:
  explicit MultiLabelCounts(int64_t num_classes);
  // Adds the rows of two matrices [rows, num_classes]. A label is set if it is at least 1/2; rows with a NaN
  // label are skipped.
  void add_logits(std::span<const float> logits, std::span<const float> labels);
  int64_t num_rows() const { return num_rows_; }
  // Returns the fraction of rows in which all classes are predicted correctly.
  double accuracy() const;
  // Returns the F1 score. kMicro: F1 of the counts summed over all classes. kMacro and kWeighted: as in
  // ClassCounts, but over all classes, also those that do not occur.
  double f1(F1Average average) const;

 private:
  int64_t num_classes_ = 0;
  int64_t num_rows_ = 0;
  int64_t num_exact_ = 0;
  std::vector<int64_t> true_positive_;
  std::vector<int64_t> false_positive_;
  std::vector<int64_t> false_negative_;
};

// The labels and predictions of a regression. Rows with a NaN label (no label) are skipped.
class RegressionPairs {
 public:
  void reserve(int64_t rows);
  void add(double label, double prediction);
  void add_rows(std::span<const float> predictions, std::span<const float> labels);
  int64_t num_rows() const { return static_cast<int64_t>(labels_.size()); }
  // Returns the mean squared error; 0 if there are no rows.
  double mean_squared_error() const;
  // Returns the Pearson correlation of labels and predictions. As in SciPy, it is NaN for fewer than two rows,
  // or if labels or predictions are constant.
  double pearson() const;
  // Returns the Pearson correlation of the ranks; equal values have the mean of their ranks.
  double spearman() const;

 private:
  std::vector<double> labels_;
  std::vector<double> predictions_;
};

// Returns the Pearson correlation, computed in two passes: means first, so that large offsets do not cancel.
// Sums are doubles, added in order.
double pearson_correlation(std::span<const double> x, std::span<const double> y);
// Returns the ranks, starting at 1; equal values have the mean of their ranks.
std::vector<double> average_ranks(std::span<const double> values);

using MetricList = std::vector<std::pair<std::string, double>>;

// If there are several metrics, adds their mean as "combined_score", as Hugging Face's run_glue does.
void add_combined_score(MetricList& metrics);

// The suffix of the names of metrics that are computed on the second (mismatched) validation set of the GLUE task MNLI, as in
// eval_accuracy_mm of Hugging Face's run_glue.
inline constexpr std::string_view kMismatchedSuffix = "_mm";

// Return the metrics with these Hugging Face names, in the order of the names. A classification has
// "accuracy", "f1" (kBinary for two classes, else kMacro), "f1_macro", "f1_weighted", "matthews_correlation";
// a multi-label problem "accuracy", "f1" (kMicro), "f1_macro", "f1_weighted"; a regression "mse", "pearson",
// "spearmanr". Errors: kUsage for a name that the problem does not have.
MetricList classification_metrics(const ClassCounts& counts, std::span<const std::string_view> names);
MetricList multi_label_metrics(const MultiLabelCounts& counts, std::span<const std::string_view> names);
MetricList regression_metrics(const RegressionPairs& pairs, std::span<const std::string_view> names);

}  // namespace plimsoll
