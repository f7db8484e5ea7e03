// Predicts how often a run will evaluate. Pure; thread-safe.
#pragma once

#include <cstdint>

#include "plimsoll/arguments.h"
#include "run/run_length.h"

namespace plimsoll {

// How many evaluations the training loop makes from `start` to its end, by --eval_strategy, --eval_steps,
// --eval_delay and --eval_on_start, if it is not stopped and no callback asks for more. The evaluation that
// --do_eval adds after training does not count. Requires: there is validation data.
int64_t num_evaluations(const Arguments& arguments, const RunLength& length, const RunStart& start);

}  // namespace plimsoll
