// The result files of Hugging Face's Trainer, and the block of metrics that it prints at the end, byte for byte. Pure;
// thread-safe.
//
// Metrics are doubles. Those that Trainer counts in integers (train_samples, eval_samples, step, num_input_tokens_seen,
// *_mem_*) are written as integers. JSON cannot represent NaN: a value that is not finite is written as null, while
// Python's writer would produce invalid JSON.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "plan/compile/plan.h"
#include "plan/compile/plan_labels.h"
#include "plan/search/change.h"
#include "plimsoll/training.h"

namespace plimsoll {

// Returns the value of a metric as JSON, as it is written in the files of Hugging Face's Trainer.
nlohmann::json metric_json(std::string_view key, double value);

// Returns the content of train_results.json, eval_results.json, predict_results.json or all_results.json: JSON with an
// indent of 4, sorted keys and no newline at the end.
std::string results_json(const MetricMap& metrics);

// Writes trainer_state.json in pieces: JSON with an indent of 2, sorted keys and a newline at the end. `state` contains
// all keys except log_history. Each record of log_history gets "epoch" and "step" in addition to its values. Memory:
// one record at a time, however many there are.
void write_trainer_state(nlohmann::json state, const LogHistory& history,
                         const std::function<void(std::string_view)>& put);

// Returns a line of log.jsonl including its newline. A value that is not finite is written as null, because
// JSON cannot represent it.
std::string log_line(const LogRecord& record);
// Parses a line of log.jsonl; null is read as NaN. Errors: kBadData for any other text, with the reason.
LogRecord parse_log_line(std::string_view line);

// Formats "***** train metrics *****" and one line per metric: keys sorted and aligned, *_runtime as
// h:mm:ss.cc, total_flos in GF, *_mem_* in MB, other floats with at most four decimals.
std::string metrics_block(std::string_view split, const MetricMap& metrics);

// The functions below convert the plan, and the memory figures of a finished run, to JSON for other programs. Pure;
// thread-safe. The same plan gives the same text on every machine, because it contains no measured times.

inline constexpr int kPlanJsonVersion = 1;

// Returns plan.json, which `plan --json FILE` also writes: an object with an indent of two spaces, sorted
// keys and a newline at the end. Keys: schema_version, total_bytes; spaces [{name, arena_bytes,
// lower_bound_bytes, constant_bytes, library_bytes}]; by_purpose {purpose: bytes in the phase that needs the most; the sum
// is total_bytes}; by_phase {phase: {by_purpose, gaps_bytes, arena_bytes, unused_bytes, constant_bytes,
// total_bytes}}; operations {group: {flops, bytes, estimated_ms, forward, backward, optimizer}}; estimate;
// peaks; modules; parameters; programs; request. A plan that generates texts also has generation {sizes, cache, estimate, beams},
// where `beams` has the memory and speed with other numbers of beams.
std::string plan_json(const Plan& plan, const PlanLabels& labels = {},
                      const std::vector<BeamCost>& beams = {});

// Returns the content of memory.json: predicted_total_bytes, arena_bytes, arena_high_water_bytes, measured_peak_bytes,
// and their components.
std::string memory_json(const MemoryFigures& figures);

// The function below describes the files that a run leaves: log.jsonl, plan.json, memory.json, results,
// trainer_state.json. Pure except for reading the file; thread-safe.

// Returns a description of a file of a run as lines for people, or nothing if it is not a file that a run wrote. A
// log differs from a data file in JSON Lines: all values of a record except gpu_throttle are numbers, and each
// record has a step and an epoch.
std::optional<std::string> inspect_run_file(const std::string& path);

}  // namespace plimsoll
