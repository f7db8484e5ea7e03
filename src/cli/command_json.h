// The JSON that commands print or write with --json (docs/JSON.md). `train`, `eval` and `predict` write the plan, and after the run its
// results; there is one such JSON per process. Not thread-safe.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "plimsoll/training.h"

namespace plimsoll {
struct Arguments;
}

namespace plimsoll::cli {

// Returns the object with "schema_version" before its other fields, indented, and with a newline at its end. Bytes that
// are not valid UTF-8, which paths can contain, are replaced.
inline std::string json_text(const nlohmann::ordered_json& fields) {
  nlohmann::ordered_json object{{"schema_version", 1}};
  object.update(fields);
  return object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// The functions below are called in this order by the commands that train, evaluate or predict. Each may be called without --json, and then
// has no effect.

// Begins the JSON of a run if --json is given. If --json names a file, the plan is written to it at once, so that the file exists
// even if the run fails. With --json -, everything except the JSON is printed to standard error from now on. Errors: kDevice.
void begin_results(const std::string& plan_json, const Arguments& arguments);

// Adds the metrics of the training, an evaluation or a prediction. `split`: "train", "eval" or "predict".
void add_results(std::string_view split, const MetricMap& metrics);
// Adds the prediction of a text that was given on the command line or on standard input.
void add_prediction(const Prediction& prediction);
// Writes the plan and, under the key "results", the metrics by split and the predictions. The plan is the text that
// begin_results() received. The file is replaced; nothing is written if the run failed before. Errors: kDevice.
void finish_results();

}  // namespace plimsoll::cli
