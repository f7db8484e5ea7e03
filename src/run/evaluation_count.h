// Predicts the number of evaluations of a run. Pure; thread-safe.
#pragma once

#include <cstdint>

#include "plimsoll/arguments.h"
#include "run/run_length.h"

namespace plimsoll {

// Returns the number of evaluations of the training loop from `start` to its end, by --eval_strategy, --eval_steps,
// --eval_delay and --eval_on_start, unless it is stopped or a callback requests more. The evaluation that --do_eval adds
// after training does not count. Requires: the run has validation data.
int64_t num_evaluations(const Arguments& arguments, const RunLength& length, const RunStart& start);

}  // namespace plimsoll
