// What a run must remember to go on bit for bit: the content of run_state.json and trainer_state.json. A
// value.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/data/sampler.h"
#include "plimsoll/arguments.h"
#include "plimsoll/training.h"

namespace plimsoll {

inline constexpr int kRunStateSchemaVersion = 1;

struct RunState {
  int64_t step = 0;  // optimizer steps done
  int64_t max_steps = 0;
  int64_t num_epochs = 0;     // begun by max_steps; not stored, the arguments give it
  int64_t micro_batches = 0;  // numbers the random draws
  DataPosition position;      // of the next batch
  double epoch = 0;
  int64_t tokens_seen = 0;
  double total_flos = 0;
  double loss_sum_since_log = 0;
  int64_t steps_since_log = 0;
  double loss_sum = 0;     // over all steps
  uint64_t data_hash = 0;  // of the training data; 0: not known
  int64_t data_rows = 0;
  double seconds = 0;  // of training so far, over all sessions of the run
  std::optional<double> best_metric;
  int64_t best_step = 0;
  std::string best_checkpoint;                   // folder name within output_dir
  std::map<std::string, double> schedule_state;  // of a schedule that follows a metric
  std::map<std::string, std::string> callback_states;
  std::vector<LogRecord> log_history;
  // What Trainer's file says of the last save; not stored, a run that resumes has a checkpoint.
  bool has_checkpoint = false;
  bool saved_at_end = false;  // it was the one of the last step
  Arguments arguments;
};

std::string run_state_json(const RunState& state);
// Errors: kBadData naming `source` where the text is not a run state of this schema.
RunState parse_run_state(std::string_view json, const std::string& source);

// Hugging Face's trainer_state.json: indent 2, sorted keys, newline at the end.
std::string trainer_state_json(const RunState& state);

}  // namespace plimsoll
