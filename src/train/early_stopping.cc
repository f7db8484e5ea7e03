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

void EarlyStopping::on_evaluate(const StepInfo& info, const MetricMap& metrics, TrainControl& control) {
  // An evaluation before the first step makes no model the best one (as in Trainer).
  if (info.step == 0) return;
  const auto it = metrics.find(metric_);
  if (it == metrics.end()) {
    throw Error(ErrorCode::kUsage,
                "early stopping watches '" + metric_ + "', which the evaluation does not report");
  }
  const double value = it->second;
  // As in Trainer, every improvement moves the best, but only one above the threshold is counted as such.
  const bool is_better =
      !std::isnan(value) && (!has_best_ || (greater_is_better_ ? value > best_ : value < best_));
  const bool counts = is_better && (!has_best_ || std::fabs(value - best_) > threshold_);
  if (is_better) {
    has_best_ = true;
    best_ = value;
  }
  evaluations_without_improvement_ = counts ? 0 : evaluations_without_improvement_ + 1;
  if (evaluations_without_improvement_ >= patience_) control.stop = true;
}

std::string EarlyStopping::state() const {
  return nlohmann::json{{"has_best", has_best_},
                        {"best", best_},
                        {"bad", evaluations_without_improvement_},
                        {"patience", patience_},
                        {"threshold", threshold_}}
      .dump();
}

void EarlyStopping::restore(const std::string& state) {
  const auto json = nlohmann::json::parse(state);
  has_best_ = json.at("has_best").get<bool>();
  best_ = json.at("best").get<double>();
  evaluations_without_improvement_ = json.at("bad").get<int64_t>();
}

}  // namespace plimsoll
