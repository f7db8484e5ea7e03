#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/guarded_json.h"
#include "plimsoll/training.h"

namespace plimsoll {

EarlyStopping::EarlyStopping(std::string metric, bool greater_is_better, int64_t patience, double threshold)
    : metric_(std::move(metric)),
      greater_is_better_(greater_is_better),
      patience_(patience),
      threshold_(threshold) {}

void EarlyStopping::on_evaluate(const StepInfo& info, const MetricMap& metrics, TrainControl& control) {
  // An evaluation before the first step does not count as the best one, as in Trainer.
  if (info.step == 0) return;
  const auto it = metrics.find(metric_);
  if (it == metrics.end()) {
    std::string names;
    for (const auto& [key, value] : metrics) names += (names.empty() ? "" : ", ") + key;
    throw Error(ErrorCode::kUsage, "early stopping watches '" + metric_ +
                                       "', which the evaluation does not report; it has " + names +
                                       ": watch one of these");
  }
  const double value = it->second;
  // Every improvement becomes the new best value, but only one above the threshold resets the patience counter, as in Trainer.
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

// The best value may be infinite if an evaluation overflowed. JSON cannot represent infinity, so +inf is stored as true and -inf as false.
std::string EarlyStopping::state() const {
  const nlohmann::json best = std::isfinite(best_) ? nlohmann::json(best_) : nlohmann::json(best_ > 0);
  return nlohmann::json{{"has_best", has_best_},
                        {"best", best},
                        {"bad", evaluations_without_improvement_},
                        {"patience", patience_},
                        {"threshold", threshold_}}
      .dump();
}

void EarlyStopping::restore(const std::string& state) {
  try {
    const nlohmann::json json =
        parse_json(state, "the state of early stopping", {.remedy = "Resume from another checkpoint"});
    const nlohmann::json& best = json.at("best");
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    const double number =
        best.is_boolean() ? (best.get<bool>() ? kInfinite : -kInfinite) : best.get<double>();
    const auto without = json.at("bad").get<int64_t>();
    has_best_ = json.at("has_best").get<bool>();
    best_ = number;
    evaluations_without_improvement_ = without;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kBadData, "early stopping cannot resume from the state '" + state +
                                         "': " + error.what() + "; resume from another checkpoint");
  }
}

}  // namespace plimsoll
