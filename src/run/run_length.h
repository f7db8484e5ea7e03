// Computes the length of a training run (epochs, steps and batches) and where it begins. Reads a checkpoint; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "base/file.h"
#include "io/data/batch_census.h"
#include "io/data/dataset.h"
#include "io/data/sampler.h"
#include "optim/metric_schedule.h"
#include "optim/rate_schedule.h"
#include "plimsoll/arguments.h"
#include "run/run_purpose.h"

namespace plimsoll {

// The length of a run, as determined by its data and arguments.
struct RunLength {
  int64_t rows_per_epoch = 0;
  int64_t batches_per_epoch = 0;
  int64_t steps_per_epoch = 0;
  int64_t max_steps = 0;
  double num_epochs = 0;
};
RunLength run_length(const Arguments& arguments, const Sampler& sampler);

// The point at which a run begins: its first step, or the step and data position that a checkpoint stores.
struct RunStart {
  int64_t step = 0;       // number of steps that were done before the run begins
  DataPosition position;  // position in the data of the next batch
  // true if the run was stopped after step `step` and before the end of its evaluation
  bool evaluation_is_due = false;
};

// The steps of a run that trains, and the sizes of its batches.
struct RunSteps {
  RunLength length = {};
  BatchCensus census = {};  // sizes of all batches of the run; empty without data
  RunStart start = {};
};

// Returns the options of the sampler, which determines the order of the training data.
SamplerOptions sampler_options(const Arguments& arguments);

// Counts the steps and the batches of a run. Cost: examines the batches of the epochs, up to the limit of count_batches(). Errors: kUsage
// if --lr_scheduler_kwargs do not fit --lr_scheduler_type.
RunSteps count_steps(const Arguments& arguments, RunPurpose purpose, const Dataset& train, FileSystem& files,
                     Diagnostics& diagnostics);

// Predicts the number of evaluations of a run. Pure; thread-safe.

// Returns the number of evaluations of the training loop from `start` to its end, by --eval_strategy, --eval_steps, --eval_delay and
// --eval_on_start, unless it is stopped or a callback requests more. The evaluation that --do_eval adds after training is not included.
// Requires: the run has validation data.
int64_t num_evaluations(const Arguments& arguments, const RunLength& length, const RunStart& start);

// Finds the learning-rate schedule that the arguments of a run select. Pure; thread-safe.

// The learning-rate schedule. It depends on the number of the step, or on a metric of the evaluations.
using RunSchedule = std::variant<Schedule, MetricScheduleOptions>;

// Returns the learning-rate schedule of a run with this number of steps. Errors: kUsage if --lr_scheduler_kwargs do not fit
// --lr_scheduler_type.
RunSchedule run_schedule(const Arguments& arguments, int64_t max_steps);

// If gradient accumulation increases the effective batch, returns a sentence that explains what this means for the learning rate and the
// warm-up; "" without accumulation. `max_steps` is 0 if the data, and therefore the number of steps, is unknown.
std::string describe_accumulated_batch(const Arguments& arguments, int64_t max_steps);

}  // namespace plimsoll
