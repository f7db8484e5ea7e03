// Decides which actions follow a step (a log record, an evaluation, a checkpoint) by --logging_strategy, --eval_strategy, --save_strategy
// and their intervals. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "io/data/sampler.h"
#include "plimsoll/arguments.h"
#include "plimsoll/training.h"

namespace plimsoll {

// States whether a run has validation data.
enum class ValidationData : uint8_t { kNone, kPresent };

class ActionSchedule {
 public:
  // Requires: `arguments` outlives the schedule.
  ActionSchedule(const Arguments& arguments, int64_t max_steps, ValidationData validation);

  // Adds the actions that are due after a step to `control`, which may already contain actions that callbacks requested. `next` is the
  // position in the training data of the batch after the step.
  void add_due(const StepInfo& info, const DataPosition& next, TrainControl& control) const;

  // Returns true if the strategy and interval of evaluations select this step, regardless of --eval_delay. The run needs to know this
  // before the results of the step are known, because the next step must not start before an evaluation.
  bool may_evaluate(const StepInfo& info, const DataPosition& next) const;

  // Returns a warning if --load_best_model_at_end can miss the best step because steps are saved less often than they are evaluated.
  // Returns "" otherwise.
  std::string unsaved_evaluations_warning() const;

 private:
  // The last step of the run counts as the end of an epoch, as in Trainer.
  bool is_due(const std::string& strategy, double setting, const StepInfo& info,
              const DataPosition& next) const;

  const Arguments& arguments_;
  int64_t max_steps_;
  ValidationData validation_;
};

}  // namespace plimsoll
