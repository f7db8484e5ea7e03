#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "plimsoll/training.h"

namespace plimsoll {

EarlyStopping::EarlyStopping(std::string metric, bool greater_is_better, int64_t patience, double threshold)
    : metric_(std::move(metric)),
      greater_is_better_(greater_is_better),
      patience_(patience),
      threshold_(threshold) {}

void EarlyStopping::on_evaluate(const StepInfo&, const MetricMap& metrics, TrainControl& control) {
  const auto it = metrics.find(metric_);
  if (it == metrics.end()) {
    throw Error(ErrorCode::kUsage,
                "early stopping watches '" + metric_ + "', which the evaluation does not report");
  }
  const double value = it->second;
  const bool improved = !has_best_ || ((greater_is_better_ ? value > best_ : value < best_) &&
                                       std::fabs(value - best_) > threshold_);
  if (improved) {
    has_best_ = true;
    best_ = value;
    evaluations_without_improvement_ = 0;
    return;
  }
  if (++evaluations_without_improvement_ >= patience_) control.stop = true;
}

std::string EarlyStopping::state() const {
  return nlohmann::json{{"has_best", has_best_}, {"best", best_}, {"bad", evaluations_without_improvement_}}
      .dump();
}

void EarlyStopping::restore(const std::string& state) {
  const auto json = nlohmann::json::parse(state);
  has_best_ = json.at("has_best").get<bool>();
  best_ = json.at("best").get<double>();
  evaluations_without_improvement_ = json.at("bad").get<int64_t>();
}

}  // namespace plimsoll
