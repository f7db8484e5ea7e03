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

WeightErrors weight_errors(const nlohmann::json& item, const std::string& folder) {
  const auto start =
      read_tensors(fixtures().path(item.at("arguments").at("model_name_or_path").get<std::string>()) +
                   "/model.safetensors");
  const auto end = read_tensors(folder + "/model.safetensors");
  EXPECT_EQ(start.size(), end.size());
  WeightErrors errors;
  size_t row = 0;
  for (const std::string& name : fixtures().tensor_names(item.at("model"))) {
    std::vector<double> update = end.at(name);
    for (size_t i = 0; i < update.size(); ++i) update[i] -= start.at(name).at(i);
    const Projection expected =
        fixtures().expected_projection("update/" + item.at("name").get<std::string>(), row++);
    (has_zero_gradient(name) ? errors.key_bias : errors.trained) +=
        mean_square_difference(project(name, update), expected);
  }
  const double norm = item.at("expected").at("update_norm");
  return {std::sqrt(errors.trained) / norm, std::sqrt(errors.key_bias) / norm};
}

}  // namespace plimsoll::testing
