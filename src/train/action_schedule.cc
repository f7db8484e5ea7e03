#include "train/action_schedule.h"

#include <fmt/format.h>

namespace plimsoll {

ActionSchedule::ActionSchedule(const Arguments& arguments, int64_t max_steps, ValidationData validation)
    : arguments_(arguments), max_steps_(max_steps), validation_(validation) {}

bool ActionSchedule::is_due(const std::string& strategy, double setting, const StepInfo& info,
                            const DataPosition& next) const {
  if (strategy == "epoch") return next.index == 0 || info.step >= max_steps_;
  if (strategy != "steps") return false;
  const int64_t interval = interval_steps(setting, max_steps_);
  return interval > 0 && info.step % interval == 0;
}

bool ActionSchedule::may_evaluate(const StepInfo& info, const DataPosition& next) const {
  return is_due(arguments_.eval_strategy, arguments_.eval_steps.value_or(0), info, next);
}

void ActionSchedule::add_due(const StepInfo& info, const DataPosition& next, TrainControl& control) const {
  const bool is_last = info.step >= max_steps_;
  if (is_due(arguments_.logging_strategy, logging_interval(arguments_), info, next) ||
      (info.step == 1 && arguments_.logging_first_step)) {
    control.log = true;
  }
  const bool is_delayed = arguments_.eval_strategy == "epoch"
                              ? info.epoch < arguments_.eval_delay
                              : static_cast<double>(info.step) < arguments_.eval_delay;
  const bool evaluates = arguments_.eval_strategy != "no" && validation_ == ValidationData::kPresent;
  if (evaluates && !is_delayed && (is_last || may_evaluate(info, next))) control.evaluate = true;
  if (is_due(arguments_.save_strategy, arguments_.save_steps, info, next)) control.save = true;
  if (is_last && arguments_.save_strategy != "no" && arguments_.save_strategy != "best") control.save = true;
}

std::string ActionSchedule::unsaved_evaluations_warning() const {
  if (!arguments_.load_best_model_at_end || arguments_.save_strategy != "steps") return {};
  const int64_t save = interval_steps(arguments_.save_steps, max_steps_);
  const int64_t evaluation = interval_steps(arguments_.eval_steps.value_or(0), max_steps_);
  if (evaluation <= 0 || save <= evaluation) return {};
  return fmt::format(
      "warning: --load_best_model_at_end: steps are evaluated every {} but saved every {}. If the best step "
      "is "
      "not saved, the best step before it that was saved is loaded. Use --save_steps {}, or --save_strategy "
      "best",
      evaluation, save, evaluation);
}

}  // namespace plimsoll
