#include "tests/parity/measures.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/keep_worst.h"

namespace plimsoll::testing {

std::vector<double> column(const TrainOutput& output, const std::string& has, const std::string& key) {
  std::vector<double> values;
  for (const LogRecord& record : output.log_history) {
    if (!record.values.contains(has)) continue;
    values.push_back(key == "epoch" ? record.epoch : record.values.at(key));
  }
  return values;
}

double relative_error(const std::vector<double>& values, const nlohmann::json& expected) {
  if (values.size() != expected.size() || values.empty()) return INFINITY;
  double worst = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double want = expected[i];
    test::keep_worst(worst, std::fabs(values[i] - want) / std::fabs(want));
  }
  return worst;
}

double eval_loss_limit_of_fp32() {
  double unit = 0;
  for (const nlohmann::json& item : fixtures().cases())
    test::keep_worst(unit, item.at("expected").at("fp32_eval_loss_error"));
  return (1.0 + kTimesReference) * unit;
}

double mean_square_difference(const Projection& a, const Projection& b) {
  double sum = 0;
  for (size_t k = 0; k < a.size(); ++k) sum += (a[k] - b[k]) * (a[k] - b[k]);
  return sum / static_cast<double>(a.size());
}

namespace {

// Mean and variance of the absolute differences of two projections.
struct AbsoluteDifferences {
  double mean = 0;
  double variance = 0;
};

AbsoluteDifferences absolute_differences(const Projection& a, const Projection& b) {
  double sum = 0;
  for (size_t k = 0; k < a.size(); ++k) sum += std::fabs(a[k] - b[k]);
  const double mean = sum / static_cast<double>(a.size());
  return {mean, mean_square_difference(a, b) - mean * mean};
}

}  // namespace

WeightErrors weight_errors(const nlohmann::json& item, const std::string& folder) {
  const auto start =
      read_tensors(fixtures().path(item.at("arguments").at("model_name_or_path").get<std::string>()) +
                   "/model.safetensors");
  const auto end = read_tensors(folder + "/model.safetensors");
  EXPECT_EQ(start.size(), end.size());
  double trained = 0, key_bias = 0, least = 0, one_weight = 0;
  size_t row = 0;
  for (const std::string& name : fixtures().tensor_names(item.at("model"))) {
    std::vector<double> update = end.at(name);
    for (size_t i = 0; i < update.size(); ++i) update[i] -= start.at(name).at(i);
    const Projection expected =
        fixtures().expected_projection("update/" + item.at("name").get<std::string>(), row++);
    const Projection found = project(name, update);
    const double error = mean_square_difference(found, expected);
    (has_zero_gradient(name) ? key_bias : trained) += error;
    // Each sum of a projection adds every weight with the sign + or -. If one weight is wrong by d and the others are almost right, all
    // sums are wrong by about +d or -d, so their absolute values are almost equal. For many wrong weights the sums have a normal
    // distribution, and the standard deviation of their absolute values is 0.76 of the mean.
    const auto [mean, variance] = absolute_differences(found, expected);
    if (has_zero_gradient(name) || variance > 0.04 * mean * mean || error - variance < least) continue;
    least = error - variance;
    one_weight = mean;
  }
  const double norm = item.at("expected").at("update_norm");
  return {.trained = std::sqrt(trained) / norm,
          .key_bias = std::sqrt(key_bias) / norm,
          .trained_without_one = std::sqrt(trained - least) / norm,
          .one_weight = one_weight};
}

}  // namespace plimsoll::testing
