// The JSON of --json for `train`, `eval` and `predict`: the plan, and after the run its results. There is one per process. Not
// thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/training.h"

namespace plimsoll {
struct Arguments;
}

namespace plimsoll::cli {

// Begins the JSON of a run if --json is given. A file gets the plan at once, so that it has it even if the run fails; for "-", texts go to
// standard error from now on. Errors: kDevice.
void begin_results(const std::string& plan_json, const Arguments& arguments);

// The functions below do nothing without --json.
//
// Adds the metrics of a part of the run. `split`: "train", "eval" or "predict".
void add_results(std::string_view split, const MetricMap& metrics);
// Adds the prediction of a text that was given on the command line or by standard input.
void add_prediction(const Prediction& prediction);
// Writes the plan with the key "results". Errors: kDevice.
void finish_results();

}  // namespace plimsoll::cli
