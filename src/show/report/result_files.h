// Hugging Face's result files and final block, byte for byte as its Trainer writes and prints them. Pure;
// thread-safe.
//
// Metrics are doubles; those that Trainer counts in whole numbers (train_samples, eval_samples, step,
// num_input_tokens_seen, *_mem_*) are written as such. JSON has no NaN: a value that is not finite is written
// as null, where Python's writer would write text that is no JSON.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/training.h"

namespace plimsoll {

// The value of a metric as Trainer's files have it.
nlohmann::json metric_json(std::string_view key, double value);

// train_results.json, eval_results.json, predict_results.json, all_results.json: indent 4, sorted keys, no
// newline at the end.
std::string results_json(const MetricMap& metrics);

// trainer_state.json in pieces: indent 2, sorted keys, newline at the end. `state` is all of it but
// log_history, whose records have "epoch" and "step" beside their values. Memory: a record's, however many
// there are.
void write_trainer_state(nlohmann::json state, const LogHistory& history,
                         const std::function<void(std::string_view)>& put);

// A line of log.jsonl, with its newline; JSON has no number that is not finite, so such a value is null
// there.
std::string log_line(const LogRecord& record);
// The inverse; null is read as NaN. Errors: nlohmann::json::exception for what is no such line.
LogRecord parse_log_line(std::string_view line);

// "***** train metrics *****" and a line per metric: keys sorted and aligned, *_runtime as h:mm:ss.cc,
// total_flos in GF, *_mem_* in MB, other floats with four decimals at most.
std::string metrics_block(std::string_view split, const MetricMap& metrics);

}  // namespace plimsoll
