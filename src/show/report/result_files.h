// Hugging Face's result files and final block, byte for byte as its Trainer writes and prints them. Pure;
// thread-safe.
//
// Metrics are doubles. Those that Trainer counts in integers (train_samples, eval_samples, step,
// num_input_tokens_seen, *_mem_*) are written as integers. JSON cannot represent NaN: a value that is not
// finite is written as null, while Python's writer would produce invalid JSON.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/training.h"

namespace plimsoll {

// Returns the value of a metric as in Trainer's files.
nlohmann::json metric_json(std::string_view key, double value);

// Returns train_results.json, eval_results.json, predict_results.json or all_results.json: indent 4, sorted
// keys, no newline at the end.
std::string results_json(const MetricMap& metrics);

// Writes trainer_state.json in pieces: indent 2, sorted keys, newline at the end. `state` contains everything
// except log_history, whose records contain "epoch" and "step" in addition to their values. Memory: that of
// one record, for any number of records.
void write_trainer_state(nlohmann::json state, const LogHistory& history,
                         const std::function<void(std::string_view)>& put);

// Returns a line of log.jsonl including its newline. A value that is not finite is written as null, because
// JSON cannot represent it.
std::string log_line(const LogRecord& record);
// Parses such a line; null is read as NaN. Errors: nlohmann::json::exception for any other text.
LogRecord parse_log_line(std::string_view line);

// Formats "***** train metrics *****" and one line per metric: keys sorted and aligned, *_runtime as
// h:mm:ss.cc, total_flos in GF, *_mem_* in MB, other floats with at most four decimals.
std::string metrics_block(std::string_view split, const MetricMap& metrics);

}  // namespace plimsoll
